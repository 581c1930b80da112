"""The batches of a round: of a group of large silos, or of a stack of small ones.

A large silo's batch comes in parts of at most PART numbers; records that stand together are not
copied. Only batches of a single part are grouped with those of other silos. A stack pads its silos
to the largest one; padding has weight 0 and repeats rows of the same silo, so that no silo ever
reads another's. Where a good part of the records is drawn anyway, or there are few, a 0/1 weight is
cheaper than gathering rows. Where sizes are secret nothing is padded: the shapes of a silo's
arrays, on which the order of sums depends, are functions of its own size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np

from skdpfl.federation._ahead import Ahead
from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.federation._gradient import Batch, Draw, Group
from skdpfl.models import Records, converts
from skdpfl.privacy.mechanisms.precision import Precision
from skdpfl.privacy.sampling import Disjoint, Everyone, Poisson

#: from this rate on, stacked silos are masked rather than gathered
MASK_RATE = 0.5
#: and if a silo's gradient is fewer multiplications than this, at any rate
MASK_WORK = 20_000
#: a part of a batch has about this many numbers
PART = 2**20
#: large silos walk in groups that hold at most so many bytes
GROUP = 2**23
#: a stack is worked on in pieces of about so many numbers, which processors' caches hold
PIECE = 2**19


class BatchMaker:
    """Draws and gathers batches for the silos of one data set, under one sampling."""

    def __init__(
        self,
        data: SiloData,
        squared_norms: np.ndarray,
        work: Work,
        precision: Precision | None,
    ) -> None:
        self._data, self._norms, self._work = data, squared_norms, work
        self._dtype = work.dtype if precision is None else precision.products
        self._sampling, self._streams = work.plan.sampling, work.streams
        self._most = work.plan.largest_batches
        # whole chunks, so that parts do not add to the number of sums that are added up
        chunk = 1 if precision is None else precision.chunk
        self._at_once = max(1, PART // (chunk * work.model.n_features)) * chunk
        self._parts: dict[int, tuple[np.ndarray, int]] = {}
        self._stacked: tuple[np.ndarray, list[Batch]] | None = None
        self._masks = Ahead(self._draw_masks, int(data.sizes.max()))

    def of_group(self, silos: np.ndarray, steps: range) -> list[Draw]:
        """Return the batches of large silos in some of the fit's steps.

        Batches of more than one part are a single silo's.
        """
        drawn = [
            [self._data.rows_of(silo, self._draw(silo, t)) for silo in silos.tolist()]
            for t in steps
        ]
        return [partial(self._in_parts, rows) for rows in drawn]

    def groups(self, silos: np.ndarray, jobs: int) -> list[np.ndarray]:
        """Cut large silos into groups of like work, a multiple of ``jobs`` of them.

        Silos whose batches come in parts are alone.
        """
        model, most = self._work.model, self._most[silos]
        numbers = most * (model.n_features + model.n_outputs) + 4.0 * model.size
        total = numbers.sum()
        count = jobs * math.ceil(total * self._dtype.itemsize / (GROUP * jobs))
        # by the middle of each silo's share of the work
        group = (np.cumsum(numbers) - numbers / 2) * count // total
        alone = most > self._at_once
        cut = (np.diff(group) > 0) | alone[1:] | alone[:-1]
        return np.split(silos, np.flatnonzero(cut) + 1)

    def stackable(self) -> np.ndarray:
        """Return which silos' arrays are as long as others' of the same size, (n_silos,).

        Gathered Poisson batches are not.
        """
        sizes = self._data.sizes
        if not isinstance(self._sampling, Poisson):
            return np.ones(len(sizes), bool)
        return self._worth_masking(sizes)

    def of_stack(self, silos: np.ndarray, steps: range, stop: int) -> list[Draw]:
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

    def _draw(self, silo: int, step: int) -> Rows:
        """Draw a batch; each silo and step has a stream of its own."""
        n = int(self._data.starts[silo + 1] - self._data.starts[silo])
        if not isinstance(self._sampling, Disjoint):
            return self._sampling.draw(self._streams.stream("batch", silo, step), n, 1)[0]
        if silo not in self._parts:
            self._parts[silo] = self._sampling.deal(self._streams.stream("batch", silo), n), 0
        parts, used = self._parts[silo]
        self._parts[silo] = parts, used + 1
        return parts[used]

    def _in_parts(self, rows: list[Rows]) -> Iterator[Group]:
        if len(rows) > 1:
            yield self._as_group(rows)
            return
        for part in _cut(rows[0], self._at_once):
            yield self._as_group([part])

    def _as_group(self, rows: list[Rows]) -> Group:
        """Return silos' records; the products gather and convert them unless it is done here."""
        data, records = self._data, Records(self._data.X, rows)
        index = _joined(rows) or (rows[0] if len(rows) == 1 else records.index())
        as_is = converts(records, self._dtype, self._work.model.n_outputs)
        if data.transform is not None or not as_is:
            X = data.at(index, None if as_is else self._dtype)[0]
            records = Records.in_turn(X, records.lengths)
        return Group(records, data.targets(index), self._norms[index])

    def _gather_stack(self, silos: np.ndarray, step: int) -> Iterator[Batch]:
        # index arrays: stacks of everyone are never gathered
        drawn = cast("list[np.ndarray]", [self._draw(i, step) for i in silos.tolist()])
        lengths = np.array([len(d) for d in drawn])
        longest = max(1, lengths.max())
        index = np.repeat(self._data.first_rows(silos)[:, None], longest, axis=1)
        for row, silo, batch in zip(index, silos.tolist(), drawn, strict=True):
            row[: len(batch)] = self._data.rows_of(silo, batch)
        weights = (np.arange(longest) < lengths[:, None]).astype(self._dtype)
        for cut in self._cuts(len(silos), int(longest)):
            yield self._gather(index, weights, cut)

    def _masked(self, silos: np.ndarray) -> bool:
        if not isinstance(self._sampling, Poisson):
            return False
        return bool(self._worth_masking(self._data.sizes[silos].max()))

    def _worth_masking(self, sizes: np.ndarray) -> np.ndarray:
        assert isinstance(self._sampling, Poisson)
        return (sizes * self._work.model.size <= MASK_WORK) | (self._sampling.rate >= MASK_RATE)

    def _weighted(self, silos: np.ndarray, step: int, stop: int, keep: bool) -> Iterator[Batch]:
        """Yield all records of the silos, those not drawn with weight 0."""
        masks = self._masks.get(silos, step, stop)
        for batch in self._whole(silos, keep):
            yield batch._replace(weights=masks[batch.silos])

    def _draw_masks(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return 1 for the records drawn and 0 for the others, (len(steps), n, longest)."""
        assert isinstance(self._sampling, Poisson)
        sizes, most = self._data.sizes[silos], self._most[silos]
        drawn = self._streams.poisson_mask_blocks(
            "batch", silos, steps, int(sizes.max()), sizes, self._sampling.rate
        )
        if (most < sizes).any():  # cut larger batches as Poisson.draw does
            for t, i in np.argwhere(np.count_nonzero(drawn, axis=-1) > most).tolist():
                drawn[t, i, np.flatnonzero(drawn[t, i])[int(most[i]) :]] = False
        return drawn.astype(self._dtype)

    def _whole(self, silos: np.ndarray, keep: bool) -> Iterable[Batch]:
        """Return all records of the silos, in pieces; of the last stack only they are kept."""
        if self._stacked is not None and self._stacked[0] is silos:
            return self._stacked[1]
        self._stacked = None  # before there are two
        pieces = self._pieces(silos)
        if not keep:
            return pieces
        self._stacked = silos, list(pieces)
        return self._stacked[1]

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
        at_once = max(1, PIECE // max(1, longest * (model.n_features + model.n_outputs)))
        return [slice(i, min(i + at_once, n_silos)) for i in range(0, n_silos, at_once)]

    def _gather(self, index: np.ndarray, weights: np.ndarray | None, cut: slice) -> Batch:
        """Return the records at rows ``index`` (n_silos, n) of some of the silos."""
        X, y = self._at(index[cut])
        return Batch(X, y, self._norms[index[cut]], None if weights is None else weights[cut], cut)

    def _slice(self, start: int, n: int, silos: range) -> Batch:
        """Return all records of some silos of ``n`` records; the stack's first is at ``start``."""
        rows, shape = slice(start + silos.start * n, start + silos.stop * n), (len(silos), n)
        X, y = self._at(rows)
        norms, cut = self._norms[rows].reshape(shape), slice(silos.start, silos.stop)
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

    def _at(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return records in the dtype that products are computed in."""
        return self._data.at(rows, self._dtype)


def _joined(rows: list[Rows]) -> slice | None:
    """Return slices that follow one another as one, None if they do not."""
    slices = [part for part in rows if isinstance(part, slice)]
    if len(slices) < len(rows) or any(a.stop != b.start for a, b in pairwise(slices)):
        return None
    return slice(slices[0].start, slices[-1].stop)


def _cut(rows: Rows, most: int) -> Iterator[Rows]:
    """Cut row numbers, or a slice of rows, into parts of at most ``most``; at least one."""
    if isinstance(rows, slice):
        for start in range(rows.start, max(rows.stop, rows.start + 1), most):
            yield slice(start, min(start + most, rows.stop))
    else:
        for start in range(0, max(1, len(rows)), most):
            yield rows[start : start + most]
