"""Insurance (figures 4 to 6): relative RMSE, silos of sorted charges, half of them a round.

1338 persons, a fifth of every silo for the test; features and charges scaled by public bounds
(the paper standardises by each silo's own records, and clips the averaged gradient). Relative RMSE:
root mean square error over that of the training mean. A split's error is noisy, so 40 of them tune
and 40 others (the paper: 20) are reported.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure
from _common.claims import claim
from _common.problem import Problem, parted

from isrl.methods import cell, compared, fitted, sound
from skdpfl import ISRLDPRegressor
from skdpfl.datasets import fetch_insurance

N_SILOS, EPSILONS = (10, 3, 5, 15), (1.0, 3.0, 0.5, 5.0, 0.25, 0.125)
CHARGES = (0, 65_000)


@functools.lru_cache(maxsize=4)
def records(n_silos: int) -> Any:
    """Return all of them, read once."""
    return fetch_insurance(n_silos=n_silos)


@functools.lru_cache(maxsize=128)
def problem(n_silos: int, seed: int) -> Problem:
    """Return a split."""
    bunch, rng = records(n_silos), np.random.default_rng(seed)
    return parted(np.asarray(bunch.data, dtype=float), bunch.target, bunch.silos, rng)


def relative_rmse(method: str, epsilon: float, n_silos: int, seed: int, **chosen: float) -> float:
    """Return the error of one fit on its test records."""
    data = problem(n_silos, seed)
    bounds = records(n_silos).feature_bounds
    model = fitted(
        ISRLDPRegressor, method, epsilon, data, feature_bounds=bounds, target_bounds=CHARGES,
        delta=(n_silos / len(data.y)) ** 2, silo_fraction=-(-n_silos // 2) / n_silos,
        random_state=seed, **chosen,
    )  # fmt: skip
    error = np.mean(np.square(model.predict(data.X_test) - data.y_test))
    return float(np.sqrt(error / np.mean(np.square(data.y.mean() - data.y_test))))


def cells(quick: bool) -> list[Cell]:
    """Return the cells, ten silos first."""
    silos, epsilons = ((10,), (1.0,)) if quick else (N_SILOS, EPSILONS)
    found = []
    for n_silos in silos:
        n = -(-1338 // n_silos)
        size = 4 * n // 5, 35, int(n * (3 / 140) ** 0.5)  # records, rounds, batch of the paper
        found.append(claim(3.0, partial(sound, 3.0, *size), f"{n_silos} silos"))
        for epsilon in (*epsilons, np.inf):
            everything = n_silos == 10 and epsilon in (1.0, 3.0, np.inf)
            for method in compared(epsilon, everything):
                fit = partial(relative_rmse, method, epsilon, n_silos)
                found.append(cell(method, epsilon, fit, f"{n_silos} silos"))
    return found


FIGURE = Figure(
    "Insurance, half of the silos a round", "relative RMSE", cells, higher_is_better=False,
    seeds=tuple(range(40)), tuning=tuple(range(101, 141)),
)  # fmt: skip
