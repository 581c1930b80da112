"""All silos in this process: small ones stacked into one batched product, large ones on threads.

Which way is taken depends on public sizes alone, never on ``n_jobs``, and each silo has its own
random streams: the same seed gives the same model whatever the number of threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from skdpfl.federation._base import Federation, Work
from skdpfl.federation._batches import BatchMaker
from skdpfl.federation._data import SiloData
from skdpfl.federation._gradient import Noise, PrivateGradient, Terms
from skdpfl.federation._memory import Memory
from skdpfl.privacy.precision import DOUBLE, grids

#: a step below this many multiplications is dominated by call overhead: stack it with others
STACK_WORK = 200_000
#: a stack holds at most this many numbers
STACK_SIZE = 2**22

#: (shape, dtype) -> a draw of normals as integers
Units = Callable[[tuple[int, ...], np.dtype], np.ndarray]


class LocalFederation(Federation):
    """The in-process back end.

    Parameters
    ----------
    data : SiloData
        All silos' records.
    n_jobs : int, optional
        Threads for large silos, by joblib's convention.
    """

    def __init__(self, data: SiloData, n_jobs: int | None = None) -> None:
        self._data, self._n_jobs = data, n_jobs

    @property
    def n_silos(self) -> int:
        return len(self._data.starts) - 1

    def start(self, work: Work) -> None:
        if work.plan.silo_sizes is None:
            work = dataclasses.replace(work, plan=work.plan.with_sizes(self._data.sizes))
        model, plan = work.model, work.plan
        self._work = work
        self._grids: dict[float, np.ndarray] = {}
        self._memory = Memory(self.n_silos, work.algorithm.memory_size(model.size), work.dtype)
        self._terms = terms = plan.mechanism.gradient_terms(plan, model.size, work.dtype)
        products = work.dtype if terms.precision is None else terms.precision.products
        on_sum = terms.std is None and terms.precision is not None  # noised later: stay exact
        self._dtype = DOUBLE if on_sum else work.dtype
        self._batches = BatchMaker(self._data, self._squared_norms(work), work, products)
        penalty = (work.alpha * model.penalty_mask()).astype(work.dtype)
        self._penalty = penalty if work.alpha else None
        typical = float(np.median(plan.expected_sizes)) * model.size
        self._stacks = self.n_silos > 1 and typical <= STACK_WORK

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for silos, messages in self._messages(round, shared, cohort):
            yield silos, self._finish(round, shared, silos, messages, clip_norm)

    def _messages(
        self, round: int, shared: Any, cohort: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield silos and their messages before they leave."""
        if self._stacks:
            for silos in self._stackable(cohort):
                yield silos, self._stack(round, shared, silos)
            return
        jobs = min(effective_n_jobs(self._n_jobs), len(cohort))
        at_once = max(1, jobs, STACK_SIZE // self._work.model.size)
        with ThreadPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
            each = map if pool is None else pool.map
            for i in range(0, len(cohort), at_once):
                silos = cohort[i : i + at_once]
                done = each(lambda s: self._one(round, shared, s), silos.tolist())
                yield silos, np.stack(list(done))

    def _one(self, round: int, shared: Any, silo: int) -> np.ndarray:
        """Return the message of one large silo."""
        work, terms, numbers = self._work, self._terms, self._work.plan.step_numbers(round)
        clip, divisor = float(terms.clip[silo]), float(terms.divisor[silo])

        def noises(step: int) -> Noise:
            stream = work.streams.stream("noise", silo, numbers[step])
            return self._noise(round, step, silo, stream.units)

        gradient = PrivateGradient(
            work,
            self._batches.of_silo(silo, numbers),
            None if terms.std is None else noises,
            Terms(clip, divisor, self._dtype, terms.precision),
            self._penalty,
        )
        return self._walk(shared, self._memory.read(np.array([silo]))[0], gradient)

    def _stack(self, round: int, shared: Any, silos: np.ndarray) -> np.ndarray:
        """Return the messages of several small silos, shape (n, size)."""
        work, terms, numbers = self._work, self._terms, self._work.plan.step_numbers(round)
        clip, divisor = terms.clip[silos], terms.divisor[silos, None]

        def noises(step: int) -> Noise:
            units = partial(work.streams.units_block, "noise", silos, numbers[step])
            return self._noise(round, step, silos[:, None], units)

        gradient = PrivateGradient(
            work,
            self._batches.of_stack(silos, numbers),
            None if terms.std is None else noises,
            Terms(clip, divisor, self._dtype, terms.precision),
            self._penalty,
        )
        return self._walk(shared, self._memory.read(silos), gradient)

    def _walk(self, shared: Any, memory: np.ndarray, gradient: PrivateGradient) -> np.ndarray:
        """Run the algorithm's local part; steps that diverge show in the model."""
        with np.errstate(over="ignore", invalid="ignore"):
            message = self._work.algorithm.local(shared, memory, gradient)
        gradient.check_used()
        return message

    def _noise(self, round: int, step: int, silos: Any, units: Units) -> Noise:
        """Return a step's noise of a silo, or of silos (n, 1)."""
        plan, terms, factor = (
            self._work.plan,
            self._terms,
            float(self._work.plan.factors[round][step]),
        )
        assert terms.std is not None and terms.precision is not None
        release = terms.precision.release
        if factor not in self._grids:
            self._grids[factor] = grids(terms.std * factor, plan.clip_norm, release)
        drawn = units((self._work.model.size,), release)
        if not terms.std[silos].all():  # a silo whose own budget is infinite
            drawn = drawn * (terms.std[silos] > 0)
        return Noise(drawn, self._grids[factor][silos])

    def _finish(
        self, round: int, shared: Any, silos: np.ndarray, messages: np.ndarray, clip_norm: float
    ) -> np.ndarray:
        """Let the silos remember what their messages count as, and send them."""
        plan, algorithm, streams = self._work.plan, self._work.algorithm, self._work.streams
        kept = plan.mechanism.keep(plan, messages, clip_norm)
        if self._memory.size:
            memory = self._memory.read(silos)
            self._memory.write(silos, algorithm.remember(shared, memory, kept))
        return plan.mechanism.send(plan, kept, silos, round, streams, clip_norm)

    def _stackable(self, cohort: np.ndarray) -> Iterator[np.ndarray]:
        """Split a cohort into stacks of like size that fit into STACK_SIZE numbers."""
        model = self._work.model
        lengths = self._data.sizes[cohort]
        like = np.frexp(lengths)[1]
        for key in np.unique(like):
            silos = cohort[like == key]
            longest = int(lengths[like == key].max())
            per_silo = longest * (model.n_features + model.n_outputs) + 4 * model.size
            at_once = max(1, STACK_SIZE // per_silo)
            yield from (silos[i : i + at_once] for i in range(0, len(silos), at_once))

    def _squared_norms(self, work: Work, rows: int = 2**14) -> np.ndarray:
        n = len(self._data.y)
        norms = np.empty(n, dtype=work.dtype)
        for i in range(0, n, rows):
            X, _ = self._data.at(slice(i, i + rows))
            norms[i : i + rows] = work.model.squared_row_norms(X)
        return norms
