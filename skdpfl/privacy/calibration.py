"""Budgets, and the smallest noise that meets one, rounded up.

The search solves log(price) = log(budget) for log(noise), which is almost linear. It starts at the
central-limit approximation: the variances of the releases' losses sum to the mu^2 of the Gaussian
with that budget. The first step uses the slope of that Gaussian's price, later ones are secant
steps.

Formal guarantee
----------------
The price of the returned noise, computed by :func:`skdpfl.privacy.pricing.price.price_epsilon` for
the composition that will be released, is at most the budget.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from skdpfl._arguments import check_number, check_share, is_auto
from skdpfl.privacy.events import Composition, Neighbours
from skdpfl.privacy.pricing.gaussian import gaussian_elasticity, gaussian_mu
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import releases

#: The price of the returned noise is at least this share of the budget, if prices are continuous.
_SHARE = 0.999

#: The smallest noise that is returned: below, all budgets are met, or sampled records are revealed.
_LEAST_NOISE, _MOST_NOISE = 1e-4, 1e15


@dataclass(frozen=True)
class Search:
    """Start and tolerances of the search for the noise.

    Attributes
    ----------
    start : float or None
        The first noise to try; None: the central-limit approximation, which takes a few dozen
        evaluations of the releases' losses, and its slope.
    slope : float
        The slope of log(price + shift) in log(noise) at the start.
    share : float
        The search ends when the price is at least this share of the budget.
    narrow : float
        The search also ends when the bounds of the noise differ by at most this share.
    shift : float
        A constant added to prices before the logarithm: delta if epsilon is below it, since such a
        price falls from epsilon to 0 while the noise hardly changes.
    """

    start: float | None = None
    share: float = _SHARE
    narrow: float = 1e-9
    slope: float = -1.0
    shift: float = 0.0


THOROUGH = Search()

#: How close the central-limit approximation is found, and a factor for its slope.
_CLOSE, _NEARBY = 0.98, 1.01
#: A price jumps if noise within the first factor changes it by the second.
_STEEP, _JUMP = 1.25, 100.0

#: More budgets than this are rounded down to steps of this share.
MANY_BUDGETS, _STEP = 64, 8e-3


def shared_budgets(epsilon: np.ndarray) -> np.ndarray:
    """Return the budgets, rounded down by less than 0.8 % if there are very many.

    Silos whose budgets round to the same number need only one noise, one scale and one price.
    """
    finite = np.isfinite(epsilon)
    if len(set(epsilon[finite].tolist())) <= MANY_BUDGETS:
        return epsilon
    top = epsilon[finite].max()
    steps = np.ceil(np.log(top / epsilon[finite]) / _STEP)
    rounded = epsilon.copy()
    rounded[finite] = np.minimum(epsilon[finite], top * np.exp(-_STEP * steps))
    return rounded


def calibrate(
    build: Callable[[float], Composition],
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    search: Search = THOROUGH,
) -> float:
    """Return the noise multiplier whose composition meets (epsilon, delta).

    Parameters
    ----------
    build : callable
        Function from a noise multiplier to its composition; more noise must not cost more.
    epsilon, delta : float
        The budget.
    neighbours : {"replace", "add_remove"}
        The relation between data sets.
    search : Search
        Options of the search.

    Returns
    -------
    float
        The noise multiplier. Its price is at most ``epsilon`` and, by default, at least 99 % of it.

    Raises
    ------
    ValueError
        If the releases that do not depend on the noise exceed the budget.
    """
    check_budget(epsilon, delta)
    if epsilon == math.inf:
        return 0.0
    fixed = price_epsilon(build(math.inf), delta, neighbours)
    if fixed >= epsilon:
        raise ValueError(
            f"epsilon={epsilon!r} at delta={delta!r} cannot be met by any noise: the releases that "
            f"do not depend on the noise cost {fixed:.4g} already."
        )
    if search.start is None:
        start, slope = _central_limit(build, epsilon, delta, neighbours)
        search = replace(search, start=start, slope=slope)
    if epsilon < delta:
        slope = search.slope * epsilon / (epsilon + delta)
        search = replace(search, shift=delta, slope=slope, narrow=1e-6)
    return _least(lambda z: price_epsilon(build(z), delta, neighbours), epsilon, search)


#: above it exponentials and noise leave the range of floats
LARGEST_EPSILON = 1e9


def check_budget(epsilon: float, delta: float) -> None:
    """Raise unless epsilon is a positive number or inf, and delta in (0, 1)."""
    check_number("epsilon", epsilon, low=0, open_low=True, words=" (inf for no privacy)")
    check_epsilon_says_something(epsilon)
    check_share("delta", delta)


def check_epsilon_says_something(epsilon: float) -> None:
    """Raise for finite epsilons that are too large to compute with; they promise nothing."""
    if LARGEST_EPSILON < epsilon < math.inf:
        raise ValueError(
            f"epsilon={epsilon:g} promises nothing. Give epsilon=inf for a fit without privacy, or "
            f"at most {LARGEST_EPSILON:g}; usual budgets are between 0.1 and 10."
        )


def is_number(value: object) -> bool:
    """Return whether a value is a real number, and not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _central_limit(
    build: Callable[[float], Composition], epsilon: float, delta: float, neighbours: Neighbours
) -> tuple[float, float]:
    """Return the noise at which the losses' variances sum to the budget's mu^2, and the slope.

    The price is then about that of a Gaussian, with the slope
    d log(epsilon) / d log(mu) * d log(mu) / d log(noise).
    """

    def mu_squared(z: float) -> float:
        released = releases(build(z), neighbours)
        return released.mu_squared + sum(n * pair.variance() for pair, n in released.pairs)

    mu = gaussian_mu(epsilon, delta)
    fixed = mu_squared(math.inf)
    room = mu**2 - fixed
    if room <= 0.0:
        return 1.0, -1.0
    start = _least(lambda z: mu_squared(z) - fixed, room, Search(1.0, _CLOSE))
    here, nearby = mu_squared(start), mu_squared(start * _NEARBY)
    if not (here > 0.0 and nearby > 0.0):  # a pure randomiser that tells nearly all
        return start, -1.0
    of_mu = math.log(nearby / here) / (2 * math.log(_NEARBY))
    return start, gaussian_elasticity(mu, epsilon) * of_mu


def _least(price: Callable[[float], float], budget: float, search: Search) -> float:
    """Return approximately the least z at which a decreasing function is within the budget.

    If hardly any record is ever in a batch, the price jumps from far below the budget to far above
    it; the search does not locate such a jump exactly.
    """
    share, start, shift = search.share, search.start, search.shift
    assert start is not None
    target = math.log(budget + 2 * shift / (1 + share)) + math.log1p(share) - math.log(2)
    low, high = 0.0, math.inf  # Too little noise, and enough.
    too_much, enough = 0.0, math.inf  # their prices
    z, slope, before = start, min(-0.1, max(-20.0, search.slope)), None
    blind = 0.05 if shift else 1.0  # the step where a cost of 0 tells no direction
    while True:
        cost, gap = price(z), high / low if low else math.inf
        if cost > budget:
            low, too_much = z, cost
        else:
            high, enough = z, cost
            if cost >= share * budget or z <= _LEAST_NOISE or high < low * (1 + search.narrow):
                return z
        if not shift and high < _STEEP * low and too_much > _JUMP * enough:
            return high
        if low >= _MOST_NOISE:
            raise ValueError(
                f"No noise multiplier up to {_MOST_NOISE:g} keeps the releases that depend on it "
                f"within epsilon={budget:.3g}, the part of the budget that is left for them. Are "
                "there too many of them, or does their noise decay too steeply (noise_schedule)?"
            )
        here = (math.log(z), math.log(cost + shift)) if 0 < cost < math.inf else None
        if here and before and here[0] != before[0]:
            slope = min(-0.1, max(-20.0, (here[1] - before[1]) / (here[0] - before[0])))
        step = (target - here[1]) / slope if here else (-blind if cost == 0 else 1.0)
        blind *= 2 if cost == 0 else 1
        before = here or before
        # If a secant hardly narrows the bracket, use the middle.
        slow = low > 0.0 and math.inf > gap and high / low > math.sqrt(gap)
        proposal = 0.0 if slow else math.exp(math.log(z) + min(3.0, max(-3.0, step)))
        z = _inside(proposal, low, high)


def _inside(z: float, low: float, high: float) -> float:
    """Return the proposal, or the middle of the bracket if it lies outside."""
    if low < z < high:
        return max(z, _LEAST_NOISE)
    return max(_LEAST_NOISE, math.sqrt(low * high) if low else high / 4)


def automatic_delta(n: int) -> float:
    """Return the largest power of ten that is at most 1 / (10 n), for n records or silos."""
    return float(f"1e{math.floor(1e-12 - math.log10(10 * n))}")


def check_budget_parameters(epsilon: Any, delta: Any) -> None:
    """Raise unless epsilon is a positive number or inf, and delta "auto" or in (0, 1)."""
    check_budget(epsilon, 0.5)
    if not is_auto(delta):
        check_share("delta", delta, words=' (or "auto")')


def delta_of(delta: Any, n: int) -> float:
    """Return the delta of a checked budget, for n records or silos."""
    return automatic_delta(n) if is_auto(delta) else float(delta)


def largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest whole number that fits, at most ``most``; 0 if 1 does not.

    What is returned did fit; larger ones might as well where ``fits`` is not monotone.

    Examples
    --------
    >>> largest(lambda n: n * n <= 50, 100), largest(lambda n: True, 100)
    (7, 100)
    """
    low, high = 0, 1
    while fits(high):
        low = high
        if low == most:
            return most
        high = min(16 * high, most)
    while high - low > 1:  # on the logarithm first: epsilon grows like the root of the number
        middle = round(math.sqrt(low * high)) if high > 2 * low > 0 else (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
