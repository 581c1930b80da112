"""Parameters, checked before any data are read: what was given, what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
    words: str = "",
) -> float:
    """Return a real number within its range, or say what the range is."""
    left, right = ("(" if open_low else "["), (")" if open_high else "]")
    wanted = f"a number in {left}{low:g}, {high:g}{right}"
    fine = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    fine = fine and (value > low if open_low else value >= low)
    fine = fine and (value < high if open_high else value <= high)
    if not fine:
        raise ValueError(f"{name} must be {wanted}{words}; got {value!r}.")
    return float(value)


def check_positive(name: str, value: Any, words: str = "") -> float:
    """Return a positive finite number, or say what is wrong."""
    return check_number(name, value, low=0, open_low=True, open_high=True, words=words)


def check_count(name: str, value: Any, *, low: int = 1, words: str = "") -> int:
    """Return an integer of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, (bool, np.bool_)) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}{words}; got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise unless the value is one of the choices."""
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")


def is_auto(value: Any) -> bool:
    """Tell whether a parameter was left to us."""
    return isinstance(value, str) and value == "auto"


def per_silo(name: str, value: Any, silo_ids: pd.Index) -> np.ndarray:
    """Return one number per silo from a number or a mapping silo -> number.

    Entries of silos without data are allowed; a silo without an entry is an error.
    """
    if not isinstance(value, (Mapping, pd.Series)):
        return np.full(len(silo_ids), value, dtype=float)
    known = value.to_dict() if isinstance(value, pd.Series) else value
    missing = [silo for silo in silo_ids.tolist() if silo not in known]
    if missing:
        raise ValueError(
            f"{name} has no entry for silo(s) {missing[:5]!r}; give every silo in the data one "
            f"(it has {list(known)[:5]!r})."
        )
    return np.array([known[silo] for silo in silo_ids.tolist()], dtype=float)


def check_shape(silo_sizes: Any, n_features: Any, n_classes: Any) -> pd.Series:
    """Return the silos' sizes of data that a plan is asked for; raise where there are no such."""
    sizes = pd.Series(silo_sizes, dtype=object)
    if sizes.empty:
        raise ValueError(f"silo_sizes must name at least one silo; got {silo_sizes!r}.")
    for silo, size in sizes.items():
        check_count(f"silo_sizes[{silo!r}]", size)
    check_count("n_features", n_features)
    check_count("n_classes", n_classes, low=2)
    return sizes.astype(np.int64)


def check_budget(epsilon: Any, noise_multiplier: Any) -> None:
    """Raise unless exactly one of the two is given, and valid."""
    if (epsilon is None) == (noise_multiplier is None):
        raise ValueError(
            "Give either epsilon (a budget) or noise_multiplier with epsilon=None; got "
            f"epsilon={epsilon!r} and noise_multiplier={noise_multiplier!r}."
        )
    if epsilon is None:
        check_number(
            "noise_multiplier",
            noise_multiplier,
            low=0,
            high=np.inf,
            open_low=True,
            open_high=True,
            words=" (no noise at all is epsilon=inf)",
        )
        return
    values = list(epsilon.values()) if isinstance(epsilon, Mapping) else [epsilon]
    values = epsilon.tolist() if isinstance(epsilon, pd.Series) else values
    for value in values:
        words = f" (inf for no privacy){_by_silo(value)}"
        check_number("epsilon", value, low=0, open_low=True, words=words)


def check_delta(delta: Any) -> None:
    """Raise unless delta is "auto", a number in (0, 1), or a mapping to such numbers."""
    if is_auto(delta):
        return
    values = list(delta.values()) if isinstance(delta, Mapping) else [delta]
    values = delta.tolist() if isinstance(delta, pd.Series) else values
    for value in values:
        words = f' (or "auto"){_by_silo(value)}'
        check_number("delta", value, low=0, high=1, open_low=True, open_high=True, words=words)


def _by_silo(value: Any) -> str:
    """Return how budgets of single silos are given, to whom gave a list of them."""
    listed = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
    return " or a mapping from silo to such numbers" if listed else ""
