"""The batches of a stack of small silos, in arrays with a leading axis.

A stack pads its silos to the largest one; padding has weight 0 and repeats rows of the same silo,
so that no silo ever reads another's. Where a good part of the records is drawn anyway, or there are
few, a 0/1 weight is cheaper than gathering rows. Where sizes are secret nothing is padded: the
shapes of a silo's arrays, on which the order of sums depends, are functions of its own size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import cast

import numpy as np

from skdpfl.federation._ahead import Ahead
from skdpfl.federation._batches import Batches
from skdpfl.federation._gradient import Batch, Draw
from skdpfl.privacy.sampling import Everyone, Poisson

#: from this rate on, stacked silos are masked rather than gathered
MASK_RATE = 0.5
#: and if a silo's gradient is fewer multiplications than this, at any rate
MASK_WORK = 20_000
#: a stack is worked on in pieces of about so many numbers, which processors' caches hold
PIECE = 2**19


class Stacks:
    """Puts small silos into one array."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._data, self._work = batches, batches.data, batches.work
        self._norms, self._dtype = batches.squared_norms, batches.dtype
        self._sampling, self._most = batches.sampling, batches.work.plan.largest_batches
        self._kept: tuple[np.ndarray, list[Batch]] | None = None
        self._masks = Ahead(self._draw_masks, int(self._data.sizes.max()))

    def stackable(self) -> np.ndarray:
        """Return which silos' arrays are as long as others' of the same size, (n_silos,).

        Gathered Poisson batches are not.
        """
        sizes = self._data.sizes
        if not isinstance(self._sampling, Poisson):
            return np.ones(len(sizes), bool)
        return self._worth_masking(sizes)

    def of(self, silos: np.ndarray, steps: range, stop: int) -> list[Draw]:
        """Return several silos' batches of some of the fit's steps, with a leading axis.

        The silos stay together up to step ``stop``.
        """
        # what is read again before another stack is
        keep = len(steps) > 1 or len(silos) == len(self._data.sizes)
        if isinstance(self._sampling, Everyone):
            return [partial(self._whole, silos, keep)] * len(steps)
        if self._masked(silos):
            return [partial(self._weighted, silos, t, stop, keep) for t in steps]
        return [partial(self._gather_stack, silos, t) for t in steps]

    def _gather_stack(self, silos: np.ndarray, step: int) -> Iterator[Batch]:
        # index arrays: stacks of everyone are never gathered
        drawn = cast("list[np.ndarray]", [self._batches.drawn(i, step) for i in silos.tolist()])
        lengths = np.array([len(d) for d in drawn])
        longest = max(1, lengths.max())
        index = np.repeat(self._data.first_rows(silos)[:, None], longest, axis=1)
        for row, batch in zip(index, drawn, strict=True):
            row[: len(batch)] = batch
        weights = (np.arange(longest) < lengths[:, None]).astype(self._dtype)
        for cut in self._cuts(len(silos), int(longest)):
            yield self._gather(index, weights, cut)

    def _masked(self, silos: np.ndarray) -> bool:
        if not isinstance(self._sampling, Poisson):
            return False
        return bool(self._worth_masking(self._data.sizes[silos].max()))

    def _worth_masking(self, sizes: np.ndarray) -> np.ndarray:
        assert isinstance(self._sampling, Poisson)
        return (sizes * self._work.model.work_per_record <= MASK_WORK) | (
            self._sampling.rate >= MASK_RATE
        )

    def _weighted(self, silos: np.ndarray, step: int, stop: int, keep: bool) -> Iterator[Batch]:
        """Yield all records of the silos, those not drawn with weight 0."""
        masks = self._masks.get(silos, step, stop)
        for batch in self._whole(silos, keep):
            yield batch._replace(weights=masks[batch.silos])

    def _draw_masks(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return 1 for the records drawn and 0 for the others, (len(steps), n, longest)."""
        assert isinstance(self._sampling, Poisson)
        sizes, most = self._data.sizes[silos], self._most[silos]
        drawn = self._work.streams.poisson_mask_blocks(
            "batch", silos, steps, int(sizes.max()), sizes, self._sampling.rate
        )
        if (most < sizes).any():  # cut larger batches as Poisson.draw does
            for t, i in np.argwhere(np.count_nonzero(drawn, axis=-1) > most).tolist():
                drawn[t, i, np.flatnonzero(drawn[t, i])[int(most[i]) :]] = False
        return drawn.astype(self._dtype)

    def _whole(self, silos: np.ndarray, keep: bool) -> Iterable[Batch]:
        """Return all records of the silos, in pieces; of the last stack only they are kept."""
        if self._kept is not None and self._kept[0] is silos:
            return self._kept[1]
        self._kept = None  # before there are two
        pieces = self._pieces(silos)
        if not keep:
            return pieces
        self._kept = silos, list(pieces)
        return self._kept[1]

    def _pieces(self, silos: np.ndarray) -> Iterator[Batch]:
        longest, rows = int(self._data.sizes[silos].max()), self._together(silos)
        if rows is None:
            index, weights = self._filled_up(silos)
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

    def _together(self, silos: np.ndarray) -> slice | None:
        """Return where silos of one size are that stand together, None if they do not."""
        data, n, count = self._data, int(self._data.sizes[silos[0]]), len(silos)
        start = int(data.starts[silos[0]])
        rows = slice(start, start + count * n)
        after = silos[-1] - silos[0] == count - 1 and data.starts[silos[-1] + 1] == rows.stop
        if data.order is not None or not after or (data.sizes[silos] != n).any():
            return None
        # in other layouts sums are added up in another order than copies' are
        if self._work.plan.secret_sizes and not data.X.flags.c_contiguous:
            return None
        return rows

    def _filled_up(self, silos: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return where silos' records are, the shorter ones filled up with a record of theirs.

        And weights (n_silos, longest), None if the silos are of one size.
        """
        starts, sizes = self._data.starts[silos], self._data.sizes[silos]
        places = np.arange(sizes.max())
        rows = starts[:, None] + np.minimum(places, sizes[:, None] - 1)
        if self._data.order is not None:
            rows = self._data.order[rows].astype(np.intp)
        if sizes.min() == sizes.max():
            return rows, None
        return rows, (places < sizes[:, None]).astype(self._dtype)
