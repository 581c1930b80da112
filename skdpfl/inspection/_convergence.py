"""Score over rounds, on records held out of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring

from skdpfl.inspection._axes import COLOURS, axes_of, tidy


class ConvergenceDisplay:
    """Scores of the rounds' models on held-out records.

    Make one with :meth:`from_estimator`. Training records are never scored: their scores are not
    paid for. The held-out ones should be public, or stay where they are.

    Parameters
    ----------
    rounds : array-like of shape (n_rounds,)
        The rounds' numbers, from 1.
    scores : array-like of shape (n_rounds,)
        The scores after each.
    score_name : str, default="score"
        What the scores are.
    estimator_name : str, default=None
        Label of the line.

    Attributes
    ----------
    line_ : matplotlib artist
        What :meth:`plot` drew.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    estimator_ : estimator
        The fitted clone; only from :meth:`from_estimator`.
    """

    estimator_: Any

    def __init__(
        self,
        *,
        rounds: Any,
        scores: Any,
        score_name: str = "score",
        estimator_name: str | None = None,
    ) -> None:
        self.rounds, self.scores = rounds, scores
        self.score_name, self.estimator_name = score_name, estimator_name

    def plot(self, ax: Any = None, *, color: str | None = None) -> ConvergenceDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        color : str, default=None
            The line's colour.

        Returns
        -------
        self : ConvergenceDisplay
        """
        self.figure_, self.ax_ = axes_of(ax)
        color = color or COLOURS[len(self.ax_.lines) % len(COLOURS)]
        (self.line_,) = self.ax_.plot(
            self.rounds, self.scores, color=color, label=self.estimator_name
        )
        self.ax_.set(xlabel="round", ylabel=f"{self.score_name} on held-out records")
        tidy(self.ax_)
        if self.estimator_name:
            self.ax_.legend(frameon=False)
        return self

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
            One of this library's; it is cloned, and the clone's fit costs its budget.
        X, y : array-like
            What it is fitted on.
        X_test, y_test : array-like
            What its rounds are scored on.
        silos : array-like of shape (n_samples,), default=None
            Each training record's silo.
        scoring : str or callable, default=None
            By default the estimator's own score.
        ax : matplotlib Axes, default=None
            Where to draw.

        Returns
        -------
        ConvergenceDisplay
        """
        model, scores = clone(estimator), []

        def watch(current: Any) -> None:
            scores.append(float(check_scoring(current, scoring=scoring)(current, X_test, y_test)))

        model._watch = watch
        params = {} if silos is None else {"silos": silos}
        try:
            model.fit(X, y, **params)
        finally:
            del model._watch
        name = scoring if isinstance(scoring, str) else None
        display = cls(
            rounds=np.arange(1, len(scores) + 1),
            scores=scores,
            score_name=name or ("accuracy" if is_classifier(estimator) else "R²"),
            estimator_name=type(estimator).__name__,
        )
        display.estimator_ = model
        return display.plot(ax)
