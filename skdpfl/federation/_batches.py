"""Draw batches: the records that a silo uses in a step, and their rows.

Each silo and step has its own random stream, so batches do not depend on how silos are grouped. The
batch of a large silo is split into parts of at most PART numbers; consecutive records are not
copied. Only batches of a single part are grouped with those of other silos. If a step uses all
records of silos that stay together, their rows and the preparation of clipping are cached.

With sampling "disjoint", a silo splits its records into parts and uses one in each step::

    part(silo, step) = number of steps in the silo's earlier rounds + index of the step in its round

Formal guarantee. A silo uses each part in at most one step, so a record enters at most one step, as
is priced. *Proof.* Let a silo take part in the rounds r_1 < r_2 < ... of the public schedule, and
let round r have K_r steps. Step k of round r_j has the number K_(r_1) + ... + K_(r_(j-1)) + k with
0 <= k < K_(r_j): these intervals are disjoint, so two steps never share a number. The number
depends only on the schedule and the steps, which are public, so it is the same after a silo was
saved and restored. The split into parts is in the saved state. Rounds in which the silo is not
scheduled have no part and are refused. (The phases of sampling.Halving are numbered by the fit's
steps, whichever a silo answers.)
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.federation._gradient import Ahead, Batch, Draw, Several
from skdpfl.models import ExpandedTable, Records, reads_in_place
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import Precision
from skdpfl.privacy.sampling import Disjoint, Everyone, Halving, PoissonSampling


class Parts:
    """The numbers of the parts, from a plan's steps and schedule (None: no sampling of silos)."""

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
    holds the random orders of records that were already drawn, by silo.
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
        """Draw a batch, as indices of records (or persons) within the silo."""
        n = int(self.data.units[silo])
        if not isinstance(self.sampling, Disjoint | Halving):
            return self.sampling.draw(self.streams.stream("batch", silo, step), n, 1)[0]
        if silo not in self._deals:
            self._deals[silo] = self.sampling.deal(self.streams.stream("batch", silo), n)
        if isinstance(self.sampling, Halving):
            return self.sampling.part(self._deals[silo], step)
        return self._deals[silo][self._parts.of(silo, step)]

    def draw_rows(self, silo: int, step: int) -> Rows:
        """Draw a batch, as rows of the data."""
        return self.data.rows_of(silo, self.draw(silo, step))

    def together(self, silos: np.ndarray, steps: range) -> tuple[np.ndarray, np.ndarray]:
        """Draw the Poisson batches of several steps at once.

        Returns all rows, step by step and in a step silo by silo, and where each silo's begin.
        """
        assert isinstance(self.sampling, PoissonSampling)
        sizes, most = self.data.sizes[silos], self.work.plan.largest_batches[silos]
        drawn = self.streams.poisson_mask_blocks(
            "batch", silos, steps, int(sizes.max()), sizes, self.sampling.rate
        )
        rows, ends = np.flatnonzero(drawn), np.arange(len(silos) * len(steps) + 1)
        starts = np.searchsorted(rows, ends := ends * drawn.shape[-1])
        counts, allowed = starts[1:] - starts[:-1], np.tile(most, len(steps))
        if (counts > allowed).any():  # larger batches are cut as in Poisson.draw
            place = np.arange(len(rows)) - np.repeat(starts[:-1], counts)
            rows = rows[place < np.repeat(allowed, counts)]
            starts = np.searchsorted(rows, ends)
            counts = starts[1:] - starts[:-1]
        # from a place among all that could be drawn to one among the data's rows
        rows += np.repeat(np.tile(self.data.starts[silos], len(steps)) - ends[:-1], counts)
        return rows if self.data.order is None else self.data.order[rows], starts


#: a part of a batch has about this many numbers
PART = 2**20
#: the largest number of bytes of a group
GROUP = 6 * 2**20
#: what is known of more records is not kept for the next step
KEPT = 2**17
#: by first silo: the silos of a group, their records, and whether to copy these when read again
Kept = dict[int, tuple[np.ndarray, list[Batch], bool]]
#: larger groups of silos, or silos of more than a 512th of this, draw Poisson batches one by one
MASKED = 2**20


class GroupBatches:
    """Batches of several silos of any sizes at once.

    ``clip`` (n_silos,) are the silos' clip norms; None: no clipping.
    """

    def __init__(self, batches: Batches, clip: np.ndarray | None) -> None:
        self._batches, self._model = batches, batches.work.model
        self._most, data, chunk = batches.work.plan.largest_batches, batches.data, batches.chunk
        self._table, same = data.table, data.X.dtype == batches.dtype
        self._of_record = self._model.numbers_per_record
        if isinstance(self._table, ExpandedTable):
            self._table = self._table.astype(batches.dtype)
            if reads_in_place(self._model.n_outputs):
                self._of_record = data.X.shape[1] + self._model.n_outputs
        as_is = self._table.dtype == batches.dtype
        self._in_place = as_is and data.transform is None and data.is_by_row
        self._share = 1 if same else 3  # a copy in double precision, and its source
        # whole chunks, so that cutting into parts does not change the order of summation
        self._at_once = PART // (self._share * chunk * self._model.n_features) * chunk or chunk
        # a byte for each record, and what is kept of those that are drawn
        drawn = math.ceil(batches.work.plan.expected_sizes.mean())
        numbers = (2 * drawn + int(data.sizes.max(initial=1))) // 8
        self._ahead: Ahead[Draw] = Ahead(numbers)
        self._last = np.zeros(0, np.int64), False
        self._everybody = isinstance(batches.sampling, Everyone)
        numbers_read = len(data.y) * self._model.n_features
        small = self._in_place or numbers_read * data.X.itemsize <= GROUP
        self._keeps = self._everybody and small and len(data.y) <= KEPT
        self._kept: Kept = {}
        self._clip = clip

    def cut(self, silos: np.ndarray, jobs: int) -> list[np.ndarray]:
        """Split silos into groups of about equal work; their number is a multiple of ``jobs``.

        A silo whose batches are split into parts forms its own group.
        """
        model, most = self._model, self._most[silos]
        numbers = most * self._of_record + 4.0 * model.size
        total = numbers.sum()
        size = total * self._batches.dtype.itemsize * self._share
        count = jobs * math.ceil(size / (GROUP * jobs))
        alone = most > self._at_once
        if count == 1 and not alone.any():
            return [silos]
        # by the middle of each silo's share of the cumulative work
        group = (np.cumsum(numbers) - numbers / 2) * count // total
        cut = (np.diff(group) > 0) | alone[1:] | alone[:-1]
        return np.split(silos, np.flatnonzero(cut) + 1)

    def of(self, silos: np.ndarray, steps: range, stop: int) -> list[Draw]:
        """Return the batches of some silos in some of the fit's steps.

        Batches of more than one part belong to a single silo. The silos stay together up to step
        ``stop``.
        """
        if self._everybody:
            again = self._keeps and (stop > steps.stop or bool(self._kept))
            kept = self._kept if again else {} if len(steps) > 1 else None
            return [partial(self._all, silos, kept)] * len(steps)
        if self._draws_together(silos):
            return [self._ahead.get(self._draw, silos, t, stop) for t in steps]
        table = self._table
        drawn = [[self._batches.draw_rows(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts, Records.of_silos(table, rows)) for rows in drawn]

    def _draws_together(self, silos: np.ndarray) -> bool:
        """Whether batches of several steps are drawn at once."""
        if self._last[0] is not silos:
            longest = int(self._batches.data.sizes[silos].max())
            few = len(silos) > 1 and longest * max(512, len(silos)) <= MASKED
            self._last = silos, few and isinstance(self._batches.sampling, PoissonSampling)
        return self._last[1]

    def _draw(self, silos: np.ndarray, steps: range) -> list[Draw]:
        """Draw the Poisson batches of several steps."""
        table, (rows, starts) = self._table, self._batches.together(silos, steps)
        if not self._in_place:
            each = [starts[i : i + len(silos) + 1] for i in range(0, len(starts) - 1, len(silos))]
            cut = [Records(table, rows[own[0] : own[-1]], own - own[0]) for own in each]
            return [partial(self._in_parts, records) for records in cut]
        whole = self._as_group(Records(table, rows, starts))
        return [partial(iter, [batch]) for batch in whole.each(len(silos))]

    def _all(self, silos: np.ndarray, kept: Kept | None) -> Iterable[Batch]:
        """Return all records of the silos; cached if they are few and read without a copy."""
        before = None if kept is None else kept.get(int(silos[0]))
        if kept is not None and before is not None and before[0] is silos:
            _, groups, scattered = before
            if scattered:  # from now on, one copy is read
                groups = [self._to_be_read_again(part, silos) for part in groups]
                kept[int(silos[0])] = silos, groups, False
            return groups
        data = self._batches.data
        records = Records(self._table, *data.rows_together(silos))
        parts = self._in_parts(records)
        if kept is None or records.edges[-1] > self._at_once:
            return parts
        groups = list(parts)
        kept[int(silos[0])] = silos, groups, kept is not self._kept and self._in_place
        return groups

    def _to_be_read_again(self, part: Batch, silos: np.ndarray) -> Batch:
        """Return a part with consecutive records, and the model's data for clipping them."""
        limits = part.limits
        if limits is None:
            clip = math.inf if self._clip is None else self._clip[silos]
            limits = self._limits(part.squared_norms, clip, part.records.lengths)
        return part._replace(records=part.records.copied(), limits=limits)

    def _limits(
        self, norms: np.ndarray, clip: np.ndarray | float, lengths: np.ndarray
    ) -> np.ndarray | None:
        each = np.repeat(clip, lengths) if np.ndim(clip) else clip
        limits = self._model.clip_limits(norms[:, None], each)
        return None if limits is None else limits[:, 0]

    @cached_property
    def _clipping(self) -> np.ndarray | None:
        """The model's data for clipping each record, unless there are too many."""
        data = self._batches.data
        if self._clip is None or len(data.y) > KEPT:
            return None
        norms, order = self._batches.squared_norms, data.order
        limits = self._limits(norms if order is None else norms[order], self._clip, data.sizes)
        if limits is not None and order is not None:
            limits[order] = limits.copy()
        return limits

    def _in_parts(self, records: Records) -> Iterator[Batch]:
        if len(records.lengths) > 1:
            yield self._as_group(records)
            return
        for part in _cut(records.rows, self._at_once):
            yield self._as_group(Records.of_silos(records.table, [part]))

    def _as_group(self, records: Records) -> Batch:
        """Return the silos' records; products gather and convert them unless done here."""
        batches, data, rows = self._batches, self._batches.data, records.rows
        if not self._in_place:
            X = data.read(rows, batches.dtype)
            records = Records(X, slice(0, len(X)), records.edges)
        limits = None if self._clipping is None else self._clipping[rows]
        return Batch(records, data.targets(rows), batches.squared_norms[rows], limits)


def _cut(rows: Rows, most: int) -> Iterator[Rows]:
    """Split row numbers, or a slice of rows, into one or more parts of at most ``most``."""
    if isinstance(rows, slice):
        for start in range(rows.start, max(rows.stop, rows.start + 1), most):
            yield slice(start, min(start + most, rows.stop))
    else:
        for start in range(0, max(1, len(rows)), most):
            yield rows[start : start + most]


#: batches of more rows are gathered anew in each step
MOST_KEPT = 2**23


class PersonBatches(GroupBatches):
    """Batches of the persons of several silos at once: all rows of a person who is drawn are read.

    A batch has the rows of persons with one row, which are summed as records are, and beside them
    those of persons with several, whose gradients are combined before they are clipped.

    **Formal guarantee.** A person's rows are in one part of a batch, so they give one contribution.
    How many terms a sum has, and how many partial sums it is formed from, is bounded by public
    numbers as for records (:mod:`skdpfl.privacy.release`): with c persons in a product,
    a silo of n persons is cut into K parts of whole multiples of c persons, part k of c m_k. Its
    two sums have at most m_k products each, or m_k + 1 together, and are added up; so a person's
    term goes through at most c + m_k + K - 1 <= c + ceil(n / c) operations. No number of rows
    enters.
    """

    def __init__(self, batches: Batches, clip: np.ndarray | None) -> None:
        super().__init__(batches, clip)
        self._most = batches.data.sizes  # rows, whose number decides what is held at once
        self._read_often = self._in_place or self._keeps
        self._before: dict[int, tuple[np.ndarray, list[Batch]]] = {}

    def of(self, silos: np.ndarray, steps: range, stop: int) -> list[Draw]:
        if self._everybody:
            return [partial(self._of_everybody, silos)] * len(steps)
        drawn = [[self._drawn(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts_of_persons, silos, persons) for persons in drawn]

    def _drawn(self, silo: int, step: int) -> np.ndarray:
        """Draw a batch of persons, by their numbers, and return them in the data's order."""
        people = self._batches.data.people
        assert people is not None
        return np.sort(people.places[people.starts[silo] + self._batches.draw(silo, step)])

    def _of_everybody(self, silos: np.ndarray) -> Iterable[Batch]:
        """Return all persons of the silos; kept for the next step if they can be read in place."""
        whose, parts = self._before.get(int(silos[0]), (None, []))
        if whose is silos:
            return parts
        people = self._batches.data.people
        assert people is not None
        ends = zip(people.starts[silos].tolist(), people.starts[silos + 1].tolist(), strict=True)
        batches = self._in_parts_of_persons(silos, [np.arange(*each) for each in ends])
        if not self._read_often or len(self._batches.data.y) > MOST_KEPT:
            return batches
        parts = list(batches)
        self._before[int(silos[0])] = silos, parts
        return parts

    def _in_parts_of_persons(self, silos: np.ndarray, persons: list[np.ndarray]) -> Iterator[Batch]:
        """Yield the rows of these persons of each silo; a large silo, alone, has many parts.

        Where they are cut depends on the silo's own rows only, as their sum's last bits do.
        """
        data, chunk, first = self._batches.data, self._batches.chunk, int(silos[0])
        if len(persons) > 1 or data.sizes[first] <= self._at_once:
            yield self._together(persons)
            return
        (alone,), rows = persons, data.sizes[first] / data.units[first]
        at_once = max(1, int(self._at_once / rows) // chunk) * chunk
        for start in range(0, max(1, len(alone)), at_once):
            yield self._together([alone[start : start + at_once]])

    def _together(self, persons: list[np.ndarray]) -> Batch:
        """Return one batch of these persons."""
        data = self._batches.data
        assert data.people is not None
        one = [data.people.rows[each] == 1 for each in persons]
        pairs = list(zip(persons, one, strict=True))
        rows, ends, _ = data.of_persons([each[mask] for each, mask in pairs])
        batch = self._as_group(Records(self._table, rows, ends))
        if all(mask.all() for mask in one):
            return batch
        rows, ends, edges = data.of_persons([each[~mask] for each, mask in pairs])
        group = self._as_group(Records(self._table, rows, ends))
        several = Several(group.records, group.y, group.squared_norms, edges)
        return batch._replace(several=several)
