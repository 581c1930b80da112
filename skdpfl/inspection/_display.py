"""Displays: axes, colours, scores; pictures of noisy counts, quantiles and correlations."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.utils import _safe_indexing

from skdpfl._pipelines import private_step, silos_argument
from skdpfl._warnings import LeftOut, new_silos_expected
from skdpfl.model_selection import LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold

#: the colour-blind safe palette of Okabe and Ito, dark colours first
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "0.35"

_SILO_FOLDS = (LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold)


def pyplot() -> Any:
    """Return matplotlib's pyplot; if it is missing, the error says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib; install it with: pip install matplotlib."
        ) from error
    return plt


def axes_of(ax: Any) -> tuple[Any, Any]:
    """Return (figure, axes), new ones if none are given."""
    plt = pyplot()
    if ax is not None:
        return ax.figure, ax
    figure, ax = plt.subplots(layout="constrained")
    return figure, ax


def tidy(ax: Any) -> None:
    """Hide the upper and right spines, and draw a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    if not ax.images:
        ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


class Display:
    """Base class of displays: axes, drawing, ``ax_`` and ``figure_``."""

    figure_: Any
    ax_: Any

    def plot(self, ax: Any = None, *, color: str | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to plot on; by default those of a new figure.
        color : str, default=None
            The bars' or the line's colour.

        Returns
        -------
        self : object
        """
        self.figure_, self.ax_ = axes_of(ax)
        self._draw(color)
        tidy(self.ax_)
        return self

    def _draw(self, color: str | None) -> None:
        """Draw on ``ax_``, and set the artists' attributes."""
        raise NotImplementedError


def next_colour(ax: Any) -> str:
    """Return the colour of the next line; dashed ones are baselines and do not count."""
    lines = [line for line in ax.lines if line.get_linestyle() == "-"]
    return COLOURS[len(lines) % len(COLOURS)]


def logarithmic(ax: Any, values: np.ndarray, label: str) -> None:
    """Make x logarithmic with a tick at each value, at most seven of them."""
    ax.set_xscale("log")
    some = values[np.unique(np.linspace(0, len(values) - 1, min(7, len(values))).astype(int))]
    ax.set_xticks(some, [f"{v:g}" for v in some])
    ax.minorticks_off()
    ax.set_xlabel(label)


def draw_scores(ax: Any, x: Any, scores: Any, **line: Any) -> tuple[Any, Any]:
    """Draw the means of scores (n, n_repeats) and a band of one standard deviation."""
    scores = np.asarray(scores, dtype=float).reshape(len(x), -1)
    mean, std = scores.mean(axis=1), scores.std(axis=1)
    line["color"] = line["color"] or next_colour(ax)
    (drawn,) = ax.plot(x, mean, **line)
    if scores.shape[1] == 1:
        return drawn, None
    if len(x) == 1:  # a band has no width there
        return drawn, ax.errorbar(x, mean, std, color=line["color"], capsize=4)
    shade = {"color": line["color"], "alpha": 0.15, "linewidth": 0}
    return drawn, ax.fill_between(x, mean - std, mean + std, **shade)


def score_label(scoring: str) -> str:
    """Return a score's name as text: "neg_log_loss" is "negative log loss"."""
    known = {"r2": "R²", "roc auc": "ROC AUC", "f1": "F1"}
    words = scoring.removeprefix("neg_").removesuffix("_score").replace("_", " ")
    return ("negative " if scoring.startswith("neg_") else "") + known.get(words, words)


def constant_score(
    y: Any, fold: tuple[np.ndarray, np.ndarray], scoring: str | None, classifies: bool
) -> float:
    """Return the test score, on one fold, of a constant prediction."""
    train, test = (_safe_indexing(np.asarray(y), rows) for rows in fold)
    dummy = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
    dummy.fit(np.zeros((len(train), 1)), train)
    return float(check_scoring(dummy, scoring=scoring)(dummy, np.zeros((len(test), 1)), test))


def name_of_score(scoring: Any, estimator: Any) -> str:
    """Return a score's name as text, of None or a function that of the estimator's own score."""
    if isinstance(scoring, str):
        return score_label(scoring)
    return "accuracy" if is_classifier(estimator) else "R²"


def folds_of(
    cv: Any, X: Any, y: np.ndarray, codes: np.ndarray | None, classifies: bool
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows; by default with every silo in each fold."""
    if isinstance(cv, Iterable):
        cv = list(cv) if np.iterable(cv) and not isinstance(cv, (str, bytes)) else []
        if not cv or not all(isinstance(fold, (tuple, list)) and len(fold) == 2 for fold in cv):
            raise TypeError("cv must be a number of folds, a splitter, or pairs of rows.")
    if codes is not None and isinstance(cv, Integral):
        cv = SiloStratifiedKFold(int(cv))
    folds = check_cv(cv, y, classifier=classifies)
    if isinstance(folds, _SILO_FOLDS) and folds.silo_column is not None:
        if codes is None:
            return folds.split(X, y)
        folds = copy(folds)
        folds.silo_column = None  # the silos are known already
    wants_silos = isinstance(folds, (GroupsConsumerMixin, *_SILO_FOLDS))
    return folds.split(np.zeros(len(y)), y, codes if wants_silos else None)


def score_at(
    estimator: Any,
    epsilon: float,
    X: Any,
    y: Any,
    silos: Any,
    fold: tuple[np.ndarray, np.ndarray],
    scoring: Any,
) -> float:
    """Return the test score of one fit on one fold."""
    train, test = fold
    prefix, _ = private_step(estimator)
    budget = {f"{prefix}epsilon": epsilon, f"{prefix}noise_multiplier": None}
    model = clone(estimator).set_params(**budget)
    params = silos_argument(model, None if silos is None else _safe_indexing(silos, train))
    model.fit(_safe_indexing(X, train), _safe_indexing(y, train), **params)
    score = check_scoring(model, scoring=scoring)
    with new_silos_expected() if isinstance(test, LeftOut) else nullcontext():
        return float(score(model, _safe_indexing(X, test), _safe_indexing(y, test)))


#: more bars than this have no names
_MANY = 30
#: the quantiles of a box: its whiskers, ends and middle
_BOX = {"whislo": "5%", "q1": "25%", "med": "50%", "q3": "75%", "whishi": "95%"}


@dataclass(eq=False, repr=False, kw_only=True)
class CountsDisplay(Display):
    """Noisy counts as bars, with error bars of two standard deviations of the noise.

    Make one with :meth:`from_counts`.

    Parameters
    ----------
    counts : Series
        The counts, by interval or by value.
    noise_error : float
        The standard deviation of the noise in each count.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    histogram, value_counts : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.inspection import CountsDisplay, histogram
    >>> ages = np.random.default_rng(0).normal(60, 10, 2000)
    >>> counts = histogram(ages, 12, feature_bounds=(0, 120), random_state=0)
    >>> len(CountsDisplay.from_counts(counts).bars_)
    12
    """

    counts: pd.Series
    noise_error: float

    @classmethod
    def from_counts(cls, counts: pd.Series, *, ax: Any = None) -> CountsDisplay:
        """Draw a result of ``histogram`` or ``value_counts``.

        Parameters
        ----------
        counts : Series
            The result; with ``by_silo``, the counts of all silos are drawn.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        CountsDisplay
        """
        drawn = counts.loc[counts.index[0][0]] if counts.index.nlevels > 1 else counts
        return cls(counts=drawn, noise_error=counts.attrs["noise_error"]).plot(ax)

    def _draw(self, color: str | None) -> None:
        index, color = self.counts.index, color or COLOURS[0]
        error = {"yerr": 2 * self.noise_error, "ecolor": GREY, "capsize": 2, "color": color}
        if isinstance(index, pd.IntervalIndex):
            width = index.length
            self.bars_ = self.ax_.bar(index.left, self.counts, width, align="edge", **error)
        else:
            places = np.arange(len(index))
            self.bars_ = self.ax_.bar(places, self.counts, 0.7, **error)
            if len(places) <= _MANY:
                self.ax_.set_xticks(places, [str(value) for value in index], rotation=30)
        self.ax_.axhline(0, color=GREY, linewidth=0.8)
        name = self.counts.name
        self.ax_.set(xlabel="" if name is None else str(name), ylabel="noisy count")


@dataclass(eq=False, repr=False, kw_only=True)
class QuantilesDisplay(Display):
    """Noisy quantiles of a column as boxes, one for each silo.

    A box contains half of the values, its whiskers nine tenths; the line is the median. Make one
    with
    :meth:`from_description`.

    Parameters
    ----------
    quantiles : DataFrame
        One row for each box; the columns "5%", "25%", "50%", "75%" and "95%".
    name : str
        The name of the values.

    Attributes
    ----------
    boxes_ : dict of matplotlib artists
        The artists of the boxes.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    describe : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpfl.inspection import QuantilesDisplay, describe
    >>> frame = pd.DataFrame({"age": np.random.default_rng(0).normal(60, 10, 4000)})
    >>> table = describe(frame, epsilon=4.0, feature_bounds=(0, 120), silos=["a", "b"] * 2000,
    ...                  by_silo=True, random_state=0)
    >>> len(QuantilesDisplay.from_description(table, "age").boxes_["medians"])
    3
    """

    quantiles: pd.DataFrame
    name: str

    @classmethod
    def from_description(
        cls, table: pd.DataFrame, column: Any, *, ax: Any = None
    ) -> QuantilesDisplay:
        """Draw a column of a result of ``describe``.

        Parameters
        ----------
        table : DataFrame
            The result; with ``by_silo`` there is a box for each silo.
        column : str or int
            The name of a numeric column.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        QuantilesDisplay
        """
        silos = table.index.nlevels > 1
        rows = table.xs(column, level="column") if silos else table.loc[[column]]
        boxes = rows[list(_BOX.values())].astype(float).dropna()
        if boxes.empty:
            raise ValueError(
                f"{column!r} has no quantiles: it is not numeric, or noise dominates it."
            )
        return cls(quantiles=boxes, name=str(column)).plot(ax)

    def _draw(self, color: str | None) -> None:
        # noise may bring quantiles out of their order
        ordered = np.maximum.accumulate(self.quantiles.to_numpy(), axis=1)
        boxes = [dict(zip(_BOX, row, strict=True)) | {"fliers": []} for row in ordered.tolist()]
        line = {"color": color or COLOURS[0], "linewidth": 1.5}
        self.boxes_ = self.ax_.bxp(boxes, showfliers=False, boxprops=line, whiskerprops=line,
                                   capprops=line, medianprops=line)  # fmt: skip
        names = [str(name) for name in self.quantiles.index]
        places = range(1, len(names) + 1)
        self.ax_.set_xticks(places, names, rotation=30 if len(names) > 6 else 0)
        self.ax_.set(ylabel=self.name)
