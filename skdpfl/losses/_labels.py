"""Class labels: codes as signs and as indices, and probabilities from raw predictions."""

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


def sigmoid(raw: NDArray, out: NDArray | None = None) -> NDArray:
    """Return 1 / (1 + e^-z); twice as fast as `scipy.special.expit`."""
    out = np.negative(raw, out=out)
    np.minimum(out, _range(out), out=out)
    np.exp(out, out=out)
    out += 1
    return np.reciprocal(out, out=out)


def softmax(raw: NDArray, out: NDArray | None = None) -> NDArray:
    """Return exp(z_c) / sum exp(z)."""
    out = np.subtract(raw, raw.max(axis=-1, keepdims=True), out=out)
    np.maximum(out, -_range(out), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=-1, keepdims=True)
    return out


def _range(raw: NDArray) -> float:
    """Return the largest exponent used; beyond it probabilities are below 1e-6 unit roundoffs.

    Much smaller numbers, or their squares, are subnormal, and 40 times slower in products.
    """
    return 30.0 if raw.dtype == np.float32 else 300.0
