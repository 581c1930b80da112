"""All silos in this process: groups of them in one call, large groups on threads.

Operations on single records or coordinates are one NumPy call per group, or compiled code. How
silos are grouped depends on ``n_jobs`` and changes no bit. Each silo has its own random streams:
the same seed gives the same model for any number of threads.

Formal guarantee. A silo's message is a function of its own records, memory, batches and random
streams, of the plan's public numbers and of the broadcast, to the last bit: how silos are grouped
does not change it (:mod:`skdpfl.models._products`). So if sizes and cohorts are secret (unit
"silo"), no bit of a silo's message depends on another silo's size, on its records, or on whether it
takes part. This is not automatic: arrays of different lengths are summed in different orders, and
many local steps can amplify a rounding error to O(clip norm) in the messages of all other silos,
which the noise is not calibrated for. Likewise, with unit "record", no bit of a silo's message
depends on the number of records that another silo drew, since sampling keeps secret which records
are drawn.
"""

import copy
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs

from skdpfl._apart import anew
from skdpfl.algorithms import Algorithm, sends_one_gradient, takes_stacks
from skdpfl.federation._base import Federation, Work
from skdpfl.federation._batches import Batches, GroupBatches, PersonBatches
from skdpfl.federation._data import LARGE, SiloData, keep_freed_memory
from skdpfl.federation._gradient import NoiseMaker, PrivateGradient, SumTerms
from skdpfl.federation._sums import Question
from skdpfl.privacy.mechanisms import Mechanism, Senders
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE
from skdpfl.privacy.sampling import Everyone


class Memory:
    """A table with one vector per silo, zero until written."""

    def __init__(self, n_silos: int, size: int, dtype: np.dtype) -> None:
        self._slot = np.full(n_silos, -1, dtype=np.int64)
        self._rows = np.zeros((0, size), dtype=dtype)
        self._used = 0
        self.size = size

    def read(self, silos: np.ndarray) -> np.ndarray:
        """Return the vectors of ``silos``, shape (n, size)."""
        if not self.size:
            return np.zeros((len(silos), 0), dtype=self._rows.dtype)
        slots = self._slot[silos]
        values = np.zeros((len(silos), self.size), dtype=self._rows.dtype)
        written = slots >= 0
        values[written] = self._rows[slots[written]]
        return values

    def write(self, silos: np.ndarray, values: np.ndarray) -> None:
        """Set the vectors of ``silos``."""
        if not self.size:
            return
        new = silos[self._slot[silos] < 0]
        self._slot[new] = np.arange(self._used, self._used + len(new))
        self._used += len(new)
        if self._used > len(self._rows):
            grown = min(len(self._slot), max(self._used, 2 * len(self._rows)))
            rows = np.zeros((grown, self.size), dtype=self._rows.dtype)
            rows[: len(self._rows)] = self._rows
            self._rows = rows
        self._rows[self._slot[silos]] = values


class SiloStates:
    """The state of many silos in one fit: memory, batch orders, and answered rounds."""

    def __init__(self, n_silos: int, size: int, dtype: np.dtype) -> None:
        self.memory = Memory(n_silos, size, dtype)
        #: of each silo that was dealt (sampling "disjoint"), the records of each part
        self.deals: dict[int, np.ndarray] = {}
        #: of each silo, the first round that it may still answer, and the number it answered
        self.next_round = np.zeros(n_silos, np.int32)
        self.n_answered = np.zeros(n_silos, np.int32)
        self._latest = 0  # the largest of ``next_round``

    def restore(self, silo: int, next_round: int, n_answered: int) -> None:
        """Set what a silo has answered."""
        self.next_round[silo], self.n_answered[silo] = next_round, n_answered
        self._latest = max(self._latest, next_round)

    def answer(self, silos: np.ndarray, round: int) -> None:
        """Record that ``silos`` answer a round; raise unless it is later than their last one.

        A second answer would be a second release, and memory would be updated twice.
        """
        # increasing indices: all silos, if as many
        who = silos if len(silos) < len(self.next_round) else slice(None)
        if self._latest > round and np.max(self.next_round[who], initial=0) > round:
            raise ValueError(
                f"Silos answer each round once and in order; got another request for round {round}."
            )
        self.next_round[who] = round + 1
        self._latest = max(self._latest, round + 1)
        self.n_answered[who] += 1


#: silos that are computed together, and their numbers
Group = tuple[np.ndarray, SumTerms]
#: how a mechanism that does nothing to messages handles them
_AS_THEY_ARE = {Mechanism.keep, Mechanism.send}
#: the largest number of numbers in the messages of silos of one part of a round
MESSAGES = 2**22
#: a round with fewer multiplications is not worth starting threads
WORTH_THREADS = 200_000_000
#: maximum thread count
MANY_THREADS = 1024
#: data that are read more often than this are copied into the silos' order
MANY_PASSES = 4
#: unless silos have fewer records on average: the state of each silo leaves no room for a copy
FEW = 16
#: smaller data, in bytes, are always copied into the silos' order
SMALL = 2**22
#: numbers whose row norms are computed at once
AT_ONCE = 2**19


class LocalFederation(Federation):
    """The in-process back end: many silos, their state in arrays.

    Parameters
    ----------
    data : SiloData
        All silos' records.
    streams : Streams
        The silos' random streams, for one fit unless they are a simulation's.
    n_jobs : int, optional
        Number of threads for large silos, by joblib's convention.
    """

    def __init__(self, data: SiloData, streams: Streams, n_jobs: int | None = None) -> None:
        self._given = self._data = data
        self._streams, self._n_jobs = streams, n_jobs
        self.started = False
        # many short calls, for which threads do not help
        self._drawing = threading.Lock()

    @property
    def data(self) -> SiloData:
        """All silos' records; scaled after the fit has started."""
        return self._data

    @property
    def streams(self) -> Streams:
        """The silos' random streams."""
        return self._streams

    @property
    def n_silos(self) -> int:
        return len(self._data.starts) - 1

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        given = self._given
        if given.order is not None and given.X.nbytes <= SMALL and given.X.dtype.kind == "f":
            self._given = given.in_order()  # read once in the silos' order, not by each question
        return question.answers(self._given, self._streams)

    def start(self, work: Work) -> None:
        if work.plan.private:
            self._streams.claim("the silos")
        self.started = True
        keep_freed_memory()
        self.work, self.kept = work, SiloStates(self.n_silos, work.memory_size, work.dtype)
        self._new_algorithm = None if takes_stacks(work.algorithm) else anew(work.algorithm)
        work = work.apart()
        if work.plan.silo_sizes is None:
            # sizes that only the silos know and use
            plan = dataclasses.replace(work.plan, silo_sizes=self._data.sizes)
            work = dataclasses.replace(work, plan=plan)
        self._work, plan = work, work.plan
        _check_sizes(plan, self._data.units)
        self._map_records(work)
        self._terms = terms = plan.mechanism.gradient_terms(plan, work.model.size, work.dtype)
        later = plan.mechanism.noised_later  # exact sums, without the penalty
        self._dtype = DOUBLE if later else work.dtype
        norms, deals = self._squared_norms(work), self.kept.deals
        batches = Batches(self._data, norms, work, terms.precision, self._streams, deals)
        self._typical = float(np.median(plan.expected_sizes)) * work.model.work_per_record
        self._clips = bool(np.isfinite(terms.clip).any())
        group = GroupBatches if self._data.people is None else PersonBatches
        self._groups = group(batches, terms.clip if self._clips else None)
        self.noises = None if terms.noised is None else NoiseMaker(work, terms, self._streams)
        # single / single rounds to the same quotient in both precisions (53 digits >= 2 * 24 + 2)
        single = terms.divisor.astype(work.dtype)
        self._divisor = single if (single == terms.divisor).all() else terms.divisor
        self._penalty = work.penalty.astype(work.dtype) if work.alpha and not later else None
        self._last: tuple[np.ndarray, int, list[list[Group]]] | None = None
        sent = {type(plan.mechanism).keep, type(plan.mechanism).send}
        one = sends_one_gradient(work.algorithm) and set(plan.steps) == {1}
        self._single = one and sent == _AS_THEY_ARE and self._new_algorithm is None
        self._at_once = max(1, MESSAGES // work.model.size)
        if self._at_once < MANY_THREADS:
            self._at_once = max(self._at_once, _threads(self._n_jobs))
        # random numbers are drawn ahead for cohorts that stay the same
        fixed = plan.schedule is None and (plan.unit != "silo" or plan.silo_fraction >= 1)
        self._together_until = sum(plan.steps) if fixed else 0

    def _map_records(self, work: Work) -> None:
        """Scale the records, now or as they are read."""
        self._data = self._given.mapped(
            work.features, work.target, work.target_dtype, work.class_weights
        )
        worth = self._worth_copying()
        self._data = self._data.in_order() if worth else self._data.by_row().with_cells()
        copied = self._data.X is not self._given.X
        if copied and work.features is None and work.target is None:
            self._given = self._data  # do not keep the records twice

    def round(
        self,
        round: int,
        shared: Any,
        cohort: np.ndarray,
        clip_norm: float,
        *,
        among: int | None = None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Run a round with the silos here; ``among`` is the number of all silos in the round."""
        self.kept.answer(cohort, round)
        if (group := self._together(cohort)) is not None:
            with np.errstate(all="ignore"):  # as in _walk
                return iter([(cohort, self._gradient(round, *group)(shared))])
        return self._in_groups(round, shared, cohort, clip_norm, among)

    def _in_groups(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float, among: int | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the messages of groups of silos."""
        told = round, shared, clip_norm, len(cohort) if among is None else among
        jobs, of_group = self._jobs(round, len(cohort)), partial(self._group, round, shared)
        for groups in self._parts_of(cohort, jobs):
            each = map(of_group, groups) if jobs == 1 else _on_threads(jobs, of_group, groups)
            for (silos, _), messages in zip(groups, each, strict=True):
                yield silos, self._finish(*told, silos, messages)

    def _jobs(self, round: int, n_silos: int) -> int:
        """Return the number of threads for a round."""
        work = self._typical * self._work.plan.steps[round] * n_silos
        return 1 if work < WORTH_THREADS else min(_threads(self._n_jobs), max(1, n_silos))

    def _parts_of(self, cohort: np.ndarray, jobs: int) -> list[list[Group]]:
        """Split a cohort into parts, each with groups of silos; the last result is cached.

        There are several parts if messages are long, so that the engine, which adds messages in the
        order of the silos, does not have to hold all of them.
        """
        if self._last is None or self._last[0] is not cohort or self._last[1] != jobs:
            apart, at_once, parts = self._new_algorithm is not None, self._at_once, []
            for i in range(0, len(cohort), at_once):
                piece = cohort if len(cohort) <= at_once else cohort[i : i + at_once]
                groups = _one_by_one(piece) if apart else self._groups.cut(piece, jobs)
                parts.append([(silos, self._terms_of(silos)) for silos in groups])
            self._last = cohort, jobs, parts
        return self._last[2]

    def _group(self, round: int, shared: Any, group: Group) -> np.ndarray:
        """Return the messages of some silos, shape (n, size)."""
        silos, terms = group
        gradient = self._gradient(round, silos, terms)
        return self._walk(shared, silos, gradient)

    def _together(self, cohort: np.ndarray) -> Group | None:
        """Return the cohort as one group, if messages are single gradients, sent as they are."""
        if not self._single or self._jobs(0, len(cohort)) > 1:
            return None
        parts = self._parts_of(cohort, 1)
        return parts[0][0] if len(parts) == len(parts[0]) == 1 else None

    def _gradient(self, round: int, silos: np.ndarray, terms: SumTerms) -> PrivateGradient:
        """Return the private gradient of some silos in a round."""
        numbers = self._work.plan.step_numbers(round)
        stop = self._together_until or numbers.stop
        if self._new_algorithm is not None:  # too many groups to draw ahead for each
            stop = numbers.stop
        with self._drawing:
            batches = self._groups.of(silos, numbers, stop)
        noises = None if self.noises is None else self.noises.of_silos(silos, round, stop)
        return PrivateGradient(self._work, batches, noises, terms, self._penalty)

    def _terms_of(self, silos: np.ndarray) -> SumTerms:
        """Return the numbers of some silos' gradients."""
        terms = self._terms
        clip = terms.clip[silos] if self._clips else math.inf
        return SumTerms(clip, self._divisor[silos, None], self._dtype, terms.precision)

    @np.errstate(all="ignore")  # in each thread; a warning could depend on a single record
    def _walk(self, shared: Any, silos: np.ndarray, gradient: PrivateGradient) -> np.ndarray:
        """Run the algorithm's local part."""
        memory = self.kept.memory.read(silos)
        if self._new_algorithm is None:
            messages = self._work.algorithm.local(shared, memory, gradient)
        else:
            alone = self._new_algorithm()
            message = alone.local(copy.deepcopy(shared), memory[0], gradient.of_one())
            messages = _checked(message, self._work.model.size, alone)[None]
        gradient.check_used()
        return messages

    def _finish(
        self,
        round: int,
        shared: Any,
        clip_norm: float,
        among: int,
        silos: np.ndarray,
        messages: np.ndarray,
    ) -> np.ndarray:
        """Update the silos' memory, and send their messages."""
        plan, table = self._work.plan, self.kept.memory
        kept = plan.mechanism.keep(plan, messages, clip_norm)
        if table.size:
            table.write(silos, self._remembered(shared, silos, kept))
        by = Senders(silos, round, self._streams, clip_norm, among)
        return plan.mechanism.send(plan, kept, by)

    def _remembered(self, shared: Any, silos: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the silos' memory after a round, (n, memory_size)."""
        memory, new = self.kept.memory.read(silos), self._new_algorithm
        if new is None:
            return self._work.algorithm.remember(shared, memory, kept)
        each = zip(memory, kept, strict=True)
        rows = [new().remember(copy.deepcopy(shared), m.copy(), k.copy()) for m, k in each]
        return np.array([_checked(row, memory.shape[1], new()) for row in rows])

    def _worth_copying(self) -> bool:
        """Whether data are copied into the silos' order, and scaled, at the start.

        This depends on all silos' sizes and does not change results: casts and products are the
        same.
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


def _on_threads(
    jobs: int, of_group: Callable[[Group], np.ndarray], groups: list[Group]
) -> Iterator[np.ndarray]:
    """Yield the messages of each group, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(of_group, groups)


def _one_by_one(silos: np.ndarray) -> list[np.ndarray]:
    """Return each silo alone."""
    return [silos[i : i + 1] for i in range(len(silos))]


def _checked(vector: Any, size: int, algorithm: Algorithm) -> np.ndarray:
    """Return an algorithm's result for a silo; raise if it is not one vector."""
    vector = np.asarray(vector)
    if vector.shape != (size,):
        raise ValueError(
            f"{type(algorithm).__name__} must return an array of shape ({size},) for a silo; got "
            f"{vector.shape}."
        )
    return vector


def _threads(n_jobs: int | None) -> int:
    """Return the number of threads on this computer for ``n_jobs``.

    Inside a joblib backend of a cluster, joblib would count the cluster's cores.
    """
    return min(effective_n_jobs(n_jobs), cpu_count())


def _check_sizes(plan: PrivacyPlan, sizes: np.ndarray) -> None:
    """Raise unless the silos have the sizes in the plan."""
    if ((sizes != plan.known_sizes) & (sizes > 0)).any():
        raise ValueError("The silo sizes in the plan differ from those in the data.")


def _passes(plan: PrivacyPlan) -> float:
    """Return the approximate number of times that a fit reads its data."""
    a_round = 1.0
    if not isinstance(plan.sampling, Everyone):
        a_round = plan.expected_sizes.sum() / plan.known_sizes.sum() * max(plan.steps, default=0)
    return plan.n_rounds * plan.silo_fraction * a_round
