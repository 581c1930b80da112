"""Exact addition of noise: the clipped sum and the noise are integers on the same grid.

::

    gamma   = s / 2^20 (float32)  or  s / 2^36 (float64)        s: the noise's standard deviation
    k       = rint(S / gamma)                                   S: clipped sum, shape (..., size)
    release = gamma (k + N)                                     N: Stream.units, std s / gamma

k + N is integer arithmetic, so it is exact; the product with gamma is post-processing. In floating
point the last bits of S + noise would reveal S. (float32, noise 1, S = 0 or 2: for S = 2 every
result is a multiple of 2^-23, for S = 0 four in ten are not; delta >= 0.4 at every epsilon.) The
same happens if gamma is not s / 2^20: rounding scaled noise to another grid makes some multiples
impossible and others twice as likely. So each standard deviation of noise needs its own grid.

Formal guarantee
----------------
The released integers are ``k + N``: a Gaussian mechanism on the query k, sampled on the integers.
:mod:`skdpfl.privacy.release.noised_sum` bounds the sensitivity of k by (1 - 4e-4) times the priced
one, so mu is smaller by a factor of 1 - 4e-4 than the noise multiplier gives. The law of the
integers is not exactly Gaussian; this changes epsilon by at most 3e-4 mu, except for events of
probability below 1e-22 in all (:mod:`skdpfl.privacy.randomness.normals`). At any delta, a decrease
of mu by 4e-4 mu lowers epsilon by more than that: from the derivatives of the profile, phi and Phi
the standard normal's ::

    d epsilon / d mu = phi(a) / Phi(-a),   a = epsilon / mu + mu / 2        (at least 0.797, a >= 0)

so the price covers both. Integers that overflow wrap around, which is post-processing: only k must
fit (:func:`grid_for`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from skdpfl._compiled import noise as compiled
from skdpfl.privacy.randomness.normals import FINE_BITS, UNIT_BITS

#: noise stays under 2^4 standard deviations by construction
_NOISE_BITS = 4
#: relative cost, in mu, of drawing normals that are not exact, see the guarantee
NORMALS = 4e-4

_INTEGERS: dict[np.dtype, np.dtype] = {
    np.dtype(np.float32): np.dtype(np.int32),
    np.dtype(np.float64): np.dtype(np.int64),
}


class PrecisionError(ValueError):
    """The arithmetic is too coarse for this sum, which must be computed and released in float64."""


@lru_cache(maxsize=1024)
def grid_for(scale: float, bound: float, dtype: DTypeLike = np.float64) -> float:
    """Return the grid's step gamma for noise of standard deviation ``scale``.

    In float32 it is rounded up to a float32. ``bound`` is the largest possible absolute value of an
    entry of the sum (largest batch x clip norm), ``dtype`` the sum's, float32 or float64. A
    PrecisionError is raised if an entry may overflow the integers of the release (int32 for
    float32), which happens when ``bound`` exceeds 2,000 times ``scale``, or if floats cannot hold
    the result.
    """
    dtype = np.dtype(dtype)
    if not (scale > 0 and math.isfinite(scale)):
        raise ValueError(f"scale must be positive and finite, got {scale!r}.")
    if not (bound >= 0 and math.isfinite(bound)):
        raise ValueError(f"bound must be finite and 0 or more, got {bound!r}.")
    bits, room = (UNIT_BITS, 31) if dtype == np.float32 else (FINE_BITS, 63)
    gamma = scale * 2.0**-bits
    least, most = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
    if gamma < least or bound + scale * 2.0**_NOISE_BITS > most:
        raise PrecisionError(
            f"scale={scale!r} (with sums of up to {bound!r}) is out of the range of {dtype}."
        )
    if dtype == np.float32:
        single = np.float32(gamma)
        up = float(single) >= gamma  # as Python floats: NumPy would compare in float32
        gamma = float(single if up else np.nextafter(single, np.float32(np.inf)))
    if bound / gamma + 2.0 ** (bits + _NOISE_BITS) >= 2.0**room:
        raise PrecisionError(
            f"A sum of up to {bound!r} with noise of {scale!r} does not fit the grid of "
            f"{dtype}; " + ("use float64." if room == 31 else "raise the noise.")
        )
    return gamma


def snapped_release(
    clipped_sum: np.ndarray,
    units: np.ndarray,
    gamma: float | np.ndarray,
    out: np.ndarray | None = None,
    divisor: float | np.ndarray = 1.0,
) -> np.ndarray:
    """Return gamma (rint(clipped_sum / gamma) + units) / divisor: see the module's guarantee.

    The sum, float32 or float64, is finite and within the bound given to :func:`grid_for`, whose
    result ``gamma`` is; it may differ between silos. ``units`` is noise from
    :meth:`skdpfl.privacy.randomness.streams.Stream.units` with the sum's dtype. ``out`` may be
    ``clipped_sum`` itself; ``divisor`` is a public number.
    """
    _check_integers(clipped_sum, units)
    # a float64 scalar would make float32 sums float64
    gamma = np.asarray(gamma, dtype=clipped_sum.dtype)
    factor = np.asarray(gamma / divisor, dtype=gamma.dtype)
    if compiled is not None and _in_rows(clipped_sum, units, gamma, factor, out):
        out = np.empty_like(clipped_sum) if out is None else out
        of_rows = (np.resize(v, len(units)) for v in (gamma, factor))
        compiled.release(clipped_sum, units, *of_rows, out)
        return out
    return _by_numpy(clipped_sum, units, gamma, factor, out)


class GridRows(NamedTuple):
    """The grid (S,) of each row of sums, and the factor of its integers, for many sums.

    ``dtype`` is that of the sums (S, size).
    """

    grids: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, gamma: np.ndarray, divisor: np.ndarray, dtype: np.dtype) -> GridRows:
        """Return the rows for grids (S,) and divisors (S,)."""
        grids = np.asarray(gamma, dtype=dtype)
        return cls(grids, np.asarray(grids / divisor, dtype=dtype))

    def release(self, clipped_sums: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return :func:`snapped_release` of sums (S, size), which it may overwrite."""
        _check_integers(clipped_sums, units)
        if compiled is None:
            of_rows = self.grids[:, None], self.factors[:, None]
            return _by_numpy(clipped_sums, units, *of_rows, clipped_sums)
        out = np.ascontiguousarray(clipped_sums)
        compiled.release(out, np.ascontiguousarray(units), self.grids, self.factors, out)
        return out


def _check_integers(clipped_sum: np.ndarray, units: np.ndarray) -> None:
    """Raise unless the units are integers for a sum of this dtype."""
    integers = _INTEGERS.get(clipped_sum.dtype)
    if integers is None or units.dtype != integers:
        raise TypeError(
            "clipped_sum must be float32 with int32 units, or float64 with int64 units, got "
            f"{clipped_sum.dtype} and {units.dtype}."
        )


def _by_numpy(
    clipped_sum: np.ndarray,
    units: np.ndarray,
    gamma: np.ndarray,
    factor: np.ndarray,
    out: np.ndarray | None,
) -> np.ndarray:
    """Return factor (rint(clipped_sum / gamma) + units)."""
    out = np.divide(clipped_sum, gamma, out=out)
    np.rint(out, out=out)
    total = out.astype(units.dtype)
    total += units
    np.copyto(out, total)
    return np.multiply(out, factor, out=out)


def _in_rows(
    clipped_sum: np.ndarray, units: Any, gamma: Any, factor: Any, out: np.ndarray | None
) -> bool:
    """Whether these are contiguous (S, size), with one grid and factor, or one for each row."""
    whole = [clipped_sum, units] if out is None else [clipped_sum, units, out]
    of_rows = (), (1, 1), (len(clipped_sum), 1)
    return (
        all(v.ndim == 2 and v.shape == units.shape for v in whole)
        and all(v.flags.c_contiguous and v.flags.aligned for v in whole)
        and gamma.shape in of_rows
        and factor.shape in of_rows
    )
