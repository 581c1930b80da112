"""The least noise that meets a budget, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from skdpfl.privacy.events import Composition
from skdpfl.privacy.pricing import Neighbours, price_epsilon

#: The price of the returned noise lies between these fractions of the budget.
_LOW, _HIGH = 0.995, 1.0


def calibrate(
    build: Callable[[float], Composition], epsilon: float, delta: float, neighbours: Neighbours
) -> float:
    """Return a noise multiplier whose composition costs at most (epsilon, delta), barely."""

    def price(z: float) -> float:
        return price_epsilon(build(z), delta, neighbours)

    if price(math.inf) > epsilon:
        raise ValueError(
            f"No noise meets epsilon={epsilon!r} at delta={delta!r}: what does not depend on the "
            f"noise costs {price(math.inf):.4g} already."
        )
    low, high = 1.0, 1.0
    while price(high) > epsilon:
        low, high = high, high * 4
    while price(low) <= epsilon:
        low, high = low / 4, low
    while not _LOW * epsilon <= price(high) <= _HIGH * epsilon:
        middle = math.sqrt(low * high)
        if price(middle) > epsilon:
            low = middle
        else:
            high = middle
    return high
