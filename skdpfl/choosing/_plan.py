"""The plan of a fit: calibrated noise, schedule, mechanism and sampling."""

import math
from dataclasses import replace

import numpy as np

from skdpfl._warnings import warn
from skdpfl.algorithms import sends_one_gradient
from skdpfl.choosing._choose import choose
from skdpfl.choosing._recipe import PublicFacts, Recipe
from skdpfl.independence import check_declared
from skdpfl.privacy.calibration import largest
from skdpfl.privacy.events import Composition, compose
from skdpfl.privacy.mechanisms import LearntClip, Mechanism, NoPrivacy, SiloGradients, WholeMessages
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, PrecisionError
from skdpfl.privacy.sampling import Disjoint, Sampling, draw_cohorts

#: the silos that take part in each round; None: all
Schedule = tuple[np.ndarray, ...] | None


def make_plan(recipe: Recipe, streams: Streams) -> PrivacyPlan:
    """Return the calibrated plan; no data are needed."""
    facts, promise, settings = recipe.facts, recipe.promise, recipe.settings
    algorithm = recipe.algorithm
    _check_server(recipe)
    check_declared(algorithm, recipe.loss, recipe.model)
    steps = tuple(algorithm.n_gradients(r) for r in range(settings.n_rounds))
    schedule = _schedule(recipe, streams)
    sampling = _dealt(settings.sampling, steps, schedule, facts, promise.spare_rounds)
    exact, size = promise.is_exact, recipe.model.size
    plan = PrivacyPlan(
        silo_ids=facts.silo_ids,
        silo_sizes=facts.silo_sizes,
        steps=steps,
        clip_norm=first_clip_norm(recipe),
        noise_multiplier=np.asarray(promise.noise_multiplier, dtype=float),
        delta=promise.delta,
        guarantee=promise.guarantee,
        spare_rounds=promise.spare_rounds,
        sampling=sampling,
        weights=_weights(recipe, sampling),
        schedule=schedule,
        cohort=recipe.cohort,
        silo_fraction=recipe.silo_fraction,
        noise_schedule=recipe.noise_schedule,
        setup=() if exact else _setup(recipe),
        gradients_only=sends_one_gradient(algorithm),
        size=size,
        contribution=promise.contribution,
        mechanism=_mechanism(recipe),
        expected_width=recipe.interval_plan.expected_width() if recipe.interval_plan else None,
        shares=() if exact or promise.epsilon is None else recipe.shares,
    )
    return plan if exact else _noised(plan, promise.epsilon, size)


#: the most rounds: cohorts are drawn, and prices computed, for each of them
MOST_ROUNDS = 100_000


def choose_within_budget(recipe: Recipe, streams: Streams) -> Recipe:
    """Return the recipe with all choices, and as many rounds of given noise as a budget allows.

    Formal guarantee: the plan of the result was priced, at no more than the budget.
    """
    if recipe.budget is None:
        return choose(recipe)
    budget, noise = recipe.budget, recipe.promise.noise_multiplier

    def of(n_rounds: int) -> Recipe:
        return choose(replace(recipe, n_rounds=n_rounds))

    def fits(n_rounds: int) -> bool:
        return make_plan(of(n_rounds), streams).spent().epsilon <= budget

    most = largest(fits, MOST_ROUNDS)
    if not most:
        raise ValueError(
            f'n_rounds="budget": one round at noise_multiplier={noise:g} costs more than '
            f"epsilon={budget:g}. Give more noise, or a larger budget."
        )
    if most == MOST_ROUNDS:
        raise ValueError(
            f'n_rounds="budget": noise_multiplier={noise:g} allows {MOST_ROUNDS:,} rounds and more '
            f"at epsilon={budget:g}. Give less noise, or n_rounds."
        )
    return of(most)


def _setup(recipe: Recipe) -> tuple[Composition, ...]:
    """Return the releases of the silos before training: one entry if all silos have the same."""
    sums = recipe.sums
    if not sums:
        return ()
    alike = all((mu == mu[0]).all() for part in sums for mu in part.mus)
    silos = range(1 if alike else sums[0].budgets.n_silos)
    return tuple(compose([e for part in sums for e in part.composition(i)]) for i in silos)


def _noised(plan: PrivacyPlan, epsilon: float | np.ndarray | None, size: int) -> PrivacyPlan:
    """Return the plan with noise calibrated to the budget, or with the given noise."""
    noised = plan.with_noise(plan.noise_multiplier) if epsilon is None else plan.calibrated(epsilon)
    if plan.trust == "shuffler":
        _warn_if_shuffling_is_useless(noised, epsilon)
    _check_noise(noised, size)
    return noised


def _check_noise(plan: PrivacyPlan, size: int) -> None:
    """Raise if the noise cannot be added exactly in single or double precision."""
    if plan.unit == "silo":  # sizes are unknown here; messages are released in double precision
        return
    try:
        plan.mechanism.gradient_terms(plan, size, DOUBLE)
    except PrecisionError as error:
        raise ValueError(
            f"The budget needs noise of {plan.noise_multiplier.max():.3g} times the clip norm, too "
            f"{'much' if plan.noise_multiplier.max() > 1 else 'little'} to be added exactly. Give "
            "another epsilon (or delta, or noise_multiplier), or other n_rounds."
        ) from error


def _check_server(recipe: Recipe) -> None:
    """Raise if noise on the sum of messages would not protect records."""
    promise, algorithm = recipe.promise, recipe.algorithm
    summed = promise.unit != "silo" and promise.trust in ("server", "secagg")
    if summed and not sends_one_gradient(algorithm):
        raise ValueError(
            f'trust="{promise.trust}" with unit="{promise.unit}" needs an algorithm with one local '
            f"step per round and no state in the silos, unlike {type(algorithm).__name__}. Use "
            'trust="silo", unit="silo", ISRLDPClassifier / ISRLDPRegressor, or DPFedAvg with '
            "local_steps=1."
        )


def _dealt(
    sampling: Sampling, steps: tuple[int, ...], schedule: Schedule, facts: PublicFacts, spare: int
) -> Sampling:
    """Return the sampling; for disjoint batches, as many as the silo with most steps needs."""
    if not isinstance(sampling, Disjoint):
        return sampling
    used = np.full(facts.n_silos, spare)  # spare rounds need batches of their own
    for r, k in enumerate(steps):
        used[slice(None) if schedule is None else schedule[r]] += k
    busiest, smallest = int(used.max()), int(facts.known_sizes.argmin())
    if facts.known_sizes[smallest] < busiest:
        raise ValueError(
            f'sampling="disjoint" splits each silo\'s records into one batch per step: {busiest} '
            f"steps need at least as many records, but silo {facts.silo_ids.tolist()[smallest]!r} "
            f"has {facts.known_sizes[smallest]}. Use fewer rounds."
        )
    return replace(sampling, n_parts=max(1, busiest))


def _weights(recipe: Recipe, sampling: Sampling) -> np.ndarray:
    """Return the silos' weights; shuffled messages all have the same."""
    if recipe.promise.trust != "shuffler":
        return recipe.weights
    sizes = recipe.facts.known_sizes.tolist()
    values = np.array([sampling.expected_size(n) for n in sizes])
    return values / values.sum()


def _schedule(recipe: Recipe, streams: Streams) -> Schedule:
    """Return the public schedule of a record-level fit; None if all take part or it is secret."""
    fraction, n_silos = recipe.silo_fraction, recipe.facts.n_silos
    if recipe.cohorts is not None:
        return recipe.cohorts
    secret = recipe.promise.hides_silos and not recipe.promise.shares_noise
    if secret or fraction >= 1:
        return None
    asked = recipe.cohort, fraction, n_silos, recipe.settings.n_rounds
    return tuple(draw_cohorts(*asked, streams.stream("cohorts")))


def _warn_if_shuffling_is_useless(plan: PrivacyPlan, epsilon: float | np.ndarray | None) -> None:
    """Warn if trust="silo" would have no more noise than shuffling, at the same budget."""
    if epsilon is None:  # noise was given
        per_silo = plan.spent().per_silo
        assert per_silo is not None  # records are protected here, not whole silos
        epsilon = per_silo.to_numpy()
        if np.isinf(epsilon).any():  # no noise of silos compares
            return
    alone = plan.trusting("silo", mechanism=SiloGradients())
    alone = alone.calibrated(epsilon)
    ratio = alone.mechanism.noise_on_mean(alone) / plan.mechanism.noise_on_mean(plan)
    if ratio <= 1:
        batches = plan.expected_sizes
        warn(
            f'trust="shuffler" gains nothing here: with about {batches.mean():.0f} records of each '
            f"of {plan.n_silos * plan.silo_fraction:.0f} silos a round, the mean gradient has "
            f'{1 / ratio:.2g} times the noise of trust="silo", which needs no shuffler. Shuffling '
            "helps if many silos send a few records each."
        )


#: the initial value of a learnt clip norm, as a share of the highest it may take
START = 0.3


def first_clip_norm(recipe: Recipe) -> float:
    """Return the clip norm of gradients (unit "silo": of messages in the first round).

    Fits without privacy clip as well if a norm was given, but not with "auto".
    """
    if recipe.promise.is_exact and recipe.clip_norm is None:
        return math.inf
    return recipe.settings.clip_norm * (START if learns_clip_norm(recipe) else 1.0)


def learns_clip_norm(recipe: Recipe) -> bool:
    """Whether the clip norm of messages is learnt during training."""
    return recipe.promise.hides_silos and recipe.clip_norm is None


def _mechanism(recipe: Recipe) -> Mechanism:
    """Return the mechanism, adapted to the algorithm and to an automatic clip norm."""
    squared = recipe.algorithm.reads_squared_norm
    mechanism = NoPrivacy() if recipe.promise.is_exact else recipe.method.mechanism(recipe)
    if isinstance(mechanism, NoPrivacy):
        return NoPrivacy(squared_norms=squared)
    if isinstance(mechanism, WholeMessages):
        highest = recipe.settings.clip_norm
        clipping = LearntClip(highest=highest) if learns_clip_norm(recipe) else None
        return replace(mechanism, squared_norms=squared, clipping=clipping)
    if squared:
        raise ValueError(
            f"{type(recipe.algorithm).__name__} needs the squared norms of the messages, which are "
            f'released only with unit="silo"; got unit={recipe.promise.unit!r}.'
        )
    return mechanism
