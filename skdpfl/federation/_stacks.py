"""Stacks of small silos: which silos are in them, and their batches in arrays with a leading axis.

Models that take silos of any sizes in one call (linear ones, where compiled products are) are
stacked only if the plan says that all silos have one size.

Silos are padded to a length that does not depend on the stack (:class:`Stacking`); padding has
weight 0 and repeats rows of the same silo. Poisson batches are 0/1 weights of all records, others
are gathered.

Formal guarantee. Which silos are stacked, and the length of their arrays, are functions of a silo's
own size and of public numbers of the plan, never of who takes part in a round. So no bit of a
silo's message depends on the silos that it is stacked with: alone it is the same. If sizes are
secret, stacks have silos of one size. Otherwise arrays are as long as the longest silo whose size
has the same power of two, among all silos of the plan.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import cast

import numpy as np

from skdpfl._distinct import distinct
from skdpfl.federation._base import Work
from skdpfl.federation._batches import Batches
from skdpfl.federation._gradient import Ahead, Batch, Draw
from skdpfl.privacy.sampling import Everyone, PoissonSampling

#: steps with fewer multiplications are dominated by call overhead: stack them with others
STACK_WORK = 200_000
#: the largest number of numbers in a stack, and in the messages of silos that are cut into stacks
STACK_SIZE = 2**22
#: from this rate on Poisson batches are masked in a stack, not gathered
MASK_RATE = 0.5
#: and at any rate if a silo's gradient takes fewer multiplications than this
MASK_WORK = 20_000


class Stacking:
    """The silos of a plan; ``lengths`` and ``batch_lengths`` (n_silos,) are in records.

    ``typical`` is the number of multiplications in a step of the median silo.
    """

    def __init__(self, work: Work) -> None:
        self._work, plan = work, work.plan
        sizes = plan.known_sizes
        self.typical = float(np.median(plan.expected_sizes)) * work.model.work_per_record
        self.lengths, self.batch_lengths = sizes, plan.largest_batches
        if plan.secret_sizes:
            self.stacked = plan.expected_sizes * work.model.work_per_record <= STACK_WORK
        else:
            self.stacked = np.full(len(sizes), len(sizes) > 1 and self.typical <= STACK_WORK)
            like = np.frexp(sizes)[1]
            self.lengths = _longest(sizes, like)
            self.batch_lengths = _longest(plan.largest_batches, like)
        if work.model.joins_silos:  # stacks are no faster unless nothing is padded
            self.stacked &= not plan.secret_sizes and (sizes == sizes[:1]).all()
        if isinstance(plan.sampling, PoissonSampling):  # gathered: as long as the longest
            small = sizes * work.model.work_per_record <= MASK_WORK
            self.stacked &= small | (plan.sampling.rate >= MASK_RATE)

    def cut(self, silos: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Cut silos into stacks of equal length, of at most STACK_SIZE numbers, and large silos."""
        small, none = self.stacked[silos], silos[:0]
        if np.logical_and.reduce(small):
            return list(self._stacks(silos)), none
        return list(self._stacks(silos[small])), silos[~small]

    def _stacks(self, silos: np.ndarray) -> Iterator[np.ndarray]:
        model, lengths = self._work.model, self.lengths[silos]
        one = np.logical_and.reduce(lengths == lengths[:1])
        for longest in (lengths[:1] if one else np.unique(lengths)).tolist():
            alike = silos if one else silos[lengths == longest]
            per_silo = longest * model.numbers_per_record + 4 * model.size
            at_once = max(1, STACK_SIZE // per_silo)
            if len(alike) <= at_once:
                yield alike
            else:
                yield from (alike[i : i + at_once] for i in range(0, len(alike), at_once))


def _longest(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return for each silo the largest value of silos with the same key."""
    kinds, of_silo = distinct(like)
    largest = np.zeros(len(kinds), values.dtype)
    np.maximum.at(largest, of_silo, values)
    return largest[of_silo]


#: stacks are cut into pieces of about this many numbers, which fit in the processor's cache
PIECE = 2**19


class StackBatches:
    """Batches of several small silos in one array.

    ``clip`` (n_silos,) are the silos' clip norms; None: none are clipped.
    """

    def __init__(self, batches: Batches, stacking: Stacking, clip: np.ndarray | None) -> None:
        self._clip = clip
        self._batches, self._data, self._work = batches, batches.data, batches.work
        self._norms, self._dtype = batches.squared_norms, batches.dtype
        self._sampling = batches.sampling
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
        drawn = self._batches.masks(silos, steps, self._longest(silos))
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
