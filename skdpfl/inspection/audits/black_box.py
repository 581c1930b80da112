"""Audits by what a fitted object shows: its numbers, and two data sets that differ in a record."""

from __future__ import annotations

from typing import Any

import numpy as np

#: numbers of an attribute that are looked at
MANY = 40


def fitted_numbers(fitted: Any) -> np.ndarray:
    """Return the numbers of fitted attributes in the order of their names, (k,)."""
    found = []
    for name, value in sorted(vars(fitted).items()):
        if name.endswith("_") and not name.startswith("_"):
            if isinstance(value, int | float | np.floating | np.integer):
                found.append(np.array([float(value)]))
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
                found.append(value.astype(float).ravel()[:MANY])
            elif name in ("best_estimator_", "scaling_"):
                found.append(fitted_numbers(value))
    return np.nan_to_num(np.concatenate([np.zeros(0), *found]))


def neighbours_of(X: np.ndarray, y: Any) -> dict[bool, tuple[np.ndarray, Any]]:
    """Return two data sets; their first records are at opposite ends of what the others are."""
    tables = {}
    low, high = X[1:].min(axis=0), X[1:].max(axis=0)
    ends = None if y is None else np.sort(np.asarray(y)[1:])[[0, -1]]
    for coin in (False, True):
        table = X.copy()
        table[0] = high if coin else low
        target = None if y is None else np.array(y)
        if target is not None and ends is not None:
            target[0] = ends[int(coin)]
        tables[coin] = table, target
    return tables
