"""The three problems of the table, in silos, scaled by public knowledge only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skdpfl.datasets import fetch_insurance, fetch_mnist, fetch_obesity

#: charges are read in units of this many dollars, after subtracting as many
CHARGES = 15_000.0
#: images of each digit in each of its five silos
PER_DIGIT = 619


class Problem(NamedTuple):
    """Training and test records; ``silos`` belong to the training records."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def insurance(seed: int) -> Problem:
    """1338 persons, 5 silos of sorted charges; features mapped to [-1, 1] by public bounds."""
    data = fetch_insurance(n_silos=5)
    X = to_unit(data.data, data.feature_bounds)
    y = data.target / CHARGES - 1
    return parted(X, y, data.silos, seed)


def obesity(seed: int) -> Problem:
    """2111 persons, one silo for each of 7 classes; features mapped to [-1, 1]."""
    data = fetch_obesity()
    return parted(to_unit(data.data, data.feature_bounds), data.target, data.silos, seed)


def mnist(seed: int) -> Problem:
    """Even or odd: 25 silos, one for each pair of an even and an odd digit, 1238 images each.

    No image is in two silos. Images are averaged over 4 x 4 blocks: 49 features.
    """
    train, test = fetch_mnist(subset="train", n_silos=1), fetch_mnist(subset="test", n_silos=1)
    rng = np.random.default_rng(seed)
    rows, silos = [], []
    for digit in range(10):
        mine = rng.permutation(np.flatnonzero(train.target == digit))
        for part in range(5):
            other = 2 * part + (digit % 2 == 0)
            pair = (digit, other) if digit % 2 == 0 else (other, digit)
            rows.append(mine[part * PER_DIGIT : (part + 1) * PER_DIGIT])
            silos += [5 * (pair[0] // 2) + pair[1] // 2] * PER_DIGIT
    rows = np.concatenate(rows)
    return Problem(
        blocks(train.data[rows]), train.target[rows] % 2, np.array(silos),
        blocks(test.data), test.target % 2,
    )  # fmt: skip


def blocks(images: np.ndarray) -> np.ndarray:
    """Return means over 4 x 4 blocks, in [-1, 1]."""
    means = images.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(len(images), 49)
    return means / 127.5 - 1


def to_unit(X: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Map bounds to [-1, 1]."""
    low, high = bounds
    return (np.asarray(X, dtype=float) - (low + high) / 2) / ((high - low) / 2)


def parted(X: np.ndarray, y: np.ndarray, silos: np.ndarray, seed: int) -> Problem:
    """Keep a random fifth for the test."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[: len(X) // 5], order[len(X) // 5 :]
    return Problem(X[train], y[train], np.asarray(silos)[train], X[test], y[test])


PROBLEMS = {"insurance": insurance, "obesity": obesity, "mnist": mnist}
