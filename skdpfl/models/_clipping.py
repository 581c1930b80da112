"""Per-record clipping of gradients that are outer products, g_j = a_j s_j^T.

Shapes::

    slopes          (..., n, k)    s_j, the gradient of record j's loss in its raw predictions
    squared_norms   (..., n)       |a_j|^2
    clip_norm       (..., n)       C, or what broadcasts to it: one a silo, or one number

As |g_j| = |a_j| |s_j|, clipping g_j to norm C is the same as clipping s_j to norm C / |a_j|.
Neither g_j nor the product |a_j| |s_j|, which may overflow, is computed.
"""

from __future__ import annotations

from functools import cache
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

#: terms of a sum of squares that NumPy adds up in one go, however many rows there are
_AT_ONCE = 2**13
_finfo = cache(np.finfo)  # NumPy's own cache takes several calls


def clip_slopes(
    slopes: NDArray,
    squared_norms: NDArray,
    clip_norm: float | NDArray,
    limits: NDArray | None = None,
) -> None:
    """Scale each slope, in place, to norm at most clip_norm / sqrt(squared_norms).

    The threshold is lowered by the relative error of computing the norms, so that the exact
    norm of what is left, and not only its computed one, is within clip_norm. ``limits``: the
    result of :func:`slope_limits` for these norms, computed if None.
    """
    clip_norm = np.asarray(clip_norm)
    if clip_norm.size == 1 and clip_norm.item() == inf:
        return
    if limits is None:
        limits = slope_limits(squared_norms, clip_norm, slopes.shape[-1])
    if slopes.shape[-1] == 1:
        only = slopes[..., 0]
        np.minimum(only, limits, out=only)
        np.maximum(only, -limits, out=only)
        return
    norms = np.einsum("...k,...k->...", slopes, slopes)
    norms += underflow(norms.dtype, slopes.shape[-1])
    factors = limits / np.sqrt(norms, out=norms)
    np.minimum(factors, 1, out=factors)
    slopes *= _without_subnormals(factors)[..., None]


def slope_limits(squared_norms: NDArray, clip_norm: float | NDArray, n_outputs: int) -> NDArray:
    """Return clip_norm / sqrt(squared_norms), lowered by the rounding still to come."""
    norms = np.sqrt(squared_norms)
    # k + 1 roundings under the root of |s_j|^2; fewer than 15 others: C, |a_j|^2, the roots, ...
    margin = 1 + (n_outputs + 16) * _finfo(norms.dtype).eps
    clip = np.asarray(clip_norm, dtype=norms.dtype) / norms.dtype.type(margin)
    return _without_subnormals(np.divide(clip, norms))


def _without_subnormals(factors: NDArray) -> NDArray:
    """Round subnormal numbers, which have fewer digits, down to 0, in place."""
    factors *= factors >= _finfo(factors.dtype).tiny
    return factors


def underflow(dtype: np.dtype, n_terms: int) -> float:
    """Return a bound of the error of a sum of `n_terms` squares due to underflow."""
    return 2 * n_terms * float(_finfo(dtype).tiny)


def all_finite(values: NDArray) -> bool:
    """Whether no number is NaN or infinite: True is reliable, False may be an overflow."""
    return isfinite(np.vdot(values, values))


def surely_finite(slopes: NDArray, squared_norms: NDArray | None, y: NDArray) -> bool:
    """Whether no record is NaN or infinite, checked with a few sums; None: norms are known to be.

    True is reliable: a sum is finite only if its terms are. False may be an overflow.
    Contiguous arrays are not copied.
    """
    return (
        all_finite(slopes)
        and (squared_norms is None or all_finite(squared_norms))
        and (y.dtype.kind != "f" or all_finite(y))
    )


def without_bad_records(
    y: NDArray, slopes: NDArray, squared_norms: NDArray
) -> tuple[NDArray, NDArray]:
    """Return which records are finite, and norms without the others; set their slopes to 0.

    Features have to be zero as well, since 0 * inf = NaN: see :func:`zero_unless`.
    """
    good = np.isfinite(slopes).all(axis=-1) & np.isfinite(squared_norms)
    if y.dtype.kind == "f":
        good = good & np.isfinite(y)
    slopes[~good] = 0
    return good, np.where(good, squared_norms, 1)


def zero_unless(good: NDArray, X: NDArray) -> NDArray:
    """Return features in which the rows that are not good are zero."""
    return np.where(good[..., None], X, X.dtype.type(0))


def row_norms(X: NDArray, constant: float) -> NDArray:
    """Return ``|x_j|^2 + constant``, shape (..., n), as `Model.squared_row_norms` has it.

    What is allowed for here contains one rounding of the result, not the d of this sum. They
    matter in float64 only, and the result grows by their bound. Longer rows are summed in pieces:
    NumPy would sum one row in another order than several.
    """
    n_terms = X.shape[-1]
    total = np.zeros(X.shape[:-1])
    for start in range(0, n_terms, _AT_ONCE):
        some = X[..., start : start + _AT_ONCE]
        total += np.einsum("...d,...d->...", some, some, dtype=np.float64)
    total += constant + underflow(X.dtype, n_terms)
    if X.dtype == np.float64:
        total *= 1 + (n_terms + 2) * float(np.finfo(np.float64).eps)
    with np.errstate(over="ignore"):
        return total.astype(X.dtype, copy=False)
