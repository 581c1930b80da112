"""Whether a function treats each row by itself, as far as made-up rows can tell.

A ``FunctionTransformer`` stores nothing, but its function may mix the records it is given:
``lambda Z: (Z - Z.mean(0)) / Z.std(0)`` standardises by them. Such a function learns from the
records every time it is called. NumPy's ufuncs cannot; other functions are tried on made-up rows,
together and in parts. What cannot be tried (text, dates) is taken for what its author says it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import FunctionTransformer

_ROWS, _PART = 7, 3
#: columns that are made up for a function that was not fitted
_WIDTH = 4


def rows_stay_apart(step: FunctionTransformer) -> bool:
    """Return False if made-up rows come out otherwise among others than by themselves."""
    if step.func is None or isinstance(step.func, np.ufunc):
        return True
    width = getattr(step, "n_features_in_", _WIDTH)
    rows = np.random.default_rng(0).uniform(0.1, 0.9, (_ROWS, width))
    try:
        together = _called(step, rows)[:_PART]
        apart = _called(step, rows[:_PART])
    except Exception:  # whatever the function does not like about made-up rows
        return True
    return together.shape == apart.shape and bool(np.allclose(together, apart, equal_nan=True))


def _called(step: FunctionTransformer, rows: np.ndarray) -> np.ndarray:
    names = getattr(step, "feature_names_in_", None)
    given: Any = rows if names is None else pd.DataFrame(rows, columns=names)
    with np.errstate(all="ignore"):
        return np.asarray(step.func(given, **(step.kw_args or {})), dtype=float)
