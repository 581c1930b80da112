"""ISRL-DP's solvers: the algorithm of each name, and its constants.

    solver         learning rate eta              "optimal": the published choice
    minibatch      step                           alpha = 0: min{1 / (2 beta), D / sqrt(2 R) / s},
                                                  equal weights; else Stich's schedule and weights
    accelerated    1 / v                          1 / acsa_scale
    multistage     1 / (2 beta) of the stages     1 / (2 beta), stages of multistage()
    local          step of each local step        min{1 / (8 beta K), the above with K R steps}
    localized      1 / (2 beta) of the stages     1 / (2 beta), stages of multistage() in each phase

Constants: :mod:`skdpfl.choosing._method`. "auto" is "optimal" for the accelerated solvers, with
s^2 / 4 and beta / (2 max{1, min{4, rho / C}}) in a private fit: gradients clipped to C cannot
diverge, the trace of a a^T is several times its largest eigenvalue, and the bounds' constants are
for the worst case (on seven data sets at epsilon 0.5 to 16 with C = 1, rho 3 to 7, the best tuned
step was 1 to 15 times the published one).

Rounds, where "auto", follow the papers' orders of magnitude at D, L = 1 and standardised rows, with
e = epsilon n / sqrt(P ln(1 / delta)): one pass 0.6 (beta D e sqrt M / L)^(2/5) of at least 8,
accelerated (beta D e sqrt M / L)^(1/2) of at least 20; 100 at most.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpfl import algorithms
from skdpfl.algorithms import theory
from skdpfl.choosing._method import Constants, constants_of, lipschitz_of, ordinary_distance
from skdpfl.choosing._noise_level import noise_level
from skdpfl.choosing._recipe import Method, Recipe, Settings
from skdpfl.models import STEPS
from skdpfl.privacy.calibration import automatic_delta
from skdpfl.privacy.mechanisms import Mechanism, ShuffledSums, mechanism_for
from skdpfl.privacy.sampling import Halving, PoissonSampling, Sampling

SOLVERS = ("minibatch", "accelerated", "multistage", "local", "localized")
ACCELERATED = ("accelerated", "multistage", "localized")
#: the fewest records of a silo in a phase
PHASE_RECORDS = 16


@dataclass(frozen=True)
class Solver(Method):
    """Noisy distributed SGD by one of the solvers."""

    name: str

    @property
    def takes_plain_steps(self) -> bool:
        """Whether "auto" chooses the steps by a model's rules."""
        return self.name in ("minibatch", "local")

    def algorithm(self, recipe: Recipe) -> algorithms.Algorithm:
        """Return the algorithm for planning; its releases do not change afterwards."""
        settings = recipe.settings
        _check_batches(recipe)
        ball = algorithms.Ball() if recipe.radius is None else algorithms.Ball(recipe.radius)
        if self.name == "local":
            return algorithms.LocalSGD(settings.learning_rate, settings.steps, ball)
        if self.name == "accelerated":
            return algorithms.AcceleratedSGD(
                1 / settings.learning_rate, recipe.alpha, ball, recipe.average is True
            )
        if isinstance(settings.sampling, Halving):
            return unfitted_phases(recipe, settings.sampling.n_phases)
        if self.name == "multistage":
            stage = theory.Stage(settings.n_rounds, 1 / settings.learning_rate)
            return algorithms.MultistageSGD((stage,), recipe.alpha, ball, recipe.average is True)
        return algorithms.MinibatchSGD(settings.learning_rate, settings.momentum, ball)

    def sampling(self, recipe: Recipe, n_steps: int) -> Sampling | None:
        """Return the phases' batches for solver="localized"; None: as asked."""
        if self.name != "localized":
            return None
        return Halving(min(n_steps, n_phases(recipe)), n_steps)

    def local_steps(self, recipe: Recipe) -> int:
        """Return 5 for solver="local", else 1."""
        return 5 if self.name == "local" else 1

    def has_momentum(self, recipe: Recipe) -> bool:
        """Whether steps are plain SGD with an automatic learning rate."""
        return self.name == "minibatch" and recipe.chooses_step

    def mechanism(self, recipe: Recipe) -> Mechanism:
        """Return the mechanism: shuffled sums for the accelerated solvers behind a shuffler."""
        unit, trust = recipe.promise.unit, recipe.promise.trust
        sums = trust == "shuffler" and self.name in ("accelerated", "multistage")
        return ShuffledSums() if sums else mechanism_for(unit, trust)

    def n_rounds(self, recipe: Recipe, default: int) -> int:
        """Return the papers' number of rounds for accelerated steps and for one pass."""
        one_pass = recipe.sampling == "disjoint"
        accelerated = self.name in ACCELERATED
        if not one_pass and (recipe.promise.is_exact or not accelerated):
            return default
        rounds = _published_rounds(recipe)
        if not one_pass:
            return min(STEPS, max(20, round(rounds**1.25)))
        smallest = int(recipe.facts.known_sizes.min())
        return max(1, min(STEPS, max(8, round(0.6 * rounds)), smallest))

    def with_constants(self, recipe: Recipe) -> Recipe:
        """Return the recipe with constants from the plan's noise and the scales."""
        algorithm, settings, published = recipe.algorithm, recipe.settings, recipe.published_step
        rate = recipe.learning_rate
        if rate is not None and self.name not in ("multistage", "localized"):
            return recipe
        constants = constants_of(recipe)
        if recipe.measured is not None:
            constants = measured_constants(constants, recipe)
        if not published and recipe.plan.private:
            constants = for_longer_steps(constants, recipe)
        if isinstance(algorithm, algorithms.MultistageSGD):
            stages = staged(constants, settings.n_rounds, rate)
            algorithm, rate = replace(algorithm, stages=stages), 1 / stages[0].scale
        elif isinstance(algorithm, algorithms.LocalizedSGD):
            phases = phased(algorithm, constants, recipe)
            algorithm, rate = replace(algorithm, phases=phases), 1 / phases[0].stages[0].scale
        elif isinstance(algorithm, algorithms.AcceleratedSGD):
            algorithm = replace(algorithm, scale=best_scale(constants, settings.n_rounds))
            rate = 1 / algorithm.scale
        elif published:
            algorithm, rate = _optimal(algorithm, constants, settings)
        else:
            return recipe
        settings = replace(settings, learning_rate=rate)
        return replace(recipe, algorithm=algorithm, settings=settings)


def _check_batches(recipe: Recipe) -> None:
    rate, sampling = recipe.settings.rate, recipe.settings.sampling
    if recipe.promise.trust == "shuffler" and isinstance(sampling, PoissonSampling):
        raise ValueError(
            'trust="shuffler" needs batches of a fixed size, since the number of messages is '
            f'visible; got sampling="poisson" at sampling_rate={rate:.3g}. Use '
            'sampling="without_replacement" or "disjoint", or sampling_rate=1.'
        )


def _published_rounds(recipe: Recipe) -> float:
    """Return the papers' number of rounds for one pass over standardised rows."""
    facts, squared_row = recipe.facts, recipe.facts.n_features + 1.0
    n_silos = max(1.0, recipe.silo_fraction * facts.n_silos)
    return theory.lowy2023_one_pass_rounds(
        lipschitz=1.0,
        smoothness=squared_row * (0.25 if facts.is_classifier else 1.0),
        diameter=2 * ordinary_distance(facts, squared_row),
        n_records=facts.n_records,
        n_silos=1 / n_silos,  # n_records is that of all silos: n sqrt(M) = n_records / sqrt(M)
        n_parameters=recipe.model.size,
        epsilon=_least_epsilon(recipe.promise.epsilon),
        delta=automatic_delta(facts.n_records),
    )


def _least_epsilon(epsilon: float | np.ndarray | None) -> float:
    """Return the smallest budget of a silo, at most 100; 1 if noise was given instead."""
    return 1.0 if epsilon is None else min(100.0, float(np.min(epsilon)))


def for_longer_steps(constants: Constants, recipe: Recipe) -> Constants:
    """Return constants for larger steps than the proofs allow; see the module."""
    slack = 2 * max(1.0, min(4.0, math.sqrt(recipe.squared_row) / recipe.plan.clip_norm))
    data = constants.smoothness - recipe.alpha  # the penalty is not clipped
    variance = constants.variance / 4
    return replace(constants, smoothness=data / slack + recipe.alpha, variance=variance)


def measured_constants(constants: Constants, recipe: Recipe) -> Constants:
    """Return constants with the smoothness measured in a fit without privacy.

    In accelerated solvers the part due to sampling grows with the rounds.
    """
    assert recipe.measured is not None
    growth = 1.0
    if isinstance(recipe.algorithm, (algorithms.AcceleratedSGD, algorithms.MultistageSGD)):
        growth = max(1.0, recipe.settings.n_rounds / 3)
    whole, sampled = recipe.measured
    return replace(constants, smoothness=whole + growth * sampled)


def best_scale(constants: Constants, n_rounds: int) -> float:
    """Return the accelerated solver's v."""
    return theory.acsa_scale(
        n_rounds=n_rounds,
        smoothness=constants.smoothness,
        variance=constants.variance,
        squared_distance=constants.distance**2,
    )


def staged(c: Constants, n_rounds: int, rate: float | None) -> tuple[theory.Stage, ...]:
    """Return the stages of multi-stage AC-SA for this number of rounds.

    A given learning rate eta sets the smoothness to 1 / (2 eta). The stages' bound of the distance,
    2 excess / mu, is loose for small mu: scales are at least those for the expected distance.
    """
    if rate is not None:
        c = replace(c, smoothness=1 / (2 * rate))
    stages = theory.multistage(
        n_rounds=n_rounds,
        smoothness=c.smoothness,
        strong_convexity=c.strong_convexity,
        variance=c.variance,
        excess=c.excess,
    )
    return tuple(replace(s, scale=max(s.scale, best_scale(c, s.n_rounds))) for s in stages)


def n_phases(recipe: Recipe) -> int:
    """Return the number of phases: of records enough, and of noise below the clip norm.

    Noise is the norm of a phase's average noise on the mean gradient, in clip norms.
    """
    smallest = int(recipe.facts.known_sizes.min())
    if smallest < 2:
        raise ValueError(
            'solver="localized" halves each silo\'s records, so a silo needs at least two; the '
            f"smallest has {smallest}."
        )
    noise = 0.0 if recipe.promise.is_exact else noise_level(recipe, 1.0, (1,)).noise
    phases = 1
    while smallest >> (phases + 1) >= PHASE_RECORDS:
        if noise * 2 ** (phases + 1) * math.sqrt(recipe.model.size) > 1:
            break
        phases += 1
    return phases


def unfitted_phases(recipe: Recipe, count: int) -> algorithms.LocalizedSGD:
    """Return localized SGD with constants that only serve planning."""
    settings = recipe.settings
    ball = algorithms.Ball() if recipe.radius is None else algorithms.Ball(recipe.radius)
    n_rounds = settings.n_rounds // count
    stage = theory.Stage(n_rounds, 1 / settings.learning_rate)
    phase = theory.Phase(n_rounds, (stage,), 1.0, math.inf)
    n_free = int((recipe.model.penalty_mask() == 0).sum())
    return algorithms.LocalizedSGD(
        (phase,) * count, recipe.alpha, n_free, ball, recipe.average is True
    )


def phased(
    algorithm: algorithms.LocalizedSGD, c: Constants, recipe: Recipe
) -> tuple[theory.Phase, ...]:
    """Return the phases for the plan's noise; each runs the stages for its own penalty.

    In the first phase the distance is the expected one, later at most L / lam_i, and the excess at
    most L^2 / (2 lam_i).
    """
    plan, L = recipe.plan, lipschitz_of(recipe)
    count, n_rounds = len(algorithm.phases), algorithm.phases[0].n_rounds
    noise = plan.mechanism.noise_on_mean(plan) ** 2 * recipe.model.size
    penalties = theory.gao2024_penalties(
        n_phases=count, lipschitz=L, diameter=c.distance, n_records=recipe.facts.n_records,
        variance=noise / n_rounds, power=1.0,
    )  # fmt: skip
    phases = []
    for i, penalty in enumerate(penalties):
        left = plan.n_rounds - i * n_rounds if i == count - 1 else n_rounds
        of_phase = replace(
            c,
            smoothness=c.smoothness + penalty,
            strong_convexity=c.strong_convexity + penalty,
            variance=noise * 4**i,
            distance=c.distance if i == 0 else min(c.distance, L / penalty),
            excess=c.excess if i == 0 else min(c.excess, L**2 / (2 * penalty)),
        )
        stages = staged(of_phase, left, recipe.learning_rate)
        phases.append(theory.Phase(left, stages, penalty, 2 * L / penalty))
    return tuple(phases)


def constant_step(c: Constants, n_steps: int, largest: float) -> float:
    """Return the step that minimises |w*|^2 / (2 eta T) + eta s^2."""
    if not c.variance:
        return largest
    return min(largest, c.distance / math.sqrt(2 * n_steps * c.variance))


def _optimal(
    algorithm: algorithms.Algorithm, c: Constants, settings: Settings
) -> tuple[algorithms.Algorithm, float]:
    """Return plain or local steps with the published step sizes, and the first step."""
    n_rounds, largest = settings.n_rounds, 1 / (2 * c.smoothness)
    if isinstance(algorithm, algorithms.LocalSGD):
        n_steps = max(settings.steps)
        rate = constant_step(c, n_steps * n_rounds, largest / (4 * n_steps))
        return replace(algorithm, learning_rate=rate), rate
    assert isinstance(algorithm, algorithms.MinibatchSGD)
    steps = np.full(n_rounds, constant_step(c, n_rounds, largest))
    weights = np.append(0.0, np.ones(n_rounds))
    if c.strong_convexity > 0:
        # weights are those of the models before each round: the last model counts as the one
        # before a further round
        steps, weights = theory.stich2019_schedule(
            n_rounds=n_rounds + 1, strong_convexity=c.strong_convexity, largest_step=largest
        )
        steps = steps[:-1]
    each: dict[str, Any] = {"learning_rate": tuple(steps.tolist())}
    each["output_weights"] = tuple(weights.tolist())
    return replace(algorithm, **each), float(steps[0])
