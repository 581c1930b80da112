"""From events to privacy losses: the dominating pair that prices each event.

Plain Gaussians compose in closed form and are kept apart as one squared mu; everything else becomes
a list of (pair, how many times). An event class that is not in the table is refused.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skdpfl.privacy.events import (
    Approximate,
    Composition,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    Neighbours,
    PoissonGaussian,
    Profile,
    change_of,
)
from skdpfl.privacy.pricing.loss_atoms import AtomsPair, approximate_pair, profile_pair
from skdpfl.privacy.pricing.loss_pairs import FixedSizePair, ReplacePair, ZeroOutPair

LossPair = ReplacePair | ZeroOutPair | FixedSizePair | AtomsPair

#: Sampled sums with less noise count as exact, since squares of the loss would overflow.
_NO_NOISE = 1e-60


@dataclass(frozen=True)
class Releases:
    """A composition ready to be priced: (sum of) mu^2, and the other losses with their counts."""

    mu_squared: float
    pairs: tuple[tuple[LossPair, int], ...]

    @property
    def mu(self) -> float:
        """The plain Gaussians together are mu-GDP; infinite for an exact release."""
        return math.sqrt(self.mu_squared)


def releases(composition: Composition, neighbours: Neighbours) -> Releases:
    """Return the squared mu and the pairs of a composition."""
    change_of(neighbours)  # raises if there is no such relation
    mu_squared, pairs = 0.0, []
    for event, count in composition:
        price = _PRICES.get(type(event))
        if price is None:
            raise TypeError(
                f"{event!r} is refused: the accountant knows the price of "
                f"{', '.join(kind.__name__ for kind in _PRICES)} only."
            )
        if not (count >= 0 and count % 1 == 0):
            raise ValueError(f"{event!r} cannot be released {count} times.")
        if count:
            squared, pair = price(event, neighbours)
            mu_squared += count * squared if squared else 0.0
            pairs += [(pair, int(count))] if pair is not None else []
    return Releases(mu_squared, tuple(pairs))


#: What one release adds: to mu squared, and to the list of pairs.
_Price = tuple[float, LossPair | None]


def _exact(event: Exact, neighbours: Neighbours) -> _Price:
    return math.inf, None


def _gaussian(event: Gaussian, neighbours: Neighbours) -> _Price:
    z = _noise(event.noise_multiplier)
    mu = math.inf if z == 0 else change_of(neighbours) / z
    return mu * mu, None  # not mu**2, which raises where this is infinite


def _poisson(event: PoissonGaussian, neighbours: Neighbours) -> _Price:
    z, rate = _noise(event.noise_multiplier), _rate(event.sampling_rate)
    pair = ReplacePair if neighbours == "replace" else ZeroOutPair
    return _sampled(z, rate, neighbours, pair)


def _fixed_size(event: FixedSizeGaussian, neighbours: Neighbours) -> _Price:
    if neighbours != "replace":
        raise ValueError(
            f"neighbours={neighbours!r}: batches of a fixed size are priced under "
            "neighbours='replace' only."
        )
    z, rate = _noise(event.noise_multiplier), _rate(event.sampling_rate)
    return _sampled(z, rate, neighbours, FixedSizePair)


def _sampled(z: float, rate: float, neighbours: Neighbours, pair: Any) -> _Price:
    if rate == 0.0 or z == math.inf:
        return 0.0, None
    if z < _NO_NOISE:
        return math.inf, None
    if rate == 1.0:
        return _gaussian(Gaussian(z), neighbours)
    return 0.0, pair(rate, 1.0 / z)


def _approximate(event: Approximate, neighbours: Neighbours) -> _Price:
    epsilon = _at_least_zero("epsilon", event.epsilon)
    delta = _rate(event.delta, "delta")
    if delta == 1.0 or epsilon == math.inf:
        return math.inf, None
    return 0.0, approximate_pair(epsilon, delta)


def _profile(event: Profile, neighbours: Neighbours) -> _Price:
    epsilons, deltas = event.epsilons, event.deltas
    if len(epsilons) != len(deltas) or any(not a < b for a, b in itertools.pairwise(epsilons)):
        raise ValueError(f"epsilons={epsilons!r} must increase, and match deltas={deltas!r}.")
    return 0.0, profile_pair(epsilons, tuple(_rate(delta, "deltas") for delta in deltas))


_PRICES: dict[type, Callable[[Any, Neighbours], _Price]] = {
    Exact: _exact,
    Gaussian: _gaussian,
    PoissonGaussian: _poisson,
    FixedSizeGaussian: _fixed_size,
    Approximate: _approximate,
    Profile: _profile,
}


def _noise(z: float) -> float:
    return _at_least_zero("noise_multiplier", z)


def _at_least_zero(name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{name}={value!r} must be at least 0.")
    return float(value)


def _rate(value: float, name: str = "sampling_rate") -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value!r} must lie in [0, 1].")
    return float(value)
