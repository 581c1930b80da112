"""Obesity (figure 6): error, seven silos of one class each, three of them a round.

2111 persons, a fifth of every silo for the test. Features are scaled by public bounds (the paper
standardises them, makes silos equal by drawing records twice, and adds one noise for all silos).
The silo id is the label here: what is protected are the features.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import numpy as np
from _common.cells import Cell, Figure
from _common.claims import claim
from _common.problem import Problem, parted

from isrl.methods import cell, compared, fitted, one_record, sound
from skdpfl import ISRLDPClassifier
from skdpfl.datasets import fetch_obesity

EPSILONS = (3.0, 1.0, 9.0, 0.5, 6.0)
#: records of a silo, rounds and batch of the paper
SIZE = 211, 100, 31


@functools.lru_cache(maxsize=1)
def records() -> Any:
    """Return all of them, read once."""
    return fetch_obesity()


@functools.lru_cache(maxsize=128)
def problem(seed: int) -> Problem:
    """Return a split."""
    bunch, rng = records(), np.random.default_rng(seed)
    return parted(np.asarray(bunch.data, dtype=float), bunch.target, bunch.silos, rng)


def error(method: str, epsilon: float, sampled: int, seed: int, **chosen: float) -> float:
    """Return the share of wrong predictions of one fit."""
    data = problem(seed)
    model = fitted(
        ISRLDPClassifier, method, epsilon, data, feature_bounds=records().feature_bounds,
        delta=(7 / len(data.y)) ** 2, silo_fraction=sampled / 7, random_state=seed, **chosen,
    )  # fmt: skip
    return 1 - model.score(data.X_test, data.y_test)


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    found = []
    for sampled in (7,) if quick else (7, 3):
        setting = f"{sampled} of 7 silos a round"
        found.append(claim(3.0, partial(sound, 3.0, *SIZE), setting))
        for epsilon in (3.0,) if quick else (*EPSILONS, np.inf):
            everything = epsilon == 3.0 or (sampled == 7 and epsilon in (1.0, np.inf))
            for method in compared(epsilon, everything, everyone=sampled == 7):
                fit = partial(error, method, epsilon, sampled)
                found.append(cell(method, epsilon, fit, setting))
            if epsilon < np.inf and not quick:
                found.append(one_record(error, epsilon, sampled, setting, SIZE))
    return found


FIGURE = Figure(
    "Obesity, a silo for each class", "error", cells, higher_is_better=False,
    seeds=tuple(range(20)), tuning=tuple(range(101, 109)), least=3,
)  # fmt: skip
