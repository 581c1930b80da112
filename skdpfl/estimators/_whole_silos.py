"""What a fit that protects whole silos does differently, beside where the noise is."""

from __future__ import annotations

import dataclasses
from typing import Any

from skdpfl.algorithms import Algorithm
from skdpfl.estimators._checks import is_auto
from skdpfl.estimators._facts import Settings
from skdpfl.privacy.mechanisms import Mechanism, NoPrivacy, WholeMessages
from skdpfl.privacy.quantile import AdaptiveClip

#: the share of the messages that a learnt clip norm leaves alone, and how fast it is learnt
LEARNT_CLIP = AdaptiveClip(quantile=0.5, learning_rate=0.5)
#: control variates take in all but exp(-CONTROL_ROUNDS) of what they started from
CONTROL_ROUNDS = 6.0


def adapted(mechanism: Mechanism, estimator: Any, algorithm: Algorithm) -> Mechanism:
    """Return the mechanism with what the algorithm reads and the parameters leave open."""
    if isinstance(mechanism, NoPrivacy):
        return dataclasses.replace(mechanism, squared_norms=algorithm.reads_squared_norm)
    if isinstance(mechanism, WholeMessages):
        return dataclasses.replace(
            mechanism,
            squared_norms=algorithm.reads_squared_norm,
            clipping=LEARNT_CLIP if is_auto(estimator.clip_norm) else None,
        )
    if algorithm.reads_squared_norm:
        raise ValueError(
            f"{type(algorithm).__name__} reads the squared norms of the messages, which are "
            f'released where whole silos are protected: give unit="silo", not '
            f"{estimator.unit!r}."
        )
    return mechanism


def control_rate(estimator: Any, settings: Settings) -> float:
    """Return how fast SCAFFOLD's control variates follow: slower under noise on whole messages."""
    if estimator.unit == "record" or estimator.epsilon == float("inf"):
        return 1.0
    return min(1.0, CONTROL_ROUNDS / (estimator.silo_fraction * settings.n_rounds))


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
    if params["scaling"] == "private":
        raise ValueError(
            'scaling="private" finds scales that protect records; under unit="silo" give '
            'feature_bounds, or scaling="auto" (which is then independent of the data) or None.'
        )
