"""Arguments with one wording of errors: the name, what would be right, what was given."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


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


def check_share(name: str, value: Any, words: str = "") -> float:
    """Return a number in (0, 1), or say what is wrong."""
    return check_number(name, value, low=0, high=1, open_low=True, open_high=True, words=words)


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
