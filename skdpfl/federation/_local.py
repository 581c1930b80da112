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

One silo: its records and its state between rounds.
---------------------------------------------------
In one process many silos share arrays (:class:`skdpfl.federation.LocalFederation`), and a
:class:`Silo` is a view of them. A remote silo is alone, perhaps in a process that ends after each
message, and is then saved and restored in between.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import cpu_count, effective_n_jobs

from skdpfl._apart import anew
from skdpfl.algorithms import Algorithm, sends_one_gradient, takes_stacks
from skdpfl.federation._base import Federation, Work
from skdpfl.federation._batches import (
    Batches,
    GroupBatches,
    NoiseMaker,
    PersonBatches,
    PrivateGradient,
    SumTerms,
)
from skdpfl.federation._data import BLOCK, LARGE_DATA, SiloData, keep_freed_memory
from skdpfl.federation._sums import Named, Question
from skdpfl.losses import LogLoss, SquaredError
from skdpfl.models import ExpandedTable, LinearModel
from skdpfl.privacy.mechanisms import Mechanism, Senders
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE
from skdpfl.privacy.sampling import Everyone


class SiloStates:
    """The state of many silos in one fit: memory, batch orders, and answered rounds."""

    def __init__(self, n_silos: int, size: int, dtype: np.dtype) -> None:
        #: the silos' vectors (n_silos, size); the system allocates those that are written
        self.memory = np.zeros((n_silos, size), dtype)
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

        Another answer to the same round would release a second message with the noise of the first.
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
FEW_RECORDS = 16
#: smaller data, in bytes, are always copied into the silos' order
SMALL_DATA = 2**22
#: numbers whose row norms are computed at once
NUMBERS_AT_ONCE = 2**19


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
        self._unmapped = self._data = data
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
        data = self._unmapped
        if data.order is not None and data.X.nbytes <= SMALL_DATA and data.X.dtype.kind == "f":
            self._unmapped = data.in_order()  # read once in the silos' order, not by each question
        return question.answers(self._unmapped, self._streams)

    def start(self, work: Work) -> None:
        if work.plan.private:
            self._streams.claim("the silos")
        self.started = True
        keep_freed_memory()
        self.work, self.states = work, SiloStates(self.n_silos, work.memory_size, work.dtype)
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
        self._clips = bool(np.isfinite(terms.clip).any())
        bounded = plan.unit == "silo" and math.isfinite(work.algorithm.squared_row)
        norms, deals = self._squared_norms(work, bounded), self.states.deals
        batches = Batches(self._data, norms, work, terms.precision, self._streams, deals)
        self._typical = float(plan.expected_sizes.mean()) * work.model.work_per_record
        group = GroupBatches if self._data.people is None else PersonBatches
        self._groups = group(batches, terms.clip if self._clips else None)
        self.noises = None if terms.noised is None else NoiseMaker(work, terms, self._streams)
        # single / single rounds to the same quotient in both precisions (53 digits >= 2 * 24 + 2)
        divisor = terms.divisor
        if bounded:  # in the dtype of steps in one pass
            divisor = (divisor * self._excess(norms, work)).astype(work.dtype)
        single = divisor.astype(work.dtype)
        self._divisor = single if (single == divisor).all() else divisor
        self._penalty = work.penalty.astype(work.dtype) if work.alpha and not later else None
        self._last: tuple[np.ndarray, int, list[list[Group]]] | None = None
        sent = {type(plan.mechanism).keep, type(plan.mechanism).send}
        one = sends_one_gradient(work.algorithm) and set(plan.steps) == {1}
        as_is = sent == _AS_THEY_ARE and self._new_algorithm is None
        self._at_once = max(1, MESSAGES // work.model.size)
        if self._at_once < MANY_THREADS:
            self._at_once = max(self._at_once, _threads(self._n_jobs))
        # random numbers are drawn ahead for cohorts that stay the same
        fixed = plan.schedule is None and (plan.unit != "silo" or plan.silo_fraction >= 1)
        self._together_until = sum(plan.steps) if fixed else 0
        self._single = one and as_is and fixed

    def _map_records(self, work: Work) -> None:
        """Scale the records, now or as they are read."""
        data = self._unmapped if work.model.is_linear else self._unmapped.dense()
        self._data = data.mapped(work.features, work.target, work.target_dtype, work.class_weights)
        worth = self._worth_copying()
        self._data = self._data.in_order() if worth else self._data.by_row().with_cells()
        copied = self._data.X is not self._unmapped.X
        if copied and work.features is None and work.target is None:
            self._unmapped = self._data  # do not keep the records twice

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
        self.states.answer(cohort, round)
        common = round, shared, clip_norm, len(cohort) if among is None else among
        jobs, of_group = self._jobs(round, len(cohort)), partial(self._group, round, shared)
        for groups in self._parts_of(cohort, jobs):
            each = map(of_group, groups) if jobs == 1 else _on_threads(jobs, of_group, groups)
            for (silos, _), messages in zip(groups, each, strict=True):
                yield silos, self._finish(*common, silos, messages)

    def gradients(self) -> Callable[[int, np.ndarray], np.ndarray] | None:
        everyone = np.arange(self.n_silos)
        if (
            type(self) is not LocalFederation
            or not self._single
            or self._jobs(0, len(everyone)) > 1
        ):
            return None
        parts = self._parts_of(everyone, 1)
        if not len(parts) == len(parts[0]) == 1:
            return None

        def messages(round: int, shared: np.ndarray) -> np.ndarray:
            self.states.answer(everyone, round)
            return self._gradient(round, everyone, parts[0][0][1])(shared)

        return messages

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
                alone = np.split(piece, range(1, len(piece))) if apart else None
                groups = alone or self._groups.cut(piece, jobs)
                parts.append([(silos, self._terms_of(silos)) for silos in groups])
            self._last = cohort, jobs, parts
        return self._last[2]

    def _group(self, round: int, shared: Any, group: Group) -> np.ndarray:
        """Return the messages of some silos, shape (n, size)."""
        silos, terms = group
        gradient = self._gradient(round, silos, terms)
        return self._walk(shared, silos, gradient)

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
        memory = self.states.memory[silos]
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
        plan, table = self._work.plan, self.states.memory
        clipped = plan.mechanism.keep(plan, messages, clip_norm)
        if table.size:
            table[silos] = self._remembered(shared, table[silos], clipped)
        by = Senders(silos, round, self._streams, clip_norm, among)
        return plan.mechanism.send(plan, clipped, by)

    def _remembered(self, shared: Any, memory: np.ndarray, clipped: np.ndarray) -> np.ndarray:
        """Return the silos' memory after a round, (n, memory_size)."""
        new = self._new_algorithm
        if new is None:
            return self._work.algorithm.remember(shared, memory, clipped)
        each = zip(memory, clipped, strict=True)
        rows = [new().remember(copy.deepcopy(shared), m.copy(), k.copy()) for m, k in each]
        return np.array([_checked(row, memory.shape[1], new()) for row in rows])

    def _worth_copying(self) -> bool:
        """Whether data are copied into the silos' order, and scaled, at the start.

        This depends on all silos' sizes and does not change results: casts and products are the
        same.
        """
        data = self._data
        if data.X.nbytes > LARGE_DATA:
            return False
        if data.transform is not None:
            return True
        room = data.X.nbytes <= SMALL_DATA or len(data.y) >= FEW_RECORDS * self.n_silos
        return room and _passes(self._work.plan) >= MANY_PASSES

    @np.errstate(all="ignore")
    def _excess(self, norms: np.ndarray, work: Work) -> np.ndarray:
        """Return by how much each silo's mean squared norm exceeds the algorithm's; 1: it does not.

        A silo's sum is of its own finite rows, one after the other: the same bits in any company.
        """
        data, n = self._data, self.n_silos
        each = norms if data.order is None else norms[data.order]
        of_silo = np.repeat(np.arange(n), data.sizes)
        sums = np.bincount(of_silo, np.where(np.isfinite(each), each, 0), n)
        mean = sums / np.maximum(data.sizes, 1)
        return np.maximum(mean / work.algorithm.squared_row, 1.0)

    def _squared_norms(self, work: Work, needed: bool) -> np.ndarray:
        """Return the records' squared norms; any finite ones where finite records do not need them.

        These are records of losses that do not read norms, in fits without clipping, unless they
        are ``needed`` otherwise.
        """
        data, n = self._data, len(self._data.y)
        plain = type(work.model) is LinearModel and type(work.loss) in (LogLoss, SquaredError)
        if plain and not (self._clips or needed) and data.transform is None and data.is_by_row:
            with np.errstate(all="ignore"):  # larger than any of its rows' norms, if it is finite
                if data.X.dtype == work.dtype and np.isfinite(2 * np.vdot(data.X, data.X)):
                    return np.broadcast_to(work.dtype.type(1), n)
        rows = max(1, NUMBERS_AT_ONCE // work.model.n_features)
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


#: prefix of the noise's state in a saved silo
_NOISE = "noise "


class Answered(NamedTuple):
    """What a silo has answered: the next question of each purpose, and the next round.

    It can be read of a saved state, so a silo may refuse before any record is read.
    """

    next_question: Mapping[str, int] = {}
    next_round: int = 0
    n_answered: int = 0

    @classmethod
    def of(cls, saved: Mapping[str, np.ndarray] | None) -> Answered:
        """Return what was answered by a state that :meth:`Silo.save` returned; None: nothing."""
        if saved is None:
            return cls()
        asked = zip(saved["purposes"].tolist(), saved["next_questions"].tolist(), strict=True)
        rounds = (int(saved.get(name, 0)) for name in ("next_round", "n_answered"))
        return cls(dict(asked), *rounds)

    def check_new(self, question: Question) -> None:
        """Raise if a request, or a later one, was answered already."""
        if question.number < self.next_question.get(question.purpose, 0):
            raise ValueError(
                f"Silos answer each request once and in order; got number {question.number} again, "
                "whose noise would be that of the first answer."
            )

    def check_due(self, plan: PrivacyPlan, silo: int, round: int) -> None:
        """Raise if a message in this round is not part of the priced plan."""
        if not 0 <= round < plan.n_rounds:
            raise ValueError(f"The plan has {plan.n_rounds} rounds; got round {round}.")
        if plan.schedule is not None and silo not in plan.schedule[round]:
            raise ValueError(f"Silo number {silo} is not scheduled in round {round}.")
        if self.next_round > round:
            raise ValueError(
                f"Silos answer each round once and in order; got another request for round {round}."
            )
        paid = int(plan.levels[1][silo].sum()) if plan.unit == "silo" else plan.n_rounds
        if self.n_answered >= paid:
            raise ValueError(f"Silo number {silo} has answered the {paid} rounds that it pays for.")


class Silo:
    """One silo of a fit: alone (:meth:`alone`), or one of those in a federation.

    Parameters
    ----------
    federation : LocalFederation
        Holds its records and its state.
    index : int
        Its index among the plan's silos.

    Notes
    -----
    **Formal guarantee.** Alone, a silo sends the message that ``LocalFederation`` gives for it, bit
    for bit (same records in the same order, same streams). It answers each request and each round
    once, in order, only rounds that it is scheduled in, and no more rounds than it pays for. This
    holds across :meth:`save` and :meth:`restore` if the state that was saved *last* is restored:
    save before each message leaves. Streams are functions of (seed or secret, purpose, silo,
    round): after a restart a simulation continues with the same numbers, and a silo without a seed
    continues with fresh ones, which are independent of all earlier ones.
    """

    def __init__(self, federation: LocalFederation, index: int) -> None:
        self._federation, self.index = federation, index
        self._cohort = np.array([index])
        #: of each purpose, the number of the first question that it may still answer
        self._next_question: dict[str, int] = {}

    @classmethod
    def alone(
        cls,
        index: int,
        X: np.ndarray | ExpandedTable,
        y: np.ndarray,
        n_silos: int,
        streams: Streams,
        weights: np.ndarray | None = None,
        *,
        exposure: np.ndarray | None = None,
        of_row: np.ndarray | None = None,
    ) -> Silo:
        """Return a silo in a process of its own.

        Parameters
        ----------
        index : int
            Its index among the plan's silos.
        X : ndarray or ExpandedTable of shape (n, n_features)
            Its features; the same rows in the same order whenever the silo is constructed again.
        y : ndarray of shape (n,)
            Its targets; classes as codes.
        n_silos : int
            The number of silos.
        streams : Streams
            Its random streams, for one fit.
        weights : ndarray of shape (n,), default=None
            Weights of its records; their losses are multiplied by these before gradients are
            clipped.
        exposure : ndarray of shape (n,), default=None
            Exposures of its records, above 0.
        of_row : ndarray of shape (n,), default=None
            The person of each record, numbered from 0 in the order of ids, if persons are
            protected.

        Returns
        -------
        Silo
            A silo that can answer requests for sums, and rounds after :meth:`start`.
        """
        if not len(y):
            raise ValueError("A silo needs at least one record.")
        if weights is not None and np.shape(weights) != np.shape(y):
            raise ValueError(
                f"weights must be one number for each of the {len(y)} records; got shape "
                f"{np.shape(weights)}."
            )
        records = SiloData.of_one(X, y, index, n_silos, weights, of_row)
        records = replace(records, exposure=exposure)
        return cls(LocalFederation(records, streams), index)

    def answer(self, question: Question) -> np.ndarray | Named:
        """Answer a request for a sum; each number of a purpose once, in order.

        Parameters
        ----------
        question : Question
            The question.

        Returns
        -------
        ndarray of shape (width,), or Named
            The answer.
        """
        self._answered.check_new(question)
        self._next_question[question.purpose] = question.number + 1
        answered = self._federation.ask(question)
        ((_, answers),) = ((who, what) for who, what in answered if self.index in who)
        return answers[0] if isinstance(answers[0], Named) else np.asarray(answers[0])

    def start(self, work: Work) -> None:
        """Start a fit.

        Parameters
        ----------
        work : Work
            The work of the fit.
        """
        if self._federation.started:
            raise ValueError(
                "A silo and its streams are for one fit; make a new one for another fit."
            )
        self._federation.start(work)

    def round(
        self, round: int, shared: Any, clip_norm: float = np.inf, *, among: int = 1
    ) -> np.ndarray:
        """Run a round and return the message as it leaves the silo.

        Parameters
        ----------
        round : int
            The round's number.
        shared : object
            The server's broadcast.
        clip_norm : float, default=inf
            The norm that whole messages are clipped to (unit "silo").
        among : int, default=1
            The number of silos in the round, which determines the share of the noise if they share
            it.

        Returns
        -------
        ndarray of shape (size + n_extra,)
            The message, with the additional numbers that the mechanism sends.
        """
        self._answered.check_due(self._federation.work.plan, self.index, round)
        answers = self._federation.round(round, shared, self._cohort, clip_norm, among=among)
        ((_, messages),) = answers
        return np.asarray(messages[0])

    def save(self) -> dict[str, np.ndarray]:
        """Return the silo's state as plain arrays (numbers, and text for seed and digest).

        The state has the memory between rounds, the dealt batches, the rounds that were answered,
        the state of correlated noise, and the seed of a simulation. It does not contain the
        records, but must be kept as secret as they are.
        """
        before = {
            "index": np.array(self.index),
            "seed": self._seed,
            "purposes": np.array(list(self._next_question), dtype=np.str_),
            "next_questions": np.array(list(self._next_question.values()), dtype=np.int64),
        }
        if not self._federation.started:
            return before
        states, i = self._federation.states, self.index
        deal = states.deals.get(i)
        noises = self._federation.noises
        noise = {} if noises is None else noises.state(i)
        return (
            before
            | {f"{_NOISE}{name}": value for name, value in noise.items()}
            | {
                "next_round": np.array(states.next_round[i]),
                "n_answered": np.array(states.n_answered[i]),
                "memory": states.memory[i].copy(),
                "deal": np.zeros((0, 0), np.int64) if deal is None else deal,
                "records": np.array("" if deal is None else self._digest()),
            }
        )

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Restore a saved state.

        Parameters
        ----------
        saved : dict
            The state that :meth:`save` returned.
        """
        i = self.index
        if int(saved["index"]) != i or str(saved["seed"]) != str(self._seed):
            raise ValueError("The state was saved by another silo, or with another random_state.")
        self._next_question = dict(Answered.of(saved).next_question)
        if "next_round" not in saved:
            return
        if not self._federation.started:
            raise ValueError("The state was saved between rounds: call start(work) before restore.")
        states, memory, deal = self._federation.states, saved["memory"], saved["deal"]
        if memory.shape != states.memory.shape[1:]:
            raise ValueError("The state was saved in a fit with another model or algorithm.")
        if len(deal):
            if str(saved["records"]) != self._digest():
                raise ValueError(
                    "The silo's records, or their order, have changed since its batches were "
                    "drawn, so that a record could enter two batches. Load the same records in the "
                    "same order."
                )
            states.deals[i] = deal
        noise = {k.removeprefix(_NOISE): saved[k] for k in saved if k.startswith(_NOISE)}
        if noise and self._federation.noises is not None:
            self._federation.noises.restore(i, noise)
        states.memory[i] = memory
        states.restore(i, int(saved["next_round"]), int(saved["n_answered"]))

    @property
    def _seed(self) -> np.ndarray:
        seed = self._federation.streams.seed
        return np.array("" if seed is None else str(seed))

    @property
    def _answered(self) -> Answered:
        if not self._federation.started:
            return Answered(self._next_question)
        states, i = self._federation.states, self.index
        return Answered(self._next_question, int(states.next_round[i]), int(states.n_answered[i]))

    def _digest(self) -> str:
        """Return a digest of the records in their order."""
        data, digest = self._federation.data, hashlib.blake2b(digest_size=16)
        n = int(data.sizes[self.index])
        for start in range(0, n, BLOCK):
            rows = data.rows_of(self.index, slice(start, min(start + BLOCK, n)))
            for values in data.at(rows):
                digest.update(np.ascontiguousarray(values).tobytes())
        if data.people is not None:
            digest.update(data.people.edges.tobytes() + data.people.places.tobytes())
        return digest.hexdigest()
