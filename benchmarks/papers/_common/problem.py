"""Training and test records of a federation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Problem(NamedTuple):
    """``silos`` belong to the training records."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def delta(self) -> float:
        """One over the number of training records, as most of the papers take it."""
        return 1 / len(self.y)


def parted(X: np.ndarray, y: np.ndarray, silos: np.ndarray, rng: np.random.Generator) -> Problem:
    """Keep a random fifth of every silo's records for the test."""
    rank = np.empty(len(y))
    for silo in np.unique(silos):
        mine = rng.permutation(np.flatnonzero(silos == silo))
        rank[mine] = np.arange(len(mine)) / len(mine)
    test = rank >= 0.8
    return Problem(X[~test], y[~test], silos[~test], X[test], y[test])
