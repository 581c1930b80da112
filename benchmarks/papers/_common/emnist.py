"""EMNIST in 40 silos of 2500 images, rows of norm 1: as the two papers have it."""

from __future__ import annotations

import functools

import numpy as np

from _common.problem import Problem, parted
from skdpfl.datasets import fetch_emnist


@functools.lru_cache(maxsize=4)
def one_class_silos(share: float, seed: int, quick: bool) -> Problem:
    """Return silos of one class each and a share of all; a fifth of each silo for the test.

    Of the by-merge images at hand only 15 of 47 classes have 2500, so silos are smaller where
    their class is: this is not the paper's balanced collection.
    """
    bunch = fetch_emnist(split="one_class", similarity=share, **_size(seed, quick))
    return parted(bunch.data, bunch.target, bunch.silos, np.random.default_rng(seed))


@functools.lru_cache(maxsize=4)
def sorted_silos(share: float, seed: int, quick: bool) -> Problem:
    """Return silos of sorted images but for a share dealt at random; the test set is the rest."""
    bunch = fetch_emnist(split="similarity", similarity=share, **_size(seed, quick))
    X, y = (part[: 5000 if quick else None] for part in (bunch.data_test, bunch.target_test))
    return Problem(bunch.data, bunch.target, bunch.silos, X, y)


def _size(seed: int, quick: bool) -> dict[str, int]:
    size = (10, 300) if quick else (40, 2500)
    names = ("n_silos", "records_per_silo", "random_state", "unit_norm")
    return dict(zip(names, (*size, seed, True), strict=True))
