"""Tables that have to be converted are converted once, into the order that batches are read in.

scikit-learn makes a table of columns of a frame, which a fit would have to copy again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from skdpfl.federation import in_rows

#: tables with fewer numbers are left as they are
SMALL = 2**17
#: dtypes that are not converted
FLOATS = [np.float64, np.float32]


def numbers_in_rows(X: Any) -> Any:
    """Return X in C order where scikit-learn would copy it into columns; else as it is.

    That is: a frame whose columns have several dtypes, or are integers, or do not lie in one table
    (pandas and polars), and an array of integers in another order. Frames keep their column names.
    Values and dtype are those that scikit-learn reads.
    """
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or shape[0] * shape[1] <= SMALL:
        return X
    if isinstance(X, np.ndarray):
        as_read = X.flags.c_contiguous or X.dtype.kind not in "iub"
        return X if as_read else in_rows(X, np.dtype(np.float64))
    if isinstance(X, pd.DataFrame):
        if not _are_numbers(X.dtypes.tolist()) or _is_one_table(X):
            return X
        table = in_rows(X, _dtype_of(X[:1]), lambda rows: X.iloc[rows].to_numpy())
        return pd.DataFrame(table, index=X.index, columns=X.columns, copy=False)
    if type(X).__module__.partition(".")[0] == "polars" and _holds_numbers(X):
        table = in_rows(X, _dtype_of(X[:1]), _reader(X))
        return pd.DataFrame(table, columns=list(X.columns), copy=False)
    return X


def _dtype_of(sample: Any) -> np.dtype:
    """Return the dtype that scikit-learn reads a frame as."""
    read: np.ndarray = check_array(sample, dtype=FLOATS, ensure_all_finite=False)
    return read.dtype


def _are_numbers(dtypes: Sequence[Any]) -> bool:
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "iubf" for dtype in dtypes)
    return plain and all(dtype.itemsize <= 8 for dtype in dtypes)


def _is_one_table(X: pd.DataFrame) -> bool:
    """Whether a frame is a view of one array of floats, which nobody has to copy."""
    first = X.iloc[:1].to_numpy()
    return first.dtype in FLOATS and np.may_share_memory(first, X.iloc[:, -1].to_numpy())


def _reader(X: Any) -> Callable[[slice], np.ndarray]:
    """Return the function that reads rows of a polars frame: from its own memory, if floats."""
    kinds = {str(dtype) for dtype in X.dtypes}
    if kinds not in ({"Float32"}, {"Float64"}) or max(X.n_chunks("all")) > 1:
        return lambda rows: np.asarray(X[rows].to_numpy())
    columns = [column.to_numpy(allow_copy=False) for column in X.get_columns()]
    return lambda rows: np.stack([column[rows] for column in columns], axis=1)


def _holds_numbers(X: Any) -> bool:
    """Whether a polars frame has numbers without gaps only."""
    dtypes = X.dtypes
    plain = all(d.is_float() or d.is_integer() or str(d) == "Boolean" for d in dtypes)
    return plain and not sum(X.null_count().row(0))
