"""What a composition of releases costs: epsilon at a given delta, and delta at a given epsilon."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

from skdpfl.privacy._gaussian import gaussian_delta, gaussian_epsilon
from skdpfl.privacy.events import (
    Approximate,
    Composition,
    Event,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    PoissonGaussian,
)

Neighbours = Literal["replace", "add_remove"]

#: How far one record moves a clipped sum, in clip norms.
_DISTANCE = {"replace": 2.0, "add_remove": 1.0}


@lru_cache(maxsize=4096)
def price_epsilon(composition: Composition, delta: float, neighbours: Neighbours) -> float:
    """Return the epsilon at which the composition is (epsilon, delta)-DP."""
    if any(isinstance(event, Exact) for event, _ in composition):
        return math.inf
    mu, rest = _split(composition, neighbours)
    if not rest:
        return gaussian_epsilon(mu, delta)
    return float(_distribution(mu, tuple(rest), neighbours).get_epsilon_for_delta(delta))


@lru_cache(maxsize=4096)
def price_delta(composition: Composition, epsilon: float, neighbours: Neighbours) -> float:
    """Return the delta at which the composition is (epsilon, delta)-DP."""
    if any(isinstance(event, Exact) for event, _ in composition):
        return 1.0
    mu, rest = _split(composition, neighbours)
    if not rest:
        return gaussian_delta(mu, epsilon)
    return float(_distribution(mu, tuple(rest), neighbours).get_delta_for_epsilon(epsilon))


def _split(
    composition: Composition, neighbours: Neighbours
) -> tuple[float, list[tuple[Event, int]]]:
    mu2, rest = 0.0, []
    for event, count in composition:
        if isinstance(event, PoissonGaussian | FixedSizeGaussian) and event.sampling_rate < 1:
            if event.sampling_rate > 0 and event.noise_multiplier < math.inf:
                rest.append((event, count))
        elif isinstance(event, Gaussian | PoissonGaussian | FixedSizeGaussian):
            z = event.noise_multiplier
            mu2 += math.inf if z == 0 else count * (_DISTANCE[neighbours] / z) ** 2
        elif isinstance(event, Approximate):
            rest.append((event, count))
        else:
            raise TypeError(f"An event of unknown price is refused: {event!r}.")
    return math.sqrt(mu2), rest


def _distribution(mu: float, rest: tuple[tuple[Event, int], ...], neighbours: Neighbours) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.privacy_accountant import NeighboringRelation

    relation = {
        "replace": NeighboringRelation.REPLACE_ONE,
        "add_remove": NeighboringRelation.REPLACE_SPECIAL,
    }[neighbours]
    h = 1e-3
    for event, _ in rest:
        if not isinstance(event, Approximate):
            h = min(h, event.sampling_rate / event.noise_multiplier / 4)
    total = pld.identity(h)
    if mu:
        total = total.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=h))
    for event, count in rest:
        if isinstance(event, Approximate):
            one = pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(event.epsilon, event.delta), h
            )
        elif isinstance(event, PoissonGaussian):
            one = pld.from_gaussian_mechanism(
                event.noise_multiplier,
                sampling_prob=event.sampling_rate,
                value_discretization_interval=h,
                neighboring_relation=relation,
            )
        else:
            raise TypeError(f"An event of unknown price is refused: {event!r}.")
        total = total.compose(one.self_compose(count))
    return total
