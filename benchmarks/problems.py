"""Data in silos, parted into records to train on and records to test on, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from skdpfl import datasets

#: charges are read in units of this many dollars, after subtracting as many
CHARGES = 15_000.0
#: images of each digit in each of its five silos
PER_DIGIT = 619


class Problem(NamedTuple):
    """Records to train on with their silos, records to test on, and bounds as people know them."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    bounds: dict[str, Any] = {}  # noqa: RUF012


def random_silos(n: int, n_silos: int) -> np.ndarray:
    """Each record's silo; all silos have the same size, or one record more."""
    return np.random.default_rng(1).permutation(np.arange(n) % n_silos)


def images(fetch: Callable, n_silos: int) -> Problem:
    """All training images, in float32, in random silos; the test images."""
    train, test = fetch(subset="train", n_silos=1), fetch(subset="test", n_silos=1)
    X, X_test = (part.data.astype(np.float32) for part in (train, test))
    silos = random_silos(len(X), n_silos)
    return Problem(X, train.target, silos, X_test, test.target, {"feature_bounds": (0, 255)})


def characters(n_silos: int) -> Problem:
    """EMNIST's by-merge test images, 47 classes; 16,323 of them are held out."""
    bunch = datasets.fetch_emnist(n_silos=1)
    X, y = bunch.data.astype(np.float32), bunch.target
    X, X_test, y, y_test = train_test_split(X, y, train_size=100_000, random_state=0)
    return Problem(
        X, y, random_silos(len(y), n_silos), X_test, y_test, {"feature_bounds": (0, 255)}
    )


def table(X: np.ndarray, y: np.ndarray, n_silos: int) -> Problem:
    """A quarter of the records is held out; silos are random."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    low, high = (outward(v) for v in (-X.min(axis=0), X.max(axis=0)))
    bounds: dict[str, Any] = {"feature_bounds": (-low, high)}
    if y.dtype.kind == "f":
        bounds["target_bounds"] = (float(-outward(-y.min())), float(outward(y.max())))
    return Problem(X, y, random_silos(len(y), n_silos), X_test, y_test, bounds)


def outward(values: Any) -> Any:
    """Round up to one digit, also negative numbers."""
    digit = 10.0 ** np.floor(np.log10(np.maximum(np.abs(values), 1e-12)))
    return np.ceil(values / digit) * digit


def fetched(fetch: Callable, n_silos: int) -> Problem:
    """A table of skdpfl.datasets, in random silos."""
    bunch = fetch()
    return table(np.asarray(bunch.data, float), np.asarray(bunch.target), n_silos)


#: random silos, for the study of networks
NETWORKS: dict[str, Callable[[], Problem]] = {
    "digits": lambda: table(*load_digits(return_X_y=True), 3),
    "breast cancer": lambda: table(*load_breast_cancer(return_X_y=True), 3),
    "obesity": lambda: fetched(datasets.fetch_obesity, 4),
    "insurance": lambda: fetched(datasets.fetch_insurance, 4),
    "MNIST": lambda: images(datasets.fetch_mnist, 10),
    "Fashion-MNIST": lambda: images(datasets.fetch_fashion_mnist, 10),
    "EMNIST": lambda: characters(25),
}
SMALL = ("digits", "breast cancer", "obesity", "insurance")


def insurance(seed: int) -> Problem:
    """1338 persons, 5 silos of sorted charges; features mapped to [-1, 1] by public bounds."""
    data = datasets.fetch_insurance(n_silos=5)
    X = to_unit(data.data, data.feature_bounds)
    y = data.target / CHARGES - 1
    return parted(X, y, data.silos, seed)


def obesity(seed: int) -> Problem:
    """2111 persons, one silo for each of 7 classes; features mapped to [-1, 1]."""
    data = datasets.fetch_obesity()
    return parted(to_unit(data.data, data.feature_bounds), data.target, data.silos, seed)


def mnist(seed: int) -> Problem:
    """Even or odd: 25 silos, one for each pair of an even and an odd digit, 1238 images each.

    No image is in two silos. Images are averaged over 4 x 4 blocks: 49 features.
    """
    train, test = (
        datasets.fetch_mnist(subset="train", n_silos=1),
        datasets.fetch_mnist(subset="test", n_silos=1),
    )
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


#: silos of unlike records, scaled by public knowledge alone: name -> seed -> split
ISRL = {"insurance": insurance, "obesity": obesity, "mnist": mnist}
