"""Data sets in silos for the study of "auto": bundled, fetched, and synthetic of many shapes."""

from __future__ import annotations

import datetime
import functools
import os
import platform
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import sklearn
from sklearn import datasets as bundled

import skdpfl
from skdpfl import datasets


class Problem(NamedTuple):
    """Records, their silos' codes, and whether the target is a number."""

    X: np.ndarray
    y: np.ndarray
    silos: np.ndarray
    regression: bool = False


def made(script: str) -> str:
    """Return what made a page, when, and with what."""
    versions = f"skdpfl {skdpfl.__version__}, scikit-learn {sklearn.__version__}, NumPy"
    return (
        f"`python benchmarks/auto/{script}` on {datetime.date.today()}: {versions} "
        f"{np.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores."
    )


def random_silos(n: int, n_silos: int) -> np.ndarray:
    """Each record's silo, drawn at random."""
    return np.random.default_rng(1).integers(0, n_silos, n)


def fetched(fetch: Callable) -> Problem:
    """A data set of skdpfl.datasets with its own silos."""
    bunch = fetch()
    codes = np.unique(bunch.silos, return_inverse=True)[1]
    return Problem(bunch.data, bunch.target, codes, bunch.target.dtype.kind == "f")


def shuffled(load: Callable, n_silos: int, **kw) -> Problem:
    """A bundled data set with random silos."""
    X, y = load(return_X_y=True, **kw)
    return Problem(X, y, random_silos(len(y), n_silos), load is bundled.load_diabetes)


def other_target(fetch: Callable, column: str, n_silos: int, drop: str = "") -> Problem:
    """Predict one column from the rest and, as a number, the target."""
    bunch = fetch()
    names = [str(name) for name in bunch.feature_names]
    j = names.index(column)
    keep = [i for i, name in enumerate(names) if i != j and not (drop and name.startswith(drop))]
    X = np.column_stack([bunch.data[:, keep], bunch.target.astype(float)])
    y, regression = bunch.data[:, j], len(np.unique(bunch.data[:, j])) > 2
    y = y if regression else (y > y.min()).astype(int)
    return Problem(X, y, random_silos(len(y), n_silos), regression)


def cancer_column(j: int, drop: tuple[int, ...]) -> Problem:
    """Predict a column of the breast cancer data without those that nearly equal it."""
    X, y = bundled.load_breast_cancer(return_X_y=True)
    rest = np.delete(X, [j, *drop], axis=1)
    return Problem(np.column_stack([rest, y]), X[:, j], random_silos(len(y), 3), True)


def pooled_images(fetch: Callable, n: int, n_silos: int) -> Problem:
    """Images averaged over 2 x 2 blocks: 196 features."""
    bunch = fetch(subset="test", n_silos=1)
    X = bunch.data[:n].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return Problem(X, bunch.target[:n], random_silos(n, n_silos))


def synthetic(
    n: int,
    d: int,
    n_silos: int,
    *,
    seed: int,
    n_classes: int = 0,
    informative: float = 0.5,
    by_target: bool = False,
) -> Problem:
    """Correlated columns of all kinds and units: normal, lognormal, indicators, counts."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.2) + 0.7 * np.eye(d)
    Z = rng.normal(size=(n, d)) @ mix.T
    Z /= Z.std(axis=0)
    k = n_classes if n_classes > 2 else 1
    raw = Z @ (rng.normal(size=(d, k)) * (rng.random(d) < informative)[:, None])
    raw /= np.maximum(raw.std(axis=0), 1e-9)
    if n_classes == 0:
        y = 100 + 20 * (raw[:, 0] + 0.5 * rng.normal(size=n))
    elif n_classes == 2:
        y = (3 * raw[:, 0] + rng.logistic(size=n) > 0.3).astype(int)
    else:
        y = (3 * raw + rng.gumbel(size=(n, k))).argmax(axis=1)
    kinds = rng.integers(0, 4, d)
    X = np.where(kinds == 0, np.exp(Z), Z)
    X = np.where(kinds == 1, rng.normal(size=d) < Z, X)
    X = np.where(kinds == 2, np.round(3 * Z), X)
    X = X * 10.0 ** rng.integers(-2, 4, d) + (kinds > 1) * rng.normal(size=d)
    if by_target:
        silos = np.empty(n, dtype=int)
        silos[np.argsort(y, kind="stable")] = np.arange(n) * n_silos // n
    else:
        silos = random_silos(n, n_silos)
    return Problem(X, y, silos, n_classes == 0)


def houses(n: int = 20_640, n_silos: int = 10) -> Problem:
    """Like house prices of a state: skewed counts, coordinates, a capped target, silos by place."""
    rng = np.random.default_rng(11)
    place = rng.normal(size=(n, 2)) * (2.1, 2.0) + (35.6, -119.6)
    income, age = rng.gamma(4, 1.0, n), rng.uniform(1, 52, n)
    rooms = 3 + income / 2 + rng.gamma(2, 0.6, n) + (rng.random(n) < 0.01) * rng.gamma(2, 15, n)
    people, each = rng.lognormal(7.1, 0.7, n), 2 + rng.lognormal(0, 0.4, n)
    price = 0.45 * income + 0.01 * age - 0.08 * (place[:, 0] - 35) + 0.4 * rng.lognormal(0, 0.6, n)
    X = np.column_stack([income, age, rooms, rooms / 5, people, each, place])
    silos = np.argsort(np.argsort(place[:, 0] + place[:, 1])) * n_silos // n
    return Problem(X, np.minimum(price, 5.0), silos, True)


_RAW = functools.partial(shuffled, bundled.load_diabetes, scaled=False)
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "insurance, 5 silos by charges": lambda: fetched(datasets.fetch_insurance),
    "obesity, 7 silos by class": lambda: fetched(datasets.fetch_obesity),
    "heart disease, 4 hospitals": lambda: fetched(datasets.fetch_heart_disease),
    "breast cancer, 5 silos": lambda: shuffled(bundled.load_breast_cancer, 5),
    "digits, 6 silos": lambda: shuffled(bundled.load_digits, 6),
    "wine, 2 silos": lambda: shuffled(bundled.load_wine, 2),
    "iris, 1 silo": lambda: shuffled(bundled.load_iris, 1),
    "diabetes, 3 silos": lambda: _RAW(n_silos=3),
    "obesity: sex, 4 silos": lambda: other_target(datasets.fetch_obesity, "Gender_Male", 4),
    "obesity: weight, 4 silos": lambda: other_target(datasets.fetch_obesity, "Weight", 4),
    "obesity: age, 4 silos": lambda: other_target(datasets.fetch_obesity, "Age", 4),
    "insurance: smoker, 3 silos": lambda: other_target(datasets.fetch_insurance, "smoker_yes", 3),
    "cancer: area, 3 silos": lambda: cancer_column(3, (0, 2, 20, 22, 23)),
    "cancer: smoothness, 3 silos": lambda: cancer_column(4, (24,)),
    "MNIST 14 x 14, 10 silos": lambda: pooled_images(datasets.fetch_mnist, 5000, 10),
    "fashion 14 x 14, 5 silos": lambda: pooled_images(datasets.fetch_fashion_mnist, 5000, 5),
    "houses (synthetic), 10 silos": houses,
    "synthetic 1000 x 8, 5 silos": lambda: synthetic(1000, 8, 5, seed=1, n_classes=2),
    "synthetic 5000 x 40, 20 silos": lambda: synthetic(5000, 40, 20, seed=2, n_classes=2),
    "synthetic 3000 x 15, by class": lambda: synthetic(
        3000, 15, 5, seed=4, n_classes=5, by_target=True
    ),
    "synthetic 2000 x 30, few matter": lambda: synthetic(
        2000, 30, 5, seed=5, n_classes=3, informative=0.2
    ),
    "synthetic 4000 x 30, by target": lambda: synthetic(4000, 30, 8, seed=7, by_target=True),
    "synthetic 1500 x 6, 5 silos": lambda: synthetic(1500, 6, 5, seed=6),
}


def outward(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round ranges away from the data to one digit: what somebody might know without looking."""

    def one_digit(values: np.ndarray, rounding: Callable) -> np.ndarray:
        unit = 10.0 ** np.floor(np.log10(np.where(values == 0, 1, np.abs(values))))
        return rounding(np.round(values / unit, 9)) * unit

    return one_digit(np.asarray(low, float), np.floor), one_digit(np.asarray(high, float), np.ceil)
