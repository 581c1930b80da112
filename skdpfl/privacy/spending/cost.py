"""One composition with its price."""

from __future__ import annotations

from dataclasses import dataclass

from skdpfl.privacy.events import Composition
from skdpfl.privacy.pricing.price import Neighbours, price_epsilon


@dataclass(frozen=True, slots=True)
class Cost:
    """One composition with its price: epsilon at delta."""

    composition: Composition
    delta: float
    epsilon: float

    @classmethod
    def of(cls, composition: Composition, delta: float, neighbours: Neighbours) -> Cost:
        """Price a composition at ``delta``."""
        return cls(composition, delta, price_epsilon(composition, delta, neighbours))
