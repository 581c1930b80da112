"""How far computed sums move between neighbours: the one proof that every noised sum rests on.

S is the exact sum of terms (clipped gradients, messages, scores), each of norm at most c; S^ is
what is computed of ``S / gamma`` for the grid's step gamma, times gamma::

    u            unit roundoff: 2^-24 in float32, 2^-53 in float64
    g(m, u)      = m u / (1 - m u)
    rho          = (1 + g(m, u)) (1 + g(m', u')) ... - 1     :func:`relative_error`
    |S^ - S|    <= r c + e,     r = B rho                    B: terms that are added up, at most

Formal guarantee
----------------
**1. Rounding.** Let each coordinate of S^ be made of the terms' coordinates by additions in any
order, products and divisions by public numbers, and changes of dtype, such that no term goes
through more than m operations in the dtype of u, m' in that of u', ... on its way. Every operation
(also a fused one) multiplies its result by 1 + d, |d| <= u, and nothing else unless it underflows.
A term's coordinate thus arrives multiplied by a product of m such factors, of m' others, ..., which
is within rho of 1 (Higham, "Accuracy and stability of numerical algorithms", lemma 3.1). So a
coordinate is off by at most rho times the sum of the terms' absolute values there. As a vector over
the coordinates that sum has at most the norm B c, by the triangle inequality: r = B rho, whatever
the order. Underflow changes a result by at most the least normal number (whether it is gradual or
flushes to zero): with n operations in a coordinate that adds ``n tiny sqrt(size)`` to e
(:func:`underflow`). e also holds what is added up beside the terms, such as other silos' sums.

**2. The grid.** Replacing a term moves S by at most 2 c, zeroing it by c: D c. Rounding to integers
moves the difference of two numbers by at most 1. So between neighbours ::

    |rint(S^ / gamma) - rint(S^' / gamma)| <= (D c + 2 (r c + e)) / gamma + sqrt(size)

**3. What is done about it.** The noise of standard deviation s is priced for a sum that moves by
D C. Either c is less than C (:func:`reduced_clip`), or, where terms cannot be made smaller, s is
larger (:func:`noise_for`), such that the right side is at most (1 - 4e-4) D C / gamma. The 4e-4 pay
for normals that are not quite normal (:mod:`skdpfl.privacy.release.grid`).

**4. Many steps.** Let N = A xi be the noise of a fit's steps, A an integer matrix, xi independent
integer normals, and suppose that a unimodular integer matrix M has M A = 1 (both lower triangular).
The released k + N is then a function of M k + xi, one Gaussian release after another, of which the
t-th moves by at most sum_s |M_ts| over the steps s that the record takes part in, times the right
side above. Independent noise is M = 1.

What is assumed: BLAS multiplies matrices by the definition, in the precision of its arguments; in
which order, and with or without fused multiply-add, is its own affair. Casacuberta, Shoham, Vadhan
and Wagner (2022) show what goes wrong when r is forgotten.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from skdpfl.privacy.release.grid import FINE_BITS, NORMALS, PrecisionError

#: how much of the clip norm rounding may cost before a finer arithmetic is asked for
MAX_LOSS = 0.05


def relative_error(*roundings: tuple[float, DTypeLike]) -> float:
    """Return rho for terms that go through (how many operations, in which dtype), ..."""
    total = 0.0
    for count, dtype in roundings:
        drift = count * float(np.finfo(dtype).eps) / 2
        if drift >= 1:
            return math.inf
        total += drift / (1 - drift) * (1 + total)
    return total


def underflow(n_operations: float, dtype: DTypeLike, size: int) -> float:
    """Return the norm of what underflow can change in ``n_operations`` in each coordinate."""
    return n_operations * float(np.finfo(dtype).tiny) * math.sqrt(size)


def reduced_clip(
    clip_norm: float,
    gamma: float,
    size: int,
    neighbours: str,
    *,
    rounding: float = 0.0,
    apart: float = 0.0,
) -> float:
    """Return c, the norm to clip terms to, so that the snapped sum is as sensitive as priced.

    Parameters
    ----------
    clip_norm : float
        C, the priced clip norm: noise on the sum over noise multiplier.
    gamma : float
        The widest grid's step.
    size : int
        Number of coordinates of the sum.
    neighbours : {"replace", "add_remove"}
        Whether a record's term is replaced (moves the sum by twice the norm) or zeroed.
    rounding, apart : float
        r and e.

    Raises
    ------
    PrecisionError
        If it would be more than 5 % below ``clip_norm``.
    """
    change = change_of(neighbours)
    priced = (1 - NORMALS) * change * clip_norm
    reduced = (priced - (gamma * math.sqrt(size) + 2 * apart)) / (change + 2 * rounding)
    # a few roundings of this very formula
    reduced *= 1 - 1e-15
    if not reduced >= (1 - MAX_LOSS) * clip_norm:
        raise PrecisionError(
            f"Rounding would cost more than {MAX_LOSS:.0%} of clip_norm={clip_norm!r} "
            f"({size} coordinates on a grid of {gamma:.3g}, sums off by up to {rounding:.3g} clip "
            "norms): add the records up and release the sum in float64, or in smaller batches."
        )
    return reduced


def noise_for(mu: np.ndarray, sensitivity: float, size: int, apart: np.ndarray) -> np.ndarray:
    """Return the noise that makes float64 sums cost ``mu`` of Gaussian DP each; 0 if it is inf.

    ``sensitivity`` is D c, how far an exact sum moves, and ``apart`` is r c + e. The grid's step is
    the noise times 2^-36, so both sides of the guarantee grow with the noise.
    """
    left = (1 - NORMALS) * mu - math.sqrt(size) * 2.0**-FINE_BITS
    if not (left > 0).all():
        raise PrecisionError(f"mu={mu.min():.3g} is too little for {size} coordinates.")
    return (sensitivity + 2 * apart) / left * (1 + 1e-15)


def change_of(neighbours: str) -> int:
    """Return D: how far a sum moves between neighbours, in norms of a term."""
    if neighbours not in ("replace", "add_remove"):
        raise ValueError(f"neighbours must be 'replace' or 'add_remove', got {neighbours!r}.")
    return 2 if neighbours == "replace" else 1
