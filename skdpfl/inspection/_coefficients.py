"""Forest plot of coefficients, with the intervals of ``inference="intervals"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdpfl.inspection._display import COLOURS, GREY, Display

#: what the exponential of a coefficient is, by the link of the loss
_RATIOS = {"logit": "odds ratio", "log": "rate ratio"}
#: height of a row and of the axis in inches, and the width: legible at 700 pixels
_ROW, _AXIS, _WIDTH = 0.32, 1.1, 7.0


@dataclass(eq=False, repr=False, kw_only=True)
class CoefficientDisplay(Display):
    """Coefficients of a linear model with their intervals, one row each (a forest plot).

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    table : DataFrame
        A row for each coefficient, with the columns "coefficient", "lower" and "upper"; NaN where
        an interval is refused.
    label : str, default="coefficient"
        The label of the axis.
    ratios : bool, default=False
        Whether to show exponentials of the table's numbers, on a logarithmic axis.
    confidence : float, default=0.95
        The probability with which an interval covers, for the label.

    Attributes
    ----------
    lines_ : ErrorbarContainer
        The estimates and their intervals.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    ShapeDisplay : Curves of additive models.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 500, n_features=3, n_classes=2, random_state=0)
    >>> from skdpfl.inspection import CoefficientDisplay
    >>> clf = ISRLDPClassifier(3.0, feature_bounds=(-8, 8), inference="intervals", random_state=0)
    >>> clf.fit(data.data, data.target, silos=data.silos)
    ISRLDPClassifier(...)
    >>> display = CoefficientDisplay.from_estimator(clf, ratios=True)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['x0', 'x1', 'x2']
    """

    table: pd.DataFrame
    label: str = "coefficient"
    ratios: bool = False
    confidence: float = 0.95

    def plot(self, ax: Any = None, *, color: str | None = None) -> CoefficientDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure, as high as there are rows.
        color : str, default=None
            The colour of estimates and intervals.

        Returns
        -------
        self : object
        """
        super().plot(ax, color=color)
        if ax is None:
            self.figure_.set_size_inches(_WIDTH, _AXIS + _ROW * len(self.table))
        self.ax_.grid(visible=False, axis="y")
        return self

    def _draw(self, color: str | None) -> None:
        at, low, high = (
            np.asarray(self.table[name], float) for name in ("coefficient", "lower", "upper")
        )
        if self.ratios:
            at, low, high = np.exp([at, low, high])
            self.ax_.set_xscale("log")
        rows, shown = np.arange(len(at)), np.isfinite(low + high)
        self.lines_ = self.ax_.errorbar(
            at[shown],
            rows[shown],
            xerr=[(at - low)[shown], (high - at)[shown]],
            fmt="o",
            color=color or COLOURS[0],
            capsize=3,
            markersize=5,
        )
        nothing = float(self.ratios)
        self.ax_.axvline(nothing, color=GREY, linestyle="--", linewidth=1)
        for row in rows[~shown]:
            self.ax_.annotate(
                "no interval", (nothing, row), (6, 0), color=GREY,
                textcoords="offset points", va="center", fontsize="small",
            )  # fmt: skip
        self.ax_.set_yticks(rows, [str(name) for name in self.table.index])
        self.ax_.set_ylim(len(at) - 0.5, -0.5)
        self.ax_.set_xlabel(f"{self.label} ({100 * self.confidence:g} % interval)")
        if self.ratios:
            self.ax_.xaxis.set_major_formatter("{x:g}")
            self.ax_.xaxis.set_minor_formatter(_some_ratios)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        features: Sequence[Any] | None = None,
        ratios: bool = False,
        confidence: float = 0.95,
        ax: Any = None,
        color: str | None = None,
    ) -> CoefficientDisplay:
        """Draw the intervals of a fitted estimator; no record is read, and nothing is spent.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fit with ``inference="intervals"``.
        features : sequence, default=None
            The names of the coefficients, in this order; by default all but the intercept.
        ratios : bool, default=False
            Whether to show odds ratios (``loss="log_loss"``), rate ratios ("poisson") or hazard
            ratios (survival).
        confidence : float, default=0.95
            The probability with which an interval covers.
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure.
        color : str, default=None
            The colour of estimates and intervals.

        Returns
        -------
        CoefficientDisplay
            The display.
        """
        fitted = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        check_is_fitted(fitted)
        if getattr(fitted, "inference", None) != "intervals":
            raise ValueError(
                'CoefficientDisplay shows the intervals of a fit with inference="intervals"; '
                f"{type(fitted).__name__} has none."
            )
        link = fitted._loss().link
        if ratios and link not in _RATIOS:
            raise ValueError(
                f"ratios=True is for log odds and log means; coefficients of loss={fitted.loss!r} "
                "are differences of means. Leave ratios=False."
            )
        table = fitted.summary(confidence=confidence)
        names = list(
            table.index.drop("intercept", errors="ignore") if features is None else features
        )
        strange = [name for name in names if name not in table.index]
        if strange:
            raise ValueError(f"features: {strange[0]!r} has no coefficient; there are "
                             f"{list(table.index)[:8]!r}.")  # fmt: skip
        label = "coefficient"
        if ratios:
            label = "hazard ratio" if fitted._loss().one_slope else _RATIOS[link]
        made = cls(table=table.loc[names], label=label, ratios=ratios, confidence=confidence)
        return made.plot(ax, color=color)


def _some_ratios(value: float, _: Any) -> str:
    """Return the label of a minor tick: 0.2, 0.5, 2, 5 of each power of ten."""
    digit = value / 10 ** np.floor(np.log10(value))
    return f"{value:g}" if round(digit, 6) in (2, 5) else ""
