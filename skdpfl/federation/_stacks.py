"""The batches of a stack of small silos, in arrays with a leading axis.

Silos are padded to a length that does not depend on the stack (:class:`Stacking`); padding has
weight 0 and repeats rows of the same silo. Poisson batches are 0/1 weights of all records, others
are gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import cast

import numpy as np

from skdpfl.federation._ahead import Ahead
from skdpfl.federation._batches import Batches
from skdpfl.federation._gradient import Batch, Draw
from skdpfl.federation._stacking import Stacking
from skdpfl.privacy.sampling import Everyone, PoissonSampling

#: stacks are cut into pieces of about this many numbers, which fit in the processor's cache
PIECE = 2**19


class Stacks:
    """Batches of several small silos in one array.

    ``clip`` (n_silos,) are the silos' clip norms; None: none are clipped.
    """

    def __init__(self, batches: Batches, stacking: Stacking, clip: np.ndarray | None) -> None:
        self._clip = clip
        self._batches, self._data, self._work = batches, batches.data, batches.work
        self._norms, self._dtype = batches.squared_norms, batches.dtype
        self._sampling, self._most = batches.sampling, batches.work.plan.largest_batches
        self._lengths, self._batch_lengths = stacking.lengths, stacking.batch_lengths
        self._kept: tuple[np.ndarray, list[Batch]] | None = None
        self._masks = Ahead(self._draw_masks, int(self._lengths.max()))

    def of(self, silos: np.ndarray, steps: range, stop: int) -> list[Draw]:
        """Return several silos' batches of some of the fit's steps, with a leading axis.

        The silos stay together up to step ``stop``.
        """
        # the last stack, if it is read again
        keep = len(steps) > 1 or len(silos) == len(self._data.sizes)
        if isinstance(self._sampling, Everyone):
            return [partial(self._whole, silos, keep)] * len(steps)
        if isinstance(self._sampling, PoissonSampling):
            return [partial(self._weighted, silos, t, stop, keep) for t in steps]
        return [partial(self._gather_stack, silos, t) for t in steps]

    def _gather_stack(self, silos: np.ndarray, step: int) -> Iterator[Batch]:
        # index arrays: with all records nothing is gathered
        drawn = cast("list[np.ndarray]", [self._batches.drawn(i, step) for i in silos.tolist()])
        lengths = np.array([len(d) for d in drawn])
        longest = max(1, int(self._batch_lengths[silos].max()))
        index = np.repeat(self._data.first_rows(silos)[:, None], longest, axis=1)
        for row, batch in zip(index, drawn, strict=True):
            row[: len(batch)] = batch
        weights = (np.arange(longest) < lengths[:, None]).astype(self._dtype)
        for cut in self._cuts(len(silos), longest):
            yield self._gather(index, weights, cut)

    def _weighted(self, silos: np.ndarray, step: int, stop: int, keep: bool) -> Iterator[Batch]:
        """Yield all records of the silos, those not drawn with weight 0."""
        masks = self._masks.get(silos, step, stop)
        for X, y, norms, _, cut, limits in self._whole(silos, keep):
            yield Batch(X, y, norms, masks[cut], cut, limits)

    def _draw_masks(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return 1 for the records drawn and 0 for the others, (len(steps), n, longest)."""
        assert isinstance(self._sampling, PoissonSampling)
        sizes, most, longest = self._data.sizes[silos], self._most[silos], self._longest(silos)
        drawn = self._batches.streams.poisson_mask_blocks(
            "batch", silos, steps, longest, sizes, self._sampling.rate
        )
        if (most < sizes).any():  # larger batches are cut as in Poisson.draw
            for t, i in np.argwhere(np.count_nonzero(drawn, axis=-1) > most).tolist():
                drawn[t, i, np.flatnonzero(drawn[t, i])[int(most[i]) :]] = False
        return drawn.astype(self._dtype)

    def _whole(self, silos: np.ndarray, keep: bool) -> Iterable[Batch]:
        """Return all records of the silos, in pieces; those of the last stack are kept."""
        if self._kept is not None and self._kept[0] is silos:
            return self._kept[1]
        self._kept = None  # free the last one before the next is made
        pieces = self._pieces(silos)
        if not keep:
            return pieces
        self._kept = silos, [self._with_limits(piece, silos) for piece in pieces]
        return self._kept[1]

    def _with_limits(self, piece: Batch, silos: np.ndarray) -> Batch:
        if self._clip is None:
            return piece
        clip = self._clip[silos[piece.silos]]
        limits = self._work.model.clip_limits(piece.squared_norms, clip)
        return piece._replace(limits=limits)

    def _longest(self, silos: np.ndarray) -> int:
        """Return the length of the stack's arrays, in records."""
        return int(np.maximum.reduce(self._lengths[silos]))

    def _pieces(self, silos: np.ndarray) -> Iterator[Batch]:
        longest = self._longest(silos)
        rows = self._together(silos, longest)
        if rows is None:
            index, weights = self._filled_up(silos, longest)
            for cut in self._cuts(len(silos), longest):
                yield self._gather(index, weights, cut)
            return
        for cut in self._cuts(len(silos), longest):
            yield self._slice(rows.start, longest, range(len(silos))[cut])

    def _cuts(self, n_silos: int, longest: int) -> list[slice]:
        """Cut a stack into pieces of about PIECE numbers."""
        model = self._work.model
        at_once = max(1, PIECE // max(1, longest * model.numbers_per_record))
        return [slice(i, min(i + at_once, n_silos)) for i in range(0, n_silos, at_once)]

    def _gather(self, index: np.ndarray, weights: np.ndarray | None, cut: slice) -> Batch:
        """Return the records at rows ``index`` (n_silos, n) of some of the silos."""
        X, y = self._data.at(index[cut], self._dtype)
        return Batch(
            X,
            y,
            self._norms[index[cut]],
            None if weights is None else weights[cut],
            cut,
        )

    def _slice(self, start: int, n: int, silos: range) -> Batch:
        """Return all records of some silos of ``n`` records; the stack's first is at ``start``."""
        rows, shape = slice(start + silos.start * n, start + silos.stop * n), (len(silos), n)
        X, y = self._data.at(rows, self._dtype)
        norms, cut = (
            self._norms[rows].reshape(shape),
            slice(silos.start, silos.stop),
        )
        return Batch(X.reshape(*shape, -1), y.reshape(shape), norms, None, cut)

    def _together(self, silos: np.ndarray, longest: int) -> slice | None:
        """Return the rows of adjacent silos without padding as a slice, else None."""
        data, count = self._data, len(silos)
        if data.order is not None or not data.is_by_row:
            return None
        start = int(data.starts[silos[0]])
        rows = slice(start, start + count * longest)
        if silos[-1] - silos[0] != count - 1 or data.starts[silos[-1] + 1] != rows.stop:
            return None
        return None if (data.sizes[silos] != longest).any() else rows

    def _filled_up(self, silos: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows of the silos' records, padded with a row of the same silo.

        And weights (n_silos, longest), None if there is no padding.
        """
        starts, sizes = self._data.starts[silos, None], self._data.sizes[silos, None]
        places, padded = np.arange(longest), np.minimum.reduce(sizes, axis=None) < longest
        rows = starts + (np.minimum(places, sizes - 1) if padded else places)
        if self._data.order is not None:
            rows = self._data.order[rows].astype(np.intp)
        return rows, (places < sizes).astype(self._dtype) if padded else None
