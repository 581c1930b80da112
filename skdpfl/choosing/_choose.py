"""Resolution of "auto": from what is asked to the numbers with which a fit runs.

:func:`choose` decides rounds, steps, clip norm and learning rate from public numbers, and where the
scales of features and target come from: bounds, a part of the budget, or none. Private scales, and
the sums for calibration after training, are in ``setup`` of the plan: they are priced with it, and
training gets the rest of the budget. Noise is added in the silo (``trust="silo"``) or once to the
sum (``trust="server"``); the guarantee is in :mod:`skdpfl.scaling`.

**The columns that an additive model adds** are chosen from public numbers. Let s be the noise of
the whole fit on each coordinate of the mean gradient, in clip norms. For n records with budget mu,
``2 / s`` is n mu with a trusted server, and n mu / sqrt(m) if each of m equal silos adds its own
noise. For d columns that may have curves there are curves, of 8 pieces and 4 quantiles each, or
nothing, by one limit::

    labels      2 / (s R^2) >= 65 d     R = 1 / (4 p (1 - p)) for two labels whose share p is
                                        public; 2 for others, and for more labels
    numbers     2 / s       >= 300 d

Numbers have products beside their curves, if d is at most 12: those of two numbers, p in all, where
``2 / s >= 300 (d + p)``, those of a number and an indicator, q in all, where ``2 / s >= 50 (d +
q)``. There are none of two indicators, or with what says that a value is missing. P converged
columns of variance 1 reduce R2 by about ``25 (2 / s)^-2 P^2``, which is 0.01 for products with
indicators at their limit and 0.007 for curves at theirs (P = 5 d), and scores of rankings by less.
Products for labels lose: the area under the ROC curve was 0.831 with and 0.868 without them on
labels of 4.5 %. By experiment on tables that do not judge.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdpfl._arguments import is_auto
from skdpfl._warnings import warn
from skdpfl.choosing._encoding import bounds_of, plan_encoding
from skdpfl.choosing._noise_level import NoiseLevel, budgets, noise_level, remedies
from skdpfl.choosing._recipe import PublicFacts, Recipe, Settings
from skdpfl.encoding import Encoding
from skdpfl.federation import Federation
from skdpfl.inference import IntervalPlan, Kind
from skdpfl.losses import LogLoss, PiecewiseExponential, SquaredError
from skdpfl.models import FEW_STEPS, STEPS, Additive, LinearModel, RuleTask
from skdpfl.privacy.public_numbers import MOST_STEPS
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.sampling import (
    Disjoint,
    Everyone,
    PoissonSampling,
    Sampling,
    WithoutReplacement,
    WithReplacement,
)
from skdpfl.scaling import (
    GIVEN_NOISE,
    TRAINING,
    CalibrationPlan,
    CurvePlan,
    EventsPlan,
    ExposurePlan,
    Scales,
    ShiftPlan,
    ShrinkPlan,
    TemperaturePlan,
    doubts_about,
    plan_scaling,
    rarity,
    run_scaling,
    values_of,
)

#: warning once the scales are known
_COARSE = (
    "Estimates within the budget show that the target may vary by far less than {:.1g}, or be "
    "outside its bounds, so predictions may be far off. Give target_bounds=(low, high), a public "
    "range that is no wider than the target's values."
)
#: warning where noise hides the target's mean
_UNKNOWN = (
    "The noise will drown the target: its mean was estimated with an error of {:.2g} times half "
    "its range, so predictions may be worse than the target's mean. Give narrower public "
    "target_bounds=(low, high), if you can.  "
)
#: the warning where released counts show features over many powers of ten
_WIDE_RANGE = (
    "{} spread over many powers of ten. The largest values will dominate predictions, and "
    "probabilities of such records may be far off. Take logarithms of these features, give "
    "feature_bounds, or set clip_features=True."
)
#: the same where they are clipped, unasked
_WIDE_CLIPPED = (
    "{} spread over many powers of ten, and are clipped at four scales from their centers, so most "
    "values look alike. Take logarithms of these features, or give feature_bounds."
)
#: values further from their center, in scales, are clipped, but for bounds that are asked to clip
#: (never: log loss +.021, AUC -.222 at worst)
_CLIP_SCALES = 4.0
#: warn above this error of the target's mean: most such fits end below the mean
_DROWNED = 0.15
#: the part of mu squared for the histogram
_CURVES_SHARE = 0.1
#: the least 2 / s for curves, see above, and R of shares that are not public
_LABELS, _NUMBERS, _USUAL = 65.0, 300.0, 2.0
#: the least 2 / s for products with indicators, and the most columns that have products, which take
#: memory
_OF_INDICATORS, _FEW = 50.0, 12
#: pieces of a curve, and pieces for each quantile that is a bin
_KNOTS, _PER_BIN = 8, 2


def encoded(recipe: Recipe, encoding: Encoding) -> Recipe:
    """Return the recipe for a frame's encoding, found within the budget.

    Columns without a level are read no longer. That lowers the noise of the others: each sum has
    the same part of mu, and is of fewer columns.
    """
    facts = replace(recipe.facts, encoding=encoding, feature_names=encoding.names())
    bounds, curves = bounds_of(encoding), recipe.curves
    if curves is not None:
        curves = replace(curves, bounds=bounds)
        bounds = curves.expanded
    plan = recipe.scaling_plan.within(bounds)
    now: dict[str, Any] = {"curves": curves, "feature_bounds": bounds, "scaling_plan": plan}
    return replace(recipe, facts=facts, **now)


def find_scales(recipe: Recipe, federation: Federation, streams: Streams) -> Scales:
    """Return the scales; warn if the budget is too small to estimate them."""
    plan, curves, facts = recipe.scaling_plan, recipe.curves, recipe.facts
    if plan.advice:
        warn(plan.advice)
    expansion, beyond = None, tuple[int, ...]()
    if curves is not None:
        expansion, beyond = curves.find(federation, streams)
    scales = run_scaling(plan, federation, streams)
    columns = () if facts.encoding is None else facts.encoding.columns
    paid = [column.paid for column in columns for _ in column.names()]  # no declaration is wrong
    missed = {*scales.missed_features, *beyond} - set(np.flatnonzero(paid).tolist())
    seen = scales.far_features, scales.unseen_features, tuple(sorted(missed)), facts.feature_names
    for doubt in doubts_about(*seen):
        warn(doubt)
    if recipe.loss.link == "log":
        unit = 1.0 if recipe.exposure is None else recipe.exposure.typical(federation, streams)
        scales = scales.without_shift(unit)
    clips = recipe.clips_features and curves is None
    if recipe.asks_to_clip and plan.feature_bounds is not None:
        scales = scales.clipped(plan.feature_bounds.low, plan.feature_bounds.high)
    elif clips:
        scales = scales.clipped_around(_CLIP_SCALES)
    if scales.wide_features and not recipe.asks_to_clip:
        text = _WIDE_CLIPPED if clips else _WIDE_RANGE
        warn(text.format(values_of(scales.wide_features, facts.feature_names)))
    if scales.coarse_target or (scales.narrow_target and not recipe.doubts_coefficients):
        warn(_COARSE.format(scales.target.scale))
    elif scales.target_error > _DROWNED and not recipe.takes_no_advice:
        helps = remedies(recipe, scales.target_error / _DROWNED)
        warn(_UNKNOWN.format(scales.target_error) + helps)
    if curves is None or expansion is None:
        return scales
    features = curves.scaling_of(expansion, scales.features)
    return replace(scales, features=features)


def _with_scales(recipe: Recipe, mu: np.ndarray) -> Recipe:
    """Decide, from public numbers, how scales are obtained.

    ``mu`` are the budgets of the whole fit: one per silo, shape (n_silos,), or one for all, (1,).
    """
    facts, budget = recipe.facts, recipe.budgets_of(mu)
    shares = GIVEN_NOISE if recipe.promise.epsilon is None else TRAINING
    if recipe.curves is not None:  # whose columns have about the same scale
        shares = replace(shares, counts_in_bounds=0.0)
    if recipe.intervals is not None:  # one column without a scale costs all their intervals
        shares = replace(shares, clear=shares.enough)
    plan = plan_scaling(
        budget,
        facts.n_features,
        scaling=recipe.scaling,  # type: ignore[arg-type]
        feature_bounds=recipe.feature_bounds,
        target_bounds=recipe.target_bounds,
        has_target=not facts.is_classifier and recipe.loss.scales_target,
        shares=shares,
        centred=recipe.fit_intercept,
        indicators=facts.indicators,
    )
    exposure = ExposurePlan(budget) if facts.has_exposure and recipe.scaling else None
    return replace(recipe, scaling_plan=plan, exposure=exposure)


def plan_calibration(recipe: Recipe) -> CalibrationPlan | None:
    """Return the plan of the calibration; None if there is none."""
    promise, model, loss = recipe.promise, recipe.model, recipe.loss
    times = isinstance(loss, PiecewiseExponential)
    own_step = recipe.method.has_own_step and not times
    chosen = recipe.calibrates and recipe.chooses_step and not own_step
    paid = promise.epsilon is not None and (times or not promise.is_exact)
    records = (times or promise.unit != "silo") and promise.trust != "shuffler"
    if not (chosen and paid and records and recipe.radius is None):
        return None
    budget = recipe.budgets_of(budgets(recipe, 1.0, 1))
    if times:
        return EventsPlan(budget)
    if loss.link == "logit" and model.output_mask() is not None:
        has_intercept = model.intercept_mask() is not None
        shares = recipe.facts.class_shares if has_intercept else None
        if not recipe.label_free:
            return TemperaturePlan(budget, shares)
        two = recipe.facts.n_outputs == 1
        return ShrinkPlan(budget, shares, has_intercept and shares is None and two)
    if loss.quantile_level is not None and model.intercept_mask() is not None:
        return ShiftPlan(budget, loss.quantile_level)
    return None


#: the targets of a loss with this link
_KINDS_OF_LINK: dict[str, Kind] = {"logit": "labels", "log": "counts", "identity": "numbers"}
#: steps of one pass over disjoint batches, whose noise grows with their number
_DISJOINT_STEPS = 25
#: local steps of silos that are protected as a whole
_SILO_STEPS = 5
#: the server's step over the silos', per local step, where a step is split between them, so that
#: later gradients are read near the common model
_SPLIT = 30.0


def choose(recipe: Recipe) -> Recipe:
    """Resolve all parameters that are "auto", from public numbers only."""
    rate, steps, level = _level(recipe)
    recipe = _with_scales(recipe, level.mu)
    recipe = replace(
        recipe,
        noise=level.noise,
        mu=level.mu / recipe.left,
        expected=recipe.task(recipe.expected_row),
    )
    recipe = replace(
        recipe,
        settings=_settings(recipe, rate, steps),
        interval_plan=plan_intervals(recipe),
        calibration=plan_calibration(recipe),
    )
    return replace(recipe, algorithm=recipe.method.algorithm(recipe))


def plan_intervals(recipe: Recipe) -> IntervalPlan | None:
    """Return the plan of intervals; None without. Raise for fits that have none."""
    if recipe.intervals is None:
        return None
    facts, promise = recipe.facts, recipe.promise
    times = isinstance(recipe.loss, PiecewiseExponential)
    if facts.n_outputs > 1 and not times:
        raise ValueError(
            f'inference="intervals" is for two classes; got {facts.n_outputs}. Fit each class '
            "against the others, or a class against one other, with a part of the budget each."
        )
    if recipe.scaling_plan.features == "squash":
        raise ValueError(
            'inference="intervals" needs coefficients in the units of X, and this budget is too '
            "small to find the features' scales. Give feature_bounds=(low, high), public ranges."
        )
    budget = recipe.budgets_of(budgets(recipe, 1.0, 1) / recipe.left)
    kind: Kind = "times" if times else _KINDS_OF_LINK[recipe.loss.link]
    cuts = recipe.loss.cuts if isinstance(recipe.loss, PiecewiseExponential) else ()
    own = facts.n_outputs if times else int(recipe.fit_intercept)
    k = recipe.model.size
    plan = IntervalPlan(budget, kind, k, own, recipe.intervals, recipe.asks_to_clip, cuts)
    plan.check(float(promise.delta.min()))
    return plan


def clipped_without_labels(recipe: Recipe) -> Recipe:
    """Return the recipe with clipping that does not depend on labels, where "auto" chooses it.

    It does for linear models of two classes, of ordered labels and of survival times, whose clip
    norm and steps are both "auto"; with a given clip norm, gradients are clipped as published.
    """
    promise = recipe.promise
    chosen = recipe.clip_norm is None and recipe.chooses_step and recipe.method.takes_plain_steps
    protects = promise.unit != "silo" and not promise.is_exact and promise.trust != "shuffler"
    two = (recipe.model.is_linear and recipe.facts.n_outputs == 1) or recipe.loss.one_slope
    if not (chosen and protects and two and recipe.radius is None):
        return recipe
    return replace(recipe, loss=recipe.loss.without_labels())


def with_encoding(recipe: Recipe, model: Any) -> Recipe:
    """Return the recipe with the plan of the levels and ranges that its frame does not declare.

    Ranges are needed by scales, and by curves.
    """
    promise, facts = recipe.promise, recipe.facts
    if facts.encoding is None or facts.encoding.is_known:
        return recipe
    budget = recipe.budgets_of(_level(recipe)[2].mu)
    ranged = recipe.scaling is not None or _takes_curves(recipe, model)
    plan = plan_encoding(facts.encoding, budget, float(promise.delta.min()), ranged=ranged)
    return replace(recipe, encoding=plan)


def with_curves(recipe: Recipe, model: Any) -> Recipe:
    """Return the recipe with an additive model's columns; unchanged for any other ``model``.

    The columns follow from public numbers. "auto" has none where there are intervals, other losses
    than log loss and squared error, no bounds, no scaling, no privacy, or given noise, whose cost
    would grow by theirs.
    """
    if not _takes_curves(recipe, model):
        return recipe
    if recipe.feature_bounds is None:
        raise ValueError(
            'model="additive" needs feature_bounds=(low, high), public ranges of the columns, '
            'within which curves are fitted; give them, or use model="linear".'
        )
    level = _level(recipe)[2]
    asked = model if isinstance(model, Additive) else Additive()
    curves = plan_curves(recipe, level, asked)
    if curves is None:
        return recipe
    names = curves.names
    facts = recipe.facts.widened(names)
    linear = LinearModel(len(names), facts.n_outputs, recipe.fit_intercept)
    return replace(recipe, facts=facts, model=linear, feature_bounds=curves.expanded, curves=curves)


def _takes_curves(recipe: Recipe, model: Any) -> bool:
    """Whether a model has curves, or may have some."""
    wanted = isinstance(model, Additive) or model == "additive"
    plain = recipe.intervals is None and isinstance(recipe.loss, LogLoss | SquaredError)
    scaled = recipe.feature_bounds is not None and recipe.scaling is not None
    paid = recipe.promise.epsilon is not None and not recipe.promise.is_exact
    return wanted or (model == "auto" and plain and scaled and paid)


def plan_curves(recipe: Recipe, level: NoiseLevel, asked: Additive) -> CurvePlan | None:
    """Return the plan of the columns added to those of a recipe; None for none."""
    asked.check()
    facts, bounds = recipe.facts, recipe.feature_bounds
    assert bounds is not None
    used = bounds.used
    indicators = np.zeros(used.size, bool) if facts.indicators is None else facts.indicators
    columns = np.flatnonzero(used & ~indicators)
    amount = 2 / level.noise if level.noise > 0 else math.inf
    knots: int = asked.knots
    if is_auto(asked.knots):
        knots = _KNOTS if amount >= _least_for_curves(facts) * max(1, columns.size) else 0
    factors, products = np.flatnonzero(used & ~_gaps(facts)), asked.interactions
    if isinstance(products, bool):
        pairs = _all_pairs(factors if products else factors[:0], indicators)
    elif is_auto(products):
        some = bool(knots) and not facts.is_classifier and columns.size <= _FEW
        pairs = _all_pairs(factors if some else factors[:0], indicators)
        flagged = indicators[pairs].any(axis=1)
        least = np.where(flagged, _OF_INDICATORS, _NUMBERS)
        beside = np.where(flagged, flagged.sum(), (~flagged).sum())
        pairs = pairs[amount >= least * (columns.size + beside)]
    else:
        pairs = _named_pairs(products, used, facts.feature_names)
    if not knots:
        columns = columns[:0]
    if not (columns.size or len(pairs)):
        return None
    names = facts.feature_names
    features = [f"x{j}" for j in range(used.size)] if names is None else [str(n) for n in names]
    return CurvePlan(
        recipe.budgets_of(level.mu),
        tuple(features),
        bounds,
        columns,
        int(knots),
        int(knots) // _PER_BIN,
        pairs,
        math.sqrt(_CURVES_SHARE),
    )


def _least_for_curves(facts: PublicFacts) -> float:
    """Return the least 2 / s for each column with a curve."""
    if not facts.is_classifier:
        return _NUMBERS
    known = facts.class_shares is not None and facts.n_outputs == 1
    rare = rarity(facts.class_shares) if known and facts.class_shares else _USUAL
    return _LABELS * rare**2


def _gaps(facts: PublicFacts) -> np.ndarray:
    """Return which columns (n_features,) say that a value of a frame is missing."""
    gaps = np.zeros(facts.n_features, bool)
    if facts.encoding is not None:  # the last of each column
        widths = [len(column.names()) for column in facts.encoding.columns]
        gaps[np.cumsum(widths) - 1] = True
    return gaps


def _all_pairs(features: np.ndarray, indicators: np.ndarray) -> np.ndarray:
    """Return all pairs (n, 2) of features, but those of two indicators, of which many may be."""
    if not features.size:
        return np.zeros((0, 2), np.int64)
    numbers = features[~indicators[features]]
    pairs = np.stack(np.meshgrid(numbers, features, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def _named_pairs(asked: Any, used: np.ndarray, names: Any) -> np.ndarray:
    """Return the pairs of features (n, 2) that are asked for."""
    chosen = [(_column_of(a, names), _column_of(b, names)) for a, b in asked]
    strange = [pair for pair in chosen if not all(0 <= j < used.size and used[j] for j in pair)]
    if strange:
        raise ValueError(f"interactions: {strange[0]} must be two features that are not ignored.")
    return np.array(chosen, np.int64).reshape(-1, 2)


def _column_of(feature: Any, names: Any) -> int:
    """Return the number of a feature that is named, or is a number."""
    known = [] if names is None else list(names)
    if feature in known:
        return known.index(feature)
    if isinstance(feature, int):
        return feature
    raise ValueError(
        f"interactions names {feature!r}, which is not a feature; the features are {known!r}."
    )


def _level(recipe: Recipe) -> tuple[float, tuple[int, ...], NoiseLevel]:
    """Return the sampling rate, the steps of each round, and the noise of such a fit."""
    task = recipe.task(float(recipe.facts.n_features))  # rows count as standardised
    rate = _sampling_rate(recipe, task)
    steps = _steps(recipe, rate, task)
    return rate, steps, noise_level(recipe, rate, steps)


def _sampling_rate(recipe: Recipe, task: RuleTask) -> float:
    if recipe.sampling_rate is not None:
        return recipe.sampling_rate
    sizes = recipe.facts.silo_sizes
    if sizes is None:  # sizes are protected, and the rate must be the same for all silos
        return 1.0
    noise_is_fixed = recipe.promise.epsilon is None
    mu = 0.0 if noise_is_fixed else float(budgets(recipe, 1.0, 1).min())
    middle = np.sort(sizes)[[(len(sizes) - 1) // 2, len(sizes) // 2]]
    return recipe.model.rules.sampling_rate(float(middle.sum()) / 2, mu, task)


# ---- rounds, and the steps of each -----------------------------------------------------------


def _steps(recipe: Recipe, rate: float, task: RuleTask) -> tuple[int, ...]:
    """Return the number of gradient steps of each round.

    E epochs at sampling rate q are round(E / q) steps.
    """
    name, steps = "local_steps", recipe.local_steps
    if recipe.local_epochs is not None:
        name, epochs = "local_epochs", np.asarray(recipe.local_epochs, dtype=float)
        counted = np.clip(np.round(epochs / rate), 1, 2 * MOST_STEPS).astype(int)
        steps = tuple(counted.tolist()) if counted.ndim else int(counted)
    if steps is None:
        steps = _automatic_steps(recipe)
    if isinstance(steps, int):
        return (steps,) * _n_rounds(recipe, steps, rate, task)
    n_rounds = len(steps) if recipe.n_rounds is None else recipe.n_rounds
    if len(steps) != n_rounds:
        raise ValueError(
            f"{name} as a sequence must have one entry per round; got {len(steps)} entries for "
            f"n_rounds={n_rounds}."
        )
    return steps


def _automatic_steps(recipe: Recipe) -> int:
    """Return the number of local steps; 1 for a single round.

    Without privacy, rounds cost no budget, and local steps would only move silos to their own
    optima.
    """
    if recipe.promise.is_exact or recipe.n_rounds == 1:
        return 1
    own = recipe.method.local_steps(recipe)
    return max(own, _SILO_STEPS) if recipe.promise.hides_silos else own


def _n_rounds(recipe: Recipe, steps: int, rate: float, task: RuleTask) -> int:
    if recipe.n_rounds is not None:
        return recipe.n_rounds
    exact, plain = recipe.promise.is_exact, not recipe.method.has_momentum(recipe)
    per_message = 1 if recipe.promise.hides_silos else steps
    rules = recipe.model.rules
    default = rules.n_rounds(per_message, rate, task, exact=exact, plain=plain)
    if rate >= 1 and not plain and _may_be_short(recipe):
        enough = rules.enough_steps(noise_level(recipe, rate, (steps,)).noise, task) / per_message
        default = math.ceil(min(default, enough))
    if _may_split(recipe, steps):
        # more where few silos take part in each: a silo pays for its own rounds only
        least = max(default, FEW_STEPS) / recipe.silo_fraction
        default = max(default, min(STEPS, math.ceil(least)))
    if recipe.sampling == "disjoint":
        most = min(_DISJOINT_STEPS, int(recipe.facts.known_sizes.min()))
        default = max(1, min(default, most // steps))
    return recipe.method.n_rounds(recipe, default)


def _may_be_short(recipe: Recipe) -> bool:
    """Whether the noise is the same for any number of rounds, and fewer were tried (log loss)."""
    paid = recipe.promise.epsilon is not None and not recipe.promise.is_exact
    whole = recipe.silo_fraction >= 1 and recipe.cohorts is None
    plain = recipe.noise_schedule is None and recipe.curves is None and recipe.radius is None
    return (
        paid and whole and plain and recipe.sampling != "disjoint" and recipe.loss.link == "logit"
    )


# ---- clip norm, momentum and step ------------------------------------------------------------


def _settings(recipe: Recipe, rate: float, steps: tuple[int, ...]) -> Settings:
    """Return the training's settings, except for an automatic learning rate."""
    rules, clip, momentum = recipe.model.rules, recipe.clip_norm, recipe.momentum
    noise, task = recipe.noise, recipe.expected
    if clip is None and recipe.promise.hides_silos:
        clip = recipe.method.message_clip_norm(recipe, steps, noise, task)
    elif clip is None:
        clip = rules.clip_norm(noise, task, recipe.alpha)
    if momentum is None:
        momentum = rules.momentum(sum(steps)) if recipe.method.has_momentum(recipe) else 0.0
    sampling = recipe.method.sampling(recipe, sum(steps))
    if sampling is None:
        sampling = sampling_of(recipe.sampling, rate, sum(steps))
    server = _server_step(recipe, steps)
    falls = server > 1 and recipe.global_learning_rate is None and rules.averages
    step = recipe.learning_rate or 1.0
    return Settings(steps, step, clip, rate, sampling, momentum, server, falls)


def sampling_of(name: str, rate: float, n_steps: int) -> Sampling:
    """Return the sampling with the given name and rate."""
    if name == "disjoint":
        return Disjoint(n_steps)  # the plan lowers this to what the busiest silo uses
    if name == "without_replacement" and rate < 1:
        return WithoutReplacement(rate)
    if name == "with_replacement":
        return WithReplacement(rate)
    return Everyone() if rate >= 1 else PoissonSampling(rate)


def _may_split(recipe: Recipe, local_steps: int) -> bool:
    """Whether silos may use a small learning rate and the server a large one.

    Later local steps evaluate gradients at a model that has moved by the silo's own noise. With a
    small local learning rate they are evaluated near the common model.
    """
    chooses = recipe.chooses_step and recipe.global_learning_rate is None
    private = not (recipe.promise.is_exact or recipe.promise.hides_silos)
    return chooses and private and local_steps > 1


def _server_step(recipe: Recipe, steps: tuple[int, ...]) -> float:
    """Return the server's learning rate for the silos' mean update; 1 unless the step is split."""
    if recipe.global_learning_rate is not None:
        return recipe.global_learning_rate
    split = len(steps) > 1 and _may_split(recipe, max(steps))
    return _SPLIT * max(steps) if split else 1.0
