"""Data in silos, parted into records to train on and records to test on, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from skdpfl import datasets


class Problem(NamedTuple):
    """Records to train on with their silos, records to test on, and bounds as people know them."""

    X: Any
    y: np.ndarray
    silos: np.ndarray
    X_test: Any
    y_test: np.ndarray
    bounds: dict[str, Any] = {}  # noqa: RUF012

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return self.y.dtype.kind == "f"


def held_out(
    X: np.ndarray, y: np.ndarray, silos: np.ndarray, n: int, bounds: Any = None
) -> Problem:
    """Return a problem whose last ``n`` records are for the test, within bounds of the columns."""
    known = {} if bounds is None else {"feature_bounds": bounds}
    return Problem(X[:-n], y[:-n], silos[: len(y) - n], X[-n:], y[-n:], known)


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
    return Problem(X, y, random_silos(len(y), n_silos), X_test, y_test, sheet(X, y))


def sheet(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return bounds of the columns, and of a number that is the target, rounded outward."""
    bounds: dict[str, Any] = {"feature_bounds": (-outward(-X.min(axis=0)), outward(X.max(axis=0)))}
    if y.dtype.kind == "f":
        bounds["target_bounds"] = (float(-outward(-y.min())), float(outward(y.max())))
    return bounds


def outward(values: Any) -> Any:
    """Round up to one digit, also negative numbers."""
    digit = 10.0 ** np.floor(np.log10(np.where(values == 0, 1, np.abs(values))))
    return np.ceil(np.round(values / digit, 9)) * digit


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
