"""What one silo is asked for: a plan and sums, of itself alone or of all silos, which it prices.

A silo runs the plan of a federation of itself alone: if each silo adds its own noise, its messages
depend on other silos only through the server's broadcast. So they are those of the whole plan, bit
for bit with float64 data. (With float32, the precision of sums depends on the silos' sizes; each
silo chooses it for itself.)

If messages are masked in a common sum (:mod:`skdpfl.remote._masks`), all silos receive the same
whole plan.

One of the sums is that of a model's score: of a measure over its records. :mod:`skdpfl.federation`
has the measures, the term of a record in each, and the proof of a sum's cost. The model and the
silo's size are public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdpfl._apart import anew, rows_apart
from skdpfl._surface import forwarded
from skdpfl.federation import BoundedSum, Measure, SumPlan, SumQuestion
from skdpfl.losses import LogLoss
from skdpfl.models import Model, fitted_one_by_one
from skdpfl.privacy import sampling
from skdpfl.privacy.events import compose
from skdpfl.privacy.mechanisms import SiloGradients, SiloMessages
from skdpfl.privacy.plan import PrivacyPlan, composition_of, of_person
from skdpfl.privacy.release import DOUBLE, PrecisionError
from skdpfl.privacy.spending.spent import PrivacySpent, cost_of_sums
from skdpfl.remote._terms import Refused, in_words
from skdpfl.scaling import AffineScaling, CurveScaling, SquashScaling

#: left out of a plan in a letter: cohorts and sums have own fields, the rest is not believed
_NAMES = "schedule setup gradients_only silo_fraction expected_width shares"
_LEFT_OUT = {name: getattr(PrivacyPlan, name) for name in _NAMES.split()}


@dataclass(frozen=True, eq=False)
class Row:
    """The plan of one silo, or of all ``silos`` if their sums are masked, and whose copy it is.

    ``plan`` is None for sums outside of fits, whose price is at ``delta_of_sums``. ``cohorts`` has
    the concatenated cohorts of all rounds, and their sizes; None if all silos are in every round.
    ``first`` is the first sum outside of a fit, if it is known: a silo that cannot compute it says
    so before any silo pays.
    """

    name: str
    silos: tuple[str, ...]
    plan: PrivacyPlan | None
    cohorts: tuple[np.ndarray, np.ndarray] | None
    sums: tuple[SumPlan, ...]
    delta_of_sums: float = 0.0
    first: Any = None

    def __post_init__(self) -> None:
        _check(len(set(self.silos)) == len(self.silos) and self.name in self.silos)
        if self.plan is None:
            _check(0 < self.delta_of_sums < 1 and self.sums and self.cohorts is None)
        else:
            _check_plan(self.plan, self.silos)
            _check_cohorts(self)
            _check_rounds(self, self.plan)
        _check(self.promise.colluding >= 0 and self.promise.trust in ("silo", "secagg"))
        _check(self.masked or not self.shares_noise)
        _check_sums(self)

    @cached_property
    def index(self) -> int:
        """The number of the silo whose copy this is."""
        return self.silos.index(self.name)

    @property
    def masked(self) -> bool:
        """Whether rounds, and sums with shared noise, are masked among all silos."""
        return len(self.silos) > 1

    @property
    def common(self) -> tuple[Any, ...]:
        """What must be equal for every silo."""
        return tuple(getattr(self, each.name) for each in fields(self) if each.name != "name")

    @property
    def promise(self) -> Any:
        """What has unit, trust, neighbours and colluding silos: the plan, or the sums' budgets."""
        shared = (each.budgets for each in self.sums if each.budgets.shares_noise)
        return self.plan or next(shared, None) or self.sums[0].budgets

    @property
    def shares_noise(self) -> bool:
        """Whether each silo adds only a share of the noise."""
        return bool(self.promise.trust == "secagg")

    @property
    def size(self) -> int | None:
        """The number of its records (or persons, if these are protected); None if secret."""
        sizes = self.promise.silo_sizes
        return None if sizes is None or self.promise.unit == "silo" else int(sizes[self.index])

    @cached_property
    def schedule(self) -> tuple[np.ndarray, ...] | None:
        """The cohort of each round; None if all silos are in every round."""
        if self.cohorts is None:
            return None
        return tuple(np.split(self.cohorts[0], np.cumsum(self.cohorts[1])[:-1]))

    def cohort_of(self, round: int) -> np.ndarray:
        """The silos of a round."""
        return np.arange(len(self.silos)) if self.schedule is None else self.schedule[round]

    @cached_property
    def rounds(self) -> tuple[int, ...] | None:
        """The rounds that this silo is in; None for all."""
        if self.schedule is None:
            return None
        return tuple(r for r, cohort in enumerate(self.schedule) if self.index in cohort)

    @property
    def last_round(self) -> int:
        """The last round that this silo is in; -2 if there is none."""
        if self.plan is None:
            return -2
        return self.plan.n_rounds - 1 if self.rounds is None else max(self.rounds, default=-2)

    @cached_property
    def priced(self) -> PrivacyPlan:
        """The plan with its cohorts and this silo's sums besides the rounds.

        Where there is none it is refused, in words about public numbers.
        """
        assert self.plan is not None
        setup = compose([e for each in self.sums for e in each.composition(self.index)])
        with in_words():
            return replace(self.plan, schedule=self.schedule, setup=(setup,) if setup else ())

    @cached_property
    def attempts(self) -> PrivacyPlan:
        """The plan that this silo runs: spare rounds are further rounds of all silos."""
        plan = self.priced
        if not plan.spare_rounds:
            return plan
        steps = plan.steps + plan.steps[-1:] * plan.spare_rounds
        return replace(plan, steps=steps, schedule=None, spare_rounds=0)

    def spent(self, seed: int | None) -> PrivacySpent:
        """Price the plan and the sums, as this silo does for itself.

        **Formal guarantee.** Of a person in k silos this is the cost if the others' releases are
        like those here: k times what this silo sends, or the sums with noise of all silos. With
        Gaussian noise, mu^2 over the person's silos is at most k times the largest of theirs, so
        the largest of these costs covers the person, over any number of fits. So it does if one
        silo's releases dominate the others'.
        """
        i, names, k = self.index, (self.name,), self.promise.silos_per_person
        if self.plan is None:
            sums = self.sums, self.delta_of_sums
            return cost_of_sums(*sums, names, None, seed, self.promise, i, k)
        plan, z = self.priced, float(self.plan.noise_multiplier[i])
        own = composition_of(plan, plan.mechanism, i, z)
        about_one = tuple((event, n * k) for event, n in own)  # record, person in k silos, or silo
        if k > 1 and plan.shares_noise:
            about_one = of_person(plan, plan.mechanism, plan.noise_multiplier, composition_of)
        return PrivacySpent.from_compositions(
            plan.guarantee,
            delta=float(plan.delta[i]),
            compositions=[about_one],
            silo_ids=names,
            group_of_silo=[0],
            noise_multiplier=z * plan.factor_range[0] if plan.mechanism.gaussian else None,
            n_releases=plan.mechanism.n_releases(plan) + sum(p.n_releases for p in self.sums),
            simulation_seeds=frozenset(() if seed is None else (seed,)),
        )

    def truncated(self, n_rounds: int) -> Row:
        """Return the plan of the first rounds, which is the cost of a fit that ended after them.

        The noise and sampling of a round do not depend on the number of rounds if silos add their
        own noise by the mechanisms of this package; other fits count as a whole.
        """
        plan = self.plan
        own = plan is not None and type(plan.mechanism) in (SiloGradients, SiloMessages)
        if plan is None or not own or plan.trust != "silo":
            raise Refused("A fit of this kind is charged in full, whatever rounds ran.")
        cohorts = self.cohorts
        if cohorts is not None:
            many = cohorts[1][:n_rounds]
            cohorts = cohorts[0][: many.sum()], many
        return replace(self, plan=replace(plan, steps=plan.steps[:n_rounds]), cohorts=cohorts)


def rows_of(plan: PrivacyPlan, sums: Sequence[SumPlan], masked: bool) -> list[Row]:
    """Return each silo's row of a plan; refuse plans that remote silos cannot run."""
    check_noised(plan.private, plan.trust)
    if not (plan.noise_multiplier > 0).all():
        raise Refused("Each remote silo has to add noise: give every silo a finite epsilon.")
    if plan.unit == "silo" and plan.silo_fraction < 1 and not plan.shares_noise:
        raise Refused('With unit="silo" messages would reveal the cohort. Give silo_fraction=1.0.')
    names, steps = tuple(plan.silo_ids), tuple(plan.steps)
    bare = replace(plan, **_LEFT_OUT, steps=steps, clip_norm=float(plan.clip_norm))
    if masked:
        whole = Row(names[0], names, bare, _cohorts_of(plan.schedule), tuple(sums))
        return [replace(whole, name=name) for name in names]
    cohorts = None if plan.schedule is None else [set(each.tolist()) for each in plan.schedule]
    rows = []
    for i, name in enumerate(names):
        mine = None if cohorts is None else [np.zeros(int(i in each), int) for each in cohorts]
        own = tuple(each.of_silo(i) for each in sums)
        rows.append(Row(name, (name,), _alone(bare, i), _cohorts_of(mine), own))
    return rows


def _alone(plan: PrivacyPlan, i: int) -> PrivacyPlan:
    """Return the plan of a federation of one silo alone."""
    return replace(
        plan,
        silo_ids=(plan.silo_ids[i],),
        silo_sizes=None if plan.silo_sizes is None else plan.silo_sizes[i : i + 1],
        noise_multiplier=plan.noise_multiplier[i : i + 1],
        delta=plan.delta[i : i + 1],
        weights=np.ones(1),
    )


def _cohorts_of(schedule: Sequence[np.ndarray] | None) -> tuple[np.ndarray, np.ndarray] | None:
    if schedule is None:
        return None
    many = np.array([len(cohort) for cohort in schedule])
    return np.concatenate(schedule).astype(np.int64), many


def sum_rows_of(
    names: Sequence[str], sums: Sequence[SumPlan], first: Any, delta: float
) -> list[Row]:
    """Return each silo's rows of sums outside of fits; all rows if noise is shared.

    Sums that remote silos would have to send without noise are refused.
    """
    finite = all(np.isfinite(mu).all() for plan in sums for mu in plan.mus)
    check_noised(finite, sums[0].budgets.trust)
    if any(plan.budgets.shares_noise for plan in sums):
        every = tuple(names)
        return [Row(name, every, None, None, tuple(sums), delta, first) for name in names]
    own = [tuple(plan.of_silo(i) for plan in sums) for i in range(len(names))]
    return [Row(n, (n,), None, None, own[i], delta, first) for i, n in enumerate(names)]


def check_noised(private: bool, trust: str) -> None:
    """Raise, with an alternative, for sums that remote silos would have to send without noise."""
    if not private:
        raise Refused("epsilon=inf would make silos send exact numbers. Give a finite epsilon.")
    if trust not in ("silo", "secagg"):
        raise Refused(
            f"With trust={trust!r} remote silos would have to send exact numbers to the server. "
            'Give trust="silo": each silo then adds its own noise; or trust="secagg".'
        )


def _check(holds: object) -> None:
    if not holds:
        raise Refused("The numbers in this silo's row of the plan are inconsistent.")


def _check_plan(plan: PrivacyPlan, silos: tuple[str, ...]) -> None:
    """Raise unless each number is within its range, so that the priced plan can run."""
    _check(plan.silo_ids == silos and all(getattr(plan, k) == v for k, v in _LEFT_OUT.items()))
    _check(plan.steps and all(k >= 1 for k in plan.steps) and 0 < plan.clip_norm < math.inf)
    for each in (plan.weights, plan.noise_multiplier, plan.delta, plan.silo_sizes):
        _check(each is None or each.shape == (len(silos),))
        _check(each is None or ((each > 0) & (each < np.inf)).all())
    _check((plan.delta < 1).all() and plan.spare_rounds >= 0)
    _check((plan.unit == "silo") == (plan.silo_sizes is None))
    _check(plan.silo_sizes is None or plan.silo_sizes.dtype.kind in "iu")
    _check(plan.mechanism.serves == plan.guarantee.row)
    if plan.shares_noise and plan.unit != "silo":
        _check(max(plan.steps) == 1)
    if plan.unit == "silo":  # all are noised alike, whoever prices it
        _check((plan.noise_multiplier == plan.noise_multiplier[0]).all())


def _check_cohorts(row: Row) -> None:
    if row.cohorts is None or row.plan is None:
        return
    who, many = row.cohorts
    _check(who.dtype.kind == many.dtype.kind == "i" and many.shape == (row.plan.n_rounds,))
    _check((many >= 0).all() and many.sum() == len(who) and who.ndim == 1)
    _check(((who >= 0) & (who < len(row.silos))).all())
    _check(all((np.diff(cohort) > 0).all() for cohort in row.schedule or ()))
    _check(row.plan.unit != "silo" or row.shares_noise)


def _check_rounds(row: Row, plan: PrivacyPlan) -> None:
    """Raise unless batches can be drawn in every step, also if failed rounds are repeated."""
    rule, spare = plan.sampling, plan.spare_rounds
    if hasattr(rule, "rate"):
        _check(0 < rule.rate <= 1)
    if isinstance(rule, sampling.Halving):
        k, n = rule.n_phases, rule.n_steps
        _check(row.rounds is None and 1 <= k <= n and sum(plan.steps) <= n)
        _check((row.size is None or row.size >> k >= 1) and not spare)
    if isinstance(rule, sampling.Disjoint):
        own = range(plan.n_rounds) if row.rounds is None else row.rounds
        size = math.inf if row.size is None else row.size
        _check(sum(plan.steps[r] for r in own) + spare <= rule.n_parts <= size)
    if spare and plan.noise_schedule is not None:
        raise Refused("Spare rounds of remote silos need noise_schedule=None.")
    if spare and isinstance(rule, sampling.Disjoint) and row.rounds is not None:
        raise Refused('Spare rounds with sampling="disjoint" need all silos in each round.')


def _check_sums(row: Row) -> None:
    """Raise unless the sums are of the row's records, and priced as they run."""
    purposes = [plan.purpose for plan in row.sums]
    _check(len(set(purposes)) == len(purposes) and "round" not in purposes)
    promise, shape = row.promise, (len(row.silos),)
    sizes = None if row.plan is None else row.plan.silo_sizes
    for plan in row.sums:
        budgets = plan.budgets
        _check(budgets.guarantee.protected == promise.guarantee.protected)
        _check(budgets.trust in (promise.trust, "silo"))  # "silo": with all of its own noise
        _check(budgets.every >= 1 and (budgets.most is None or budgets.most >= 1))
        _check(budgets.unit != "person" or budgets.every == 1)
        _check(budgets.colluding == (promise.colluding if budgets.shares_noise else 0))
        _check(budgets.spare in (0, 1))
        _check(budgets.silo_sizes.shape == budgets.mu.shape == shape)
        _check(budgets.unit == "silo" or (budgets.silo_sizes > 0).all())
        _check(sizes is None or (budgets.silo_sizes == sizes).all())
        same = budgets.silo_sizes == row.sums[0].budgets.silo_sizes
        _check(budgets.unit == "silo" or np.all(same))
        _check(plan.mus and plan.first >= 0 and 0 <= plan.failure < 1)
        _check(all(mu.shape == shape and mu.dtype.kind == "f" for mu in plan.mus))
        _check(all(((mu > 0) & (mu < math.inf)).all() for mu in (budgets.mu, *plan.mus)))


def validate_question(
    plan: SumPlan, number: int, what: object, facts: Any, work: Any, failed: int = 0
) -> SumQuestion:
    """Return a sum after a check that it is in the plan and fits such records; refuse others."""
    try:
        question = plan.question(number, what, work, failed)
        n_classes = None if facts.classes is None else len(facts.classes)
        question.what.check(facts.n_features, n_classes, work)
        if facts.dtype == "object" and not question.what.of_words:
            raise Refused("This sum needs a table of numbers; this silo's has text or gaps.")
        if not (plan.noised(number, question.what).std > 0).all():
            raise Refused("A sum without noise is refused.")
    except PrecisionError as error:
        raise Refused("The sum's noise is outside the range that can be added.") from error
    except ValueError as error:  # of public numbers
        raise Refused(str(error)) from error
    return question


# ---- scores -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Predictor:
    """The parts of a fitted model that predictions need: its arrays, and the map of features.

    Features are squashed, or clipped to the limits of an affine map whose scale is already in the
    arrays.
    """

    model: Model
    attributes: Mapping[str, Any]
    scaling: SquashScaling | AffineScaling | CurveScaling | None
    log_link: bool

    def check(self, n_features: int, n_outputs: int) -> None:
        """Raise unless the model has these numbers of features and raw predictions."""
        try:
            shapes = [self._raw(np.zeros((n, n_features))).shape for n in (1, 2)]
        except (ValueError, KeyError, TypeError):
            shapes = []
        if shapes != [(1, n_outputs), (2, n_outputs)]:
            raise Refused("The model to be scored is for other features or classes.")

    def raw(self, X: np.ndarray) -> np.ndarray:
        """Return raw predictions (n, k); NaN for a record at which a user's model fails."""
        if fitted_one_by_one(self.model) is self.model:
            return self._raw(X)
        fixed = np.full(self.model.n_outputs, np.nan)
        return rows_apart(anew(self), lambda own, i: own._raw(X[[i]])[0], len(X), fixed)[0]

    def _raw(self, X: np.ndarray) -> np.ndarray:
        Z = X
        if self.scaling is not None:
            Z = self.scaling.within(X) if self.scaling.affine else self.scaling.transform(X)
        return self.model.raw_of_fitted(self.attributes, Z.astype(DOUBLE))

    def read(self, what: str, X: np.ndarray) -> np.ndarray:
        """Return the predictions that a measure reads, one row a record."""
        raw = self.raw(X)
        if what == "scores":
            return raw
        if what == "targets":
            return np.exp(raw) if self.log_link else raw
        if what == "codes":
            codes = (raw[:, 0] > 0).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)
            return codes[:, None]
        every = range(max(2, raw.shape[1]))
        return np.stack([-LogLoss().value(np.full(len(raw), k), raw) for k in every], axis=1)


@dataclass(frozen=True, eq=False)
class Scored(BoundedSum):
    """A measure of a model's predictions."""

    measure: Measure
    model: Predictor

    on_grid = forwarded("measure.on_grid")
    shape = forwarded("measure.shape")
    radius = forwarded("measure.radius")
    diameter = forwarded("measure.diameter")

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        self.measure.check(n_features, n_classes, work)
        self.model.check(n_features, 1 if n_classes is None or n_classes == 2 else n_classes)

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.measure.terms(self.model.read(self.measure.reads, X), y)
