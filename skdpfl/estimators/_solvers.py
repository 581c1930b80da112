"""ISRL-DP's solvers: from a name to an algorithm with its constants filled in.

    solver         learning rate eta              "optimal": the published choice
    minibatch      step                           alpha = 0: min{1 / (2 beta), D / sqrt(2 R) / s},
                                                  equal weights; else Stich's schedule and weights
    accelerated    1 / v                          1 / acsa_scale
    multistage     1 / (2 beta) of the stages     1 / (2 beta), stages of multistage()
    local          step of each local step        min{1 / (8 beta K), the above with K R steps}

Constants: :mod:`skdpfl.estimators._theory`. "auto" is "optimal" for the accelerated solvers, with
s^2 / 4 and beta / (2 max{1, min{4, rho / C}}) in a private fit: gradients clipped to C cannot
diverge, the trace of a a^T is several times its largest eigenvalue, and the bounds' constants are
for the worst case (on seven data sets at epsilon 0.5 to 16 with C = 1, rho 3 to 7, the best tuned
step was 1 to 15 times the published one).

Rounds, where "auto", follow the papers' orders of magnitude at D, L = 1 and standardised rows, with
e = epsilon n / sqrt(P ln(1 / delta)): one pass 0.6 (beta D e sqrt M / L)^(2/5) of at least 8,
accelerated (beta D e sqrt M / L)^(1/2) of at least 20; 100 at most.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from skdpfl.algorithms import (
    AcceleratedSGD,
    Algorithm,
    Ball,
    LocalSGD,
    MinibatchSGD,
    MultistageSGD,
)
from skdpfl.algorithms.theory import (
    Stage,
    acsa_scale,
    lowy2023_one_pass_rounds,
    multistage,
    stich2019_schedule,
)
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._theory import (
    Committed,
    Constants,
    Training,
    constants_of,
    ordinary_distance,
    smoothed,
)
from skdpfl.losses import Loss
from skdpfl.privacy.pricing.automatic_delta import automatic_delta

MOST_ROUNDS = 100

SOLVERS = ("minibatch", "accelerated", "multistage", "local")


def draft(estimator: Any, settings: Settings) -> Algorithm:
    """Return the solver's algorithm before the plan stands: what it releases is settled."""
    ball = ball_of(estimator.radius)
    if estimator.solver == "local":
        return LocalSGD(settings.learning_rate, settings.steps, ball)
    if estimator.solver == "accelerated":
        return AcceleratedSGD(1 / settings.learning_rate, 0.0, ball, estimator.average)
    if estimator.solver == "multistage":
        stage = Stage(settings.n_rounds, 1 / settings.learning_rate)
        return MultistageSGD((stage,), estimator.alpha, ball, estimator.average)
    return MinibatchSGD(settings.learning_rate, settings.momentum, ball)


def finished(estimator: Any, algorithm: Algorithm, loss: Loss, known: Committed) -> Training:
    """Return what runs: the algorithm with constants from the plan's noise and the scales."""
    radius, rate = estimator.radius, estimator.learning_rate
    loss = smoothed(loss, known, radius)
    if not isinstance(rate, str) and estimator.solver != "multistage":
        return Training(algorithm, loss, known.settings)
    constants = constants_of(loss, known, radius)
    if known.measured is not None:
        constants = exact(constants, known, algorithm)
    if rate != "optimal" and known.plan.private:
        constants = eager(constants, known)
    n_rounds = known.settings.n_rounds
    if isinstance(algorithm, MultistageSGD):
        algorithm = staged(algorithm, constants, n_rounds, rate)
        rate = 1 / algorithm.stages[0].scale
    elif isinstance(algorithm, AcceleratedSGD):
        algorithm = dataclasses.replace(algorithm, scale=best_scale(constants, n_rounds))
        rate = 1 / algorithm.scale
    elif rate == "optimal":
        algorithm, rate = _optimal(algorithm, constants, known.settings)
    else:
        return Training(algorithm, loss, known.settings)
    return Training(algorithm, loss, dataclasses.replace(known.settings, learning_rate=rate))


def automatic_rounds(estimator: Any, facts: Facts, default: int) -> int:
    """Return the number of rounds that "auto" stands for."""
    one_pass = estimator.sampling == "disjoint"
    exact = isinstance(estimator.epsilon, (int, float)) and math.isinf(estimator.epsilon)
    if not one_pass and (exact or estimator.solver not in ("accelerated", "multistage")):
        return default
    squared_row = facts.n_features + 1.0  # standardised
    n_silos = max(1.0, estimator.silo_fraction * facts.n_silos)
    rounds = lowy2023_one_pass_rounds(
        lipschitz=1.0,
        smoothness=squared_row * (0.25 if facts.is_classifier else 1.0),
        diameter=2 * ordinary_distance(facts, squared_row),
        n_records=facts.n_records,
        n_silos=1 / n_silos,  # n_records is that of all silos: n sqrt(M) = n_records / sqrt(M)
        n_parameters=int(squared_row) * facts.n_outputs,
        epsilon=least_epsilon(estimator.epsilon),
        delta=automatic_delta(facts.n_records),
    )
    if not one_pass:
        return min(MOST_ROUNDS, max(20, round(rounds**1.25)))
    return max(1, min(MOST_ROUNDS, max(8, round(0.6 * rounds)), int(facts.silo_sizes.min())))


def least_epsilon(epsilon: Any) -> float:
    """Return the smallest budget of a silo; 1 where noise is given instead, 100 for infinity."""
    values = list(getattr(epsilon, "values", lambda: [epsilon])()) if epsilon is not None else [1.0]
    return min(100.0, *map(float, values))


def eager(constants: Constants, known: Committed) -> Constants:
    """Return constants for steps that are longer than any proof allows; see the module."""
    clipped = math.sqrt(known.squared_row) / known.plan.clip_norm
    slack = 2 * max(1.0, min(4.0, clipped))
    data = constants.smoothness - known.alpha  # the penalty is not clipped: no slack there
    return dataclasses.replace(
        constants, smoothness=data / slack + known.alpha, variance=constants.variance / 4
    )


def exact(constants: Constants, known: Committed, algorithm: Algorithm) -> Constants:
    """Return constants with the data's own smoothness, where nothing is to be hidden.

    What sampling adds counts for more in accelerated steps, which grow with the rounds.
    """
    assert known.measured is not None
    growth = 1.0
    if isinstance(algorithm, (AcceleratedSGD, MultistageSGD)):
        growth = max(1.0, known.settings.n_rounds / 3)
    whole, drawn = known.measured
    return dataclasses.replace(constants, smoothness=whole + growth * drawn)


def best_scale(constants: Constants, n_rounds: int) -> float:
    """Return the accelerated solver's v."""
    return acsa_scale(
        n_rounds=n_rounds,
        smoothness=constants.smoothness,
        variance=constants.variance,
        squared_distance=constants.distance**2,
    )


def staged(algorithm: MultistageSGD, c: Constants, n_rounds: int, rate: Any) -> MultistageSGD:
    """Return the multi-stage solver with the stages that fit the rounds.

    A given learning rate stands for the smoothness 1 / (2 eta). The stages' bound of the distance,
    2 excess / mu, is loose for small mu: scales are at least those for the expected distance.
    """
    if not isinstance(rate, str):
        c = dataclasses.replace(c, smoothness=1 / (2 * rate))
    stages = multistage(
        n_rounds=n_rounds,
        smoothness=c.smoothness,
        strong_convexity=c.strong_convexity,
        variance=c.variance,
        excess=c.excess,
    )
    stages = tuple(
        dataclasses.replace(s, scale=max(s.scale, best_scale(c, s.n_rounds))) for s in stages
    )
    return dataclasses.replace(algorithm, stages=stages)


def constant_step(c: Constants, n_steps: int, largest: float) -> float:
    """Return the step that minimises |w*|^2 / (2 eta T) + eta s^2."""
    if not c.variance:
        return largest
    return min(largest, c.distance / math.sqrt(2 * n_steps * c.variance))


def _optimal(algorithm: Algorithm, c: Constants, settings: Settings) -> tuple[Algorithm, float]:
    """Return plain or local steps with the published step sizes, and the first step."""
    n_rounds, largest = settings.n_rounds, 1 / (2 * c.smoothness)
    if isinstance(algorithm, LocalSGD):
        n_steps = max(settings.steps)
        rate = constant_step(c, n_steps * n_rounds, largest / (4 * n_steps))
        return dataclasses.replace(algorithm, learning_rate=rate), rate
    assert isinstance(algorithm, MinibatchSGD)
    steps = np.full(n_rounds, constant_step(c, n_rounds, largest))
    weights = np.ones(n_rounds)
    if c.strong_convexity > 0:
        schedule = stich2019_schedule(
            n_rounds=n_rounds, strong_convexity=c.strong_convexity, largest_step=largest
        )
        steps, weights = schedule.steps, schedule.weights
    each: dict[str, Any] = {"learning_rate": tuple(steps.tolist())}
    each["output_weights"] = tuple(weights.tolist())
    return dataclasses.replace(algorithm, **each), float(steps[0])


def ball_of(radius: float | None) -> Ball:
    """Return the projection that a ``radius`` stands for."""
    return Ball() if radius is None else Ball(float(radius))
