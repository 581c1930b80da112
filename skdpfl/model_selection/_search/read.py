"""What a search is given: records that can be taken apart by rows, and as many targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d, indexable

from skdpfl._arguments import refuse_sparse


def readable(X: Any, y: Any, alone: bool) -> tuple[Any, Any]:
    """Return X and y as they can be indexed; ``alone``: no step before the estimator reads X."""
    if y is None:
        raise ValueError("A search requires y to be passed, but the target y is None.")
    if alone:
        refuse_sparse(X)
    X, y = indexable(X, y)
    if alone and np.ndim(X) != 2:
        raise ValueError(
            f"Expected 2D array, got {np.ndim(X)}D array instead. Reshape your data: one row for "
            "each record, one column for each feature."
        )
    if alone and 0 in np.shape(X):
        what = "sample" if np.shape(X)[0] == 0 else "feature"
        raise ValueError(
            f"Found array with 0 {what}(s) (shape={np.shape(X)}) while a minimum of 1 is required."
        )
    check_consistent_length(X, y)
    one_column = np.ndim(y) == 2 and np.shape(y)[1] == 1
    return X, column_or_1d(y, warn=True) if one_column else y
