"""Scores of the rounds of one fit, on records held out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from skdpfl.inspection import ConvergenceDisplay

#: name -> function of the model, the held-out features and targets
Scores = dict[str, Callable[[Any, Any, Any], float]]


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
