"""The division of a search's budget: the largest epsilon of a run.

Training records: n fits composed, or the best of a random number of runs, must cost at most
(epsilon, delta); the largest epsilon of a single fit with that property is found by bisection.
Scoring records are used for the scores only, which have the whole budget.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Composition, Gaussian, Neighbours, compose
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import undominated
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.spending.cost import Cost
from skdpfl.privacy.spending.repetition import ORDERS, Repetition
from skdpfl.privacy.spending.spent import PrivacySpent

#: a run gets at least this share of the epsilon that the budget was divided for
_LEAST = 1e-3

#: (epsilon, delta) -> the cost of a candidate's fit
Price = Callable[[float, float], PrivacySpent]


class SearchBudget(NamedTuple):
    """Each run's epsilon, the noise multiplier of scores, and the costs of training and scoring."""

    epsilon: float
    score_noise: float
    cost: tuple[Composition, ...]
    curve: np.ndarray


def divide_budget(
    neighbours: Neighbours,
    prices: Sequence[Price],
    epsilon: float,
    delta: float,
    repetition: Repetition | None,
) -> SearchBudget:
    """Return the division of (epsilon, delta) among runs and scores."""
    n_scores = len(prices) if repetition is None else 1
    if repetition is None:
        noise = calibrate(lambda z: ((Gaussian(z), 1),), epsilon, delta, neighbours)
        return _largest_epsilon(
            lambda e: _of_all(prices, e, delta), noise, epsilon, delta, neighbours, n_scores
        )
    # the best of K runs: a run is a fit, or a score, whichever the record takes part in
    noise = _score_noise(repetition, epsilon, delta, neighbours)
    budget = _largest_epsilon(
        lambda e: _of_best(prices, e, delta, repetition, noise, neighbours),
        noise,
        epsilon,
        delta,
        neighbours,
        len(prices),
    )
    parts = {c.composition for price in prices for c in price(budget.epsilon, delta).costs}
    return budget._replace(curve=curve({*parts, ((Gaussian(noise), 1),)}, neighbours))


def within(
    budget: SearchBudget,
    price: Price,
    delta: float,
    repetition: Repetition | None,
    neighbours: Neighbours,
) -> float:
    """Return the epsilon of one run: the budget's, or less if its curve would exceed the plan's.

    The theorem on random repetition needs each run's Renyi curve, and its probability of failure,
    under those that were priced; fits of one (epsilon, delta) but other samplings or mechanisms
    have others. An error depends on candidates only, whose law is public: given that there is none,
    the number of runs has the same kind of law, with a smaller mean.
    """
    if repetition is None:
        return budget.epsilon
    epsilon = budget.epsilon
    while epsilon > _LEAST * budget.epsilon:
        parts = {cost.composition for cost in price(epsilon, delta).costs}
        if (curve(parts, neighbours) <= budget.curve).all():
            return epsilon
        epsilon *= 0.98
    raise ValueError(
        "A run of this search would cost more, or fail more often, than those that its budget was "
        "divided for, at any epsilon: let all candidates have mechanisms of the same probability "
        'of failure, and similar samplings, or search with trust="silo".'
    )


def curve(parts: Collection[Composition], neighbours: Neighbours) -> np.ndarray:
    """Return the compositions' largest Renyi divergence at each order, and chance of failure."""
    prices = [[renyi(part, a, neighbours) for part in parts] for a in ORDERS]
    failure = max(price[1] for price in prices[0])
    return np.array([*(max(price[0] for price in row) for row in prices), failure])


def _largest_epsilon(
    cost: Callable[[float], Sequence[Composition]],
    noise: float,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    n_scores: int,
) -> SearchBudget:
    """Return the largest single epsilon whose cost stays within the budget."""
    low, high = 0.0, epsilon
    best: Sequence[Composition] = ()
    for _ in range(30):
        middle = np.sqrt(low * high) if low else high / 2
        parts = cost(middle)
        if max(price_epsilon(part, delta, neighbours) for part in parts) <= epsilon:
            low, best = middle, parts
        else:
            high = middle
        if low and high / low < 1.005:
            break
    if not low:
        raise ValueError(
            f"epsilon={epsilon:g} is too little for a search over {n_scores} candidates."
        )
    return SearchBudget(low, noise, (*best, ((Gaussian(noise), 1),)), np.zeros(0))


def _of_all(prices: Sequence[Price], epsilon: float, delta: float) -> list[Composition]:
    """Return the highest costs that a silo may have for all candidates' fits together."""
    each = _costs_of_silos([price(epsilon, delta) for price in prices])
    together = [compose(pair for cost in costs for pair in cost.composition) for costs in each]
    return [together[i] for i in undominated(together)]


def _costs_of_silos(spents: Sequence[PrivacySpent]) -> Iterator[tuple[Cost, ...]]:
    """Yield the costs, one of each fit, of the silos; every combination where silos are unknown."""
    each = [spent.silo_costs for spent in spents]
    if any(silos is None for silos in each):
        yield from itertools.product(*(spent.costs for spent in spents))
        return
    for positions in dict.fromkeys(zip(*(s for s in each if s is not None), strict=True)):
        yield tuple(spent.costs[i] for spent, i in zip(spents, positions, strict=True))


def _of_best(
    prices: Sequence[Price],
    epsilon: float,
    delta: float,
    repetition: Repetition,
    noise: float,
    neighbours: Neighbours,
) -> list[Composition]:
    """Return the composition of keeping the best of a random number of runs."""
    fits = {cost.composition for price in prices for cost in price(epsilon, delta).costs}
    return [((repetition.profile((*fits, ((Gaussian(noise), 1),)), neighbours), 1),)]


def _score_noise(
    repetition: Repetition, epsilon: float, delta: float, neighbours: Neighbours
) -> float:
    """Return the least noise of one score at which keeping the best run meets the budget."""

    def price(z: float) -> float:
        profile = repetition.profile((((Gaussian(z), 1),),), neighbours)
        return price_epsilon(((profile, 1),), delta, neighbours)

    low, high = 1e-2, 1e5
    if price(high) > epsilon:
        raise ValueError(
            f"epsilon={epsilon:g} is too little for {repetition.mean:g} expected runs."
        )
    for _ in range(40):
        middle = np.sqrt(low * high)
        low, high = (low, middle) if price(middle) <= epsilon else (middle, high)
        if high / low < 1.005:
            break
    return float(high)
