"""Score over epsilon: what privacy costs in accuracy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection._axes import COLOURS, GREY, axes_of, logarithmic, tidy
from skdpfl.silos import read_silos, split_silo_column


class PrivacyUtilityDisplay:
    """Scores over epsilon with a band, beside the score without privacy.

    Make one with :meth:`from_estimator`, :meth:`from_predictions` or :meth:`from_cv_results`.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        The budgets, increasing.
    scores : array-like of shape (n_epsilons, n_repeats)
        The scores at each of them.
    baseline : array-like of shape (n_repeats,), default=None
        The scores without privacy.
    score_name : str, default="score"
        What the scores are.
    estimator_name : str, default=None
        Label of the line.

    Attributes
    ----------
    line_, band_, baseline_ : matplotlib artists
        What :meth:`plot` drew; ``baseline_`` is None without a baseline.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    """

    def __init__(
        self,
        *,
        epsilons: Any,
        scores: Any,
        baseline: Any = None,
        score_name: str = "score",
        estimator_name: str | None = None,
    ) -> None:
        self.epsilons, self.scores = epsilons, scores
        self.baseline, self.score_name = baseline, score_name
        self.estimator_name = estimator_name

    def plot(self, ax: Any = None, *, color: str | None = None) -> PrivacyUtilityDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        color : str, default=None
            The line's colour.

        Returns
        -------
        self : PrivacyUtilityDisplay
        """
        self.figure_, self.ax_ = axes_of(ax)
        epsilons = np.asarray(self.epsilons, dtype=float)
        scores = np.asarray(self.scores, dtype=float).reshape(len(epsilons), -1)
        mean, std = scores.mean(axis=1), scores.std(axis=1)
        color = color or COLOURS[len(self.ax_.lines) % len(COLOURS)]
        (self.line_,) = self.ax_.plot(
            epsilons, mean, color=color, marker="o", label=self.estimator_name
        )
        self.band_ = self.ax_.fill_between(
            epsilons, mean - std, mean + std, color=color, alpha=0.15, linewidth=0
        )
        self.baseline_ = None
        if self.baseline is not None:
            self.baseline_ = self.ax_.axhline(
                float(np.mean(self.baseline)), color=GREY, linestyle="--", label="not private"
            )
        logarithmic(self.ax_, epsilons, "privacy budget ε (smaller is more private)")
        self.ax_.set_ylabel(f"{self.score_name} (mean ± standard deviation)")
        tidy(self.ax_)
        if self.estimator_name or self.baseline is not None:
            self.ax_.legend(frameon=False)
        return self

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
        ax: Any = None,
    ) -> PrivacyUtilityDisplay:
        """Cross-validate an estimator at several budgets and draw the scores.

        Parameters
        ----------
        estimator : estimator
            One of this library's (its ``epsilon`` is set to each budget in turn, then to inf).
        X, y : array-like
            The data.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the estimator has a ``silo_column``.
        epsilons : sequence of float, default=(0.5, 1, 2, 4, 8)
            The budgets.
        cv : int or splitter, default=5
            The folds; splitters of :mod:`skdpfl.model_selection` are given the silos.
        scoring : str or callable, default=None
            By default the estimator's own score.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacyUtilityDisplay

        Warns
        -----
        PrivacyLeakWarning
            The scores are exact and one fit per fold is without privacy: the picture is for public
            data, or for eyes that may see the records.
        """
        warnings.warn(
            "PrivacyUtilityDisplay shows exact scores of the records, beside a fit without "
            "privacy: neither is paid for. Draw it on public data, or keep it where the records "
            "are.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
        _, given = split_silo_column(X, silos, getattr(estimator, "silo_column", None))
        codes = None if given is None else read_silos(given, len(y)).codes
        folds = check_cv(cv, y, classifier=is_classifier(estimator))
        budgets = sorted(float(e) for e in epsilons)
        table = [
            [
                _score(estimator, e, X, y, silos, fold, scoring)
                for fold in folds.split(np.zeros(len(y)), np.asarray(y), codes)
            ]
            for e in [*budgets, np.inf]
        ]
        name = scoring if isinstance(scoring, str) else _default_score(estimator)
        return cls(
            epsilons=budgets,
            scores=table[:-1],
            baseline=table[-1],
            score_name=name,
            estimator_name=type(estimator).__name__,
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
        """Draw the scores of predictions that models of several budgets made.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The truth.
        y_pred : mapping from float to array-like
            For each epsilon the predictions; ``inf`` is drawn as the line without privacy.
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
        if metric is None:
            numbers = np.asarray(y_true).dtype.kind == "f"
            metric = r2_score if numbers else accuracy_score
        score = {float(e): metric(y_true, p) for e, p in y_pred.items()}
        budgets = sorted(e for e in score if np.isfinite(e))
        return cls(
            epsilons=budgets,
            scores=[[score[e]] for e in budgets],
            baseline=[score[np.inf]] if np.inf in score else None,
            score_name=metric.__name__.replace("_score", "").replace("_", " "),
            estimator_name=name,
        ).plot(ax)

    @classmethod
    def from_cv_results(
        cls, search: Any, *, param: str = "epsilon", name: str | None = None, ax: Any = None
    ) -> PrivacyUtilityDisplay:
        """Draw the scores of a fitted search over epsilon.

        Parameters
        ----------
        search : fitted GridSearchCV or RandomizedSearchCV
            Its best score at each budget is drawn.
        param : str, default="epsilon"
            The searched parameter, as ``"step__epsilon"`` within a pipeline.
        name : str, default=None
            Label of the line.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        PrivacyUtilityDisplay
        """
        results = search.cv_results_
        if f"param_{param}" not in results:
            searched = [key.removeprefix("param_") for key in results if key.startswith("param_")]
            raise ValueError(f"param={param!r} was not searched; this search has {searched!r}.")
        values = np.asarray(results[f"param_{param}"].tolist(), dtype=float)
        splits = [results[f"split{i}_test_score"] for i in range(search.n_splits_)]
        table = np.column_stack(splits)
        best = {e: max(table[values == e], key=np.mean) for e in np.unique(values)}
        budgets = [e for e in best if np.isfinite(e)]
        return cls(
            epsilons=budgets,
            scores=[best[e] for e in budgets],
            baseline=best.get(np.inf),
            estimator_name=name or type(search.estimator).__name__,
        ).plot(ax)


def _score(
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
    params = {} if silos is None else {"silos": _safe_indexing(silos, train)}
    model = clone(estimator).set_params(epsilon=epsilon, noise_multiplier=None)
    model.fit(_safe_indexing(X, train), _safe_indexing(y, train), **params)
    score = check_scoring(model, scoring=scoring)
    return float(score(model, _safe_indexing(X, test), _safe_indexing(y, test)))


def _default_score(estimator: Any) -> str:
    return "accuracy" if is_classifier(estimator) else "R²"
