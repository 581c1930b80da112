"""From parameters and public numbers to the numbers a fit runs with."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from skdpfl._arguments import is_auto
from skdpfl.estimators import _auto
from skdpfl.estimators._auto import Rows
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._noise_level import Level, drowned, noise_level
from skdpfl.estimators._scales import ScalingStep, plan_scales
from skdpfl.estimators._theory import Committed
from skdpfl.privacy.sampling import Disjoint, Everyone, Poisson, Sampling, WithoutReplacement

#: steps of one pass over disjoint batches, whose noise grows with their number
_DISJOINT_STEPS = 25
#: local steps of silos that are protected as a whole
_SILO_STEPS = 5
#: records of a silo where their number is protected, to guess how much work a round is
_SOME_RECORDS = 100


class Settled(NamedTuple):
    """The settings of the training, how the scales will be found, what to warn of ("": nothing)."""

    settings: Settings
    scaling: ScalingStep
    advice: str


def settle(estimator: Any, facts: Facts) -> Settled:
    """Decide everything that "auto" left open."""
    rows = _rows(estimator, facts, float(facts.n_features))
    rate = _rate(estimator, facts, rows)
    steps = local_steps(estimator, facts, rate, rows)
    level = _level(estimator, facts, rate, steps)
    scaling = plan_scales(estimator, facts, level.mu)
    rows = _rows(estimator, facts, scaling.squared_row)
    settings = Settings(
        steps=steps,
        learning_rate=1.0,
        clip_norm=_clip_norm(estimator, steps, level.noise, rows),
        rate=rate,
        sampling=sampling_of(getattr(estimator, "sampling", "poisson"), rate, sum(steps)),
        momentum=_momentum(estimator, steps, level.noise),
    )
    settings = with_learning_rate(estimator, settings, level.noise, rows)
    # whoever gave a step, or noise, or is told of scales already, needs no second word
    told = _whole(estimator) or estimator.epsilon is None or bool(scaling.plan.advice)
    quiet = told or not is_auto(estimator.learning_rate)
    return Settled(settings, scaling, "" if quiet else drowned(level.noise, rows))


def with_learning_rate(estimator: Any, settings: Settings, noise: float, rows: Rows) -> Settings:
    """Return the settings with the step that was given, or else one that fits the noise."""
    if not isinstance(estimator.learning_rate, str):
        return dataclasses.replace(settings, learning_rate=float(estimator.learning_rate))
    numbers = noise, rows
    if _whole(estimator):
        eta = _auto.silo_learning_rate(settings.steps, *numbers)
    else:
        n_steps = sum(settings.steps)
        eta = _auto.learning_rate(settings.clip_norm, n_steps, settings.momentum, *numbers)
    server = getattr(estimator, "global_learning_rate", 1.0)
    eta /= server
    eta = _auto.borne_by(eta, float(estimator.alpha), max(1.0, server), settings.momentum)
    return dataclasses.replace(settings, learning_rate=eta)


def informed(estimator: Any, known: Committed) -> Committed:
    """Return what is known with the step that the plan's own noise and the found scales ask for."""
    if not is_auto(estimator.learning_rate):
        return known
    plan = known.plan
    n_noised = plan.n_rounds if plan.unit == "silo" else sum(plan.steps)
    scheduled = math.sqrt(np.square(np.concatenate(plan.factors)).mean())
    noise = plan.mechanism.noise_on_mean(plan) / plan.clip_norm
    noise *= scheduled / math.sqrt(n_noised)
    rows = _rows(estimator, known.facts, known.squared_row - estimator.fit_intercept)
    settings = with_learning_rate(estimator, known.settings, noise, rows)
    return dataclasses.replace(known, settings=settings)


def local_steps(estimator: Any, facts: Facts, rate: float, rows: Rows) -> tuple[int, ...]:
    """Return the number of gradient steps of each round.

    E epochs at sampling rate q are round(E / q) steps.
    """
    steps = getattr(estimator, "local_steps", 1)
    epochs = getattr(estimator, "local_epochs", None)
    if epochs is not None:
        counted = np.maximum(1, np.round(np.asarray(epochs, dtype=float) / rate)).astype(int)
        steps = counted.tolist()
    elif is_auto(steps):
        steps = _automatic_local_steps(estimator)
    if isinstance(steps, (int, np.integer)):
        return (int(steps),) * _rounds(estimator, facts, int(steps), rate, rows)
    name = "local_steps" if epochs is None else "local_epochs"
    n_rounds = len(steps) if is_auto(estimator.n_rounds) else int(estimator.n_rounds)
    if len(steps) != n_rounds:
        raise ValueError(
            f"{name} as a sequence has one entry per round; got {len(steps)} entries for "
            f"n_rounds={n_rounds}."
        )
    return tuple(int(k) for k in steps)


def _automatic_local_steps(estimator: Any) -> int:
    """Return K; one round is one step, so that it is what it looks like.

    Without privacy steps are not paid for, and several of them only drift to silos' own optima.
    """
    if _is_exact(estimator) or (not is_auto(estimator.n_rounds) and estimator.n_rounds == 1):
        return 1
    own: int = estimator._automatic_local_steps
    return max(own, _SILO_STEPS) if _whole(estimator) else own


def sampling_of(name: str, rate: float, n_steps: int) -> Sampling:
    """Return the sampling that a name and a rate stand for."""
    if name == "disjoint":
        return Disjoint(n_steps)  # the plan lowers this to what the busiest silo uses
    if name == "without_replacement" and rate < 1:
        return WithoutReplacement(rate)
    return Everyone() if rate >= 1 else Poisson(rate)


def _rounds(estimator: Any, facts: Facts, local_steps: int, rate: float, rows: Rows) -> int:
    if not is_auto(estimator.n_rounds):
        return int(estimator.n_rounds)
    per_message = 1 if _whole(estimator) else local_steps
    exact, plain = _is_exact(estimator), not _has_server_momentum(estimator)
    default = _auto.n_rounds(per_message, rate, rows, exact=exact, plain=plain)
    if getattr(estimator, "sampling", "poisson") == "disjoint":
        most = min(_DISJOINT_STEPS, int(facts.silo_sizes.min()))
        default = max(1, min(default, most // local_steps))
    return estimator._automatic_rounds(facts, default)


def _rate(estimator: Any, facts: Facts, rows: Rows) -> float:
    if not is_auto(estimator.sampling_rate):
        return float(estimator.sampling_rate)
    if facts.public_sizes is None:  # one rate for all, and sizes are protected
        return 1.0
    mu = noise_level(estimator, facts, 1.0, 1).mu if estimator.epsilon is not None else 0.0
    return _auto.sampling_rate(float(np.median(facts.public_sizes)), mu, rows)


def _level(estimator: Any, facts: Facts, rate: float, steps: tuple[int, ...]) -> Level:
    """Return the level of noise; one pass over disjoint batches averages fewer records a step."""
    n_noised = len(steps) if _whole(estimator) else sum(steps)
    if getattr(estimator, "sampling", "poisson") != "disjoint":
        return noise_level(estimator, facts, rate, n_noised)
    level = noise_level(estimator, facts, 1.0, 1)
    return Level(level.mu, level.noise * math.sqrt(n_noised))


def _clip_norm(estimator: Any, steps: tuple[int, ...], noise: float, rows: Rows) -> float:
    if not is_auto(estimator.clip_norm):
        return float(estimator.clip_norm)
    if _whole(estimator):
        return _auto.message_clip_norm(steps, noise, rows)
    return _auto.clip_norm(noise, rows, float(estimator.alpha))


def _momentum(estimator: Any, steps: tuple[int, ...], noise: float) -> float:
    """Return the momentum: a parameter, or, with automatic steps, where the server can have it."""
    given = getattr(estimator, "momentum", None)
    if given is not None:
        return float(given)
    return _auto.momentum(sum(steps), noise) if _has_server_momentum(estimator) else 0.0


def _has_server_momentum(estimator: Any) -> bool:
    return is_auto(estimator.learning_rate) and getattr(estimator, "_server_momentum", False)


def _rows(estimator: Any, facts: Facts, squared_norm: float) -> Rows:
    """Return the problem for rows of a mean square norm, the intercept not counted."""
    curvature = estimator._loss().curvature(facts.n_outputs)
    records = _SOME_RECORDS * facts.n_silos if facts.public_sizes is None else facts.n_records
    icept = float(estimator.fit_intercept)
    return Rows(
        curvature=curvature if math.isfinite(curvature) else 1.0,
        squared_row=max(squared_norm + icept, 1e-12),
        n_parameters=max(1, round((facts.n_features + icept) * facts.n_outputs)),
        n_records=records,
        n_silos=facts.n_silos,
        is_classifier=facts.is_classifier,
    )


def _whole(estimator: Any) -> bool:
    """Whether whole silos are protected: their messages are clipped, not records' gradients."""
    return getattr(estimator, "unit", "record") == "silo"


def _is_exact(estimator: Any) -> bool:
    epsilon = estimator.epsilon
    return isinstance(epsilon, (int, float)) and math.isinf(epsilon)
