"""Budgets, silos' own numbers and shapes, checked before any data are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_count, check_number, check_positive, check_share, is_auto


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
        check_positive("noise_multiplier", noise_multiplier, " (no noise at all is epsilon=inf)")
        return
    for value in _each(epsilon):
        words = f" (inf for no privacy){_by_silo(value)}"
        check_number("epsilon", value, low=0, open_low=True, words=words)


def check_delta(delta: Any) -> None:
    """Raise unless delta is "auto", a number in (0, 1), or a mapping to such numbers."""
    if is_auto(delta):
        return
    for value in _each(delta):
        words = f' (or "auto"){_by_silo(value)}'
        check_share("delta", value, words=words)


def _each(budget: Any) -> list[Any]:
    """Return the numbers of all silos, or the one for all."""
    if isinstance(budget, pd.Series):
        return budget.tolist()
    return list(budget.values()) if isinstance(budget, Mapping) else [budget]


def _by_silo(value: Any) -> str:
    """Return how budgets of single silos are given, to whom gave a list of them."""
    listed = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
    return " or a mapping from silo to such numbers" if listed else ""
