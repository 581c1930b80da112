"""Argument checks with one wording: the name, what was given, what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real


def positive(name: str, value: float) -> float:
    """Return a finite number above 0."""
    return _real(name, value, lambda v: 0 < v < math.inf, "be a finite number above 0")


def not_negative(name: str, value: float) -> float:
    """Return a finite number of at least 0."""
    return _real(name, value, lambda v: 0 <= v < math.inf, "be finite and at least 0")


def rate(name: str, value: float) -> float:
    """Return a fraction in (0, 1]."""
    return _real(name, value, lambda v: 0 < v <= 1, "lie in (0, 1]")


def probability(name: str, value: float) -> float:
    """Return a number in the open interval (0, 1)."""
    return _real(name, value, lambda v: 0 < v < 1, "lie in (0, 1)")


def _real(name: str, value: float, fits: Callable[[float], bool], must: str) -> float:
    if not isinstance(value, Real) or not fits(value):
        raise ValueError(f"{name}={value!r} is not valid; it must {must}.")
    return float(value)


def count(name: str, value: int, low: int = 1, high: int | None = None) -> int:
    """Return a whole number in [low, high]."""
    above = high is not None and isinstance(value, Real) and value > high
    if not isinstance(value, Integral) or value < low or above:
        limit = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name}={value!r} is not valid; it must be a whole number {limit}.")
    return int(value)


def choice(name: str, value, allowed: tuple):
    """Return one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is not valid; choose one of {list(allowed)}.")
    return value
