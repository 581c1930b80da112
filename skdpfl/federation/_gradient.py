"""The private gradient, which algorithms get instead of data, and its noise.

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

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from skdpfl.algorithms import Gradient
from skdpfl.federation._base import Work
from skdpfl.losses import loss_for
from skdpfl.models import Descent, Records
from skdpfl.privacy.mechanisms import GradientTerms
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import GridRows, NoisedSum, Precision


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
AHEAD = 2**15
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
            many = max(1, AHEAD // (self._per_silo * len(silos)))
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
