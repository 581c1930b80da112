"""In which precision clipped gradients are added up and released, from public numbers.

A step of a silo of n records adds up a batch of at most B of them: in at most n / chunk products
of at most ``chunk`` records each, whose sums are then added up, all in the dtype of ``products``;
the result is released with noise in the dtype of ``release``. Whatever order a product adds in,
the computed sum is off by at most r C, C the clip norm, with u, v the unit roundoffs of products
and release and

    r = B (g(chunk + n / chunk, u) + g(2, v)),    g(m, u) = m u / (1 - m u)

(no term goes through more than chunk + n / chunk roundings, so a coordinate is off by at most g of
that times the sum of its terms' absolute values; changing the dtype and the division by the grid
take one rounding each). Records are clipped to a norm that much smaller, so that the noise is what
was priced (:func:`skdpfl.privacy.randomness.grid.reduced_clip`). Single precision is used where
that costs little: smaller chunks first, then a release in double precision, then all in double.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.privacy.randomness.grid import PrecisionError, grid_for, reduced_clip

#: what rounding may take of the clip norm before the next finer arithmetic is tried
TOLERANCE = 0.02

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

#: records in a product, by dtype; products of fewer are slower than others in double precision
CHUNKS = {SINGLE: (256, 128, 64), DOUBLE: (4096,)}


@dataclass(frozen=True)
class Precision:
    """How sums are computed; ``chunk`` is in records."""

    products: np.dtype
    chunk: int
    release: np.dtype

    def rounding(self, batch: int, n_records: int) -> float:
        """Return r for batches of at most ``batch`` out of ``n_records`` records."""
        roundings = self.chunk - (-n_records // self.chunk)
        return batch * (_drift(roundings, self.products) + _drift(2, self.release))


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
    *quick, last = _candidates(sums, np.dtype(dtype), np.dtype(release))
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


def _candidates(sums: Sums, dtype: np.dtype, release: np.dtype) -> Iterator[Precision]:
    most = int(sums.batches.max()), int(sums.records.max())
    if dtype == SINGLE:
        if release == SINGLE:
            yield Precision(SINGLE, _chunk(*most, SINGLE), SINGLE)
        yield Precision(SINGLE, _chunk(*most, SINGLE), DOUBLE)
    yield Precision(DOUBLE, _chunk(*most, DOUBLE), DOUBLE)


def _chunk(batch: int, n_records: int, dtype: np.dtype) -> int:
    """Return the largest chunk whose rounding takes half the tolerance, else the smallest."""
    for chunk in CHUNKS[dtype]:
        if Precision(dtype, chunk, DOUBLE).rounding(batch, n_records) <= TOLERANCE / 2:
            break
    return chunk


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
