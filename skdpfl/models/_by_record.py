"""Sums of clipped gradients computed one record at a time: slow, but correct for any model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skdpfl.models._clipping import clip_slopes

#: gradient entries held in memory at once
AT_ONCE = 2**20

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
) -> NDArray:
    """Return what `Model.clipped_gradient_sum` promises, silo by silo.

    Notes
    -----
    **Formal guarantee.** That of `Model.clipped_gradient_sum`, if row j of ``gradients`` depends on
    record j and params only. *Proof.* It is set to zero if it, the squared norm or the target is
    not finite; else it is scaled to norm C by a factor that allows for its own rounding
    (`clip_slopes`, with 1 for the norm of the features). Weights of 0 and 1 are exact.
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
    at_once = max(1, min(chunk or n, AT_ONCE // size))
    out = np.zeros((*shape, size), params.dtype)
    with np.errstate(all="ignore"):
        for i in np.ndindex(shape):
            for start in range(0, n, at_once):
                some = slice(start, start + at_once)
                norms, targets = squared_norms[i][some], y[i][some]
                each = gradients(params[i], X[i][some], targets, norms)
                each = _clipped(each, targets, norms, clips[i])
                out[i] += (each * shares[i][some, None]).sum(axis=0)
    return out


def _clipped(gradients: NDArray, y: NDArray, squared_norms: NDArray, clip_norm: NDArray) -> NDArray:
    """Return gradients of norm at most `clip_norm`, zero for records that are not finite."""
    good = np.isfinite(gradients).all(axis=-1) & np.isfinite(squared_norms)
    if y.dtype.kind == "f":
        good &= np.isfinite(y)
    kept = np.where(good[:, None], gradients, gradients.dtype.type(0))
    clip_slopes(kept, np.ones(len(kept), kept.dtype), clip_norm)
    return kept
