"""The recipe of a fit: an estimator's parameters and the public numbers, read once, then refined.

:class:`Recipe` has budgets, deltas and weights as one number per silo. :class:`Method` is the base
class of the families of estimators, how they train: it gets the recipe before the plan is made,
and again when noise and scales are known.

Public facts of the data are its sizes, columns, and which silos answer in which round. Cohorts are
drawn by the fit, or given by the user. Given cohorts are public: there is no amplification, and
each silo pays for the rounds it answers in. With m_r of M silos in round r, a fit counts as one
with the share

    l = 1 / (M E[1 / m_r])        over the rounds with m_r > 0

of the silos in each round: noise and sampling enter through 1 / m_r, and 1 / l is its mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from skdpfl._arguments import check_average, check_choice, is_auto
from skdpfl._warnings import warn
from skdpfl.algorithms import Algorithm
from skdpfl.algorithms.theory import effective_silos
from skdpfl.choosing._encoding import EncodingPlan, bounds_of
from skdpfl.encoding import Encoding
from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.inference import PART, Covariance, IntervalPlan
from skdpfl.losses import LogLoss, Loss, Ordinal
from skdpfl.models import Additive, Architecture, LinearModel, Model, OneSlope, RuleTask
from skdpfl.privacy.calibration import automatic_delta, shared_budgets
from skdpfl.privacy.events import Guarantee, Guaranteed, read_guarantee, spare_rounds_of
from skdpfl.privacy.mechanisms import Mechanism, mechanism_for
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.public_numbers import NoiseSchedule, SiloSizes
from skdpfl.privacy.release import distinct
from skdpfl.privacy.sampling import Sampling
from skdpfl.scaling import (
    Bounds,
    CalibrationPlan,
    CurvePlan,
    ExposurePlan,
    ScalingPlan,
    affine_from_bounds,
    read_feature_bounds,
    read_target_bounds,
)


@dataclass(frozen=True, eq=False)
class PublicFacts(SiloSizes):
    """Public numbers, which together with the budget determine every choice of "auto".

    ``silo_sizes`` (n_silos,) are the silos' numbers of records, or of persons if these are
    protected; None with unit "silo". ``n_outputs`` is the number of raw predictions of a record (1
    for regression and two classes). ``feature_names`` is None if columns have none.
    ``class_shares`` are the labels' shares, if public.
    """

    silo_ids: pd.Index
    silo_sizes: np.ndarray | None
    n_features: int
    n_outputs: int = 1
    is_classifier: bool = True
    feature_names: Sequence[str] | None = None
    class_shares: tuple[float, ...] | None = None
    #: columns (n_features,) whose values are known to be 0 or 1; None: none
    indicators: np.ndarray | None = None
    #: whether records have exposures
    has_exposure: bool = False
    #: the columns of a frame that the features come from, if it holds not only numbers
    encoding: Encoding | None = None
    #: whether records stay where nobody else can look: no trust but in silos can be advised
    elsewhere: bool = False

    def with_columns(self, bounds: Any, names: Any, indicators: Any) -> PublicFacts:
        """Return the facts with the columns' names, and which of them are indicators.

        By default names are those in a mapping of bounds, which leaves out indicators.
        """
        d = self.n_features
        if names is None and isinstance(bounds, Mapping) and 0 not in bounds:
            names = [*list(bounds)[:d], *(f"indicator {j}" for j in range(len(bounds), d))]
            if indicators is None and len(bounds) < d:
                indicators = np.arange(d) >= len(bounds)
        flags = None if indicators is None else np.asarray(indicators, bool)
        if flags is not None and flags.shape != (d,):
            raise ValueError(f"indicators must have True or False for each of the {d} features.")
        if names is not None and len(names) != d:
            raise ValueError(f"feature_names has {len(names)} names for {d} features.")
        return replace(self, feature_names=names, indicators=flags)

    def encoded(self, encoding: Encoding) -> PublicFacts:
        """Return the facts of a frame with this encoding."""
        names, flags = encoding.names(), encoding.indicators()
        return replace(self, encoding=encoding, feature_names=names, indicators=flags)

    def widened(self, names: Sequence[str]) -> PublicFacts:
        """Return the facts of a table with additional columns."""
        flags, more = self.indicators, len(names) - self.n_features
        flags = None if flags is None else np.append(flags, [False] * more)
        return replace(self, n_features=len(names), feature_names=names, indicators=flags)

    @property
    def ranges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The known ranges of columns, NaN for others; None if none is known."""
        if self.encoding is not None:
            return self.encoding.ranges()
        if self.indicators is None:
            return None
        return np.where(self.indicators, 0.0, np.nan), np.where(self.indicators, 1.0, np.nan)

    @property
    def n_protected(self) -> int:
        """The number of records (or persons, or silos) to protect."""
        return self.n_silos if self.silo_sizes is None else self.n_records

    @property
    def n_records(self) -> int:
        """The total number of records (or persons)."""
        return int(self.known_sizes.sum())


def check_cohort(params: Mapping[str, Any]) -> None:
    """Raise unless cohort is the name of a scheme, or valid given cohorts."""
    cohort = params["cohort"]
    if isinstance(cohort, str) or cohort is None:
        check_choice("cohort", cohort, ("auto", "balanced", "uniform", "poisson"))
        return
    if not _is_table_of_answers(cohort):
        raise ValueError(
            'cohort must be "auto", "balanced", "uniform", "poisson", or a table of True and False '
            f"(n_rounds, n_silos); got {cohort!r}."
        )
    if params["unit"] == "silo":
        raise ValueError(
            'unit="silo" draws cohorts itself, since they may have to be secret: cohort must be '
            '"auto", "balanced", "uniform" or "poisson". The other units take given cohorts.'
        )
    if params["silo_fraction"] != 1:
        raise ValueError(
            "cohort states which silos answer in each round, so silo_fraction must be 1.0; got "
            f"{params['silo_fraction']!r}."
        )


def _is_table_of_answers(cohort: Any) -> bool:
    """Whether cohort is a two-dimensional table of True and False (or 1 and 0)."""
    try:
        values = np.asarray(cohort)
    except ValueError:  # rows of unequal length
        return False
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        return False
    return bool(np.isin(values, (0, 1)).all())


def read_cohort(
    params: Mapping[str, Any], facts: PublicFacts
) -> tuple[str, float, tuple[np.ndarray, ...] | None]:
    """Return how a round's silos are drawn, which share of them, and cohorts that are given.

    "auto" is "poisson" only if a secret draw amplifies privacy.
    """
    cohort, n_rounds = params["cohort"], params["n_rounds"]
    if not isinstance(cohort, str):
        answers = _answers(cohort, facts, None if isinstance(n_rounds, str) else int(n_rounds))
        chosen = tuple(np.flatnonzero(row) for row in answers)
        sizes = np.array([len(silos) for silos in chosen if len(silos)])
        if not sizes.size:
            raise ValueError("cohort: no silo answers in any round.")
        return "balanced", effective_silos(sizes)[0] / facts.n_silos, chosen
    if cohort == "auto":
        hides = (params["unit"], params["trust"]) == ("silo", "server")
        cohort = "poisson" if hides else "balanced"
    return cohort, float(params["silo_fraction"]), None


def _answers(table: Any, facts: PublicFacts, n_rounds: int | None) -> np.ndarray:
    """Return who answers, of shape (n_rounds, n_silos)."""
    if isinstance(table, pd.DataFrame):
        missing = [silo for silo in facts.silo_ids.tolist() if silo not in table.columns]
        if missing:
            raise ValueError(f"cohort has no column for silo(s) {missing[:5]!r}.")
        table = table[facts.silo_ids.tolist()]
    answers = np.asarray(table)
    if answers.shape[1] != facts.n_silos or len(answers) != (n_rounds or len(answers)):
        raise ValueError(
            f"cohort must be an array of (n_rounds, n_silos) = "
            f"({n_rounds or 'any'}, {facts.n_silos}); got shape {answers.shape}."
        )
    return answers.astype(bool)


#: assumed number of records of a silo where it is protected; to estimate the work of a round
_SOME_RECORDS = 100
#: a mean far above those of scaled targets, whose root mean square is about 1
_FAR_MEAN = 4.0
#: mean square of a value uniform on [-1, 1], and of a squashed one: expected of public maps
_MEAN_SQUARE = 1 / 3
#: the same of a column of 0 and 1 in units of half its range: most are rarer categories
_OF_FLAG = 0.3
#: names in costs of purposes that have other names in sums
_NAMED = {"vocabulary": "levels"}
#: the value of fields that a later stage of a recipe sets
_LATER: Any = None
#: smaller deltas are near the probability, 1e-22, with which what runs differs from what is priced
LEAST_DELTA = 1e-20


@dataclass(frozen=True, eq=False, kw_only=True)
class Promise(Guaranteed):
    """What is protected, against whom, and with which budget.

    ``epsilon`` is one number for all silos, or one per silo if each adds its own noise; None if
    ``noise_multiplier`` was given instead. The silos' sizes are in the facts.
    """

    guarantee: Guarantee
    epsilon: float | np.ndarray | None
    noise_multiplier: float
    delta: np.ndarray
    spare_rounds: int
    contribution: str = "mean"

    @property
    def hides_silos(self) -> bool:
        """Whether whole silos are protected: their messages are clipped, not records' gradients."""
        return self.unit == "silo"

    @cached_property
    def is_exact(self) -> bool:
        """Whether the fit is not private: every budget is infinite."""
        return self.epsilon is not None and bool(np.all(np.isinf(self.epsilon)))

    @cached_property
    def mu(self) -> np.ndarray:
        """mu of each silo's budget, or one for all (1,)."""
        epsilon = shared_budgets(np.asarray(self.epsilon, dtype=float))
        epsilons, deltas = np.broadcast_arrays(epsilon, self.delta)
        first, code = distinct(epsilons, deltas)
        pairs = zip(epsilons[first].tolist(), deltas[first].tolist(), strict=True)
        return np.array([gaussian_mu(e, d) for e, d in pairs])[code]


@dataclass(frozen=True)
class Settings:
    """The settings of a fit, with every "auto" resolved.

    ``steps`` is the number of private gradients per silo in each round; ``rate`` the share of its
    records that a step reads. ``server_step`` is the server's learning rate for the mean update;
    ``falls``: it decreases linearly to 0 in the second half of the rounds, and the last model is
    used.
    """

    steps: tuple[int, ...]
    learning_rate: float
    clip_norm: float
    rate: float
    sampling: Sampling
    momentum: float = 0.0
    server_step: float = 1.0
    falls: bool = False

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.steps)

    @property
    def server_steps(self) -> float | tuple[float, ...]:
        """The server's step, or that of each round if it decreases to 0 in the second half."""
        if not self.falls:
            return self.server_step
        shares = [min(1.0, 2 * (1 - r / self.n_rounds)) for r in range(self.n_rounds)]
        return tuple(self.server_step * share for share in shares)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The parameters of a fit, None for those that are "auto", and what each stage adds.

    ``weights``, shape (n_silos,), are the silos' weights in the objective and sum to one.
    ``published_step``: whether to use the learning rate of the papers.
    """

    facts: PublicFacts
    promise: Promise
    method: Method
    # the objective
    model: Model
    loss: Loss
    alpha: float
    fit_intercept: bool
    weights: np.ndarray
    # scales
    scaling: str | None
    feature_bounds: Bounds | None
    target_bounds: Bounds | None
    clips_features: bool
    asks_to_clip: bool
    # participants, and their records
    cohort: str
    silo_fraction: float
    cohorts: tuple[np.ndarray, ...] | None
    sampling: str
    sampling_rate: float | None
    # rounds and steps
    n_rounds: int | None
    local_steps: int | tuple[int, ...] | None
    local_epochs: float | tuple[float, ...] | None
    learning_rate: float | None
    published_step: bool
    global_learning_rate: float | None
    momentum: float | None
    clip_norm: float | None
    radius: float | None
    average: bool | float
    calibrates: bool
    noise_schedule: NoiseSchedule
    # columns that are added: facts, model and bounds are those of all columns then
    curves: CurvePlan | None = None
    #: the covariance of intervals beside the fit (:mod:`skdpfl.inference`); None: no intervals
    intervals: Covariance | None = None
    #: sums that find a frame's levels and ranges first
    encoding: EncodingPlan | None = None
    #: the epsilon that rounds of the given noise may spend, with n_rounds="budget"
    budget: float | None = None

    # choices: sums for scales (curves have their own), what else silos release
    settings: Settings = _LATER
    algorithm: Algorithm = _LATER
    scaling_plan: ScalingPlan = _LATER
    exposure: ExposurePlan | None = None
    calibration: CalibrationPlan | None = None
    interval_plan: IntervalPlan | None = None
    #: noise of the whole fit on the mean gradient, in clip norms, and the task as expected
    noise: float = _LATER
    expected: RuleTask = _LATER
    #: the whole fit's budget: one per silo, or one for all
    mu: np.ndarray = _LATER

    # plan and price; the mean squared norm of scaled rows, and a bound of their mean square in any
    # direction, None if unknown
    plan: PrivacyPlan = _LATER
    price: float = _LATER
    scaled_row: float | None = None
    largest_square: float | None = None
    #: the curvatures L and V of :mod:`skdpfl.choosing._final_step`, and the largest scaled target,
    #: in fits without privacy whose learning rate is "auto"
    measured: tuple[float, float] | None = None
    largest_target: float = math.inf

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """The part of mu squared of each purpose; that of the rounds is the last."""
        if not np.isfinite(self.mu).all() or not self.sums:
            return ()
        parts = [
            (_NAMED.get(plan.purpose, plan.purpose), float((plan.squared / self.mu**2).max()))
            for plan in self.sums
        ]
        return (*parts, ("rounds", 1 - sum(part for _, part in parts)))

    @property
    def sums(self) -> tuple[SumPlan, ...]:
        """The noised sums that are released in addition to the rounds."""
        first = [p for part in (self.encoding, self.curves) if part is not None for p in part.sums]
        exposure = () if self.exposure is None else (self.exposure.sums,)
        own = () if self.calibration is None else (self.calibration.labels, self.calibration.sums)
        last = () if self.interval_plan is None else (self.interval_plan.sums,)
        every = (*first, self.scaling_plan.sums, *exposure, *own, *last)
        return tuple(sums for sums in every if sums.mus)

    @property
    def expected_row(self) -> float:
        """The expected mean square norm of a scaled row, from public numbers."""
        plan, bounds = self.scaling_plan, self.scaling_plan.feature_bounds
        of_curves = 0.0 if self.curves is None else self.curves.squared
        n_used = plan.n_features if bounds is None else int(bounds.used.sum())
        if plan.features == "bounds" and bounds is not None and not plan.centred:
            row = affine_from_bounds(bounds, centred=False).row_norm
            return of_curves + float(row or 0.0) ** 2
        if plan.features in ("bounds", "squash"):
            return of_curves + _MEAN_SQUARE * float(n_used)
        if plan.indicators is None or bounds is None:
            return of_curves + float(n_used)
        n_flags = int((plan.indicators & bounds.used).sum())
        return of_curves + (n_used - n_flags + _OF_FLAG * n_flags)

    @property
    def squared_row(self) -> float:
        """rho^2 of scaled rows; if unknown, that of standardised rows."""
        squared = self.model.n_features if self.scaled_row is None else self.scaled_row
        return squared + float(self.fit_intercept)

    @property
    def ranges(self) -> Bounds | None:
        """The bounds of the features, without those of added columns."""
        return self.feature_bounds if self.curves is None else self.curves.bounds

    @property
    def left(self) -> float:
        """The share of mu that remains after intervals, levels and ranges, and curves."""
        if self.promise.epsilon is None and self.intervals is None:
            return 1.0
        curves = self.curves.share if self.curves is not None and self.curves.sums else 0.0
        levels = 0.0 if self.encoding is None else self.encoding.share
        intervals = 0.0 if self.intervals is None else PART
        return math.sqrt((1 - intervals) * (1 - curves**2) * (1 - levels**2))

    def budgets_of(self, mu: np.ndarray) -> SiloBudgets:
        """Return the silos' budgets for sums, with ``mu``: one per silo, or one for all (1,)."""
        facts, promise = self.facts, self.promise
        sizes = np.ones(facts.n_silos) if facts.silo_sizes is None else facts.silo_sizes
        return SiloBudgets.of(promise.guarantee, sizes, mu, promise.spare_rounds)

    @property
    def chooses_step(self) -> bool:
        """Whether the learning rate is "auto"."""
        return self.learning_rate is None and not self.published_step

    @property
    def doubts_coefficients(self) -> bool:
        """Whether coefficients are compared with their noise after the rounds, to judge scales."""
        known = self.loss.is_quadratic and isinstance(self.model, LinearModel)
        return known and self.curves is None and self.intervals is None and self.chooses_step

    @property
    def takes_one_step(self) -> bool:
        """Whether silos take one step of automatic length in each round."""
        one = self.local_steps in (None, 1) and self.local_epochs is None
        return one and self.chooses_step and not self.promise.hides_silos

    @property
    def label_free(self) -> bool:
        """Whether gradients are clipped by the largest slope over labels."""
        return isinstance(self.loss, LogLoss | Ordinal) and self.loss.label_free

    @property
    def takes_no_advice(self) -> bool:
        """Whether warnings about noise do not apply, by the user's choices."""
        fixed = not self.chooses_step or self.promise.epsilon is None
        return fixed or self.promise.hides_silos

    def task(self, squared_norm: float, largest: float | None = None) -> RuleTask:
        """Return the task for rows with this mean square norm, and the largest in a direction.

        Both exclude the intercept's 1.
        """
        facts, curvature = self.facts, self.loss.curvature(self.facts.n_outputs)
        guessed = _SOME_RECORDS * facts.n_silos
        return RuleTask(
            curvature=curvature if math.isfinite(curvature) else 1.0,
            squared_row=max(squared_norm + self.fit_intercept, 1e-12),
            n_parameters=max(1, self.model.size),
            work_per_record=max(1, self.model.work_per_record),
            n_records=guessed if facts.silo_sizes is None else facts.n_records,
            n_silos=facts.n_silos,
            is_classifier=facts.is_classifier,
            slope=self.loss.lipschitz(self.facts.n_outputs),
            is_binary=facts.is_classifier and facts.n_outputs == 1,
            label_free=self.label_free,
            steepest=None if largest is None else max(largest + self.fit_intercept, 1e-12),
        )


@dataclass(frozen=True)
class Method:
    """Base class; subclasses have the parameters of their family.

    Subclasses must implement :meth:`algorithm`.
    """

    #: where noise is added; None: determined by unit and trust
    given_mechanism: Mechanism | None = field(default=None, kw_only=True)
    #: whether the algorithm sets its own step sizes, so that ``learning_rate`` has no effect
    has_own_step: ClassVar[bool] = False

    @property
    def takes_plain_steps(self) -> bool:
        """Whether "auto" chooses the steps by a model's rules."""
        return not self.has_own_step

    def algorithm(self, recipe: Recipe) -> Algorithm:
        """Return the algorithm with the recipe's settings."""
        raise NotImplementedError

    def local_steps(self, recipe: Recipe) -> int:
        """Return the number of local steps for "auto"."""
        return 1

    def n_rounds(self, recipe: Recipe, default: int) -> int:
        """Return the number of rounds for "auto"."""
        return default

    def sampling(self, recipe: Recipe, n_steps: int) -> Sampling | None:
        """Return how records are drawn; None: as asked."""
        return None

    def has_momentum(self, recipe: Recipe) -> bool:
        """Whether "auto" uses momentum at the server."""
        return False

    def message_clip_norm(
        self, recipe: Recipe, steps: tuple[int, ...], noise: float, task: RuleTask
    ) -> float:
        """Return the clip norm of whole silos' messages for "auto", the highest of those learnt."""
        return recipe.model.rules.message_clip_norm(steps, noise, task)

    def silo_learning_rate(self, recipe: Recipe, noise: float, task: RuleTask) -> float:
        """Return the local step of whole silos for "auto"."""
        return recipe.model.rules.silo_learning_rate(recipe.settings.steps, noise, task)

    def mechanism(self, recipe: Recipe) -> Mechanism:
        """Return the mechanism, which determines where noise is added."""
        return self.given_mechanism or mechanism_for(recipe.promise.unit, recipe.promise.trust)

    def with_constants(self, recipe: Recipe) -> Recipe:
        """Return the recipe with constants that depend on the plan's noise and the scales.

        It must not change the releases: the plan is already priced.
        """
        return recipe


def _clips_features(params: Mapping[str, Any], promise: Any) -> bool:
    """Whether features are clipped: by default if there are scales and privacy.

    Intervals are of coefficients of features as they are, so their pilot has to be, too: a rare
    flag is clipped to less than 1, and gets a coefficient of more than its log odds ratio.
    """
    if not is_auto(params["clip_features"]):
        return bool(params["clip_features"])
    return params["scaling"] is not None and not promise.is_exact and not params.get("inference")


def read_recipe(
    params: Mapping[str, Any], facts: PublicFacts, method: Method, loss: Loss
) -> Recipe:
    """Return the recipe for checked parameters; parameters that an estimator lacks are off."""
    fit_intercept = bool(params["fit_intercept"])
    promise, (cohort, fraction, cohorts) = _promise(params, facts), read_cohort(params, facts)
    if promise.hides_silos and not promise.is_exact and params["scaling"] is not None:
        loss = loss.bounded(_FAR_MEAN)  # local steps of whole silos are not clipped
    return Recipe(
        facts=facts,
        promise=promise,
        method=method,
        model=_model(params["model"], facts, fit_intercept, loss),
        loss=loss,
        alpha=float(params["alpha"]),
        fit_intercept=fit_intercept,
        weights=_weights(params["silo_weights"], facts, promise),
        scaling=params["scaling"],
        feature_bounds=_feature_bounds(params["feature_bounds"], facts),
        target_bounds=_unless_auto(params, "target_bounds", read_target_bounds),
        clips_features=_clips_features(params, promise),
        asks_to_clip=not is_auto(params["clip_features"]) and bool(params["clip_features"]),
        cohort=cohort,
        silo_fraction=fraction,
        cohorts=cohorts,
        sampling=params.get("sampling", "poisson"),
        sampling_rate=_unless_auto(params, "sampling_rate", float),
        average=check_average(params["average"]),
        calibrates=bool(params.get("calibrate", False)),
        intervals=params["covariance"] if params.get("inference") else None,
        **_rounds_and_steps(params, cohorts),
    )


def _rounds_and_steps(params: Mapping[str, Any], cohorts: Any) -> dict[str, Any]:
    """Return the fields of a recipe that are settings of rounds and steps."""
    rate, by_budget = params["learning_rate"], spends_budget(params)
    n_rounds = None if by_budget else _unless_auto(params, "n_rounds", int)
    if n_rounds is None and cohorts is not None:
        n_rounds = len(cohorts)
    return {
        "n_rounds": n_rounds,
        "local_steps": _unless_auto(params, "local_steps", _one_or_each(int), otherwise=1),
        "local_epochs": _unless_auto(params, "local_epochs", _one_or_each(float)),
        "learning_rate": None if isinstance(rate, str) else float(rate),
        "published_step": isinstance(rate, str) and rate == "optimal",
        "global_learning_rate": _unless_auto(params, "global_learning_rate", float, otherwise=1.0),
        "momentum": _unless_auto(params, "momentum", float),
        "clip_norm": _unless_auto(params, "clip_norm", float),
        "radius": _unless_auto(params, "radius", float),
        "noise_schedule": params.get("noise_schedule"),
        "budget": float(params["epsilon"]) if by_budget else None,
    }


def spends_budget(params: Mapping[str, Any]) -> bool:
    """Whether rounds go on until the budget is spent."""
    return isinstance(params["n_rounds"], str) and params["n_rounds"] == "budget"


def _model(model: str | Architecture, facts: PublicFacts, fit_intercept: bool, loss: Loss) -> Model:
    if loss.one_slope:
        return OneSlope(facts.n_features, facts.n_outputs)
    if isinstance(model, str | Additive):
        return LinearModel(facts.n_features, facts.n_outputs, fit_intercept)
    return model.build(facts.n_features, facts.n_outputs)


def per_silo(name: str, value: Any, silo_ids: pd.Index) -> np.ndarray:
    """Return one number per silo from a number or a mapping silo -> number.

    Entries of silos without data are allowed; a silo without an entry is an error.
    """
    if not isinstance(value, (Mapping, pd.Series)):
        return np.full(len(silo_ids), value, dtype=float)
    entries = value.to_dict() if isinstance(value, pd.Series) else value
    missing = [silo for silo in silo_ids.tolist() if silo not in entries]
    if missing:
        raise ValueError(
            f"{name} has no entry for silo(s) {missing[:5]!r}; give every silo in the data one "
            f"(it has {list(entries)[:5]!r})."
        )
    return np.array([entries[silo] for silo in silo_ids.tolist()], dtype=float)


def _promise(params: Mapping[str, Any], facts: PublicFacts) -> Promise:
    epsilon, trust = params["epsilon"], params.get("masks") or params["trust"]
    if spends_budget(params):  # the noise is given
        epsilon = None
    if isinstance(epsilon, (Mapping, pd.Series)):
        epsilon = per_silo("epsilon", epsilon, facts.silo_ids)
    elif epsilon is not None:
        epsilon = float(epsilon)
    return Promise(
        guarantee=read_guarantee(
            params["unit"], trust, params["neighbours"], params.get("silos_per_person", 1)
        ),
        contribution=params.get("contribution", "mean"),
        spare_rounds=spare_rounds_of(trust),
        epsilon=epsilon,
        noise_multiplier=float(params["noise_multiplier"] or 0.0),
        delta=_delta(params["delta"], facts, params["unit"]),
    )


def _delta(delta: Any, facts: PublicFacts, unit: str) -> np.ndarray:
    """Return each silo's delta; warn if one is above 1 / n (the papers' choice), or too small."""
    if is_auto(delta):
        return np.full(facts.n_silos, automatic_delta(facts.n_protected))
    values, n = per_silo("delta", delta, facts.silo_ids), facts.n_protected
    if values.max() > (1 + 1e-9) / n:
        warn(
            f"delta={values.max():g} is above 1 / n_{unit}s = {1 / n:.2g}, which would allow to "
            f"release a whole {unit} with probability delta. Use a smaller delta."
        )
    if values.min() < LEAST_DELTA:
        warn(
            f"delta={values.min():g} is below {LEAST_DELTA:g}: the price assumes ideal noise and "
            "sampling, from which the implementation differs with a probability of up to 1e-22. "
            f"Use a delta of at least {LEAST_DELTA:g}."
        )
    return values


def _weights(weights: Any, facts: PublicFacts, promise: Promise) -> np.ndarray:
    """Return the silos' weights, summing to one over all silos."""
    if isinstance(weights, (Mapping, pd.Series)):
        values = per_silo("silo_weights", weights, facts.silo_ids)
    elif weights == "uniform" or facts.silo_sizes is None:
        values = np.ones(facts.n_silos)
    else:
        values = facts.silo_sizes.astype(float)
        if is_auto(weights) and promise.trust == "silo":
            values = values * _reliability(promise, facts)
    return values / values.sum()


def _reliability(promise: Promise, facts: PublicFacts) -> np.ndarray | float:
    """Return the weight of a record by its silo's noise; 1 if all silos have the same budget.

    The mean gradient of a silo of n records differs from the overall mean because of the silo's own
    optimum and of noise. With d parameters per output and n' records in a typical silo, the squared
    differences are d / n' and 4 d / (n mu)^2. So the weight of a record is ``1 / (n' / d + 4 /
    mu^2)``.
    """
    epsilon = promise.epsilon
    if not isinstance(epsilon, np.ndarray) or (epsilon == epsilon[0]).all():
        return 1.0
    pairs = zip(epsilon.tolist(), promise.delta.tolist(), strict=True)
    mu = np.array([gaussian_mu(e, d) for e, d in pairs])
    n, d = facts.known_sizes.mean(), facts.n_features + 1
    return 1 / (n / d + 4 / mu**2)


def _feature_bounds(bounds: Any, facts: PublicFacts) -> Bounds | None:
    known = facts.ranges
    if facts.encoding is not None:  # which has read the bounds
        return bounds_of(facts.encoding)
    if bounds is None and known is not None and np.isfinite(known).all():
        bounds = known
    if bounds is None:
        return None
    return read_feature_bounds(bounds, facts.n_features, facts.feature_names, known)


def _unless_auto(
    params: Mapping[str, Any], name: str, read: Callable[[Any], Any], otherwise: Any = None
) -> Any:
    """Return a parameter, or None if it is "auto", None or missing."""
    value = params.get(name, otherwise)
    return None if value is None or is_auto(value) else read(value)


def _one_or_each(kind: type) -> Callable[[Any], Any]:
    """Return a function that reads one number, or one per round."""

    def read(value: Any) -> Any:
        return kind(value) if np.ndim(value) == 0 else tuple(kind(v) for v in value)

    return read
