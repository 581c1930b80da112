"""Scores of the rounds of one fit, on records held out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from _common.cells import Fit
from skdpfl.inspection import ConvergenceDisplay

#: name -> function of the model, the held-out features and targets
Scores = dict[str, Callable[[Any, Any, Any], float]]
ACCURACY: Scores = {"accuracy": lambda model, X, y: model.score(X, y)}


def tested(model: Any, problem: Any) -> Fit:
    """Return the score of one fit."""
    model.fit(problem.X, problem.y, silos=problem.silos)
    return Fit(model.score(problem.X_test, problem.y_test))


def course(
    model: Any, problem: Any, seed: int, every: int, scores: Scores = ACCURACY
) -> tuple[Any, Fit]:
    """Fit a model and return it with its last score and that of rounds; tuning seeds without."""
    points: tuple[tuple[str, float, float], ...] = ()
    if seed < 100:
        model, points = scores_by_round(model, problem, scores, every)
    else:
        model.fit(problem.X, problem.y, silos=problem.silos)
    last = next(iter(scores.values()))
    return model, Fit(last(model, problem.X_test, problem.y_test), points)


def scores_by_round(
    model: Any, problem: Any, scores: Scores, every: int, after: int = 0
) -> tuple[Any, tuple[tuple[str, float, float], ...]]:
    """Fit a model and return it with (metric, round, value) of every so many rounds."""
    points: list[tuple[str, float, float]] = []
    done = 0

    def scoring(current: Any, X: Any, y: Any) -> float:
        nonlocal done
        done += 1
        if done % every or done <= after:
            return np.nan
        points.extend((name, float(done), score(current, X, y)) for name, score in scores.items())
        return points[-1][2]

    display = ConvergenceDisplay.from_estimator(
        model,
        problem.X,
        problem.y,
        silos=problem.silos,
        X_test=problem.X_test,
        y_test=problem.y_test,
        scoring=scoring,
        ax=Figure().subplots(),
    )
    return display.estimator_, tuple(points)
