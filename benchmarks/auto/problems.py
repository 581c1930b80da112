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


def columns_of_all_kinds(n: int, d: int, seed: int) -> np.ndarray:
    """Return correlated columns in many units: normal, lognormal, indicators, counts."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.2) + 0.7 * np.eye(d)
    Z = rng.normal(size=(n, d)) @ mix.T
    Z /= Z.std(axis=0)
    rng.normal(size=d), rng.random(d), rng.logistic(size=n)  # once those of a target
    kinds = rng.integers(0, 4, d)
    X = np.where(kinds == 0, np.exp(Z), Z)
    X = np.where(kinds == 1, rng.normal(size=d) < Z, X)
    X = np.where(kinds == 2, np.round(3 * Z), X)
    return X * 10.0 ** rng.integers(-2, 4, d) + (kinds > 1) * rng.normal(size=d)


def outward(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round ranges away from the data to one digit: what somebody might know without looking."""

    def one_digit(values: np.ndarray, rounding: Callable) -> np.ndarray:
        unit = 10.0 ** np.floor(np.log10(np.where(values == 0, 1, np.abs(values))))
        return rounding(np.round(values / unit, 9)) * unit

    return one_digit(np.asarray(low, float), np.floor), one_digit(np.asarray(high, float), np.ceil)
