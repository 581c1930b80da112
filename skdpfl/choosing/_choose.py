"""From a request to the numbers a fit runs with: everything that "auto" stands for."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from skdpfl._warnings import warn
from skdpfl.choosing import _rules
from skdpfl.choosing._committed import Committed
from skdpfl.choosing._facts import Settings
from skdpfl.choosing._method import Method
from skdpfl.choosing._noise_level import budgets, noise_level, warning_of_noise
from skdpfl.choosing._request import Request
from skdpfl.choosing._rules import Rows
from skdpfl.choosing._scales import ScalingStep, plan_scales
from skdpfl.choosing._steps import steps_of_rounds
from skdpfl.privacy.sampling import Disjoint, Everyone, Poisson, Sampling, WithoutReplacement

#: records of a silo where their number is protected, to guess how much work a round is
_SOME_RECORDS = 100


class Choice(NamedTuple):
    """The settings of the training, how the scales will be found, what to warn of ("": nothing)."""

    settings: Settings
    scaling: ScalingStep
    advice: str


def choose(request: Request, method: Method) -> Choice:
    """Decide everything that was left to "auto", from public numbers only."""
    rows = _rows(request, float(request.facts.n_features))
    rate = _sampling_rate(request, rows)
    steps = steps_of_rounds(request, method, rate, rows)
    level = noise_level(request, rate, steps)
    scaling = plan_scales(request, level.mu)
    rows = _rows(request, scaling.squared_row)
    settings = Settings(
        steps=steps,
        learning_rate=1.0,
        clip_norm=_clip_norm(request, steps, level.noise, rows),
        rate=rate,
        sampling=_sampling(request.sampling, rate, sum(steps)),
        momentum=_momentum(request, method, steps, level.noise),
    )
    settings = _with_step(request, settings, level.noise, rows)
    return Choice(settings, scaling, _advice(request, scaling, level.noise, rows))


def with_planned_noise(committed: Committed) -> Committed:
    """Return it with the step that the plan's own noise and the found scales ask for."""
    request, plan = committed.request, committed.plan
    if not request.chooses_step:
        return committed
    n_noised = plan.n_rounds if plan.unit == "silo" else sum(plan.steps)
    scheduled = math.sqrt(np.square(np.concatenate(plan.factors)).mean())
    noise = plan.mechanism.noise_on_mean(plan) / plan.clip_norm
    noise *= scheduled / math.sqrt(n_noised)
    rows = _rows(request, committed.squared_row - request.fit_intercept)
    settings = _with_step(request, committed.settings, noise, rows)
    return dataclasses.replace(committed, settings=settings)


def warn_if_penalty_diverges(committed: Committed, method: Method) -> None:
    """Warn of a given step that the penalty does not bear; no data are needed to know."""
    request, momentum = committed.request, committed.settings.momentum
    rate, alpha = request.learning_rate, request.alpha
    if rate is None or method.has_own_step:
        return
    pace = rate * alpha * max(1.0, request.global_learning_rate)
    if pace > 2 * (1 + momentum):
        warn(
            f"learning_rate={rate:g} with alpha={alpha:g} diverges: a step takes {pace:.3g} times "
            'the weights away. Give a smaller learning_rate, or leave it "auto".'
        )


def _with_step(request: Request, settings: Settings, noise: float, rows: Rows) -> Settings:
    """Return the settings with the step that was given, or else one that fits the noise."""
    if request.learning_rate is not None:
        return dataclasses.replace(settings, learning_rate=request.learning_rate)
    if request.guarantee.hides_silos:
        eta = _rules.silo_learning_rate(settings.steps, noise, rows)
    else:
        n_steps = sum(settings.steps)
        eta = _rules.learning_rate(settings.clip_norm, n_steps, settings.momentum, noise, rows)
    server = request.global_learning_rate
    eta = _rules.borne_by(eta / server, request.alpha, max(1.0, server), settings.momentum)
    return dataclasses.replace(settings, learning_rate=eta)


def _sampling_rate(request: Request, rows: Rows) -> float:
    if request.sampling_rate is not None:
        return request.sampling_rate
    sizes = request.facts.public_sizes
    if sizes is None:  # one rate for all, and sizes are protected
        return 1.0
    noise_given = request.guarantee.epsilon is None
    mu = 0.0 if noise_given else float(budgets(request, 1.0, 1).min())
    return _rules.sampling_rate(float(np.median(sizes)), mu, rows)


def _sampling(name: str, rate: float, n_steps: int) -> Sampling:
    """Return the sampling that a name and a rate stand for."""
    if name == "disjoint":
        return Disjoint(n_steps)  # the plan lowers this to what the busiest silo uses
    if name == "without_replacement" and rate < 1:
        return WithoutReplacement(rate)
    return Everyone() if rate >= 1 else Poisson(rate)


def _clip_norm(request: Request, steps: tuple[int, ...], noise: float, rows: Rows) -> float:
    if request.clip_norm is not None:
        return request.clip_norm
    if request.guarantee.hides_silos:
        return _rules.message_clip_norm(steps, noise, rows)
    return _rules.clip_norm(noise, rows, request.alpha)


def _momentum(request: Request, method: Method, steps: tuple[int, ...], noise: float) -> float:
    """Return the momentum: a parameter, or, with automatic steps, where the server can have it."""
    if request.momentum is not None:
        return request.momentum
    return _rules.momentum(sum(steps), noise) if method.has_momentum(request) else 0.0


def _advice(request: Request, scaling: ScalingStep, noise: float, rows: Rows) -> str:
    """Return what to warn of; whoever gave a step, or noise, or hears of scales, knows already."""
    promise = request.guarantee
    knows = promise.hides_silos or promise.epsilon is None or bool(scaling.plan.advice)
    return "" if knows or not request.chooses_step else warning_of_noise(noise, rows)


def _rows(request: Request, squared_norm: float) -> Rows:
    """Return the problem for rows of a mean square norm, the intercept not counted."""
    facts = request.facts
    curvature = request.loss.curvature(facts.n_outputs)
    records = _SOME_RECORDS * facts.n_silos if facts.public_sizes is None else facts.n_records
    return Rows(
        curvature=curvature if math.isfinite(curvature) else 1.0,
        squared_row=max(squared_norm + request.fit_intercept, 1e-12),
        n_parameters=max(1, request.model.size),
        n_records=records,
        n_silos=facts.n_silos,
        is_classifier=facts.is_classifier,
    )
