"""Figures 1 and 3, left: distance to the optimum, and the server's steps, over the rounds.

1000 silos of 10 records, 1000 features, rows of norm 1, one linear model that all silos share:
y = <x, w*>, |w*| = 1; features' means differ from silo to silo. 5 local steps, 50 rounds. Only the
number of features is known to be the paper's.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import NamedTuple

import numpy as np
from _common.cells import Cell, Figure, Fit
from _common.problem import Problem
from _common.watch import course
from sklearn.preprocessing import normalize

from fedexp import methods

LOCAL_STEPS = 5


class Size(NamedTuple):
    """Silos, features, rounds."""

    silos: int
    features: int
    rounds: int


SIZE, QUICK = Size(1000, 1000, 50), Size(200, 50, 10)


@functools.lru_cache(maxsize=4)
def problem(size: Size, seed: int) -> tuple[Problem, np.ndarray]:
    """Return the records and w*."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(size.silos, 1, size.features))
    X = means + rng.normal(size=(size.silos, 10, size.features))
    X = normalize(X.reshape(-1, size.features)).astype(np.float32)
    best = rng.normal(size=size.features)
    best /= np.linalg.norm(best)
    y = X @ best.astype(np.float32)
    return Problem(X, y, np.repeat(np.arange(size.silos), 10), X[:10], y[:10]), best


def distance(
    method: str, setting: str, epsilon: float, size: Size, seed: int, **chosen: float
) -> Fit:
    """Return the last distance to w* and all of them; the server's steps where it has some."""
    data, best = problem(size, seed)
    model = methods.model_of(
        methods.WatchedRegressor, method, setting, epsilon, seed, n_silos=size.silos,
        size=size.features, n_rounds=size.rounds, local_steps=LOCAL_STEPS, fit_intercept=False,
        **chosen,
    )  # fmt: skip
    scores = {"distance": lambda now, X, y: float(np.linalg.norm(now.coef_ - best))}
    model, fit = course(model, data, seed, 1, scores)
    return Fit(fit.value, fit.curves + methods.steps_of(model))


def cells(quick: bool, full: Size = SIZE) -> list[Cell]:
    """Return the cells."""
    size = QUICK if quick else full
    found = methods.claims(size.silos, size.rounds, methods.OWN)
    for setting, method, epsilon in methods.panels(size.silos, size.rounds):
        if quick and setting == methods.TRUSTED and epsilon != 3.0:
            continue
        tuned = methods.axes(method, epsilon < np.inf)
        fit = partial(distance, method, setting, epsilon, size)
        found.append(Cell(method, epsilon, fit, tuned, setting, metric="last distance"))
    return found


FIGURE = Figure(
    "FedEXP, 1000 silos, 1000 features", "distance", cells, higher_is_better=False, xlabel="round",
    logx=False, logy=True, panels=("metric", "setting", "epsilon"), leave_out=("last distance",),
)  # fmt: skip
