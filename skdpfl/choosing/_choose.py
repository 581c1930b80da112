"""From a request to the numbers a fit runs with: everything that "auto" stands for."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np

from skdpfl.choosing._advice import advice_on_noise, remedies
from skdpfl.choosing._calibration import plan_calibration
from skdpfl.choosing._facts import Settings
from skdpfl.choosing._method import Method
from skdpfl.choosing._noise_level import budgets, noise_level
from skdpfl.choosing._request import Request
from skdpfl.choosing._scales import ScalingStep, plan_scales
from skdpfl.models import Rules, Task
from skdpfl.privacy.public_numbers import MOST_STEPS
from skdpfl.privacy.sampling import (
    Disjoint,
    Everyone,
    PoissonSampling,
    Sampling,
    WithoutReplacement,
)
from skdpfl.scaling import CalibrationPlan

#: steps of one pass over disjoint batches, whose noise grows with their number
_DISJOINT_STEPS = 25
#: local steps of silos that are protected as a whole
_SILO_STEPS = 5
#: the server's step over the silos', per local step, where a step is split between them; the fewest
#: rounds then; the most where few silos take part in each: a silo pays for its own rounds only
_SPLIT, _SPLIT_ROUNDS, _MOST_ROUNDS = 30.0, 20, 100


class Choice(NamedTuple):
    """What a fit will do: settings of the training, scales and calibration (None: there is none).

    ``advice`` is the text of a warning, "" if there is none.
    """

    settings: Settings
    scaling: ScalingStep
    advice: str
    calibration: CalibrationPlan | None = None


def choose(request: Request, method: Method) -> Choice:
    """Decide everything that was left to "auto", from public numbers only."""
    task = request.task(float(request.facts.n_features))  # rows count as standardised
    rate = _sampling_rate(request, task)
    steps = _steps(request, method, rate, task)
    level = noise_level(request, rate, steps)
    scaling = plan_scales(request, level.mu)
    task = request.task(scaling.squared_row)
    settings = _settings(request, method, rate, steps, level.noise, task)
    advice = advice_on_noise(request, method, settings, level.noise, task)
    if not request.takes_no_advice:
        helps = functools.partial(remedies, request, method, settings)
        scaling = dataclasses.replace(scaling, remedies=helps)
    return Choice(settings, scaling, advice, plan_calibration(request, method))


def _sampling_rate(request: Request, task: Task) -> float:
    if request.sampling_rate is not None:
        return request.sampling_rate
    sizes = request.facts.public_sizes
    if sizes is None:  # sizes are protected, and the rate must be the same for all silos
        return 1.0
    noise_given = request.guarantee.epsilon is None
    mu = 0.0 if noise_given else float(budgets(request, 1.0, 1).min())
    return request.model.rules.sampling_rate(float(np.median(sizes)), mu, task)


# ---- rounds, and the steps of each -----------------------------------------------------------


def _steps(request: Request, method: Method, rate: float, task: Task) -> tuple[int, ...]:
    """Return the number of gradient steps of each round.

    E epochs at sampling rate q are round(E / q) steps.
    """
    name, steps = "local_steps", request.local_steps
    if request.local_epochs is not None:
        name, epochs = "local_epochs", np.asarray(request.local_epochs, dtype=float)
        counted = np.clip(np.round(epochs / rate), 1, 2 * MOST_STEPS).astype(int)
        steps = tuple(counted.tolist()) if counted.ndim else int(counted)
    if steps is None:
        steps = _automatic_steps(request, method)
    if isinstance(steps, int):
        return (steps,) * _n_rounds(request, method, steps, rate, task)
    n_rounds = len(steps) if request.n_rounds is None else request.n_rounds
    if len(steps) != n_rounds:
        raise ValueError(
            f"{name} as a sequence has one entry per round; got {len(steps)} entries for "
            f"n_rounds={n_rounds}."
        )
    return steps


def _automatic_steps(request: Request, method: Method) -> int:
    """Return the number of local steps; 1 for a single round.

    Without privacy rounds cost no budget, and local steps only move silos to their own optima.
    """
    if request.guarantee.is_exact or request.n_rounds == 1:
        return 1
    own = method.local_steps(request)
    return max(own, _SILO_STEPS) if request.guarantee.hides_silos else own


def _n_rounds(request: Request, method: Method, steps: int, rate: float, task: Task) -> int:
    if request.n_rounds is not None:
        return request.n_rounds
    exact, plain = request.guarantee.is_exact, not method.has_momentum(request)
    per_message = 1 if request.guarantee.hides_silos else steps
    default = request.model.rules.n_rounds(per_message, rate, task, exact=exact, plain=plain)
    if _may_split(request, steps):
        least = max(default, _SPLIT_ROUNDS) / request.taking_part.silo_fraction
        default = max(default, min(_MOST_ROUNDS, math.ceil(least)))
    if request.sampling == "disjoint":
        most = min(_DISJOINT_STEPS, int(request.facts.silo_sizes.min()))
        default = max(1, min(default, most // steps))
    return method.n_rounds(request, default)


# ---- clip norm, momentum and step ------------------------------------------------------------


def _settings(
    request: Request,
    method: Method,
    rate: float,
    steps: tuple[int, ...],
    noise: float,
    task: Task,
) -> Settings:
    """Return all numbers of the training; those that were given are not changed."""
    rules, clip, momentum = request.model.rules, request.clip_norm, request.momentum
    if clip is None and request.guarantee.hides_silos:
        clip = rules.message_clip_norm(steps, noise, task)
    elif clip is None:
        clip = rules.clip_norm(noise, task, request.alpha)
    if momentum is None:
        momentum = rules.momentum(sum(steps), noise) if method.has_momentum(request) else 0.0
    sampling = sampling_of(request.sampling, rate, sum(steps))
    server = _server_step(request, steps)
    settings = Settings(steps, 1.0, clip, rate, sampling, momentum, server)
    return with_step(request, settings, noise, task)


def sampling_of(name: str, rate: float, n_steps: int) -> Sampling:
    """Return the sampling with the given name and rate."""
    if name == "disjoint":
        return Disjoint(n_steps)  # the plan lowers this to what the busiest silo uses
    if name == "without_replacement" and rate < 1:
        return WithoutReplacement(rate)
    return Everyone() if rate >= 1 else PoissonSampling(rate)


def with_step(request: Request, settings: Settings, noise: float, task: Task) -> Settings:
    """Return the settings with the learning rate that was given, or one for this noise."""
    if request.learning_rate is not None:
        return dataclasses.replace(settings, learning_rate=request.learning_rate)
    eta = _step(request.model.rules, request, settings, noise, task)
    return dataclasses.replace(settings, learning_rate=eta)


def _may_split(request: Request, local_steps: int) -> bool:
    """Whether silos may use a small learning rate and the server a large one.

    Later local steps evaluate gradients at a model that the silo's own noise has moved. With a
    small local learning rate they are evaluated near the model of all silos.
    """
    chooses = request.chooses_step and request.global_learning_rate is None
    private = not (request.guarantee.is_exact or request.guarantee.hides_silos)
    return chooses and private and local_steps > 1


def _server_step(request: Request, steps: tuple[int, ...]) -> float:
    """Return the server's learning rate for the silos' mean update; 1 unless the step is split."""
    if request.global_learning_rate is not None:
        return request.global_learning_rate
    split = len(steps) > 1 and _may_split(request, max(steps))
    return _SPLIT * max(steps) if split else 1.0


def _step(rules: Rules, request: Request, now: Settings, noise: float, task: Task) -> float:
    server = now.server_step
    if request.guarantee.hides_silos:
        eta = rules.silo_learning_rate(now.steps, noise, task)
        return rules.with_penalty(eta / server, request.alpha, max(1.0, server), now.momentum)
    split = request.global_learning_rate is None and server > 1
    most = max(now.steps) if split else 1
    # a round's gradients near one model are one step, or few, which the curvature bounds as a whole
    together = max(1.0, most / rules.steps_at_once(now.clip_norm, len(now.steps), task))
    n_steps = sum(now.steps) / together
    eta = rules.learning_rate(now.clip_norm, n_steps, now.momentum, noise, task) / together
    pace = max(1.0, server * most)
    return rules.with_penalty(eta / server, request.alpha, pace, now.momentum)
