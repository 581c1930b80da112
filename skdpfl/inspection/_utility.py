"""Scores over epsilon: the privacy-utility trade-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples, check_consistent_length

from skdpfl._arguments import check_number
from skdpfl._pipelines import private_step
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import _display
from skdpfl.silos import read_silos, split_silo_column


@dataclass(eq=False, repr=False, kw_only=True)
class PrivacyUtilityDisplay(_display.Display):
    """Scores over epsilon with a band, and the score without privacy.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        The budgets, increasing.
    scores : array-like of shape (n_epsilons, n_repeats)
        The scores at each of them.
    baseline : array-like of shape (n_repeats,), default=None
        The scores without privacy.
    constant : array-like of shape (n_repeats,), default=None
        The scores of a constant prediction: the most frequent label, the labels' shares, or the
        mean.
    score_name : str, default="score"
        Name of the score.
    estimator_name : str, default=None
        Label of the line.
    step : str, default=None
        The step of a pipeline to which the budgets belong; other steps may have additional costs.

    Attributes
    ----------
    line_, band_, baseline_, constant_ : matplotlib artists
        The artists of the plot; None for a missing baseline or constant, and for the band without
        repeats.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    Examples
    --------
    >>> from skdpfl.inspection import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     epsilons=[1, 3, 9], scores=[[0.6, 0.7], [0.8, 0.8], [0.9, 0.8]], baseline=[0.9]
    ... ).plot()
    >>> display.ax_.get_xscale()
    'log'

    See Also
    --------
    ConvergenceDisplay : Scores on held-out records over rounds.
    PrivacySpentDisplay : The cost of each silo, round or fit.
    """

    epsilons: Any
    scores: Any
    baseline: Any = None
    constant: Any = None
    score_name: str = "score"
    estimator_name: str | None = None
    step: str | None = None

    def _draw(self, color: str | None) -> None:
        epsilons = np.asarray(self.epsilons, dtype=float)
        line = {"color": color, "label": self.estimator_name, "marker": "o"}
        self.line_, self.band_ = _display.draw_scores(self.ax_, epsilons, self.scores, **line)
        self.baseline_ = None
        if self.baseline is not None:
            name = f"{self.estimator_name}, not private" if self.estimator_name else "not private"
            self.baseline_ = self.ax_.axhline(
                float(np.mean(self.baseline)),
                color=self.line_.get_color(),
                linestyle="--",
                label=name,
            )
        self.constant_ = None
        if self.constant is not None:
            height = float(np.mean(self.constant))
            self.constant_ = self.ax_.axhline(
                height, color="0.5", ls=":", label="constant prediction"
            )
        alone = f" of {self.step}, other steps apart" if self.step else ""
        _display.logarithmic(
            self.ax_, epsilons, f"privacy budget ε{alone} (smaller is more private)"
        )
        repeats = "" if self.band_ is None else " (mean ± standard deviation)"
        self.ax_.set_ylabel(f"{self.score_name}{repeats}")
        if self.estimator_name or self.baseline_ or self.constant_:
            # below the axes: there is no point under it, and a title above stays free
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3}
            self.ax_.legend(frameon=False, **place)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        silos: Any = None,
        epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
        cv: Any = 5,
        scoring: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> PrivacyUtilityDisplay:
        """Cross-validate an estimator at several budgets and draw the scores.

        Parameters
        ----------
        estimator : estimator
            An estimator of this library (its ``epsilon`` is set to each budget, then to inf), or a
            pipeline that ends in one.
        X, y : array-like
            The data.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the estimator has a ``silo_column``.
        epsilons : sequence of float, default=(0.5, 1, 2, 4, 8)
            The budgets.
        cv : int or splitter, default=5
            The splitter; an integer with silos is SiloStratifiedKFold. Splitters of
            :mod:`skdpfl.model_selection` get the silos.
        scoring : str or callable, default=None
            The score; by default that of the estimator's ``score``.
        name : str, default=None
            Label of the line; by default the estimator's name.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacyUtilityDisplay

        Warns
        -----
        PrivacyLeakWarning
            The scores are exact, and one fit per fold is without privacy: use public data, or keep
            the figure secret.
        """
        prefix, inner = private_step(estimator)
        warn(
            "PrivacyUtilityDisplay shows exact scores of the records, and of a fit without "
            "privacy; no budget covers either. Use public data, or keep the figure as secret as "
            "the records.",
            PrivacyLeakWarning,
        )
        _, given = split_silo_column(X, silos, inner.silo_column)
        check_consistent_length(X, y, silos)
        n = _num_samples(y)
        codes = None if given is None else read_silos(given, n).codes
        folds = list(_display.folds_of(cv, X, np.asarray(y), codes, is_classifier(inner)))
        words = isinstance(epsilons, str | bytes) or not np.iterable(epsilons)
        if words or not list(epsilons):
            raise ValueError(f"epsilons must be a sequence of numbers > 0; got {epsilons!r}.")
        budgets = sorted(check_number("epsilons", e, low=0, open_low=True) for e in epsilons)
        table = [
            [_display.score_at(estimator, e, X, y, silos, fold, scoring) for fold in folds]
            for e in [*budgets, np.inf]
        ]
        constant = None
        if scoring is None or isinstance(scoring, str):  # a function may ask a model for anything
            constant = [
                _display.constant_score(y, fold, scoring, is_classifier(inner)) for fold in folds
            ]
        return cls(
            epsilons=budgets,
            scores=table[:-1],
            baseline=table[-1],
            constant=constant,
            score_name=_display.name_of_score(scoring, estimator),
            estimator_name=name or type(inner).__name__,
            step=prefix.removesuffix("__") or None,
        ).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Mapping[float, Any],
        *,
        metric: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> PrivacyUtilityDisplay:
        """Draw the scores of predictions of models with several budgets.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The truth.
        y_pred : mapping from float to array-like
            The predictions for each epsilon; ``inf`` is the baseline without privacy.
        metric : callable, default=None
            ``metric(y_true, y_pred)``; by default accuracy for labels, R² for numbers.
        name : str, default=None
            Label of the line.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacyUtilityDisplay
        """
        score, score_name = _display.predicted_scores(y_true, y_pred, metric)
        budgets = sorted(e for e in score if np.isfinite(e))
        same = None
        if metric is None:  # another may ask for more than one answer
            counts = np.unique(np.asarray(y_true), return_counts=True)[1]
            same = [counts.max() / counts.sum() if score_name == "accuracy" else 0.0]
        return cls(
            epsilons=budgets,
            scores=[[score[e]] for e in budgets],
            constant=same,
            baseline=[score[np.inf]] if np.inf in score else None,
            score_name=score_name,
            estimator_name=name,
        ).plot(ax)
