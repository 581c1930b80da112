"""Class codes as signs and as indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def signs(y: NDArray, dtype: DTypeLike) -> NDArray:
    """Return -1 for 0 and +1 for 1, as a new array."""
    out = np.multiply(y, 2, dtype=dtype, casting="unsafe")
    out -= 1
    return out


def one_vs_rest_signs(y: NDArray, raw: NDArray) -> NDArray:
    """Return, shaped and laid out as `raw`, +1 at each record's own class and -1 at the others."""
    if raw.shape[-1] == 1:
        return signs(y, raw.dtype)[..., None]
    out = np.full_like(raw, -1)
    out[at_codes(y)] = 1
    return out


def at_codes(y: NDArray) -> tuple[Any, ...]:
    """Index of the entries (..., i, y[..., i]) of an array of shape (..., n, k).

    The array may have leading axes that y lacks. An out-of-range code raises; it can never reach
    another record's entry.
    """
    codes = y.astype(np.intp, copy=False)
    if y.ndim == 1:
        return ..., np.arange(y.shape[0]), codes
    return (..., *np.ogrid[tuple(slice(size) for size in y.shape)], codes)
