"""From parameters and public numbers to the numbers a fit runs with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skdpfl.estimators import _auto
from skdpfl.estimators._checks import is_auto
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._scales import ScalingStep, plan_scales
from skdpfl.privacy.sampling import Disjoint, Everyone, Poisson, Sampling, WithoutReplacement


class Settled(NamedTuple):
    """The settings of the training and how the scales will be found."""

    settings: Settings
    scaling: ScalingStep


def settle(estimator: Any, facts: Facts) -> Settled:
    """Decide everything that "auto" left open."""
    scaling = plan_scales(estimator, facts)
    rate = _auto.sampling_rate(estimator.sampling_rate, facts)
    steps = local_steps(estimator, rate, facts)
    learning_rate = _auto.learning_rate(estimator.learning_rate, facts, max(steps))
    settings = Settings(
        steps=steps,
        learning_rate=learning_rate,
        clip_norm=_auto.clip_norm(estimator.clip_norm, facts),
        rate=rate,
        sampling=sampling_of(getattr(estimator, "sampling", "poisson"), rate, sum(steps)),
        momentum=getattr(estimator, "momentum", 0.0),
    )
    return Settled(settings, scaling)


def local_steps(estimator: Any, rate: float, facts: Facts) -> tuple[int, ...]:
    """Return the number of gradient steps of each round.

    E epochs at sampling rate q are round(E / q) steps.
    """
    steps = getattr(estimator, "local_steps", 1)
    epochs = getattr(estimator, "local_epochs", None)
    if epochs is not None:
        counted = np.maximum(1, np.round(np.asarray(epochs, dtype=float) / rate)).astype(int)
        steps = counted.tolist()
    elif is_auto(steps):
        steps = estimator._automatic_local_steps
    name = "local_steps" if epochs is None else "local_epochs"
    if isinstance(steps, (int, np.integer)):
        return (int(steps),) * _auto.rounds(
            estimator.n_rounds, estimator._automatic_rounds(facts, _auto.ROUNDS)
        )
    n_rounds = _auto.rounds(estimator.n_rounds, default=len(steps))
    if len(steps) != n_rounds:
        raise ValueError(
            f"{name} as a sequence has one entry per round; got {len(steps)} entries for "
            f"n_rounds={n_rounds}."
        )
    return tuple(int(k) for k in steps)


def sampling_of(name: str, rate: float, n_steps: int) -> Sampling:
    """Return the sampling that a name and a rate stand for."""
    if name == "disjoint":
        return Disjoint(n_steps)  # the plan lowers this to what the busiest silo uses
    if name == "without_replacement" and rate < 1:
        return WithoutReplacement(rate)
    return Everyone() if rate >= 1 else Poisson(rate)
