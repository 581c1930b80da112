"""Checks of arguments, each error naming the parameter, the value and what is allowed."""

from collections.abc import Collection
from numbers import Integral, Real

import numpy as np


def check_int(name: str, value, low: int) -> int:
    """An integer at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
        raise ValueError(f"{name} must be an integer >= {low}, got {value!r}")
    return int(value)


def check_real(name: str, value, low: float, high: float = np.inf) -> float:
    """A finite number in [low, high]."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if not low <= number <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value!r}")
    return number


def check_choice(name: str, value, allowed: Collection[str]) -> str:
    """One of the words in `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}")
    return value


def check_sizes(n_records, n_silos: int) -> np.ndarray:
    """Records per silo from one integer for all or one for each."""
    if np.ndim(n_records) == 0:
        return np.full(n_silos, check_int("n_records", n_records, 1))
    sizes = np.asarray(n_records)
    if sizes.shape != (n_silos,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise ValueError(
            "n_records must be an integer >= 1, or n_silos of them "
            f"(n_silos={n_silos}), got {n_records!r}"
        )
    return sizes.astype(np.int64)
