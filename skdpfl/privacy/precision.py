"""In which precision clipped gradients are added up and released, from public numbers.

A step of a silo of n records adds up a batch of at most B of them, in at most n / chunk products of
at most ``chunk`` records each, computed in the dtype of ``products``; their sums are added up in
double precision and released with noise in the dtype of ``release``. Whatever order a product
adds in, the computed sum is off by at most r C, C the clip norm, with u, v, d the unit roundoffs
of products, release and double precision and

    r = B (g(chunk, u) + g(n / chunk + 1, d) + g(2, v)),    g(m, u) = m u / (1 - m u)

(each product by g(chunk) times the sum of its records' norms; adding k sums up by g(k) times the
sum of all; changing the dtype and the division by the grid by one rounding each). Records are
clipped to a norm that much smaller, so that the noise is what was priced
(:func:`skdpfl.privacy.grid.reduced_clip`). Single precision is used where that costs little:
smaller chunks first, then a release in double precision, then all in double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.privacy.grid import PrecisionError, grid_for, reduced_clip

#: what rounding may take of the clip norm before the next finer arithmetic is tried
TOLERANCE = 0.02
#: products of fewer records are slower than a product in double precision
MIN_CHUNK = 64

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True)
class Precision:
    """How sums are computed; ``chunk`` is in records."""

    products: np.dtype
    chunk: int
    release: np.dtype

    def rounding(self, batch: int, n_records: int) -> float:
        """Return r for batches of at most ``batch`` out of ``n_records`` records."""
        added = _drift(-(-n_records // self.chunk) + 1, DOUBLE)
        return batch * (_drift(self.chunk, self.products) + added + _drift(2, self.release))


class Sums(NamedTuple):
    """What decides the precision: the fit's noisy sums in public numbers.

    ``records`` and ``batches`` (n_silos,) are the silos' sizes and largest batches; ``low`` and
    ``high`` (n_silos,) the least and the largest noise on a silo's sum (0: none); ``size`` is the
    number of coordinates.
    """

    records: np.ndarray
    batches: np.ndarray
    low: np.ndarray
    high: np.ndarray
    clip_norm: float
    size: int
    neighbours: str


def choose_precision(
    sums: Sums, dtype: np.dtype, release: np.dtype = SINGLE
) -> tuple[Precision, np.ndarray]:
    """Return the fastest precision that is fine enough and each silo's reduced clip norm.

    ``dtype`` is that of the data; ``release`` the coarsest one to release sums in.
    """
    *quick, last = _candidates(int(sums.batches.max()), np.dtype(dtype), np.dtype(release))
    for precision in quick:
        try:
            clips = _clips(sums, precision)
        except PrecisionError:
            continue
        if clips.min() >= (1 - TOLERANCE) * sums.clip_norm:
            return precision, clips
    return last, _clips(sums, last)


def grids(std: np.ndarray, fallback: float, dtype: np.dtype) -> np.ndarray:
    """Return the grids of noises of standard deviation ``std`` (n,), of ``fallback`` where 0."""
    made = {s: grid_for(s or fallback, 0.0, dtype) for s in np.unique(std).tolist()}
    return np.array([made[s] for s in std.tolist()])


def _candidates(batch: int, dtype: np.dtype, release: np.dtype) -> Iterator[Precision]:
    chunk = _chunk(batch, SINGLE)
    if dtype == SINGLE and chunk >= min(batch, MIN_CHUNK):
        if release == SINGLE:
            yield Precision(SINGLE, chunk, SINGLE)
        yield Precision(SINGLE, chunk, DOUBLE)
    yield Precision(DOUBLE, _chunk(batch, DOUBLE), DOUBLE)


def _chunk(batch: int, dtype: np.dtype) -> int:
    """Return the largest chunk whose rounding takes half the tolerance."""
    unit = float(np.finfo(dtype).eps) / 2
    return max(1, min(batch, int(TOLERANCE / (2 * max(1, batch) * unit))))


def _clips(sums: Sums, precision: Precision) -> np.ndarray:
    """Return the reduced clip norms; raises where the precision is too coarse."""
    keys = np.column_stack([sums.records, sums.batches, sums.low, sums.high])
    distinct, of_silo = np.unique(keys, axis=0, return_inverse=True)
    clips = [_clip(sums, precision, *key) for key in distinct.tolist()]
    return np.asarray(clips)[of_silo.ravel()]


def _clip(
    sums: Sums, precision: Precision, records: float, batch: float, low: float, high: float
) -> float:
    clip, rounding = sums.clip_norm, precision.rounding(int(batch), int(records))
    grid_for(low or clip, batch * clip, precision.release)  # raises unless the sum fits
    widest = grid_for(high or clip, 0.0, precision.release)
    return reduced_clip(clip, widest, sums.size, sums.neighbours, rounding=rounding)


def _drift(terms: int, dtype: np.dtype) -> float:
    drift = terms * float(np.finfo(dtype).eps) / 2
    return drift / (1 - drift) if drift < 1 else float("inf")
