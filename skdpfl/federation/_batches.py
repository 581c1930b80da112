"""Drawing batches: the records of a silo that a step uses, and their rows.

Each silo and step has its own random stream, so batches do not depend on how silos are computed
together: in groups of large silos (here) or in stacks (:mod:`skdpfl.federation._stacks`). The batch
of a large silo is cut into parts of at most PART numbers; consecutive records are not copied. Only
batches of a single part are grouped with those of other silos.

The part of its records that a silo uses in a step (sampling "disjoint")::

    part(silo, step) = the steps of the silo's earlier rounds + the step's place in its round

Formal guarantee. A silo uses each part in one step at most, so a record enters one step at most,
which is what is priced. *Proof.* Let a silo take part in the rounds r_1 < r_2 < ... of the public
schedule, and let round r have K_r steps. Step k of round r_j has the number
K_(r_1) + ... + K_(r_(j-1)) + k with 0 <= k < K_(r_j): these intervals are disjoint, so two steps
never share a number. The number is a function of schedule and steps only, both public: it is the
same after a silo was saved and restored. The deal is part of the saved state. Rounds that the silo
is not scheduled in have no part and are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.federation._gradient import Draw, Group
from skdpfl.models import Records
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import Precision
from skdpfl.privacy.sampling import Disjoint


class Parts:
    """The numbers of the parts, from a plan's steps and schedule (None: all silos, every round)."""

    def __init__(self, steps: Sequence[int], schedule: Sequence[np.ndarray] | None) -> None:
        self._n_rounds, self._starts = len(steps), np.cumsum([0, *steps])
        self._everyone = schedule is None
        if schedule is None:
            return
        silos = np.concatenate([np.zeros(0, np.int64), *schedule])
        rounds = np.repeat(np.arange(len(schedule)), [len(cohort) for cohort in schedule])
        # the rounds of each silo, silo by silo
        keys = silos * self._n_rounds + rounds
        order = np.argsort(keys)
        self._keys, taken = keys[order], np.asarray(steps)[rounds[order]]
        before = np.cumsum(taken) - taken
        owner = self._keys // max(1, self._n_rounds)
        first = np.searchsorted(owner, owner)
        self._before = before - before[first]

    def of(self, silo: int, step: int) -> int:
        """Return the part that a silo uses in a step, counted over all rounds."""
        if self._everyone:
            return step
        round = int(np.searchsorted(self._starts, step, "right")) - 1
        key = silo * self._n_rounds + round
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            raise ValueError(f"Silo number {silo} is not scheduled in round {round}.")
        return int(self._before[place] + step - self._starts[round])


class Batches:
    """The silos of one data set, under one sampling.

    ``squared_norms`` (n,) are those of the records; ``dtype`` is the dtype of products; ``deals``
    are those of silos that were dealt already.
    """

    def __init__(
        self,
        data: SiloData,
        squared_norms: np.ndarray,
        work: Work,
        precision: Precision | None,
        streams: Streams,
        deals: dict[int, np.ndarray],
    ) -> None:
        self.data, self.squared_norms, self.work = data, squared_norms, work
        self.streams, self._deals = streams, deals
        self.dtype = work.dtype if precision is None else precision.products
        self.chunk = 1 if precision is None else precision.chunk
        self.sampling = work.plan.sampling
        if isinstance(self.sampling, Disjoint):
            self._parts = Parts(work.plan.steps, work.plan.schedule)

    def draw(self, silo: int, step: int) -> Rows:
        """Draw a batch, as indices within the silo."""
        n = int(self.data.starts[silo + 1] - self.data.starts[silo])
        if not isinstance(self.sampling, Disjoint):
            return self.sampling.draw(self.streams.stream("batch", silo, step), n, 1)[0]
        part = self._parts.of(silo, step)
        if silo not in self._deals:
            self._deals[silo] = self.sampling.deal(self.streams.stream("batch", silo), n)
        return self._deals[silo][part]

    def drawn(self, silo: int, step: int) -> Rows:
        """Draw a batch, as rows of the data."""
        return self.data.rows_of(silo, self.draw(silo, step))


#: a part of a batch has about this many numbers
PART = 2**20
#: the largest number of bytes of a group
GROUP = 2**23


class GroupBatches:
    """Batches of several large silos at once."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._model = batches, batches.work.model
        self._most = batches.work.plan.largest_batches
        # whole chunks, so that cutting into parts does not change the order of summation
        chunk = batches.chunk
        self._at_once = max(1, PART // (chunk * self._model.n_features)) * chunk

    def cut(self, silos: np.ndarray, jobs: int) -> list[np.ndarray]:
        """Cut large silos into groups of about equal work, a multiple of ``jobs`` of them.

        Silos whose batches are cut into parts are groups of their own.
        """
        model, most = self._model, self._most[silos]
        numbers = most * model.numbers_per_record + 4.0 * model.size
        total = numbers.sum()
        count = jobs * math.ceil(total * self._batches.dtype.itemsize / (GROUP * jobs))
        # by the middle of each silo's share of the cumulative work
        group = (np.cumsum(numbers) - numbers / 2) * count // total
        alone = most > self._at_once
        cut = (np.diff(group) > 0) | alone[1:] | alone[:-1]
        return np.split(silos, np.flatnonzero(cut) + 1)

    def of(self, silos: np.ndarray, steps: range) -> list[Draw]:
        """Return the batches of large silos in some of the fit's steps.

        Batches of more than one part belong to a single silo.
        """
        drawn = [[self._batches.drawn(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts, rows) for rows in drawn]

    def _in_parts(self, rows: list[Rows]) -> Iterator[Group]:
        if len(rows) > 1:
            yield self._as_group(rows)
            return
        for part in _cut(rows[0], self._at_once):
            yield self._as_group([part])

    def _as_group(self, rows: list[Rows]) -> Group:
        """Return the silos' records; products gather and convert them if it is not done here."""
        batches, data = self._batches, self._batches.data
        records = Records(data.X, rows)
        index = _joined(rows) or (rows[0] if len(rows) == 1 else records.index())
        as_is = data.X.dtype == batches.dtype or self._model.converts_records
        if data.transform is not None or not as_is or not data.is_by_row:
            X = data.at(index, None if as_is else batches.dtype)[0]
            records = Records.in_turn(X, records.lengths)
        return Group(records, data.targets(index), batches.squared_norms[index])


def _joined(rows: list[Rows]) -> slice | None:
    """Return adjacent slices as one, None if they are not adjacent."""
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
