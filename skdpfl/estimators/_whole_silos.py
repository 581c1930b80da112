"""What a fit that protects whole silos does differently, beside where the noise is."""

from __future__ import annotations

import dataclasses
from typing import Any

from skdpfl.algorithms import Algorithm, whole_silo_control_rate
from skdpfl.estimators._checks import is_auto
from skdpfl.estimators._facts import Settings
from skdpfl.estimators._theory import Committed
from skdpfl.privacy.mechanisms import LearntClip, Mechanism, NoPrivacy, WholeMessages

#: where a learnt clip norm starts, of the highest it may take
START = 0.3


def first_clip_norm(estimator: Any, settings: Settings) -> float:
    """Return what gradients (unit "silo": the first round's messages) are clipped to."""
    if getattr(estimator, "unit", "record") == "record" or not is_auto(estimator.clip_norm):
        return settings.clip_norm
    return START * settings.clip_norm


def adapted(
    mechanism: Mechanism, estimator: Any, algorithm: Algorithm, settings: Settings
) -> Mechanism:
    """Return the mechanism with what the algorithm reads and the parameters leave open."""
    if isinstance(mechanism, NoPrivacy):
        return dataclasses.replace(mechanism, squared_norms=algorithm.reads_squared_norm)
    if isinstance(mechanism, WholeMessages):
        learnt = is_auto(estimator.clip_norm)
        return dataclasses.replace(
            mechanism,
            squared_norms=algorithm.reads_squared_norm,
            clipping=LearntClip(highest=settings.clip_norm) if learnt else None,
        )
    if algorithm.reads_squared_norm:
        raise ValueError(
            f"{type(algorithm).__name__} reads the squared norms of the messages, which are "
            f'released where whole silos are protected: give unit="silo", not '
            f"{estimator.unit!r}."
        )
    return mechanism


def control_rate(known: Committed) -> float:
    """Return how fast SCAFFOLD's control variates follow: slower under noise on whole messages."""
    plan = known.plan
    if plan.unit == "record" or not plan.private:
        return 1.0
    noise = plan.mechanism.noise_on_mean(plan) * known.n_parameters**0.5 / plan.clip_norm
    return whole_silo_control_rate(plan.n_rounds, plan.silo_fraction, noise)


def check_whole_silos(params: dict[str, Any]) -> None:
    """Raise for parameters that mean nothing, or tell something, where silos are protected."""
    if params["unit"] != "silo":
        return
    if params.get("noise_schedule") is not None:
        raise ValueError(
            'noise_schedule is about the noise on records\' gradients; unit="silo" noises whole '
            f"messages, all alike. Got {params['noise_schedule']!r}; leave it None."
        )
    if params.get("sampling", "poisson") == "disjoint":
        raise ValueError(
            'sampling="disjoint" needs to know the silos\' sizes, which unit="silo" protects; use '
            'sampling="poisson".'
        )
