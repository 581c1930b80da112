"""Per-record clipping of gradients that consist of outer products, one for each layer.

Shapes (layer l has fan-in h_l and h_{l+1} units; leading axes are silos)::

    a_l      (..., n, h_l)        what enters the layer; with the intercept's 1: (a_l, 1)
    s_l      (..., n, h_{l+1})    the gradient of record j's loss in what the layer gives out
    A_l      (..., n)             |a_l|^2 + 1, in the dtype of a_l
    D_l      (..., n)             |s_l|^2

Record j's gradient is the outer products (a_l, 1) s_l^T of all layers, so its squared norm is the
sum of A_l D_l (Goodfellow, 2015, "Efficient per-example gradient computations"). One factor on the
s_l of all layers clips it; no gradient of a record is formed.

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

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

#: more operations than there are for each layer, and for all
ROUNDINGS = 16


def clip_factors(
    squared: Sequence[tuple[NDArray, NDArray]], clip_norm: float | NDArray, longest: int
) -> NDArray | None:
    """Return each record's factor f (..., n) in the dtype of the norms; None: nothing is clipped.

    ``squared`` has A_l and D_l of each layer, finite; ``clip_norm``, C, broadcasts against the
    records; ``longest`` is the number of terms h of the longest sum.
    """
    if np.size(clip_norm) == 1 and np.max(clip_norm) == inf:
        return None
    dtype = squared[0][1].dtype
    norms = _layer_norm(*squared[0])
    for pair in squared[1:]:
        norms = np.hypot(norms, _layer_norm(*pair))
    roundings = longest + ROUNDINGS * (len(squared) + 1)
    margin = 1 + 2 * roundings * float(np.finfo(np.float64).eps)
    margin += ROUNDINGS * max(float(np.finfo(part.dtype).eps) for pair in squared for part in pair)
    factors = np.divide(np.asarray(clip_norm, np.float64) / margin, norms)
    factors[np.isnan(factors)] = 0  # an infinite norm that is not clipped
    factors = np.minimum(factors, 1, out=factors).astype(dtype, copy=False)
    factors *= factors >= np.finfo(dtype).tiny
    return factors


def _layer_norm(entering: NDArray, slopes: NDArray) -> NDArray:
    """Return (A D)^1/2 in float64."""
    norms = np.sqrt(entering, dtype=np.float64)
    return norms * np.sqrt(slopes, dtype=np.float64)
