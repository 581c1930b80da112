"""All silos in this process: small ones stacked into one batched product, large ones on threads.

Large silos walk in groups, side by side: NumPy is called once for all of a group wherever a call
treats each record, or each coordinate, by itself. Threads then meet less often at the interpreter's
lock, which is what holds them up.

Whether silos are stacked depends on sizes alone, never on ``n_jobs``; how they are grouped does
depend on it, but changes no bit. Each silo has its own random streams: the same seed gives the same
model whatever the number of threads.

Formal guarantee. Where sizes and cohorts are secret (unit "silo"), no bit of a silo's message tells
of another silo's size, of its records, or of whether it takes part: whether a silo is stacked
depends on its own size, stacks hold silos of one size, and groups change no bit. Otherwise the last
bits would tell: sums are added up in another order where a stack is padded to a longer silo, and
many long local steps make O(clip norm) of a rounding error, in every other silo's message, which no
noise was made for. Likewise, where records are protected, no bit of a silo's message tells how many
records another silo drew: that a record was drawn is what sampling keeps secret. Stacks are padded
to public sizes, or batches are of public length, or silos walk in groups.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from skdpfl.federation._base import Federation, Work
from skdpfl.federation._batches import Batches
from skdpfl.federation._data import LARGE, SiloData
from skdpfl.federation._gradient import Draw, PrivateGradient, Terms
from skdpfl.federation._groups import Groups
from skdpfl.federation._memory import Memory
from skdpfl.federation._noise import NoiseMaker
from skdpfl.federation._stacks import Stacks
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.release import DOUBLE
from skdpfl.privacy.sampling import Everyone

#: a step below this many multiplications is dominated by call overhead: stack it with others
STACK_WORK = 200_000
#: a round below this many multiplications is over before threads are worth starting
WORTH_THREADS = 200_000_000
#: data that are read more often than this are put in the silos' order, a copy
MANY_PASSES = 4
#: unless silos have fewer records on average: what is kept for each silo leaves no room for a copy
FEW = 16
#: data of so few bytes are put in order whatever silos hold
SMALL = 2**22
#: a stack holds at most this many numbers
STACK_SIZE = 2**22
#: numbers whose row norms are computed at once
AT_ONCE = 2**19


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
        # many short calls, which threads would only take turns at
        self._drawing = threading.Lock()

    @property
    def data(self) -> SiloData:
        """All silos' records, in whatever order they are kept."""
        return self._data

    @property
    def n_silos(self) -> int:
        return len(self._data.starts) - 1

    def start(self, work: Work) -> None:
        if work.plan.silo_sizes is None:
            work = dataclasses.replace(work, plan=work.plan.with_sizes(self._data.sizes))
        model, plan = work.model, work.plan
        self._work = work
        if self._worth_copying():
            self._data = self._data.in_order()
        self._memory = Memory(self.n_silos, work.algorithm.memory_size(model.size), work.dtype)
        self._terms = terms = plan.mechanism.gradient_terms(plan, model.size, work.dtype)
        self._typical = float(np.median(plan.expected_sizes)) * model.work_per_record
        later = plan.mechanism.noised_later  # sums stay exact, and what is public stays out
        self._dtype = DOUBLE if later else work.dtype
        batches = Batches(self._data, self._squared_norms(work), work, terms.precision)
        self._groups, self._stacks = Groups(batches), Stacks(batches)
        self._noises = None if terms.noised is None else NoiseMaker(work, terms)
        self._clips = bool(np.isfinite(terms.clip).any())
        self._penalty = work.penalty.astype(work.dtype) if work.alpha and not later else None
        self._stacked = self._to_stack()
        self._last: tuple[np.ndarray, list[np.ndarray]] | None = None
        self._n_steps = sum(plan.steps)
        # cohorts that stay the same let random numbers be drawn ahead
        self._fixed = plan.schedule is None and (plan.unit == "record" or plan.silo_fraction >= 1)

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for silos, messages in self._messages(round, shared, cohort):
            yield silos, self._finish(round, shared, silos, messages, clip_norm)

    def _messages(
        self, round: int, shared: Any, cohort: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield silos and their messages before they leave."""
        for silos in self._stacks_of(cohort):
            yield silos, self._stack(round, shared, silos)
        cohort = cohort[~self._stacked[cohort]]
        if not len(cohort):
            return
        jobs = min(effective_n_jobs(self._n_jobs), len(cohort))
        if self._typical * self._work.plan.steps[round] * len(cohort) < WORTH_THREADS:
            jobs = 1
        # what the server adds up at once must not depend on the number of threads
        together = max(1, STACK_SIZE // self._work.model.size)
        window = together * math.ceil(jobs / together)
        with ThreadPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
            each = map if pool is None else pool.map
            for i in range(0, len(cohort), window):
                silos = cohort[i : i + window]
                groups = self._groups.cut(silos, jobs)
                messages = np.concatenate(list(each(partial(self._group, round, shared), groups)))
                for k in range(0, len(silos), together):
                    yield silos[k : k + together], messages[k : k + together]

    def _group(self, round: int, shared: Any, silos: np.ndarray) -> np.ndarray:
        """Return the messages of some large silos, shape (n, size)."""
        numbers = self._work.plan.step_numbers(round)
        with self._drawing:
            batches = self._groups.of(silos, numbers)
        return self._walk(round, shared, silos, batches, numbers.stop)

    def _stack(self, round: int, shared: Any, silos: np.ndarray) -> np.ndarray:
        """Return the messages of several small silos, shape (n, size)."""
        numbers = self._work.plan.step_numbers(round)
        stop = self._n_steps if self._fixed else numbers.stop
        batches = self._stacks.of(silos, numbers, stop)
        return self._walk(round, shared, silos, batches, stop)

    def _walk(
        self, round: int, shared: Any, silos: np.ndarray, batches: list[Draw], stop: int
    ) -> np.ndarray:
        """Run the algorithm's local part; steps that diverge show in the model.

        Threads begin with the errors' state of their own. No warning may tell of a record.
        """
        terms = self._terms
        clip = terms.clip[silos] if self._clips else math.inf
        gradient = PrivateGradient(
            self._work,
            batches,
            None if self._noises is None else self._noises.of_silos(silos, round, stop),
            Terms(clip, terms.divisor[silos, None], self._dtype, terms.precision),
            self._penalty,
        )
        with np.errstate(all="ignore"):
            message = self._work.algorithm.local(shared, self._memory.read(silos), gradient)
        gradient.check_used()
        return message

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

    def _to_stack(self) -> np.ndarray:
        """Return which silos are stacked, (n_silos,): all or none, but for what must not be seen.

        Sizes may be secret, and how many records a silo drew is: see the guarantee.
        """
        plan = self._work.plan
        if plan.secret_sizes:
            stacked = plan.expected_sizes * self._work.model.work_per_record <= STACK_WORK
        else:
            stacked = np.full(self.n_silos, self.n_silos > 1 and self._typical <= STACK_WORK)
        return stacked & self._stacks.stackable() if plan.private else stacked

    def _stacks_of(self, cohort: np.ndarray) -> list[np.ndarray]:
        """Split a cohort's silos that are stacked into stacks; the last answer is kept."""
        if self._last is None or self._last[0] is not cohort:
            self._last = cohort, list(self._split(cohort[self._stacked[cohort]]))
        return self._last[1]

    def _split(self, cohort: np.ndarray) -> Iterator[np.ndarray]:
        """Yield stacks of like size, or of one size, that fit into STACK_SIZE numbers."""
        model = self._work.model
        lengths = self._data.sizes[cohort]
        like = lengths if self._work.plan.secret_sizes else np.frexp(lengths)[1]
        for key in np.unique(like).tolist():
            silos = cohort[like == key]
            longest = int(lengths[like == key].max())
            per_silo = longest * model.numbers_per_record + 4 * model.size
            at_once = max(1, STACK_SIZE // per_silo)
            yield from (silos[i : i + at_once] for i in range(0, len(silos), at_once))

    def _worth_copying(self) -> bool:
        """Whether data are put in the silos' order, and transformed, once and for all.

        That depends on all silos' sizes and changes no bit: records are cast and multiplied alike.
        """
        data = self._data
        if data.X.nbytes > LARGE:
            return False
        if data.transform is not None:
            return True
        room = data.X.nbytes <= SMALL or len(data.y) >= FEW * self.n_silos
        return room and _passes(self._work.plan) >= MANY_PASSES

    def _squared_norms(self, work: Work) -> np.ndarray:
        n = len(self._data.y)
        rows = max(1, AT_ONCE // work.model.n_features)
        norms = np.empty(n, dtype=work.dtype)
        for i in range(0, n, rows):
            X = self._data.at(slice(i, i + rows))[0]
            norms[i : i + rows] = work.model.squared_row_norms(X)
        return norms


def _passes(plan: PrivacyPlan) -> float:
    """Return how often a fit reads its data, roughly."""
    a_round = 1.0
    if not isinstance(plan.sampling, Everyone):
        a_round = plan.expected_sizes.sum() / plan.known_sizes.sum() * max(plan.steps, default=0)
    return plan.n_rounds * plan.silo_fraction * a_round
