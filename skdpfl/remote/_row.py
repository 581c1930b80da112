"""One silo's row of a plan, which the silo prices for itself, or all rows of a plan.

A silo runs the plan of a federation of itself alone: if each silo adds its own noise, its messages
depend on other silos only through the server's broadcast. So they are those of the whole plan, bit
for bit with float64 data. (With float32, the precision of sums depends on the silos' sizes; each
silo chooses it for itself.)

If messages are masked in a common sum (:mod:`skdpfl.remote._masks`), all silos receive the same
whole plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from skdpfl.federation import SumPlan, SumQuestion
from skdpfl.privacy.events import Guarantee, Guaranteed, compose
from skdpfl.privacy.mechanisms import Mechanism, SiloGradients, SiloMessages
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.release import PrecisionError
from skdpfl.privacy.sampling import (
    Disjoint,
    Halving,
    PoissonSampling,
    Sampling,
    WithoutReplacement,
)
from skdpfl.privacy.silo_releases import composition_of
from skdpfl.privacy.spending.spent import PrivacySpent, cost_of_sums
from skdpfl.remote._terms import Refused, in_words


class Together(Guaranteed):
    """What all silos of masked sums receive alike."""

    name: str
    silos: tuple[str, ...]
    #: what each is told of itself
    own: ClassVar[tuple[str, ...]] = ("name",)

    @cached_property
    def index(self) -> int:
        """The number of the silo whose copy this is."""
        return self.silos.index(self.name)

    @property
    def common(self) -> tuple[Any, ...]:
        """What must be equal for every silo."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return tuple(getattr(self, name) for name in names if name not in self.own)

    def _check_together(self) -> None:
        _check(len(set(self.silos)) == len(self.silos) and self.name in self.silos)


@dataclass(frozen=True, eq=False)
class SumRow(Guaranteed):
    """One silo's noised sums outside of fits, for scores and transformers.

    ``size`` is None if it is secret. ``first`` is the first sum, if it is known: a silo that cannot
    compute it says so before any silo pays.
    """

    name: str
    size: int | None
    delta: float
    guarantee: Guarantee
    sums: tuple[SumPlan, ...]
    first: Any

    def __post_init__(self) -> None:
        _check(self.unit == "silo" if self.size is None else self.unit == "record" and self.size)
        _check(self.trust in ("silo", "secagg") and 0 < self.delta < 1 and self.sums)
        _check((self.trust == "secagg") == isinstance(self, Together))
        _check_sums(self)

    def spent(self, seed: int | None) -> PrivacySpent:
        """Price the sums, as this silo does for itself."""
        i = self.index if isinstance(self, Together) else 0
        return cost_of_sums(self.sums, self.delta, (self.name,), None, seed, self, i)

    def check(self, facts: PublicOfRecords) -> None:
        """Raise unless the first sum can be computed from these records."""
        plan = self.sums[0]
        if self.first is None:  # it follows from public numbers, but is not known yet
            return
        checked(plan, plan.first, self.first, facts, None)


@dataclass(frozen=True, eq=False)
class SharedSums(Together, SumRow):
    """Sums outside of fits with shared noise; some may have each silo's own noise."""

    silos: tuple[str, ...]

    own: ClassVar[tuple[str, ...]] = ("name", "size")

    def __post_init__(self) -> None:
        self._check_together()
        super().__post_init__()


def sum_rows_of(
    names: Sequence[str], sums: Sequence[SumPlan], first: Any, delta: float
) -> list[SumRow]:
    """Return each silo's rows of sums outside of fits; all rows if noise is shared.

    Sums that remote silos would have to send without noise are refused.
    """
    finite = all(np.isfinite(mu).all() for plan in sums for mu in plan.mus)
    check_noised(finite, sums[0].budgets.trust)
    given = next((p.budgets for p in sums if p.budgets.shares_noise), sums[0].budgets)
    rows = list[SumRow]()
    for i, name in enumerate(names):
        size = int(given.silo_sizes[i]) if given.unit == "record" else None
        if given.shares_noise:
            whole = given.guarantee, tuple(sums), first, tuple(names)
            rows.append(SharedSums(name, size, delta, *whole))
        else:
            mine = tuple(plan.of_silo(i) for plan in sums)
            rows.append(SumRow(name, size, delta, given.guarantee, mine, first))
    return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanNumbers(Guaranteed):
    """The numbers of a plan that all silos have alike, and what one is asked beside the rounds."""

    steps: tuple[int, ...]
    clip_norm: float
    guarantee: Guarantee
    sampling: Sampling
    cohort: str
    noise_schedule: tuple[str, float, int] | None
    mechanism: Mechanism
    sums: tuple[SumPlan, ...]

    @staticmethod
    def of(plan: PrivacyPlan) -> dict[str, Any]:
        """Return a plan's numbers, but for what is asked beside the rounds."""
        alike = {name: getattr(plan, name) for name in _ALIKE}
        return alike | {"steps": tuple(plan.steps), "clip_norm": float(plan.clip_norm)}

    def with_own(self, index: int, **own: Any) -> PrivacyPlan:
        """Return the plan of these and other numbers; ``setup`` is what the silo is asked beside.

        Where there is none it is refused, in words about public numbers.
        """
        setup = compose([e for each in self.sums for e in each.composition(index)])
        alike = {name: getattr(self, name) for name in _ALIKE}
        with in_words():
            return PrivacyPlan(**alike, setup=(setup,) if setup else (), **own)


_ALIKE = tuple(each.name for each in fields(PlanNumbers) if each.name != "sums")


@dataclass(frozen=True, eq=False)
class Row(PlanNumbers):
    """The public numbers of one silo in a plan.

    ``size`` is None if it is secret, ``rounds`` None if the silo is in all of them.
    """

    name: str
    size: int | None
    noise_multiplier: float
    delta: float
    rounds: tuple[int, ...] | None

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_sums(self)

    def spent(self, seed: int | None) -> PrivacySpent:
        """Price the plan, as this silo does for itself."""
        return self.plan.spent(simulation_seed=seed)

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The plan of a federation of this silo alone."""
        schedule = None
        if self.rounds is not None:
            mine = set(self.rounds)
            own, none = np.zeros(1, int), np.zeros(0, int)
            schedule = tuple(own if r in mine else none for r in range(len(self.steps)))
        return self.with_own(
            0,
            silo_ids=(self.name,),
            silo_sizes=None if self.size is None else np.array([self.size]),
            noise_multiplier=np.array([self.noise_multiplier]),
            delta=np.array([self.delta]),
            schedule=schedule,
        )


@dataclass(frozen=True, eq=False)
class WholePlan(Together, PlanNumbers):
    """All silos' public numbers in a plan, and whose copy it is.

    ``sizes`` is None if they are secret. ``cohorts`` has the concatenated cohorts of all rounds,
    and their sizes; None if all silos are in every round. With trust "secagg" silos share noise:
    ``width`` is the length of a message, and ``spare_rounds`` are priced with the others.
    """

    name: str
    silos: tuple[str, ...]
    sizes: np.ndarray | None
    weights: np.ndarray
    noise_multiplier: np.ndarray
    delta: np.ndarray
    cohorts: tuple[np.ndarray, np.ndarray] | None
    width: int | None
    spare_rounds: int

    def __post_init__(self) -> None:
        n = len(self.silos)
        self._check_together()
        for each in (self.weights, self.noise_multiplier, self.delta, self.sizes):
            _check(each is None or (each.shape == (n,) and ((each > 0) & (each < np.inf)).all()))
        self._check_cohorts(n)
        _check(self.spare_rounds >= 0)
        _check_numbers(self)
        _check_sums(self)
        if self.shares_noise and self.unit == "record":
            _check(max(self.steps) == 1)
        if self.unit == "silo":  # all are noised alike, whoever prices it
            _check((self.noise_multiplier == self.noise_multiplier[0]).all())
        _check_spare(self)

    def _check_cohorts(self, n: int) -> None:
        if self.cohorts is None:
            return
        who, many = self.cohorts
        _check(who.dtype.kind == many.dtype.kind == "i" and many.shape == (len(self.steps),))
        _check((many >= 0).all() and many.sum() == len(who) and who.ndim == 1)
        _check(((who >= 0) & (who < n)).all())
        _check(all((np.diff(cohort) > 0).all() for cohort in self._schedule or ()))

    @property
    def size(self) -> int | None:
        """Its number of records; None if secret."""
        return None if self.sizes is None else int(self.sizes[self.index])

    def cohort_of(self, round: int) -> np.ndarray:
        """The silos of a round."""
        return np.arange(len(self.silos)) if self._schedule is None else self._schedule[round]

    @cached_property
    def _schedule(self) -> tuple[np.ndarray, ...] | None:
        if self.cohorts is None:
            return None
        return tuple(np.split(self.cohorts[0], np.cumsum(self.cohorts[1])[:-1]))

    @cached_property
    def rounds(self) -> tuple[int, ...] | None:
        """The rounds that this silo is in; None for all."""
        if self._schedule is None:
            return None
        return tuple(r for r, cohort in enumerate(self._schedule) if self.index in cohort)

    def spent(self, seed: int | None) -> PrivacySpent:
        """Price the plan, as this silo does for itself."""
        plan, z = self.plan, float(self.noise_multiplier[self.index])
        return PrivacySpent.from_compositions(
            self.guarantee,
            delta=float(self.delta[self.index]),
            compositions=[composition_of(plan, plan.mechanism, self.index, z)],
            silo_ids=(self.name,),
            group_of_silo=[0],
            noise_multiplier=z * plan.factor_range[0] if plan.mechanism.gaussian else None,
            n_releases=plan.mechanism.n_releases(plan) + sum(p.n_releases for p in self.sums),
            simulation_seeds=frozenset(() if seed is None else (seed,)),
        )

    @cached_property
    def attempts(self) -> PrivacyPlan:
        """The plan that this silo runs: spare rounds are further rounds of all silos."""
        plan = self.plan
        if not self.spare_rounds:
            return plan
        steps = plan.steps + plan.steps[-1:] * self.spare_rounds
        return replace(plan, steps=steps, schedule=None, spare_rounds=0)

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The whole plan."""
        return self.with_own(
            self.index,
            silo_ids=self.silos,
            silo_sizes=self.sizes,
            weights=self.weights,
            noise_multiplier=self.noise_multiplier,
            delta=self.delta,
            schedule=self._schedule,
            size=self.width,
            spare_rounds=self.spare_rounds,
        )


def ran(row: Row | WholePlan, n_rounds: int) -> Row | WholePlan:
    """Return the plan of the first rounds, which is the cost of a fit that ended after them.

    The noise and sampling of a round do not depend on the number of rounds if silos add their own
    noise by the mechanisms of this package; other fits count as a whole.
    """
    if row.trust != "silo" or type(row.mechanism) not in (SiloGradients, SiloMessages):
        raise Refused("A fit of this kind is charged as a whole, however many of its rounds ran.")
    steps = row.steps[:n_rounds]
    if isinstance(row, Row):
        mine = row.rounds and tuple(r for r in row.rounds if r < n_rounds)
        return replace(row, steps=steps, rounds=mine)
    if row.cohorts is None:
        return replace(row, steps=steps)
    who, many = row.cohorts
    many = many[:n_rounds]
    return replace(row, steps=steps, cohorts=(who[: many.sum()], many))


def whole_plans_of(plan: PrivacyPlan, sums: Sequence[SumPlan]) -> list[WholePlan]:
    """Return each silo's copy of a plan; refuse plans that remote silos cannot run."""
    _check_can_run(plan)
    cohorts = None
    if plan.schedule is not None:
        many = np.array([len(cohort) for cohort in plan.schedule])
        cohorts = np.concatenate(plan.schedule).astype(np.int64), many
    first = WholePlan(
        name=plan.silo_ids[0],
        silos=tuple(plan.silo_ids),
        sizes=None if plan.silo_sizes is None else np.asarray(plan.silo_sizes, np.int64),
        weights=np.asarray(plan.weights, float),
        noise_multiplier=plan.noise_multiplier,
        delta=plan.delta,
        cohorts=cohorts,
        sums=tuple(sums),
        width=plan.size,
        spare_rounds=plan.spare_rounds,
        **PlanNumbers.of(plan),
    )
    return [replace(first, name=name) for name in plan.silo_ids]


def rows_of(plan: PrivacyPlan, sums: Sequence[SumPlan]) -> list[Row]:
    """Return each silo's row of a plan; refuse plans that remote silos cannot run."""
    _check_can_run(plan)
    rounds: list[list[int]] = [[] for _ in range(plan.n_silos)]
    for r, cohort in enumerate(plan.schedule or ()):
        for i in cohort.tolist():
            rounds[i].append(r)
    return [
        Row(
            name=plan.silo_ids[i],
            size=None if plan.silo_sizes is None else int(plan.silo_sizes[i]),
            noise_multiplier=float(plan.noise_multiplier[i]),
            delta=float(plan.delta[i]),
            rounds=None if plan.schedule is None else tuple(rounds[i]),
            sums=tuple(each.of_silo(i) for each in sums),
            **PlanNumbers.of(plan),
        )
        for i in range(plan.n_silos)
    ]


def _check_can_run(plan: PrivacyPlan) -> None:
    """Raise for plans that remote silos cannot run with their own noise alone."""
    check_noised(plan.private, plan.trust)
    if not (plan.noise_multiplier > 0).all():
        raise Refused("Each remote silo has to add noise: give every silo a finite epsilon.")
    if plan.unit == "silo" and plan.silo_fraction < 1 and not plan.shares_noise:
        raise Refused(
            'With unit="silo" all remote silos take part in every round, since messages would '
            "reveal the secret cohort. Give silo_fraction=1.0."
        )


def check_noised(private: bool, trust: str) -> None:
    """Raise, with an alternative, for sums that remote silos would have to send without noise."""
    if not private:
        raise Refused(
            "epsilon=inf would make silos send exact numbers; remote silos send noised ones only. "
            "Give a finite epsilon (a large one adds little noise)."
        )
    if trust not in ("silo", "secagg"):
        raise Refused(
            f"trust={trust!r} needs {'a shuffler' if trust == 'shuffler' else 'a sum'} that nobody "
            "can look into; remote silos would have to send exact numbers to the server. Give "
            'trust="silo": each silo then adds its own noise; or trust="secagg".'
        )


def _check(holds: object) -> None:
    if not holds:
        raise Refused("The numbers in this silo's row of the plan are inconsistent.")


def _check_numbers(row: Row | WholePlan) -> None:
    """Raise unless each number is within its range, so that the priced plan can run."""
    n_rounds, z = len(row.steps), np.asarray(row.noise_multiplier)
    _check(n_rounds and all(k >= 1 for k in row.steps))
    _check(row.unit == "silo" if row.size is None else row.unit == "record" and row.size >= 1)
    _check(0 < row.clip_norm < math.inf and np.all(np.asarray(row.delta) < 1) and z.size)
    _check(np.all((z > 0) & (z < math.inf)) and np.all(np.asarray(row.delta) > 0))
    if row.rounds is not None:
        _check(all(a < b for a, b in zip((-1, *row.rounds), (*row.rounds, n_rounds), strict=True)))
        _check(row.unit == "record" or row.trust == "secagg")
    _check(row.trust == "silo" or (isinstance(row, WholePlan) and row.trust == "secagg"))
    _check(row.mechanism.serves == (row.unit, row.trust))
    _check_sampling(row)


def _check_spare(row: WholePlan) -> None:
    """Raise unless a failed round can be repeated with new batches."""
    if not row.spare_rounds:
        return
    if row.noise_schedule is not None:
        raise Refused("Spare rounds of remote silos need noise_schedule=None.")
    if isinstance(row.sampling, Disjoint) and row.rounds is not None:
        raise Refused('Spare rounds with sampling="disjoint" need all silos in each round.')


def _check_sampling(row: Row | WholePlan) -> None:
    """Raise unless batches can be drawn in every step that the silo is in."""
    sampling = row.sampling
    if isinstance(sampling, PoissonSampling | WithoutReplacement):
        _check(0 < sampling.rate <= 1)
    if isinstance(sampling, Halving):
        k, whole = sampling.n_phases, row.rounds is None
        _check(whole and 1 <= k <= sampling.n_steps and sum(row.steps) <= sampling.n_steps)
        _check(row.size is None or row.size >> k >= 1)
        _check(not (isinstance(row, WholePlan) and row.spare_rounds))
    if isinstance(sampling, Disjoint):
        own = range(len(row.steps)) if row.rounds is None else row.rounds
        size = math.inf if row.size is None else row.size
        spare = row.spare_rounds if isinstance(row, WholePlan) else 0
        _check(sum(row.steps[r] for r in own) + spare <= sampling.n_parts <= size)


def _check_sums(row: Row | SumRow | WholePlan) -> None:
    """Raise unless the sums are of the row's records, and priced as they run."""
    purposes = [plan.purpose for plan in row.sums]
    _check(len(set(purposes)) == len(purposes) and "round" not in purposes)
    among, i, colluding = 1, 0, 0
    if isinstance(row, Together):
        among, i, colluding = len(row.silos), row.index, row.colluding
    shape, sizes = (among,), row.sizes if isinstance(row, WholePlan) else None
    for plan in row.sums:
        given = plan.budgets
        _check((given.unit, given.neighbours) == (row.unit, row.neighbours))
        _check(given.trust == row.trust or (given.trust == "silo" and isinstance(row, SharedSums)))
        _check(given.every >= 1 and (given.most is None or given.most >= 1))
        _check(not given.shares_noise or given.colluding == colluding)
        _check(given.spare in (0, 1))
        _check(given.silo_sizes.shape == given.mu.shape == shape)
        _check(row.size is None or given.silo_sizes[i] == row.size)
        _check(row.size is None or (given.silo_sizes > 0).all())
        _check(sizes is None or (given.silo_sizes == sizes).all())
        _check(plan.mus and plan.first >= 0 and 0 <= plan.failure < 1)
        _check(all(mu.shape == shape and mu.dtype.kind == "f" for mu in plan.mus))
        _check(all(((mu > 0) & (mu < math.inf)).all() for mu in (given.mu, *plan.mus)))


class PublicOfRecords(Protocol):
    """Public facts of the records of a sum."""

    @property
    def n_features(self) -> int: ...
    @property
    def classes(self) -> tuple[Any, ...] | None: ...
    @property
    def dtype(self) -> str: ...


def checked(
    plan: SumPlan, number: int, what: object, facts: PublicOfRecords, work: Any, failed: int = 0
) -> SumQuestion:
    """Return a sum after a check that it is in the plan and fits such records; refuse others."""
    try:
        question = plan.question(number, what, work, failed)
        n_classes = None if facts.classes is None else len(facts.classes)
        question.what.check(facts.n_features, n_classes, work)
        if facts.dtype == "object" and not question.what.of_words:
            raise Refused(
                "This sum needs a table of numbers without missing values; this silo's table is "
                "raw (text or missing values)."
            )
        if not (plan.noised(number, question.what).std > 0).all():
            raise Refused("A sum without noise is refused.")
    except PrecisionError as error:
        raise Refused("The sum's noise is outside the range that can be added.") from error
    except ValueError as error:  # of public numbers
        raise Refused(str(error)) from error
    return question
