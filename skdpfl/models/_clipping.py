"""Clipping of records' gradients to norm C, by factors that allow for rounding.

**One outer product**, g_j = a_j s_j^T, as linear models have (:func:`clip_slopes`)::

    slopes          (..., n, k)    s_j, the gradient of record j's loss in its raw predictions
    squared_norms   (..., n)       |a_j|^2
    clip_norm       (..., n)       C, or what broadcasts to it: one a silo, or one number

As |g_j| = |a_j| |s_j|, clipping g_j to norm C is the same as clipping s_j to norm C / |a_j|.
Neither g_j nor the product |a_j| |s_j|, which may overflow, is computed. With one output s_j may
first be multiplied by any factor, as `skdpfl.losses.Loss.largest_slope` asks: it is clipped after.

**One outer product for each layer** (:func:`clip_factors`), layer l with fan-in h_l and h_{l+1}
units; leading axes are silos::

    a_l      (..., n, h_l)        what enters the layer; with the intercept's 1: (a_l, 1)
    s_l      (..., n, h_{l+1})    the gradient of record j's loss in what the layer gives out
    A_l      (..., n)             |a_l|^2 + 1, in the dtype of a_l
    D_l      (..., n)             |s_l|^2

Record j's gradient is the outer products (a_l, 1) s_l^T of all layers, so its squared norm is the
sum of A_l D_l (Goodfellow, 2015, "Efficient per-example gradient computations"). It is clipped by
one factor on the s_l of all layers; no gradient of a record is computed.

**Any gradients**, computed one record at a time: slow, but correct for any model
(:func:`clipped_sums`).

Formal guarantee
----------------
Let f be the result of :func:`clip_factors`. For the numbers as stored, and after ``s_l *= f`` in
their dtype, the exact norm of record j's outer products is at most C, or f = 0.

*Proof.* u is the unit roundoff of the coarsest dtype among the norms (that of the features may be
float32 where products are not), v that of float64, h the number of terms in the longest sum. A_l
and D_l are computed in float64 and rounded once (`row_norms`), and contain a bound of what is lost
by underflow, so each is at least (1 - (h + 2) v - u) times its exact value. The norm N = (sum A_l
D_l)^1/2 is computed in float64 from roots (no product of squares overflows), with fewer than 16
operations for each layer. So the computed N is at least (1 - (h + 2) v - u - 16 L v) times the
exact one. f <= C / (m N) with m = 1 + (h + 16 L + 16) 2 v + 16 u, rounded to the dtype. The
rounding of f, and of f s_l, are factors of at most 1 + u each: the norm is at most C. A_l is finite
in the dtype, so that C / N is far above the smallest normal number, below which products lose
digits; subnormal f are 0. An infinite N gives f = 0.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from math import inf, isfinite

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: terms of a sum of squares that NumPy adds up in one go, however many rows there are
_TERMS_AT_ONCE = 2**13
_finfo = cache(np.finfo)  # NumPy's own cache takes several calls


def clip_slopes(
    slopes: NDArray,
    squared_norms: NDArray,
    clip_norm: float | NDArray,
    limits: NDArray | None = None,
    largest: NDArray | None = None,
) -> None:
    """Scale each slope, in place, to norm at most clip_norm / sqrt(squared_norms).

    The threshold is lowered by the relative error of computing the norms, so that the exact norm of
    the result, and not only its computed one, is within clip_norm. ``limits``: the result of
    :func:`slope_limits` for these norms, computed if None. Slopes of one output are first
    multiplied by what would clip ``largest`` (..., n).
    """
    clip_norm = np.asarray(clip_norm)
    if clip_norm.size == 1 and clip_norm.item() == inf:
        return
    if limits is None:
        limits = slope_limits(squared_norms, clip_norm, slopes.shape[-1])
    if slopes.shape[-1] == 1:
        only = slopes[..., 0]
        if largest is not None:
            only *= np.minimum(limits / largest, 1)
        np.minimum(only, limits, out=only)
        np.maximum(only, -limits, out=only)
        return
    norms = np.einsum("...k,...k->...", slopes, slopes)
    norms += underflow(norms.dtype, slopes.shape[-1])
    factors = limits / np.sqrt(norms, out=norms)
    np.minimum(factors, 1, out=factors)
    slopes *= _without_subnormals(factors)[..., None]


def slope_limits(squared_norms: NDArray, clip_norm: float | NDArray, n_outputs: int) -> NDArray:
    """Return clip_norm / sqrt(squared_norms), lowered to allow for later rounding."""
    norms = np.sqrt(squared_norms)
    # k + 1 roundings under the root of |s_j|^2; fewer than 15 others: C, |a_j|^2, the roots, ...
    margin = 1 + (n_outputs + 16) * _finfo(norms.dtype).eps
    clip = np.asarray(clip_norm, dtype=norms.dtype) / norms.dtype.type(margin)
    return _without_subnormals(np.divide(clip, norms))


def clip_persons(
    vectors: NDArray, clip_norm: NDArray, counts: NDArray | None, bounds: NDArray | None
) -> None:
    """Scale the sums (n, P) of persons' gradients, in place, to means of norm at most clip_norm.

    ``counts`` (n,) divide them; None: they stay sums. ``bounds`` (n,) are larger norms to scale by;
    None: their own. Sums that are not finite become zero.
    """
    squared = row_norms(vectors, 0.0)
    bad = ~np.isfinite(squared)
    if bad.any():
        vectors[bad], squared[bad] = 0, 1
    factors = slope_limits(squared, clip_norm, 1)
    if bounds is not None:
        np.minimum(factors, clip_norm.astype(vectors.dtype) / bounds, out=factors, where=bounds > 0)
    share = 1 if counts is None else (1 / counts).astype(vectors.dtype)
    vectors *= _without_subnormals(np.minimum(factors, share))[:, None]


def sums_of_rows(rows: NDArray, edges: NDArray, chunk: int) -> NDArray:
    """Return sums (S, P) of the rows (n, P) between two edges, at most ``chunk`` at a time."""
    starts = [np.arange(*ends, chunk) for ends in pairwise(edges.tolist())]
    owners = np.repeat(np.arange(len(starts)), [len(each) for each in starts])
    out = np.zeros((len(starts), rows.shape[1]), rows.dtype)
    np.add.at(out, owners, np.add.reduceat(rows, np.concatenate(starts), axis=0))
    return out


def _without_subnormals(factors: NDArray) -> NDArray:
    """Round subnormal numbers, which have fewer digits, down to 0, in place."""
    factors *= factors >= _finfo(factors.dtype).tiny
    return factors


def underflow(dtype: np.dtype, n_terms: int) -> float:
    """Return a bound of the error of a sum of `n_terms` squares due to underflow."""
    return 2 * n_terms * float(_finfo(dtype).tiny)


def all_finite(values: NDArray) -> bool:
    """Whether all numbers are finite: True is reliable, False may be due to an overflow."""
    return isfinite(np.vdot(values, values))


def surely_finite(slopes: NDArray, squared_norms: NDArray | None, y: NDArray) -> bool:
    """Whether all records are finite, checked with a few sums; None: norms are known to be.

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
    """Return features with zeros in the rows that are not good."""
    return np.where(good[..., None], X, X.dtype.type(0))


def row_norms(X: NDArray, constant: float) -> NDArray:
    """Return ``|x_j|^2 + constant``, shape (..., n), as `Model.squared_row_norms` has it.

    Clipping allows for one rounding of the result, not for the d of this sum. These matter in
    float64 only, so the result is increased by their bound. Longer rows are summed in pieces, since
    NumPy would sum one row in another order than several.
    """
    n_terms = X.shape[-1]
    total = np.zeros(X.shape[:-1])
    for start in range(0, n_terms, _TERMS_AT_ONCE):
        some = X[..., start : start + _TERMS_AT_ONCE].astype(np.float64, copy=False)
        total += np.einsum("...d,...d->...", some, some)
    total += constant + underflow(X.dtype, n_terms)
    if X.dtype == np.float64:
        total *= 1 + (n_terms + 2) * float(np.finfo(np.float64).eps)
    with np.errstate(over="ignore"):
        return total.astype(X.dtype, copy=False)


#: more operations than there are for each layer, and for all
ROUNDINGS = 16


def clip_factors(
    squared: Sequence[tuple[NDArray, NDArray]], clip_norm: float | NDArray, longest: int
) -> NDArray | None:
    """Return each record's clip factor f (..., n) in the dtype of the norms; None: no clipping.

    ``squared`` has A_l and D_l of each layer, finite; ``clip_norm``, C, broadcasts against the
    records; ``longest`` is the number of terms h of the longest sum.
    """
    if np.size(clip_norm) == 1 and np.max(clip_norm) == inf:
        return None
    dtype = squared[0][1].dtype
    norms = _layer_norm(*squared[0])
    for pair in squared[1:]:
        norms = np.hypot(norms, _layer_norm(*pair))
    coarsest = max((part.dtype for pair in squared for part in pair), key=lambda d: np.finfo(d).eps)
    margin = clip_margin(len(squared), longest, coarsest)
    factors = np.divide(np.asarray(clip_norm, np.float64) / margin, norms)
    factors[np.isnan(factors)] = 0  # an infinite norm that is not clipped
    factors = np.minimum(factors, 1, out=factors).astype(dtype, copy=False)
    factors *= factors >= np.finfo(dtype).tiny
    return factors


def clip_margin(n_layers: int, longest: int, dtype: DTypeLike) -> float:
    """Return what clip norms are divided by, for the rounding of norms and factors in ``dtype``.

    Norms are those of :func:`clip_factors`, formed in float64 by any square roots, products and
    hypotenuses with errors of a few units in the last place.
    """
    roundings = longest + ROUNDINGS * (n_layers + 1)
    margin = 1 + 2 * roundings * float(np.finfo(np.float64).eps)
    return margin + ROUNDINGS * float(np.finfo(dtype).eps)


def _layer_norm(entering: NDArray, slopes: NDArray) -> NDArray:
    """Return (A D)^1/2 in float64."""
    norms = np.sqrt(entering, dtype=np.float64)
    return norms * np.sqrt(slopes, dtype=np.float64)


#: gradient entries held in memory at once
ENTRIES_AT_ONCE = 2**20

#: gradients (n, P) of one silo's records, from params (P,), X (n, d), y (n,), squared norms (n,)
RecordGradients = Callable[[NDArray, NDArray, NDArray, NDArray], NDArray]


def clipped_sums(
    gradients: RecordGradients,
    params: NDArray,
    X: NDArray,
    y: NDArray,
    squared_norms: NDArray,
    *,
    clip_norm: float | NDArray,
    weights: NDArray | None,
    chunk: int | None,
    largest: Callable[[NDArray, NDArray, NDArray], NDArray | None] | None = None,
) -> NDArray:
    """Return `Model.clipped_gradient_sum` from records' gradients, silo by silo.

    Gradients are first multiplied by what would clip ``largest``, a number of each record that
    follows from its params, X and squared norms.

    Notes
    -----
    **Formal guarantee.** That of `Model.clipped_gradient_sum`, if row j of ``gradients``, and of
    ``largest``, depends on record j and params only. *Proof.* It is set to zero if it, the squared
    norm or the target is not finite; else it is scaled to norm C by a factor that allows for its
    own rounding (`clip_slopes`, with 1 for the norm of the features), after any other factor.
    Weights of 0 and 1 are exact.
    """
    shape = np.broadcast_shapes(X.shape[:-2], params.shape[:-1])
    n, size = X.shape[-2], params.shape[-1]
    params = np.broadcast_to(params, (*shape, size))
    clips = np.broadcast_to(clip_norm, shape)
    X = np.broadcast_to(X, (*shape, *X.shape[-2:]))
    y, squared_norms, shares = (
        np.broadcast_to(a, (*shape, n))
        for a in (y, squared_norms, np.ones(n, params.dtype) if weights is None else weights)
    )
    at_once = max(1, min(chunk or n, ENTRIES_AT_ONCE // size))
    out = np.zeros((*shape, size), params.dtype)
    with np.errstate(all="ignore"):
        for i in np.ndindex(shape):
            for start in range(0, n, at_once):
                some = slice(start, start + at_once)
                norms, targets = squared_norms[i][some], y[i][some]
                each = gradients(params[i], X[i][some], targets, norms)
                most = None if largest is None else largest(params[i], X[i][some], norms)
                if most is not None:
                    each *= np.fmin(1, clips[i] / most)[:, None]
                each = _clipped(each, targets, norms, clips[i])
                out[i] += (each * shares[i][some, None]).sum(axis=0)
    return out


def _clipped(gradients: NDArray, y: NDArray, squared_norms: NDArray, clip_norm: NDArray) -> NDArray:
    """Return gradients of norm at most `clip_norm`, zero for records that are not finite."""
    good = np.isfinite(gradients).all(axis=-1) & np.isfinite(squared_norms)
    if y.dtype.kind == "f":
        good &= np.isfinite(y)
    finite = np.where(good[:, None], gradients, gradients.dtype.type(0))
    clip_slopes(finite, np.ones(len(finite), finite.dtype), clip_norm)
    return finite
