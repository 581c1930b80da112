"""The precision in which clipped gradients are summed and released, from public numbers.

A step of a silo of n records sums a batch of at most B of them: in at most n / chunk products of at
most ``chunk`` records each, whose results are then added, all in the dtype of ``products``. The
result is released with noise in the dtype of ``release``. So a record's gradient goes through at
most chunk + n / chunk operations in the first dtype, and two in the second (the change of dtype and
the division by the grid). :mod:`skdpfl.privacy.release.noised_sum` gives the cost. Single precision
is used where it costs little: first with smaller chunks, then with a release in double precision,
then double precision for all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl._distinct import distinct
from skdpfl.privacy.release.grid import PrecisionError, grid_for
from skdpfl.privacy.release.noised_sum import (
    DOUBLE,
    SINGLE,
    NoisedSum,
    grids,
    reduced_clip,
    relative_error,
    underflow,
)

#: share of the clip norm that rounding may cost before the next finer arithmetic is tried
TOLERANCE = 0.02

#: records in a product, by dtype; products of fewer are slower than others in double precision
CHUNKS = {SINGLE: (256, 128, 64), DOUBLE: (4096,)}


@dataclass(frozen=True)
class Precision:
    """The arithmetic for sums; ``chunk`` is a number of records."""

    products: np.dtype
    chunk: int
    release: np.dtype

    def rounding(self, batch: int, n_records: int) -> float:
        """Return r for batches of at most ``batch`` out of ``n_records`` records."""
        operations = self.chunk - (-n_records // self.chunk)
        return batch * relative_error((operations, self.products), (2, self.release))

    def underflow(self, n_records: int, size: int) -> float:
        """Return a bound of the error of a silo's sum due to underflow."""
        return underflow(4 * n_records + 8, self.products, size)


class GradientSums(NamedTuple):
    """Public numbers about the fit's noisy sums, which decide the precision.

    ``records`` and ``batches`` (n_silos,) are the silos' sizes and largest batches; ``std`` the
    noise on a silo's sum (0: none), times ``least`` to ``most`` over the steps; ``size`` is the
    number of coordinates. ``apart`` (n_silos,) bounds the errors that come after a silo's sum, in
    the units of that sum.
    """

    records: np.ndarray
    batches: np.ndarray
    std: np.ndarray
    least: float
    most: float
    clip_norm: float
    size: int
    neighbours: str
    apart: np.ndarray


def choose_precision(
    sums: GradientSums, dtype: np.dtype, release: np.dtype = SINGLE
) -> tuple[Precision, NoisedSum]:
    """Return the fastest precision that is fine enough, and the silos' noised sums in it.

    ``dtype`` is that of the data; ``release`` the coarsest one to release sums in.
    """
    *quick, last = _candidates(sums, np.dtype(dtype), np.dtype(release))
    for precision in quick:
        try:
            clips = _clips(sums, precision)
        except PrecisionError:
            continue
        if clips.min() >= (1 - TOLERANCE) * sums.clip_norm:
            return precision, _noised(sums, precision, clips)
    return last, _noised(sums, last, _clips(sums, last))


def _noised(sums: GradientSums, precision: Precision, clips: np.ndarray) -> NoisedSum:
    """Add noise and grids to the clip norms; without noise the grid is that of the clip norm."""
    fallback = np.full(len(clips), grid_for(sums.clip_norm, 0.0, precision.release))
    grid = grids(sums.std, fallback, precision.release)
    return NoisedSum(sums.std, grid, clips, precision.release)


def _candidates(sums: GradientSums, dtype: np.dtype, release: np.dtype) -> Iterator[Precision]:
    most = int(sums.batches.max()), int(sums.records.max())
    if dtype == SINGLE:
        if release == SINGLE:
            yield Precision(SINGLE, _chunk(*most, SINGLE), SINGLE)
        yield Precision(SINGLE, _chunk(*most, SINGLE), DOUBLE)
    yield Precision(DOUBLE, _chunk(*most, DOUBLE), DOUBLE)


def _chunk(batch: int, n_records: int, dtype: np.dtype) -> int:
    """Return the largest chunk whose rounding uses half the tolerance, else the smallest."""
    for chunk in CHUNKS[dtype]:
        if Precision(dtype, chunk, DOUBLE).rounding(batch, n_records) <= TOLERANCE / 2:
            break
    return chunk


def _clips(sums: GradientSums, precision: Precision) -> np.ndarray:
    """Return the reduced clip norms; raises where the precision is too coarse."""
    columns = sums.records, sums.batches, sums.std, sums.apart
    first, of_silo = distinct(*columns)
    keys = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.asarray([_clip(sums, precision, *key) for key in keys])[of_silo]


def _clip(
    sums: GradientSums, precision: Precision, records: float, batch: float, std: float, apart: float
) -> float:
    clip, release = sums.clip_norm, precision.release
    # raises unless the sum fits
    grid_for(std * sums.least or clip, batch * clip, release)
    widest = grid_for(std * sums.most or clip, 0.0, release)
    return reduced_clip(
        clip,
        widest,
        sums.size,
        sums.neighbours,
        rounding=precision.rounding(int(batch), int(records)),
        apart=apart + precision.underflow(int(records), sums.size),
    )
