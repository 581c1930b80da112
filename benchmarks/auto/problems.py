"""Drawn data in silos for the study of "auto", and what its pages begin with."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import sklearn

import skdpfl


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


def outward(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round ranges away from the data to one digit: what somebody might know without looking."""

    def one_digit(values: np.ndarray, rounding: Callable) -> np.ndarray:
        unit = 10.0 ** np.floor(np.log10(np.where(values == 0, 1, np.abs(values))))
        return rounding(np.round(values / unit, 9)) * unit

    return one_digit(np.asarray(low, float), np.floor), one_digit(np.asarray(high, float), np.ceil)
