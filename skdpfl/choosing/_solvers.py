"""ISRL-DP's solvers: the algorithm of each name, and its constants.

    solver         learning rate eta              "optimal": the published choice
    minibatch      step                           alpha = 0: min{1 / (2 beta), D / sqrt(2 R) / s},
                                                  equal weights; else Stich's schedule and weights
    accelerated    1 / v                          1 / acsa_scale
    multistage     1 / (2 beta) of the stages     1 / (2 beta), stages of multistage()
    local          step of each local step        min{1 / (8 beta K), the above with K R steps}

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
from skdpfl.choosing import _method
from skdpfl.choosing._request import Request
from skdpfl.privacy.calibration import automatic_delta
from skdpfl.privacy.mechanisms import Mechanism, ShuffledSums, mechanism_for
from skdpfl.privacy.sampling import PoissonSampling

MOST_ROUNDS = 100

SOLVERS = ("minibatch", "accelerated", "multistage", "local")


@dataclass(frozen=True)
class Solver(_method.Method):
    """Noisy distributed SGD by one of the solvers."""

    name: str

    @property
    def takes_plain_steps(self) -> bool:
        """Whether "auto" chooses the steps by a model's rules."""
        return self.name in ("minibatch", "local")

    def algorithm(self, request: Request, settings: _method.Settings) -> algorithms.Algorithm:
        """Return the algorithm for planning; its releases do not change afterwards."""
        self._check_batches(request, settings)
        ball = algorithms.Ball() if request.radius is None else algorithms.Ball(request.radius)
        if self.name == "local":
            return algorithms.LocalSGD(settings.learning_rate, settings.steps, ball)
        if self.name == "accelerated":
            return algorithms.AcceleratedSGD(
                1 / settings.learning_rate, request.alpha, ball, request.average is True
            )
        if self.name == "multistage":
            stage = theory.Stage(settings.n_rounds, 1 / settings.learning_rate)
            return algorithms.MultistageSGD((stage,), request.alpha, ball, request.average is True)
        return algorithms.MinibatchSGD(settings.learning_rate, settings.momentum, ball)

    def local_steps(self, request: Request) -> int:
        """Return 5 for solver="local", else 1."""
        return 5 if self.name == "local" else 1

    def has_momentum(self, request: Request) -> bool:
        """Whether steps are plain SGD with an automatic learning rate."""
        return self.name == "minibatch" and request.chooses_step

    def mechanism(self, request: Request) -> Mechanism:
        """Return the mechanism: shuffled sums for the accelerated solvers behind a shuffler."""
        unit, trust = request.promise.unit, request.promise.trust
        sums = trust == "shuffler" and self.name in ("accelerated", "multistage")
        return ShuffledSums() if sums else mechanism_for(unit, trust)

    def n_rounds(self, request: Request, default: int) -> int:
        """Return the papers' number of rounds for accelerated steps and for one pass."""
        one_pass = request.sampling == "disjoint"
        accelerated = self.name in ("accelerated", "multistage")
        if not one_pass and (request.promise.is_exact or not accelerated):
            return default
        rounds = _published_rounds(request)
        if not one_pass:
            return min(MOST_ROUNDS, max(20, round(rounds**1.25)))
        smallest = int(request.facts.silo_sizes.min())
        return max(1, min(MOST_ROUNDS, max(8, round(0.6 * rounds)), smallest))

    def training(
        self, algorithm: algorithms.Algorithm, committed: _method.Committed
    ) -> _method.Training:
        """Return the training with constants from the plan's noise and the scales."""
        request, settings = committed.request, committed.settings
        rate, published = request.learning_rate, request.published_step
        loss = _method.smoothed(request.loss, committed)
        if rate is not None and self.name != "multistage":
            return _method.Training(algorithm, loss, settings)
        constants = _method.constants_of(loss, committed)
        if committed.measured is not None:
            constants = measured_constants(constants, committed, algorithm)
        if not published and committed.plan.private:
            constants = for_longer_steps(constants, committed)
        if isinstance(algorithm, algorithms.MultistageSGD):
            algorithm = staged(algorithm, constants, settings.n_rounds, rate)
            rate = 1 / algorithm.stages[0].scale
        elif isinstance(algorithm, algorithms.AcceleratedSGD):
            algorithm = replace(algorithm, scale=best_scale(constants, settings.n_rounds))
            rate = 1 / algorithm.scale
        elif published:
            algorithm, rate = _optimal(algorithm, constants, settings)
        else:
            return _method.Training(algorithm, loss, settings)
        return _method.Training(algorithm, loss, replace(settings, learning_rate=rate))

    def _check_batches(self, request: Request, settings: _method.Settings) -> None:
        if request.promise.trust == "shuffler" and isinstance(settings.sampling, PoissonSampling):
            raise ValueError(
                'trust="shuffler" needs batches of a fixed size, since the number of messages is '
                f'visible; got sampling="poisson" at sampling_rate={settings.rate:.3g}. Use '
                'sampling="without_replacement" or "disjoint", or sampling_rate=1.'
            )


def _published_rounds(request: Request) -> float:
    """Return the papers' number of rounds for one pass over standardised rows."""
    facts, squared_row = request.facts, request.facts.n_features + 1.0
    n_silos = max(1.0, request.taking_part.silo_fraction * facts.n_silos)
    return theory.lowy2023_one_pass_rounds(
        lipschitz=1.0,
        smoothness=squared_row * (0.25 if facts.is_classifier else 1.0),
        diameter=2 * _method.ordinary_distance(facts, squared_row),
        n_records=facts.n_records,
        n_silos=1 / n_silos,  # n_records is that of all silos: n sqrt(M) = n_records / sqrt(M)
        n_parameters=request.model.size,
        epsilon=_least_epsilon(request.promise.epsilon),
        delta=automatic_delta(facts.n_records),
    )


def _least_epsilon(epsilon: float | np.ndarray | None) -> float:
    """Return the smallest budget of a silo, at most 100; 1 if noise was given instead."""
    return 1.0 if epsilon is None else min(100.0, float(np.min(epsilon)))


def for_longer_steps(
    constants: _method.Constants, committed: _method.Committed
) -> _method.Constants:
    """Return constants for larger steps than the proofs allow; see the module."""
    clipped = math.sqrt(committed.squared_row) / committed.plan.clip_norm
    slack = 2 * max(1.0, min(4.0, clipped))
    data = constants.smoothness - committed.request.alpha  # the penalty is not clipped
    return replace(
        constants,
        smoothness=data / slack + committed.request.alpha,
        variance=constants.variance / 4,
    )


def measured_constants(
    constants: _method.Constants, committed: _method.Committed, algorithm: algorithms.Algorithm
) -> _method.Constants:
    """Return constants with the smoothness measured in a fit without privacy.

    In accelerated solvers the part due to sampling grows with the rounds.
    """
    assert committed.measured is not None
    growth = 1.0
    if isinstance(algorithm, (algorithms.AcceleratedSGD, algorithms.MultistageSGD)):
        growth = max(1.0, committed.settings.n_rounds / 3)
    whole, drawn = committed.measured
    return replace(constants, smoothness=whole + growth * drawn)


def best_scale(constants: _method.Constants, n_rounds: int) -> float:
    """Return the accelerated solver's v."""
    return theory.acsa_scale(
        n_rounds=n_rounds,
        smoothness=constants.smoothness,
        variance=constants.variance,
        squared_distance=constants.distance**2,
    )


def staged(
    algorithm: algorithms.MultistageSGD, c: _method.Constants, n_rounds: int, rate: float | None
) -> algorithms.MultistageSGD:
    """Return the multi-stage solver with stages for this number of rounds.

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
    stages = tuple(replace(s, scale=max(s.scale, best_scale(c, s.n_rounds))) for s in stages)
    return replace(algorithm, stages=stages)


def constant_step(c: _method.Constants, n_steps: int, largest: float) -> float:
    """Return the step that minimises |w*|^2 / (2 eta T) + eta s^2."""
    if not c.variance:
        return largest
    return min(largest, c.distance / math.sqrt(2 * n_steps * c.variance))


def _optimal(
    algorithm: algorithms.Algorithm, c: _method.Constants, settings: _method.Settings
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
        schedule = theory.stich2019_schedule(
            n_rounds=n_rounds + 1, strong_convexity=c.strong_convexity, largest_step=largest
        )
        steps, weights = schedule.steps[:-1], schedule.weights
    each: dict[str, Any] = {"learning_rate": tuple(steps.tolist())}
    each["output_weights"] = tuple(weights.tolist())
    return replace(algorithm, **each), float(steps[0])
