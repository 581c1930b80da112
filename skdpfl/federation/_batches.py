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

The private gradient, which algorithms get instead of data, and its noise.
--------------------------------------------------------------------------
    gradient(params) = [ sum_{j in batch} clip_C(grad_j(params)) + noise ] / divisor + alpha params
    noise            = grid * units,   units of shape (n_silos, size)

Sum and noise are added exactly, in the precision for which the clip norm was reduced
(:mod:`skdpfl.privacy.release`). The parameters are public, so the penalty, which excludes the
intercept, gets no noise. If the server or a shuffler adds the noise, noise and penalty are left out
here, and the engine adds alpha params to the released mean. An instance serves a group of silos, on
a leading axis, in one round.

The plan's mechanism draws the noise for each silo and step. Each draw has a fixed overhead, so if a
step needs few numbers, those of several steps are drawn at once. Streams are addressed by step, so
numbers drawn ahead equal those drawn step by step.

If steps have no noise (whole silos, no privacy) and all use the same records, the model may take
them in one pass (`Model.descent`). Each silo's steps are then those of the loop, operation by
operation, on its own numbers: its message has the same bits, in any company.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from skdpfl.algorithms import Gradient
from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.losses import loss_for
from skdpfl.models import Descent, ExpandedTable, Records, reads_in_place
from skdpfl.privacy.mechanisms import GradientTerms
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import GridRows, NoisedSum, Precision
from skdpfl.privacy.sampling import Disjoint, Everyone, Halving, PoissonSampling


class Several(NamedTuple):
    """Records of persons who have several; person p's are those between two of the ``edges``."""

    records: Records
    y: np.ndarray
    squared_norms: np.ndarray
    edges: np.ndarray


class Batch(NamedTuple):
    """Records of a group of silos; the other arrays (n,) have an entry per silo.

    ``limits``: cached data for clipping records that are used repeatedly (`Model.clip_limits`).
    ``several``: those of persons with several records, if persons are protected.
    """

    records: Records
    y: np.ndarray
    squared_norms: np.ndarray
    limits: np.ndarray | None = None
    several: Several | None = None

    def each(self, n_silos: int) -> list[Batch]:
        """Return the batches of several steps, whose silos follow each other here, one by one."""
        records, limits = self.records, self.limits
        first = np.arange(0, len(records.edges) - 1, n_silos)
        edges = records.edges[first[:, None] + np.arange(n_silos + 1)]
        steps = [slice(a, b) for a, b in edges[:, [0, -1]].tolist()]
        edges -= edges[:, :1]
        rows, y, norms = records.index, self.y, self.squared_norms
        return [
            Batch(
                Records(records.table, rows[own], ends),
                y[own],
                norms[own],
                None if limits is None else limits[own],
            )
            for own, ends in zip(steps, edges, strict=True)
        ]


#: a step's records, in one part or several, of the same silos; a list if it may be asked for again
Draw = Callable[[], Iterable[Batch]]


class Noise(NamedTuple):
    """A step's noise in integer units (n, size), the noised sums that it is for, and their rows."""

    units: np.ndarray
    noised: NoisedSum
    rows: GridRows


class SumTerms(NamedTuple):
    """Parameters of silos' gradients: clip norm (n,) or a number, and divisor (n, 1).

    ``dtype`` is that of gradients, ``precision`` that of their sums; None: unchanged.
    """

    clip: np.ndarray | float
    divisor: np.ndarray | float
    dtype: np.dtype
    precision: Precision | None


class PrivateGradient(Gradient):
    """Clipped, sampled and noised gradients; it counts its calls. Callers may modify results."""

    def __init__(
        self,
        work: Work,
        batches: Sequence[Draw],
        noises: Callable[[int], Noise] | None,
        terms: SumTerms,
        penalty: np.ndarray | None,
    ) -> None:
        self._work, self._batches, self._noises = work, batches, noises
        self._terms, self._penalty = terms, penalty
        self.n_steps, self.n_calls = len(batches), 0

    def __call__(self, params: np.ndarray) -> np.ndarray:
        """Return the next private gradient at ``params`` (..., size)."""
        if self.n_calls == self.n_steps:
            raise RuntimeError(
                f"The algorithm declared {self.n_steps} private gradients for this round and asks "
                "for more. Each has a privacy cost, so declare all of them in n_gradients(round)."
            )
        params = np.asarray(params)  # no subclass, whose methods could read the gradients
        step, self.n_calls = self.n_calls, self.n_calls + 1
        total, divisor = self._sum(params, self._batches[step]()), self._terms.divisor
        if self._noises is None:
            total = total / divisor
        else:
            units, _, rows = self._noises(step)
            total = rows.release(total, units)
        total = total.astype(self._terms.dtype, copy=False)
        return total if self._penalty is None else total + self._penalty * params

    def descent(
        self,
        params: np.ndarray,
        rate: float,
        *,
        correction: np.ndarray | None = None,
        momentum: float = 0.0,
    ) -> np.ndarray:
        """Return how far the round's steps lead: the bits of single steps, where possible at once.

        That is so if steps have no noise and the same records; each counts as a call.
        """
        params, batch = np.asarray(params), self._batch_of_all_steps()
        if correction is not None:
            correction = np.asarray(correction)
        if batch is not None:
            end = self._in_one_pass(params, batch, rate, correction, momentum)
            if end is not None:
                self.n_calls = self.n_steps
                return end
        return super().descent(params, rate, correction=correction, momentum=momentum)

    def of_one(self) -> OneGradient:
        """Return the gradient of the only silo, for vectors instead of stacks."""
        return OneGradient(self)

    def _sum(self, params: np.ndarray, batch: Iterable[Batch]) -> np.ndarray:
        """Return the sum of the clipped gradients, in the precision of the release."""
        precision, parts = self._terms.precision, iter(batch)
        total = self._part(params, next(parts))
        for part in parts:  # one in memory
            total += self._part(params, part)
        return total if precision is None else total.astype(precision.release, copy=False)

    def _part(self, params: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the sum of a part of the records."""
        precision, before = self._terms.precision, {}
        if batch.limits is not None:
            before["limits"] = batch.limits
        params = params.astype(batch.records.table.dtype, copy=False)
        chunk = None if precision is None else precision.chunk
        total = self._work.model.clipped_gradient_sums(
            params,
            batch.records,
            batch.y,
            loss_for(self._work.loss, batch.y),
            clip_norm=self._terms.clip,
            squared_norms=batch.squared_norms,
            chunk=chunk,
            **before,
        )
        if batch.several is not None:
            total += self._of_several(params, batch.several, chunk)
        return total

    def _of_several(self, params: np.ndarray, batch: Several, chunk: int | None) -> np.ndarray:
        """Return the sum over persons with several records, each clipped once."""
        return self._work.model.person_gradient_sums(
            params,
            batch.records,
            batch.edges,
            batch.y,
            loss_for(self._work.loss, batch.y),
            clip_norm=self._terms.clip,
            squared_norms=batch.squared_norms,
            mean=self._work.plan.contribution == "mean",
            chunk=chunk,
        )

    def _batch_of_all_steps(self) -> Batch | None:
        """Return the records of all steps, if they are the same and sums get no noise."""
        plain = self._noises is None and self._terms.precision is None
        if not plain or self.n_calls or self.n_steps < 2 or len(set(self._batches)) > 1:
            return None
        parts = self._batches[0]()
        if not (isinstance(parts, list) and len(parts) == 1) or parts[0].several is not None:
            return None
        return parts[0]

    def _in_one_pass(
        self,
        params: np.ndarray,
        batch: Batch,
        rate: float,
        correction: np.ndarray | None,
        momentum: float,
    ) -> np.ndarray | None:
        """Return how far the steps lead, if the model can tell at once."""
        divisor = np.ravel(self._terms.divisor)
        numbers = params, rate, momentum, divisor, *(() if correction is None else (correction,))
        if np.result_type(*numbers) != batch.records.table.dtype:
            return None
        return self._work.model.descent(
            params,
            batch.records,
            batch.y,
            loss_for(self._work.loss, batch.y),
            Descent(self.n_steps, divisor, self._penalty, correction, rate, momentum),
            clip_norm=self._terms.clip,
            squared_norms=batch.squared_norms,
            limits=batch.limits,
        )

    def check_used(self) -> None:
        """Raise unless the declared number of gradients was used."""
        if self.n_calls != self.n_steps:
            raise RuntimeError(
                f"The algorithm declared {self.n_steps} private gradients for this round and used "
                f"{self.n_calls}. The declared number is charged, so declare in n_gradients(round) "
                "how many it uses."
            )


class OneGradient(Gradient):
    """The private gradient of one silo: parameters and result are vectors (size,)."""

    def __init__(self, stack: PrivateGradient) -> None:
        self._stack, self.n_steps = stack, stack.n_steps

    def __call__(self, params: np.ndarray) -> np.ndarray:
        """Return the next private gradient at ``params`` (size,)."""
        return self._stack(np.asarray(params)[None])[0]


#: at most this many numbers are drawn ahead for a group of silos, and for so many groups
NUMBERS_AHEAD = 2**15
GROUPS = 64

#: what there is for each step of some silos
Each = TypeVar("Each")
Make = Callable[[np.ndarray, range], Iterable[Each]]


class Ahead(Generic[Each]):
    """What is made for groups of silos, step by step, in blocks; keeps each group's last block.

    ``stop`` is the first step at which the group may change. Groups are identified by their array
    of silos, which must stay the same object.
    """

    def __init__(self, per_silo: int) -> None:
        self._per_silo = max(1, per_silo)
        #: id of the array -> the array, the steps of the block, and the block
        self._blocks: dict[int, tuple[np.ndarray, range, list[Each]]] = {}

    def get(self, make: Make[Each], silos: np.ndarray, step: int, stop: int) -> Each:
        """Return what was made for a step; storing ``make`` would be a reference cycle."""
        whose, steps, block = self._blocks.get(id(silos), (None, range(0), []))
        if whose is not silos or step not in steps:
            many = max(1, NUMBERS_AHEAD // (self._per_silo * len(silos)))
            steps = range(step, min(step + many, stop))
            block = list(make(silos, steps))
            if len(steps) > 1:
                self._keep(silos, steps, block)
        return block[step - steps.start]

    def _keep(self, silos: np.ndarray, steps: range, block: list[Each]) -> None:
        """Keep a block; drop the oldest if there are too many."""
        self._blocks.pop(id(silos), None)
        self._blocks[id(silos)] = silos, steps, block
        for first in list(self._blocks)[:-GROUPS]:  # a copy, as other threads may add blocks
            self._blocks.pop(first, None)


class NoiseMaker:
    """Draws the plan's noise: that of each silo times the factor of the step."""

    def __init__(self, work: Work, terms: GradientTerms, streams: Streams) -> None:
        assert terms.noised is not None
        size, plan = work.model.size, work.plan
        self._work, self._noised = work, terms.noised
        self._by_factor: dict[float, NoisedSum] = {}
        self._divisor = terms.divisor
        self._last: tuple[np.ndarray, float, NoisedSum, GridRows] | None = None
        self._none = terms.noised.std == 0  # silos whose own budget is infinite
        self._some_none = bool(self._none.any())
        self._source = plan.mechanism.noise(plan, streams, size, terms.noised.dtype)
        # a mechanism with state draws its steps in order
        self._ahead: Ahead[np.ndarray] | None = None
        if plan.mechanism.fresh_noise:
            self._ahead = Ahead(size)

    def of_silos(self, silos: np.ndarray, round: int, stop: int) -> Callable[[int], Noise]:
        """Return the noise of several silos, which stay together up to step ``stop`` of the fit."""
        numbers = self._work.plan.step_numbers(round)

        def noise(step: int) -> Noise:
            number = numbers[step]
            if self._ahead is None:
                units = self._draw(silos, range(number, number + 1))[0]
            else:
                units = self._ahead.get(self._draw, silos, number, stop)
            return self._noise(round, step, silos, units)

        return noise

    def state(self, silo: int) -> dict[str, np.ndarray]:
        """Return the state of a silo's noise for later steps."""
        return self._source.state(silo)

    def restore(self, silo: int, state: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`state` returned."""
        self._source.restore(silo, state)

    def _noise(self, round: int, step: int, silos: np.ndarray, units: np.ndarray) -> Noise:
        """Return the noise with these units (n, size)."""
        factor = float(self._work.plan.factors[round][step])
        if self._some_none:
            units = units * ~self._none[silos, None]
        last = self._last  # threads may replace it
        if last is None or last[0] is not silos or last[1] != factor:
            if factor not in self._by_factor:
                self._by_factor[factor] = self._noised.scaled(factor)
            noised = self._by_factor[factor].of(silos)
            rows = GridRows.of(noised.grid, self._divisor[silos], noised.dtype)
            self._last = last = silos, factor, noised, rows
        return Noise(units, *last[2:])

    def _draw(self, silos: np.ndarray, steps: range) -> np.ndarray:
        units = self._source.units(silos, steps)
        expected = len(steps), len(silos), self._work.model.size
        if units.shape != expected:
            raise ValueError(
                f"{type(self._source).__name__}.units must return shape {expected} (steps, silos, "
                f"size), got {units.shape}."
            )
        return units


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
        drawn_mask = self.streams.poisson_mask_blocks(
            "batch", silos, steps, int(sizes.max()), sizes, self.sampling.rate
        )
        rows, ends = np.flatnonzero(drawn_mask), np.arange(len(silos) * len(steps) + 1)
        starts = np.searchsorted(rows, ends := ends * drawn_mask.shape[-1])
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
        batch = math.ceil(batches.work.plan.expected_sizes.mean())
        numbers = (2 * batch + int(data.sizes.max(initial=1))) // 8
        self._ahead: Ahead[Draw] = Ahead(numbers)
        self._last = np.zeros(0, np.int64), False
        self._everybody = isinstance(batches.sampling, Everyone)
        numbers_read = len(data.y) * self._model.n_features
        small = self._in_place or numbers_read * data.X.itemsize <= GROUP
        self._keeps = self._everybody and small and len(data.y) <= KEPT
        self._kept: Kept = {}
        self._clip = clip

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray, float]:
        """How many numbers a step of each silo needs; which are in parts; the largest number."""
        numbers = self._most * self._of_record + 4.0 * self._model.size
        alone = self._most > self._at_once
        return numbers, alone, math.inf if alone.any() else float(numbers.max(initial=0))

    def cut(self, silos: np.ndarray, jobs: int) -> list[np.ndarray]:
        """Split silos into groups of about equal work; their number is a multiple of ``jobs``.

        A silo whose batches are split into parts forms its own group.
        """
        numbers, alone, largest = self._numbers
        each = self._batches.dtype.itemsize * self._share
        if jobs == 1 and largest * len(silos) * each <= GROUP:
            return [silos]
        numbers, alone = numbers[silos], alone[silos]
        total = numbers.sum()
        count = jobs * math.ceil(total * each / (GROUP * jobs))
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
            memo = self._kept if again else {} if len(steps) > 1 else None
            return [partial(self._all, silos, memo)] * len(steps)
        if self._draws_together(silos):
            return [self._ahead.get(self._draw, silos, t, stop) for t in steps]
        table = self._table
        batches = [[self._batches.draw_rows(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts, Records.of_silos(table, rows)) for rows in batches]

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

    def _all(self, silos: np.ndarray, memo: Kept | None) -> Iterable[Batch]:
        """Return all records of the silos; cached if they are few and read without a copy."""
        before = None if memo is None else memo.get(int(silos[0]))
        if memo is not None and before is not None and before[0] is silos:
            _, groups, scattered = before
            if scattered:  # from now on, one copy is read
                groups = [self._to_be_read_again(part, silos) for part in groups]
                memo[int(silos[0])] = silos, groups, False
            return groups
        data = self._batches.data
        records = Records(self._table, *data.rows_together(silos))
        parts = self._in_parts(records)
        if memo is None or records.edges[-1] > self._at_once:
            return parts
        groups = list(parts)
        memo[int(silos[0])] = silos, groups, memo is not self._kept and self._in_place
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
        batches = [[self._drawn(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts_of_persons, silos, persons) for persons in batches]

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
