"""Budgets, and the smallest noise that meets one, rounded up.

The search solves log(price) = log(budget) for log(noise), which is almost linear. It starts at the
central-limit approximation: the variances of the releases' losses sum to the mu^2 of the Gaussian
with that budget. The first step uses the slope of that Gaussian's price, later ones are secant
steps.

Formal guarantee
----------------
The price of the returned noise, computed by :func:`skdpfl.privacy.pricing.price.price_epsilon` for
the composition that will be released, is at most the budget.

Accounting without an estimator: the epsilon of given noise, and the noise for a budget.
----------------------------------------------------------------------------------------
A fit releases ``n_steps`` noisy sums of clipped gradients. With ``noise_multiplier`` z = (std of
the noise on the clipped sum) / (clipping norm), these functions solve ::

    price(z, sampling_rate, n_steps) = (epsilon, delta)

for epsilon, for z, or for the number of steps. :mod:`skdpfl.privacy.pricing.price` computes the
prices of events.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_number,
    check_positive,
    check_rate,
    check_share,
    is_auto,
)
from skdpfl.privacy import events
from skdpfl.privacy.events import Composition, Neighbours
from skdpfl.privacy.pricing.gaussian import gaussian_elasticity, gaussian_mu
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import releases
from skdpfl.privacy.public_numbers import MOST_STEPS, NoiseSchedule, noise_factors

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

#: Tolerance of the central-limit approximation, and a factor for its slope.
_CLOSE_PART, _SLOPE_FACTOR = 0.98, 1.01
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
    build = cache(build)  # steps of the search are asked for again
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
    start = _least(lambda z: mu_squared(z) - fixed, room, Search(1.0, _CLOSE_PART))
    here, nearby = mu_squared(start), mu_squared(start * _SLOPE_FACTOR)
    if not (here > 0.0 and nearby > 0.0):  # a pure randomiser that tells nearly all
        return start, -1.0
    of_mu = math.log(nearby / here) / (2 * math.log(_SLOPE_FACTOR))
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


SamplingName = Literal["poisson", "without_replacement", "with_replacement", "disjoint"]

#: Largest number of steps.
_MOST_STEPS = 10**9


def epsilon_of(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    neighbours: events.Neighbours = "replace",
    sampling: SamplingName = "poisson",
    batch: int | None = None,
) -> float:
    """Return the epsilon of noisy sums over sampled records.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise on a clipped sum, over the clipping norm. 0: no noise.
    sampling_rate : float
        The share of the records in a step's batch, in (0, 1].
    n_steps : int
        The number of released sums.
    delta : float
        In (0, 1).
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation: one record is replaced, or its contribution is set to zero.
    sampling : {"poisson", "without_replacement", "with_replacement", "disjoint"}, \
            default="poisson"
        How batches are drawn. "poisson": each record independently with probability
        ``sampling_rate``. "without_replacement": an independent uniform batch of fixed size in each
        step ("replace" only). "with_replacement": ``batch`` independent uniform draws in each step
        ("replace" only). "disjoint": k = floor(1 / sampling_rate) disjoint batches, drawn once
        independently of the data and used in turn, so that a record is in at most ceil(n_steps / k)
        of them.
    batch : int, default=None
        The number of draws of a step, for "with_replacement" only.

    Returns
    -------
    float
        The epsilon for which the releases are (epsilon, delta)-DP; 0 if delta alone suffices.

    See Also
    --------
    noise_multiplier_for : The noise for a budget.
    n_steps_for : The steps that a budget allows.

    Notes
    -----
    **Formal guarantee.** The result is an upper bound for the given sampling, exact up to 0.1 %
    (plain Gaussian sums: exact): see :mod:`skdpfl.privacy.pricing.price`.

    Examples
    --------
    >>> from skdpfl.privacy import epsilon_of
    >>> round(epsilon_of(noise_multiplier=60, sampling_rate=0.2, n_steps=4000, delta=1e-5), 3)
    1.649
    """
    check_choice("neighbours", neighbours, get_args(events.Neighbours))
    steps = _steps(noise_multiplier, sampling_rate, _whole(n_steps), sampling, batch)
    return price_epsilon(steps, check_share("delta", delta), neighbours)


def noise_multiplier_for(
    *,
    epsilon: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    neighbours: events.Neighbours = "replace",
    sampling: SamplingName = "poisson",
    batch: int | None = None,
) -> float:
    """Return the smallest noise multiplier that meets a budget, rounded up.

    Parameters
    ----------
    epsilon : float
        Greater than 0; ``inf`` means no noise.
    sampling_rate, n_steps, delta, neighbours, sampling, batch
        As for :func:`epsilon_of`.

    Returns
    -------
    float
        The noise multiplier, whose epsilon is between 99 % and 100 % of the budget.

    See Also
    --------
    epsilon_of : The price of given noise.
    n_steps_for : The steps that a budget allows.

    Examples
    --------
    >>> from skdpfl.privacy import noise_multiplier_for
    >>> round(noise_multiplier_for(epsilon=1, sampling_rate=0.04, n_steps=20_000, delta=1e-5), 1)
    42.2
    """
    check_choice("neighbours", neighbours, get_args(events.Neighbours))
    n_steps = _whole(n_steps)
    _steps(1.0, sampling_rate, n_steps, sampling, batch)
    return calibrate(
        lambda z: _steps(z, sampling_rate, n_steps, sampling, batch), epsilon, delta, neighbours
    )


def n_steps_for(
    *,
    epsilon: float,
    noise_multiplier: float,
    sampling_rate: float,
    delta: float,
    neighbours: events.Neighbours = "replace",
    sampling: SamplingName = "poisson",
    batch: int | None = None,
    noise_schedule: NoiseSchedule = None,
    local_steps: int = 1,
) -> int:
    """Return the largest number of steps that a budget allows.

    Parameters
    ----------
    epsilon : float
        Greater than 0 and finite.
    noise_multiplier, sampling_rate, delta, neighbours, sampling, batch
        As for :func:`epsilon_of`.
    noise_schedule : tuple, default=None
        ``("round", beta, start)`` or ``("step", beta, start)``: noise that decays from
        ``noise_multiplier`` on, as in the estimators.
    local_steps : int, default=1
        The steps of a round, for schedules. The last round may be a part of one.

    Returns
    -------
    int
        The number of steps; 0 if the budget does not allow a single one.

    See Also
    --------
    epsilon_of : The price of given steps.
    noise_multiplier_for : The noise for a budget.

    Examples
    --------
    >>> from skdpfl.privacy import n_steps_for
    >>> n_steps_for(epsilon=1, noise_multiplier=2, sampling_rate=1, delta=1e-5)
    0
    """
    check_choice("neighbours", neighbours, get_args(events.Neighbours))
    epsilon, delta = check_positive("epsilon", epsilon), check_share("delta", delta)
    check_epsilon_says_something(epsilon)

    def fits(n: int) -> bool:
        steps = _steps(noise_multiplier, sampling_rate, n, sampling, batch)
        if noise_schedule is not None:
            steps = _decaying(noise_schedule, local_steps, steps)
        return price_epsilon(steps, delta, neighbours) <= epsilon

    most = _MOST_STEPS if noise_schedule is None else MOST_STEPS
    n_steps = largest(fits, most)
    if n_steps >= most:
        raise ValueError(
            f"noise_multiplier={noise_multiplier!r} allows more than {most:g} steps at "
            f"epsilon={epsilon!r} and delta={delta!r}."
        )
    return n_steps


def _steps(
    z: float, rate: float, n_steps: int, sampling: SamplingName, batch: int | None
) -> events.Composition:
    """Return the releases of the steps."""
    z = check_number("noise_multiplier", z, low=0)
    rate = check_rate("sampling_rate", rate)
    if check_choice("sampling", sampling, get_args(SamplingName)) == "poisson":
        return ((events.PoissonGaussian(z, rate), n_steps),)
    if sampling == "without_replacement":
        return ((events.FixedSizeGaussian(z, rate), n_steps),)
    if sampling == "with_replacement":
        if batch is None:
            raise ValueError('sampling="with_replacement" needs batch, the draws of a step.')
        return ((events.WithReplacementGaussian(z, rate, check_count("batch", batch)), n_steps),)
    per_pass = math.floor(min((1 + 1e-12) / rate, _MOST_STEPS))
    return ((events.Gaussian(z), math.ceil(n_steps / per_pass)),)


def _decaying(
    schedule: NoiseSchedule, local_steps: int, steps: events.Composition
) -> events.Composition:
    """Return the releases of as many steps, with noise that decays by a schedule."""
    ((event, n),) = steps
    if not isinstance(event, events.PoissonGaussian | events.FixedSizeGaussian):
        raise ValueError('noise_schedule does not go with sampling="disjoint".')
    whole, rest = divmod(n, check_count("local_steps", local_steps))
    factors = noise_factors(schedule, (local_steps,) * whole + ((rest,) if rest else ()))
    values, counts = np.unique(np.concatenate(factors), return_counts=True)
    z = event.noise_multiplier
    each = zip(values.tolist(), counts.tolist(), strict=True)
    return events.compose((replace(event, noise_multiplier=z * f), c) for f, c in each)


def _whole(n_steps: float) -> int:
    """Return a number of steps, or raise."""
    if check_number("n_steps", n_steps, low=1, high=_MOST_STEPS) % 1:
        raise ValueError(f"n_steps must be an integer; got {n_steps!r}.")
    return int(n_steps)
