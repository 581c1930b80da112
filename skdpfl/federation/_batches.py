"""The batches of a round: of one large silo, or of a stack of small ones.

A stack pads its silos to the largest one; padding has weight 0 and repeats rows of the same silo,
so that no silo ever reads another's. Where a good part of the records is drawn anyway, a 0/1
weight is cheaper than gathering rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import SiloData
from skdpfl.federation._gradient import Batch
from skdpfl.privacy.sampling import Disjoint, Everyone, Poisson

#: from this rate on, stacked silos are masked rather than gathered
MASK_RATE = 0.2


class BatchMaker:
    """Draws and gathers batches for the silos of one data set, under one sampling."""

    def __init__(
        self, data: SiloData, squared_norms: np.ndarray, work: Work, dtype: np.dtype
    ) -> None:
        self._data, self._norms, self._dtype = data, squared_norms, dtype
        self._sampling, self._streams = work.plan.sampling, work.streams
        self._most = work.plan.largest_batches
        self._parts: dict[int, tuple[np.ndarray, int]] = {}
        self._stacked: tuple[np.ndarray, Batch] | None = None

    def of_silo(self, silo: int, steps: range) -> list[Callable[[], Batch]]:
        """Return one silo's batches of some of the fit's steps, drawn when they are asked for."""
        return [partial(self._gather, silo, t) for t in steps]

    def of_stack(self, silos: np.ndarray, steps: range) -> list[Callable[[], Batch]]:
        """Return several silos' batches of some of the fit's steps, with a leading axis."""
        if isinstance(self._sampling, Everyone):
            whole = self._whole(silos)
            return [lambda: whole] * len(steps)
        if isinstance(self._sampling, Poisson) and self._sampling.rate >= MASK_RATE:
            return [partial(self._masked, self._sampling.rate, silos, t) for t in steps]
        return [partial(self._gather_stack, silos, t) for t in steps]

    def _draw(self, silo: int, step: int) -> np.ndarray | slice:
        """Draw a batch; each silo and step has a stream of its own."""
        n = int(self._data.starts[silo + 1] - self._data.starts[silo])
        if not isinstance(self._sampling, Disjoint):
            return self._sampling.draw(self._streams.stream("batch", silo, step), n, 1)[0]
        if silo not in self._parts:
            self._parts[silo] = self._sampling.deal(self._streams.stream("batch", silo), n), 0
        parts, used = self._parts[silo]
        self._parts[silo] = parts, used + 1
        return parts[used]

    def _masked(self, rate: float, silos: np.ndarray, step: int) -> Batch:
        """Return all records of the silos, those not drawn with weight 0."""
        whole, sizes = self._whole(silos), self._data.sizes[silos]
        longest = whole.y.shape[-1]
        drawn = self._streams.poisson_mask_block("batch", silos, step, longest, sizes, rate)
        most = self._most[silos]  # cut larger batches as Poisson.draw does
        for row in np.flatnonzero(np.count_nonzero(drawn, axis=1) > most).tolist():
            drawn[row, np.flatnonzero(drawn[row])[int(most[row]) :]] = False
        return whole._replace(weights=drawn.astype(whole.X.dtype))

    def _gather(self, silo: int, step: int) -> Batch:
        rows = self._data.rows_of(silo, self._draw(silo, step))
        X, y = self._at(rows)
        return Batch(X, y, self._norms[rows])

    def _gather_stack(self, silos: np.ndarray, step: int) -> Batch:
        rows = [self._data.rows_of(i, self._draw(i, step)) for i in silos.tolist()]
        first = [int(self._data.rows_of(i, slice(0, 1))[0]) for i in silos.tolist()]
        return self._padded(rows, first)

    def _whole(self, silos: np.ndarray) -> Batch:
        """Return all records of the silos; the last stack asked for is kept."""
        if self._stacked is not None and np.array_equal(self._stacked[0], silos):
            return self._stacked[1]
        starts, sizes = self._data.starts[silos], self._data.sizes[silos]
        places = np.arange(sizes.max())
        rows = starts[:, None] + np.minimum(places, sizes[:, None] - 1)
        if self._data.order is not None:
            rows = self._data.order[rows]
        X, y = self._at(rows)
        weights = None
        if sizes.min() < sizes.max():
            weights = (places < sizes[:, None]).astype(X.dtype)
        batch = Batch(X, y, self._norms[rows], weights)
        self._stacked = silos, batch
        return batch

    def _padded(self, rows: list[np.ndarray], first: list[int]) -> Batch:
        longest = max(1, max(len(r) for r in rows))
        index = np.repeat(np.asarray(first)[:, None], longest, axis=1)
        for i, r in enumerate(rows):
            index[i, : len(r)] = r
        lengths = np.array([len(r) for r in rows])
        X, y = self._at(index)
        weights = (np.arange(longest) < lengths[:, None]).astype(X.dtype)
        return Batch(X, y, self._norms[index], weights)

    def _at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return records in the dtype that products are computed in."""
        X, y = self._data.at(rows)
        return X.astype(self._dtype, copy=False), y
