"""Noised sums of bounded terms: the term of a record, the price, and the runner of all sums.

::

    t(record)   a vector of a bounded set, whatever the record holds     radius    >= |t|
                                                                         diameter  >= |t - t'|
    S_i         = sum over silo i's records of t          unit "silo": their mean
                                                          unit "person": sum of persons' means
    message_i   = S_i + noise of standard deviation Delta / mu_i         server: one sum, one noise
                                                                         secagg: in shares
    mean        = sum_i w_i message_i / n_i

A :class:`BoundedSum` defines a record's term and its largest norm. A :class:`SumPlan` fixes, before
any record is read, how many such sums each silo releases and the mu that each costs. The rest is
the same for all and done here: noise, grid, price, the noise of the mean, remote silos.

Formal guarantee
----------------
Let every record's terms be in a set of the given radius and diameter, and let them be a function of
the record and of public or previously released values. ``Delta`` is the diameter if a record is
replaced, and the radius if its terms are set to zero.

1. *A record.* Between neighbours one term of one silo's sum changes, so the exact sum changes by at
   most Delta. So does the sum over all silos at the server, and the masked sum with shares of noise
   (:mod:`skdpfl.privacy.release`).
2. *A whole silo.* Its mean is in the convex hull of the set, which has the same radius and
   diameter: replacing or zeroing the silo changes it by at most Delta.
3. *A person.* The mean over a person's records is in the convex hull, too, so replacing the person
   by another one, with any number of records, changes the silo's sum by at most Delta. Means of
   several records are rounded where float64 adds up terms exactly (:func:`rounded_means`).
4. *Floating point.* :meth:`BoundedSum.drift` bounds the distance between the computed sum and the
   exact one, and between neighbours it counts twice. Sum and noise are added on one grid
   (:mod:`skdpfl.privacy.release`). The noise is made larger for both
   (:func:`skdpfl.privacy.release.noise_for`).
5. *The price.* So a message is a Gaussian mechanism with the ``mu`` in the plan, which
   :meth:`SumPlan.composition` gives to the accountant. The noise fits the requested sum, by its own
   radius and diameter: the price does not depend on who asks, or for which sum.
6. *Several.* A request may depend on earlier answers (adaptive composition). A silo's messages
   depend on other silos' records only through released numbers, so the guarantee holds whatever the
   others' records are.

**Counts of records in cells**: a one in at most one cell of each of some columns. A person's term
is the mean over the person's records: the person's own counts, divided by their number. Few of them
are not zero, and only these are computed::

    counts   (cell, number) of each cell with a record of the person
    mean     number / n, rounded as :func:`rounded_means` does, which leaves a zero a zero, as the
             middle of counts is the origin
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpfl._apart import anew, is_stackable
from skdpfl.federation._budgets import CohortSum, GridSum, SiloBudgets
from skdpfl.federation._data import SiloData
from skdpfl.privacy.events import Approximate, Composition, Event, Exact, Gaussian, compose
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import (
    DOUBLE,
    GridRows,
    NoisedSum,
    SharedNoise,
    grid_for,
    noise_for,
    relative_error,
    shared_noise,
    underflow,
)

#: silos, and what each of them sends
Answers = Iterator[tuple[np.ndarray, Any]]
#: definable by a user's sum; all else in a sum decides how it is added and noised
_OPEN = frozenset(("shape", "radius", "diameter", "terms", "check", "stackable", "of_words"))
#: records that are added up at once, and the most that are read of a protected silo
PIECE, MOST_ROWS = 2**14, 2**25


def of_each(values: list[Any], number: Callable[[Any], float]) -> np.ndarray:
    """Return a number of each value, computed once for equal ones."""
    if values and values.count(values[0]) == len(values):
        return np.full(len(values), number(values[0]))
    known = {value: number(value) for value in set(values)}
    return np.array([known[value] for value in values])


class Question(ABC):
    """A request that each silo answers with an array, with noise or exactly.

    It is public and can be pickled. ``purpose`` and ``number`` name the random stream of the
    answer's noise, so a silo answers each number of a purpose only once. The plan charges the
    answers. An answer is a function of the silo's own records, to the last bit.
    """

    purpose: str
    number: int

    @property
    def asked(self) -> object:
        """What remote silos need to know in addition to the plans that they agreed to."""
        raise ValueError(
            f"{type(self).__name__} needs exact numbers (epsilon=inf), which remote silos do not "
            "send. Give a finite epsilon, or feature_bounds (and target_bounds), or scaling=None "
            "for scaled data."
        )

    @abstractmethod
    def answers(self, data: SiloData, streams: Streams) -> Answers:
        """Answer for the silos whose records are in ``data``.

        Parameters
        ----------
        data : SiloData
            Unscaled records; remote silos have none here.
        streams : Streams
            The silos' random streams.

        Yields
        ------
        silos : ndarray of shape (n,)
            Some of the silos, increasing; each once.
        answers : ndarray of shape (n, width)
            Their answers.
        """


class Named(NamedTuple):
    """A silo's answer with names of its numbers, which are released with them."""

    values: np.ndarray
    names: tuple[tuple[bool | int | float | str, ...], ...]


class Middle(NamedTuple):
    """A point in the convex hull of all terms, before weights.

    ``norm`` is its norm, and ``reach`` the largest distance of a term to it, with weights.
    """

    point: float | np.ndarray
    norm: float
    reach: float


class BoundedSum(ABC):
    """Base class of sums over records whose terms are bounded, whatever a record holds.

    A subclass is a frozen dataclass whose fields are public. It defines ``shape``, ``radius`` and
    :meth:`terms`. Terms that exceed the radius are clipped to it, and terms that are not finite
    count as zeros, so a mistake there costs accuracy, not privacy. ``diameter`` is twice the radius
    by default; a smaller one needs a proof. A user-defined subclass sees one record at a time,
    unless it sets ``stackable = True``, which declares that no record changes the terms of others.
    A subclass cannot change how terms are summed and noised.
    """

    #: whether many records may be shown at once to a subclass from outside
    stackable: ClassVar[bool]
    #: whether terms are multiples of one power of two, so that float64 adds them up exactly
    on_grid: ClassVar[bool] = False
    #: whether sums are exact for another reason
    adds_exactly: ClassVar[bool] = False
    #: whether tables may have words and gaps; if not, they are numbers
    of_words: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        ours = (vars(kind) for kind in cls.__mro__[1:] if kind.__module__.startswith("skdpfl."))
        named = {name for names in ours for name in names if not name.startswith("__")}
        own = sorted(named & set(vars(cls)) - _OPEN)
        if own and not cls.__module__.startswith("skdpfl."):
            raise TypeError(
                f"{cls.__name__} must not define {', '.join(own)}, which the price depends on: a "
                "user-defined sum defines shape, radius and terms, and diameter if it has a proof."
            )

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of a record's terms, and of a sum."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """The largest norm of one record's terms."""

    @property
    def diameter(self) -> float:
        """The largest distance between two records' terms."""
        return 2 * self.radius

    @property
    def middle(self) -> Middle:
        """A point that is nearer to all terms than they are to each other."""
        return Middle(0.0, 0.0, self.radius)

    @property
    def slack(self) -> float:
        """How far a mean near the middle is from breaking a bound."""
        point, radius, diameter = self.middle, self.radius, self.diameter
        slack = min(radius - point.norm, diameter - point.reach, diameter / 2)
        if not slack > 1e-3 * diameter:
            raise ValueError(f"{type(self).__name__} leaves no room to round the means of persons.")
        return slack

    @property
    def entry(self) -> float:
        """The largest absolute value of a single number among a record's terms."""
        return self.radius

    @property
    def weight(self) -> float | np.ndarray:
        """The factor of sums before noise is added; the radius includes it."""
        return 1.0

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the terms (n, *shape) of records, each a function of that record alone."""
        raise NotImplementedError(
            f"{type(self).__name__} must define terms, the term of each record."
        )

    def check(  # noqa: B027
        self, n_features: int, n_classes: int | None, work: Any
    ) -> None:
        """Raise a ValueError unless the sum fits records with these public facts."""

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield silos and the exact sums of their records' terms (n, *shape), not weighted.

        ``work`` is that of the fit after it has started; None before.
        """
        for silo in np.flatnonzero(data.sizes).tolist():
            total = np.zeros(self.shape)
            for start in range(0, int(data.sizes[silo]), PIECE):
                rows = data.rows_of(silo, slice(start, min(start + PIECE, int(data.sizes[silo]))))
                total += self._piece(data.stored(rows), np.asarray(data.y[rows]))
            yield np.array([silo]), total[None]

    def of_persons(self, data: SiloData, work: Any) -> np.ndarray:
        """Return each silo's sum (n_silos, *shape) over persons of the mean of their records."""
        people = data.people
        assert people is not None
        totals = np.zeros((len(people.counts), *self.shape))
        for persons, sums in _together(self.sums(data.by_person(), work)):
            means = self.person_means(sums, people.rows[persons])
            np.add.at(totals, people.silo_of[persons], means)
        return totals

    def person_means(self, sums: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Return the means over n records of a person, rounded if sums are exact."""
        means = self.mean(sums, n)
        if self.on_grid or self.adds_exactly:
            means[n > 1] = rounded_means(self, means[n > 1])
        return means

    def mean(self, sums: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Return the means over n records, for whole silos."""
        return sums / n.reshape(-1, *[1] * len(self.shape))

    def _piece(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the sum of some records' terms, each clipped to the radius."""
        with np.errstate(all="ignore"):  # a warning could depend on a single record
            terms = np.asarray(self._terms(X, y), np.float64)
            if terms.shape != (len(X), *self.shape):
                raise ValueError(
                    f"{type(self).__name__}.terms must return terms of shape {self.shape} per "
                    f"record; got shape {terms.shape} for {len(X)} records."
                )
            flat = terms.reshape(len(X), -1)
            norms = np.sqrt(np.einsum("nd,nd->n", flat, flat))
            finite = np.isfinite(norms)
            clipped = np.where(finite[:, None], flat, 0.0)
            clipped *= np.where(norms > self.radius, self.radius / norms, 1.0)[:, None]
        return clipped.sum(axis=0).reshape(self.shape)

    def _terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the terms of some records, computed one by one if code could mix them."""
        if is_stackable(self) or not len(X):
            return self.terms(X, y)
        fresh = anew(self)
        one_by_one = [fresh().terms(X[i : i + 1], y[i : i + 1]) for i in range(len(X))]
        return np.concatenate([np.asarray(terms, np.float64) for terms in one_by_one])

    def answers(self, question: SumQuestion, data: SiloData, streams: Streams) -> Answers:
        """Yield silos and their sums, with noise unless the server adds it."""
        budgets = question.plan.budgets
        noised = None if budgets.as_one else self.noised(budgets, question.mu)
        for silos, exact in exact_sums(self, data, budgets, question.work):
            if noised is not None:
                exact = question.added(noised.of(silos), silos, exact, streams)
            elif question.shared is not None:
                exact = question.hidden(silos, exact, streams)
            yield silos, exact.reshape(len(silos), -1)

    # ---- the arithmetic ----------------------------------------------------------------------

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        """The most floating-point operations on a term in sums of these records (n_silos,)."""
        if self.on_grid:
            return np.full(len(records), 2.0)
        return PIECE + np.ceil(records / PIECE) + n_added + math.prod(self.shape) + 8

    def drift(self, budgets: SiloBudgets) -> np.ndarray:
        """A bound on the norm of the rounding error of the sums before noise (n_silos,)."""
        units, n_added = budgets.summed, budgets.n_silos if budgets.as_one else 1
        whole = budgets.unit == "silo"
        records = np.full(len(units), float(MOST_ROWS)) if budgets.unit != "record" else units
        operations = self.operations(records, n_added) + (whole and self.on_grid)  # a division
        rho = of_each(operations.tolist(), lambda n: relative_error((n, DOUBLE)))
        lost = 0.0 if self.on_grid else underflow(4 * MOST_ROWS, DOUBLE, math.prod(self.shape))
        return units * rho * self.radius + lost

    def noised(self, budgets: SiloBudgets, mu: np.ndarray) -> NoisedSum:
        """Return the noised sums that cost ``mu`` (n_silos,): of each silo, or of all together."""
        std = self._std(budgets, mu)
        bounds = self.entry * budgets.summed
        if budgets.shares_noise and std.any():
            shared = self.shares(budgets, mu, budgets.n_silos)
            return NoisedSum(np.full(len(std), shared.std_of_total), np.full(len(std), shared.grid))
        pairs = list(zip(std.tolist(), bounds.tolist(), strict=True))
        return NoisedSum(std, of_each(pairs, lambda pair: grid_for(*pair) if pair[0] else 0.0))

    def shares(self, budgets: SiloBudgets, mu: np.ndarray, among: int) -> SharedNoise:
        """Return each silo's share of the noise of a sum that costs ``mu`` (n_silos,)."""
        std, bound = float(self._std(budgets, mu).max()), self.entry * budgets.summed[0]
        return shared_noise(std, among, budgets.colluding, bound)

    def _std(self, budgets: SiloBudgets, mu: np.ndarray) -> np.ndarray:
        delta = self.diameter if budgets.neighbours == "replace" else self.radius
        drift = self.drift(budgets)
        if budgets.unit == "person" and not (self.on_grid or self.adds_exactly):
            # a division, and one addition for each person
            units, silos = budgets.summed, budgets.n_silos if budgets.as_one else 1
            rho = {n: relative_error((n + silos + 4, DOUBLE)) for n in set(units.tolist())}
            drift = drift + units * np.array([rho[n] for n in units.tolist()]) * self.radius
        return noise_for(mu, delta, math.prod(self.shape), drift)


@dataclass(frozen=True, eq=False)
class SumPlan:
    """The plan of the noised sums for one purpose, and their cost.

    Parameters
    ----------
    budgets : SiloBudgets
        The silos' sizes and budgets, unit, trust and relation.
    purpose : str
        The purpose of the sums, which also names their random streams.
    mus : tuple of ndarray of shape (n_silos,)
        The mu that each silo spends on each of them; ``inf`` for an exact sum.
    first : int, default=0
        The number of the first sum; later ones follow.
    failure : float, default=0.0
        An additional delta for each sum.
    """

    budgets: SiloBudgets
    purpose: str
    mus: tuple[np.ndarray, ...]
    first: int = 0
    failure: float = 0.0

    def of_silo(self, i: int) -> SumPlan:
        """Return one silo's part of the plan."""
        mine = tuple(mu[i : i + 1] for mu in self.mus)
        return replace(self, budgets=self.budgets.of_silo(i), mus=mine)

    @cached_property
    def numbers(self) -> range:
        """The numbers of the sums."""
        return range(self.first, self.first + len(self.mus))

    @property
    def n_releases(self) -> int:
        """The number of sums that are charged: one more if a sum may be repeated."""
        return len(self.mus) + self._n_spare

    @property
    def _n_spare(self) -> int:
        return self.budgets.spare if self.budgets.shares_noise else 0

    @property
    def squared(self) -> np.ndarray:
        """The mu squared that each silo spends (n_silos,), including repeats of failed sums."""
        each = np.square(self.mus)
        return np.asarray(each.sum(axis=0) + self._n_spare * each.max(axis=0))

    def composition(self, silo: int = 0) -> Composition:
        """The releases of the silo at this position, for the accountant.

        Any of the sums may be the repeated one, so the most expensive counts twice. Of a person in
        several silos this is the part of one of them (:mod:`skdpfl.privacy.plan`).
        """
        spent = [float(mu[silo]) for mu in self.mus]
        spent += [max(spent)] * self._n_spare
        share = self.budgets.event_share
        parts: list[tuple[Event, int]] = [
            (Exact() if math.isinf(mu) else Gaussian(self.budgets.change / (mu * share)), 1)
            for mu in spent
        ]
        if self.failure and not any(map(math.isinf, spent)):
            parts.append((Approximate(0.0, self.failure), len(spent)))
        return compose(parts)

    def noised(self, number: int, what: BoundedSum) -> NoisedSum:
        """Return the silos' noised sums for one of the plan's numbers."""
        return what.noised(self.budgets, self.mus[number - self.first])

    def noise(self, number: int, what: BoundedSum) -> float:
        """Standard deviation of the noise in each number of the common mean."""
        return self.budgets.noise_of_mean(self.noised(number, what).std)

    def question(self, number: int, what: Any, work: Any = None, failed: int = 0) -> SumQuestion:
        """Return the request for one of the sums; raise a ValueError unless it is in the plan.

        ``failed`` is the number of sums so far that lacked a silo's answer and were repeated.
        """
        if number not in self.numbers or not isinstance(what, BoundedSum):
            raise ValueError(f"The plan has no sum number {number!r} for the {self.purpose}.")
        return SumQuestion(self, number + failed, what, work, failed)


@dataclass(frozen=True, eq=False)
class SumQuestion(Question):
    """One of a plan's sums: noised at each silo, or exact if the server adds the noise.

    A repeated sum, after ``failed`` others, has its own number, and so its own noise. ``among`` is
    the number of silos that answer; None for all.
    """

    plan: SumPlan
    number: int
    what: BoundedSum
    work: Any = None
    failed: int = 0
    among: int | None = None

    @property
    def purpose(self) -> str:  # type: ignore[override]
        return self.plan.purpose

    @property
    def asked(self) -> BoundedSum:
        return self.what

    def answers(self, data: SiloData, streams: Streams) -> Answers:
        return self.what.answers(self, data, streams)

    @property
    def mu(self) -> np.ndarray:
        """The mu that each silo spends on it (n_silos,)."""
        return self.plan.mus[self.number - self.failed - self.plan.first]

    def mean(self, federation: Any, streams: Streams) -> np.ndarray:
        """Compute and return the noisy mean of the terms over all units (shape).

        ``streams`` are the server's random streams, for its noise.
        """
        budgets = self.plan.budgets
        if self.shared is not None:
            return self._total(federation) / budgets.units.sum()
        factors = np.ones(budgets.n_silos)
        if not budgets.as_one:
            factors = budgets.weights / budgets.units
        everyone, width = np.arange(budgets.n_silos), math.prod(self.what.shape)
        total = CohortSum(everyone, factors, width)
        for silos, answers in federation.ask(self):
            total.add(silos, answers)
        summed = total.result().reshape(self.what.shape)
        return self._once(summed, streams) / budgets.units.sum() if budgets.as_one else summed

    def each(self, federation: Any, streams: Streams) -> np.ndarray:
        """Compute and return the noisy sums (n_silos, *shape); with a server's noise, one sum."""
        budgets = self.plan.budgets
        if self.shared is not None:
            return self._total(federation)[None]
        sent = np.zeros((budgets.n_silos, math.prod(self.what.shape)))
        came = np.zeros(budgets.n_silos, int)
        for silos, answers in federation.ask(self):
            sent[silos] = answers
            np.add.at(came, silos, 1)
        if (came != 1).any():
            raise ValueError(
                "Each silo must answer exactly once: an answer is missing, or came twice."
            )
        sums = sent.reshape(-1, *self.what.shape)
        return self._once(sums.sum(axis=0), streams)[None] if budgets.as_one else sums

    @cached_property
    def shared(self) -> SharedNoise | None:
        """Each silo's share of the noise of the masked sum; None if noise is not shared."""
        budgets = self.plan.budgets
        if not budgets.shares_noise or np.isinf(self.mu).all():
            return None
        return self.what.shares(budgets, self.mu, self.among or budgets.n_silos)

    def _total(self, federation: Any) -> np.ndarray:
        """Compute and return the noised sum over all units (shape).

        If silos are missing, the sum over the others is scaled up to all.
        """
        units, answers = self.plan.budgets.units, iter(federation.ask(self))
        first = next(answers)
        left = np.setdiff1d(np.arange(len(units)), federation.absent())
        total = GridSum(left, math.prod(self.what.shape))
        for silos, sent in chain([first], answers):
            total.add(silos, sent)
        noise = replace(self, among=len(left)).shared
        assert noise is not None
        noised = noise.total(total.result().reshape(self.what.shape))
        return noised * (units.sum() / units[left].sum())

    def hidden(self, silos: np.ndarray, exact: np.ndarray, streams: Streams) -> np.ndarray:
        """Return sums (n, *shape) with the silos' shares of the noise, as steps on the grid."""
        assert self.shared is not None
        shape = exact.shape[1:]
        units = streams.units_block(self.purpose, silos, self.number, shape, np.float64)
        return self.shared.steps(exact * self.what.weight, units)

    def _once(self, total: np.ndarray, streams: Streams) -> np.ndarray:
        """Return the noised sum over all silos, from their exact sum."""
        first = np.zeros(1, int)
        noised = self.plan.noised(self.number, self.what).of(first)
        return self.added(noised, first, total[None], streams)[0]

    def added(
        self, noised: NoisedSum, silos: np.ndarray, exact: np.ndarray, streams: Streams
    ) -> np.ndarray:
        """Return sums (n, *shape) plus noise; those with infinite budgets stay exact."""
        noisy, out = noised.std > 0, (exact * self.what.weight).reshape(len(exact), -1)
        if noisy.any():
            width, grid = out.shape[1], noised.grid
            units = streams.units_block(self.purpose, silos, self.number, width, np.float64)
            if noisy.all():
                out = GridRows(grid, grid).release(out, units)
            else:
                grid = grid[noisy]
                out[noisy] = GridRows(grid, grid).release(out[noisy], units[noisy])
        return out.reshape(exact.shape)


def exact_sums(
    what: BoundedSum, data: SiloData, budgets: SiloBudgets, work: Any = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield silos and the exact sums over the records they read; for whole silos, means."""
    read = records_read(data, budgets)
    if budgets.unit == "person":
        if data.people is None:
            raise ValueError(
                'unit="person" needs the person of each record, which is not known here.'
            )
        here = np.flatnonzero(data.people.counts)
        yield here, what.of_persons(read, work)[here]
        return
    for silos, sums in what.sums(read, work):
        yield silos, what.mean(sums, read.sizes[silos]) if budgets.unit == "silo" else sums


#: numbers in sums of persons that are added up together
_NUMBERS = 2**18


def _together(
    sums: Iterator[tuple[np.ndarray, np.ndarray]],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the same persons and sums in the same order, many of them at a time."""
    n, waiting = 0, list[tuple[np.ndarray, np.ndarray]]()
    for some in sums:
        waiting.append(some)
        n += some[1].size
        if n >= _NUMBERS:
            yield _joined(waiting)
            n, waiting = 0, []
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    persons, sums = zip(*parts, strict=True)
    return np.concatenate(persons), np.concatenate(sums)


#: grid of the means over a person's records: float64 adds up 2^25 without an error
STEP = 2.0**-27


def rounded_means(what: BoundedSum, means: np.ndarray) -> np.ndarray:
    """Return means (n, *shape) of exact sums over several records, rounded to multiples of STEP.

    Formal guarantee
    ----------------
    The result v' of a mean v has norm at most R, and a distance of at most D to other results and
    to single records' terms t (R and D are radius and diameter). *Proof.* Let m be the sum's
    :attr:`BoundedSum.middle`, and r its largest distance to terms. v' = v + eta (m - v) + e with
    |e| <= delta: half a step in each coordinate, times its weight, here, as much in the sum's own
    ``mean``, which may round as well, and the division's rounding. As |v - t| <= D, |m - v| <= r
    and |v| <= R in the convex hull: |v'| <= (1 - eta) R + eta |m| + delta,
    |v' - t| <= (1 - eta) D + eta r + delta, and of two results (1 - eta) D + 2 delta. These are at
    most R, D and D for eta >= delta / min(R - |m|, D - r, D / 2).
    """
    size, weight = math.prod(what.shape), float(np.max(what.weight))
    delta = STEP * math.sqrt(size) * weight + 2.0**-50 * what.radius
    eta = 1.01 * delta / what.slack
    return np.rint((means * (1 - eta) + what.middle.point * eta) / STEP) * STEP


def records_read(data: SiloData, budgets: SiloBudgets) -> SiloData:
    """Return the records that each silo reads: all, or evenly spaced ones."""
    known, whole = budgets.silo_sizes, budgets.unit == "silo"
    if not whole and ((data.units != known) & (data.units > 0)).any():
        raise ValueError("The silo sizes in the plan differ from those in the data.")
    if budgets.unit == "person":
        return data
    strides = np.maximum(budgets.strides(data.sizes), 1)
    if strides.max() == 1 and not (whole and data.sizes.max() > MOST_ROWS):
        return data
    sizes = -(-data.sizes // strides)
    if whole:
        sizes = np.minimum(sizes, MOST_ROWS)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
    rows = np.repeat(data.starts[:-1], sizes) + np.repeat(strides, sizes) * within
    rows = rows if data.order is None else data.order[rows]
    return replace(data, order=rows, starts=starts)


#: counts in memory at once, and a table's numbers whose cells are counted together
_COUNTED, _MOST_CELLS = 2**18, 2**20


class CellCounts(BoundedSum):
    """Base class of counts: a one in at most one cell of each column, of all cells in ``shape``."""

    adds_exactly: ClassVar[bool] = True

    @abstractmethod
    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        """Return the cell of each column (n, columns) that each row is in; -1: in none."""

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See `BoundedSum.sums`."""
        here, width = np.flatnonzero(data.sizes), 1 + math.prod(self.shape)
        per_block = max(1, _COUNTED // width)
        for first in range(0, len(here), per_block):
            silos = here[first : first + per_block]
            counts = np.zeros((len(silos), width))
            for keys, low, high in self._keys(data, silos, _rows_of(data) // 4):
                block = np.bincount(keys.ravel(), minlength=(high - low) * width)
                counts[low:high] += block.reshape(high - low, width)
            yield silos, counts[:, 1:].reshape(len(silos), *self.shape)

    def of_persons(self, data: SiloData, work: Any) -> np.ndarray:
        """See `BoundedSum.of_persons`."""
        people, width = data.people, 1 + math.prod(self.shape)
        assert people is not None
        totals = np.zeros((len(people.counts), width))
        for persons, cells, counts in self._counts_of_persons(data.by_person()):
            counts = counts.reshape(-1, *[1] * len(self.shape))
            means = self.person_means(counts, people.rows[persons]).ravel()
            silos = people.silo_of[persons]  # increasing
            low, high = silos[0], silos[-1] + 1
            block = np.bincount((silos - low) * width + cells, means, (high - low) * width)
            totals[low:high] += block.reshape(-1, width)
        return totals[:, 1:].reshape(-1, *self.shape)

    def _counts_of_persons(
        self, data: SiloData
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield persons, cells + 1, and how many of a person's records are in the cell."""
        here, width = np.flatnonzero(data.sizes), 1 + math.prod(self.shape)
        n = _rows_of(data)
        ends = np.cumsum(data.sizes[here]) // n
        groups = np.split(here, np.flatnonzero(np.diff(ends)) + 1)
        for persons in groups if len(here) else ():
            parts = [
                np.unique(keys + low * width, return_counts=True)
                for keys, low, _ in self._keys(data, persons, n)
            ]
            keys, counts = parts[0] if len(parts) == 1 else _merged(parts)
            yield persons[keys // width], keys % width, counts.astype(np.float64)

    def _keys(
        self, data: SiloData, silos: np.ndarray, n: int
    ) -> Iterator[tuple[np.ndarray, int, int]]:
        """Yield numbers of silo and cell of up to n rows (n, columns), and the range of silos."""
        rows, edges = data.rows_together(silos)
        for i in range(0, int(edges[-1]), n):
            own = edges[1:].searchsorted(np.arange(i, min(i + n, edges[-1])), side="right")
            if isinstance(rows, slice):
                some: Any = slice(rows.start + i, rows.start + i + len(own))
            else:
                some = rows[i : i + n]
            low, high = int(own[0]), int(own[-1]) + 1
            first = (own - low) * (1 + math.prod(self.shape)) + 1
            yield first[:, None] + self.cells(data, some), low, high


def _rows_of(data: SiloData) -> int:
    """Return how many rows are counted together."""
    return max(4, _MOST_CELLS // max(1, data.table.shape[1]))


def _merged(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return increasing keys, and counts, of several of these; a person can be in two."""
    all_keys, all_counts = map(np.concatenate, zip(*parts, strict=True))
    keys, at = np.unique(all_keys, return_inverse=True)
    return keys, np.bincount(at, all_counts, minlength=len(keys))
