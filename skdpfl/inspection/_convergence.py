"""Score over rounds, on records held out of the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline

from skdpfl._pipelines import private_step, silos_argument
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import _display

#: new records that are all among the training records are rarer than this
_BY_CHANCE = 1e-6


@dataclass(eq=False, repr=False, kw_only=True)
class ConvergenceDisplay(_display.Display):
    """Scores of the rounds' models on held-out records.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`. The held-out records should
    be public, or the figure kept secret. If training records are scored,
    there is a warning, and the label says so, since no budget covers their scores.

    Parameters
    ----------
    rounds : array-like of shape (n_rounds,)
        The rounds' numbers, from 1.
    scores : array-like of shape (n_rounds,) or (n_rounds, n_repeats)
        The scores after each round. Repeats are drawn as their mean with a band.
    score_name : str, default="score"
        Name of the score.
    estimator_name : str, default=None
        Label of the line.
    records : str, default="held-out records"
        The records that were scored, for the label.

    Attributes
    ----------
    line_, band_ : matplotlib artists
        The artists of the plot; ``band_`` is None without repeats.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.
    estimator_ : estimator
        The fitted clone; only from :meth:`from_estimator`.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 200, n_classes=2, n_features=5, random_state=0)
    >>> from skdpfl.inspection import ConvergenceDisplay
    >>> clf = ISRLDPClassifier(epsilon=2.0, delta=1e-4, n_rounds=10, feature_bounds=(-9, 9))
    >>> new = make_federated_classification(3, 50, n_classes=2, n_features=5, random_state=0)
    >>> display = ConvergenceDisplay.from_estimator(
    ...     clf, data.data, data.target, silos=data.silos, X_test=new.data, y_test=new.target
    ... )
    >>> len(display.scores)
    10

    See Also
    --------
    PrivacyUtilityDisplay : Scores over epsilon.
    PrivacySpentDisplay : The cost of each silo, round or fit.
    """

    rounds: Any
    scores: Any
    score_name: str = "score"
    estimator_name: str | None = None
    records: str = "held-out records"
    estimator_: Any = field(init=False)

    def _draw(self, color: str | None) -> None:
        rounds, line = np.asarray(self.rounds), {"color": color, "label": self.estimator_name}
        self.line_, self.band_ = _display.draw_scores(self.ax_, rounds, self.scores, **line)
        repeats = "" if self.band_ is None else "\n(mean ± standard deviation)"
        self.ax_.set_ylabel(f"{self.score_name} on {self.records}{repeats}")
        self.ax_.set_xlabel("round")
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        if self.estimator_name:
            self.ax_.legend(frameon=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        X_test: Any,
        y_test: Any,
        silos: Any = None,
        scoring: Any = None,
        ax: Any = None,
    ) -> ConvergenceDisplay:
        """Fit a clone and draw its score on held-out records after each round.

        Parameters
        ----------
        estimator : estimator
            An estimator of this library, or a pipeline that ends in one; it is cloned, and the fit
            of the clone costs its budget.
        X, y : array-like
            The training records.
        X_test, y_test : array-like
            The held-out records.
        silos : array-like of shape (n_samples,), default=None
            Each training record's silo.
        scoring : str or callable, default=None
            The score; by default that of the estimator's ``score``.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay

        Warns
        -----
        PrivacyLeakWarning
            X_test holds records of X.
        """
        model, scores = clone(estimator), []
        _, inner = private_step(model)
        trained_on = _same_records(X, X_test)
        if trained_on:
            warn(
                "X_test contains training records: the privacy cost does not cover their scores, "
                "which also say little about new records. Give held-out records.",
                PrivacyLeakWarning,
            )

        def watch(current: Any) -> None:
            records = model[:-1].transform(X_test) if isinstance(model, Pipeline) else X_test
            scores.append(float(check_scoring(current, scoring=scoring)(current, records, y_test)))

        inner._watch = watch
        try:
            model.fit(X, y, **silos_argument(model, silos))
        finally:
            del inner._watch
        display = cls(
            rounds=np.arange(1, len(scores) + 1),
            scores=scores,
            score_name=_display.name_of_score(scoring, estimator),
            estimator_name=type(inner).__name__,
            records="training records" if trained_on else "held-out records",
        )
        display.estimator_ = model
        return display.plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        metric: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> ConvergenceDisplay:
        """Draw the scores of predictions of the rounds' models on held-out records.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The truth.
        y_pred : sequence of array-like, or mapping from int to array-like
            The predictions after rounds 1, 2, ..., or a mapping from round to predictions.
        metric : callable, default=None
            ``metric(y_true, y_pred)``; by default accuracy for labels, R² for numbers.
        name : str, default=None
            Label of the line.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay
        """
        by_round = y_pred if isinstance(y_pred, Mapping) else dict(enumerate(y_pred, start=1))
        scores, score_name = _display.predicted_scores(
            y_true, dict(sorted(by_round.items())), metric
        )
        return cls(
            rounds=[int(r) for r in scores],
            scores=list(scores.values()),
            score_name=score_name,
            estimator_name=name,
        ).plot(ax)


def _same_records(X: Any, X_test: Any) -> bool:
    """Whether the scored records are the training records, or some of them."""
    if X is X_test:
        return True
    train, test = np.asarray(X), np.asarray(X_test)
    if train.ndim != 2 or test.ndim != 2:
        return False  # fit raises a better error
    overlap = train.dtype.kind in "biuf" and np.shares_memory(train, test)
    if overlap or (train.shape == test.shape and bool((train == test).all())):
        return True
    return train.shape[1] == test.shape[1] and _drawn_from(train, test)


def _drawn_from(train: np.ndarray, test: np.ndarray) -> bool:
    """Whether all rows of ``test`` are in ``train``, and new ones would hardly be.

    A new row is in ``train`` about as often as one of its rows has another like it.
    """
    known, asked = (pd.util.hash_pandas_object(pd.DataFrame(t), index=False) for t in (train, test))
    repeated = float(known.duplicated(keep=False).mean())
    return bool(asked.isin(known).all()) and repeated ** len(asked) < _BY_CHANCE
