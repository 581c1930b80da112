r"""Costs of silos, each a composition with its price, and sums of the costs of several fits.

Fits that were fixed beforehand compose: their releases are those of one longer fit. (Fits chosen
after looking at earlier outputs need a filter: :class:`skdpfl.privacy.PrivacyLedger`.) A step of a
pipeline may determine the number of features of the next step, and the rules for "auto" read that
number. The releases of the next step then depend on an output, within a fixed budget (epsilon,
delta): see :func:`whatever_chosen`.

Formal guarantee
----------------
For any earlier outputs, releases chosen in this way are (epsilon, delta)-DP. Every such mechanism
is dominated by the pair of ``Approximate(epsilon, delta)``: with probability delta it reveals
everything, otherwise it is randomised response (Kairouz, Oh & Viswanath 2015). This pair does not
depend on earlier outputs, so compositions with it are valid although the releases depend on them.

Random repetition
-----------------
A private procedure runs a random number of times, and the best run is kept. Papernot and Steinke
(ICLR 2022), theorem 2: let one run be (a, D_a)-Renyi private, K geometric ::

    P[K = k] = (1 - gamma)^(k - 1) gamma,    gamma = 1 / E[K]

Run the procedure K times and release the best run's output only. For every order a > 1 and b >= 1

    D'_a = D_a + 2 (1 - 1/b) D_b + 2 log E[K] / b + log E[K] / (a - 1).

The number of runs and the other runs' outputs must stay secret. So this does not apply where others
see the runs (each run is a federated fit with an untrusted server).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from skdpfl.privacy.events import (
    Approximate,
    Composition,
    Exact,
    Gaussian,
    Guarantee,
    Guaranteed,
    Neighbours,
    Profile,
    compose,
)
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from skdpfl.privacy.pricing.releases import undominated
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.randomness.streams import Stream


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


@dataclass(frozen=True, kw_only=True)
class SiloCosts(Guaranteed):
    """The distinct costs of a fit, and each silo's cost.

    A record belongs to one silo, so the cost of a fit is that of its most expensive silo.
    """

    guarantee: Guarantee
    costs: tuple[Cost, ...]
    silo_ids: tuple[Any, ...] | None = None
    silo_costs: tuple[int, ...] | None = None
    assignment: str | None = None

    @property
    def epsilon(self) -> float:
        """The largest epsilon of a silo."""
        return max(cost.epsilon for cost in self.costs)

    @property
    def delta(self) -> float:
        """The largest delta of a silo."""
        return max(cost.delta for cost in self.costs)

    @property
    def accountant(self) -> str:
        """How the price was computed: "gdp" (closed form), "pld" or "none"."""
        events = [event for cost in self.costs for event, _ in cost.composition]
        if any(isinstance(event, Exact) for event in events):
            return "none"
        return "gdp" if all(isinstance(event, Gaussian) for event in events) else "pld"

    @property
    def per_silo(self) -> pd.Series | None:
        """Each silo's epsilon (a Series by silo id); None if the unit is a silo."""
        if self.silo_ids is None or self.silo_costs is None:
            return None
        epsilons = [self.costs[g].epsilon for g in self.silo_costs]
        index = pd.Index(list(self.silo_ids), name="silo", tupleize_cols=False)
        return pd.Series(epsilons, index=index, name="epsilon", dtype=float)

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon of the same releases at another delta.

        Parameters
        ----------
        delta : float
            Between 0 and 1.

        Returns
        -------
        float
            The largest over the silos.
        """
        return max(price_epsilon(c.composition, float(delta), self.neighbours) for c in self.costs)

    def delta_at(self, epsilon: float) -> float:
        """Return the delta of the same releases at another epsilon.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            The largest over the silos.
        """
        return max(price_delta(c.composition, float(epsilon), self.neighbours) for c in self.costs)


def fields_of(paid: SiloCosts) -> dict[str, Any]:
    """Return the fields of a :class:`SiloCosts` by name."""
    return {field.name: getattr(paid, field.name) for field in fields(SiloCosts)}


Paid = TypeVar("Paid", bound=SiloCosts)

#: Largest number of incomparable costs of a fit that are composed one by one.
_MOST_COSTS = 5


def combined(parts: Sequence[SiloCosts]) -> SiloCosts:
    """Return the silos' costs of all fits together; partial sums are priced only if necessary."""
    ways = 1 if _aligned(parts) else math.prod(len(_in_short(part)) for part in parts)
    if ways <= _MOST_COSTS**2:
        return _at_once(parts)
    return reduce(lambda sum, part: _at_once([sum, part]), parts)


def _at_once(parts: Sequence[SiloCosts]) -> SiloCosts:
    if _aligned(parts):
        return _silo_by_silo(parts)
    # every possible cost of a record in one fit with every one in the others
    guarantee = parts[0].guarantee
    ways = itertools.product(*map(_in_short, parts))
    costs = tuple(_together(each, guarantee.neighbours) for each in ways)
    paid = SiloCosts(guarantee=guarantee, costs=costs)
    ids = [{*part.silo_ids} if part.silo_ids else None for part in parts]
    if ids[0] is None or any(some != ids[0] for some in ids):
        return paid
    # the same silos, but records may have moved between the fits: all have the largest cost
    worst = max(range(len(paid.costs)), key=lambda i: paid.costs[i].epsilon)
    silos = parts[0].silo_ids or ()
    return replace(paid, silo_ids=silos, silo_costs=(worst,) * len(silos))


def reprice(paid: SiloCosts, neighbours: Neighbours) -> SiloCosts:
    """Price the same releases under the coarser relation."""
    events = [event for cost in paid.costs for event, _ in cost.composition]
    if neighbours != "replace" or any(isinstance(e, Approximate | Profile) for e in events):
        raise ValueError(
            f"A cost under neighbours={paid.neighbours!r} cannot be converted to "
            f"neighbours={neighbours!r}."
        )
    costs = tuple(Cost.of(c.composition, c.delta, neighbours) for c in paid.costs)
    guarantee = replace(paid.guarantee, neighbours=neighbours)
    return replace(paid, guarantee=guarantee, costs=costs)


def whatever_chosen(cost: Cost, epsilon: float = 0.0) -> Cost:
    """Return the cost of releases that depend on an earlier output, within a budget of epsilon."""
    composition: Composition = ((Exact(), 1),)
    if not cost.composition:
        return cost
    epsilon = max(epsilon, cost.epsilon)
    if math.isfinite(epsilon):
        composition = ((Approximate(epsilon, cost.delta), 1),)
    return Cost(composition, cost.delta, epsilon)


def at_delta(paid: Paid, delta: float) -> Paid:
    """Price the same releases at another delta."""
    costs = tuple(Cost.of(c.composition, delta, paid.neighbours) for c in paid.costs)
    return replace(paid, costs=costs)


def _aligned(parts: Sequence[SiloCosts]) -> bool:
    """Return whether every record is known to be in the same silo in all fits."""
    first = parts[0]
    return first.assignment is not None and all(
        part.silo_costs is not None
        and (part.assignment, part.silo_ids) == (first.assignment, first.silo_ids)
        for part in parts
    )


def _silo_by_silo(parts: Sequence[SiloCosts]) -> SiloCosts:
    """Add within silos."""
    paid = list(zip(*(part.silo_costs or () for part in parts), strict=True))
    position = {ways: k for k, ways in enumerate(dict.fromkeys(paid))}
    costs = tuple(
        _together([part.costs[i] for part, i in zip(parts, ways, strict=True)], parts[0].neighbours)
        for ways in position
    )
    return SiloCosts(
        guarantee=parts[0].guarantee,
        costs=costs,
        silo_ids=parts[0].silo_ids,
        silo_costs=tuple(position[ways] for ways in paid),
        assignment=parts[0].assignment,
    )


def _in_short(paid: SiloCosts) -> list[Cost]:
    """Return the costs that no other one exceeds; if they are many, an upper bound of all."""
    costs = [paid.costs[i] for i in undominated([cost.composition for cost in paid.costs])]
    if len(costs) <= _MOST_COSTS:
        return [replace(cost, delta=paid.delta) for cost in costs]
    return [Cost(((Approximate(paid.epsilon, paid.delta), 1),), paid.delta, paid.epsilon)]


def _together(costs: Sequence[Cost], neighbours: Neighbours) -> Cost:
    """Price the releases of all costs at the largest delta, or at a sum if failures exceed it."""
    releases, failures, delta = list(costs[0].composition), _failures(costs[0]), costs[0].delta
    for cost in costs[1:]:
        releases += cost.composition
        failures += _failures(cost)
        largest = max(delta, cost.delta)
        delta = largest if failures < largest else delta + cost.delta
    return Cost.of(compose(releases), delta, neighbours)


def _failures(cost: Cost) -> float:
    """Return the failure probabilities of a cost's releases."""
    return sum(n * event.delta for event, n in cost.composition if isinstance(event, Approximate))


#: the orders that are tried
ORDERS = tuple(1 + np.exp(np.linspace(math.log(0.1), math.log(2000), 60)))


def renyi_curve(parts: Collection[Composition], neighbours: Neighbours) -> np.ndarray:
    """Return the compositions' largest Renyi divergence at each order, and failure probability."""
    prices = [[renyi(part, a, neighbours) for part in parts] for a in ORDERS]
    failure = max(price[1] for price in prices[0])
    return np.array([*(max(price[0] for price in row) for row in prices), failure])


@dataclass(frozen=True)
class Repetition:
    """The distribution of the number of runs, geometric; ``mean`` is the expected number."""

    mean: float

    def draw(self, stream: Stream) -> int:
        """Draw the number of runs, at least 1."""
        uniform, mass = float(stream.random(())), 1 / self.mean
        k, total = 1, mass
        while total < uniform and mass > 0:
            mass *= 1 - 1 / self.mean
            k, total = k + 1, total + mass
        return k

    def profile(self, run: tuple[Composition, ...], neighbours: Neighbours) -> Profile:
        """Return the price of keeping the best run; ``run`` lists the possible releases of a run.

        Formal guarantee
        ----------------
        One run draws its candidate from a public distribution, so its Renyi divergence is at most
        the largest over the candidates, order by order (joint quasi-convexity; a record that is
        either trained on or scored on pays for one of the two only). Then apply the module's
        theorem and the conversion delta <= exp((a - 1)(D' - eps)) (1 - 1/a)^(a-1) / a of Canonne,
        Kamath and Steinke (NeurIPS 2020) at every order. A run's failure probability is added E[K]
        times.
        """
        *divergences, failure = renyi_curve(run, neighbours)
        single, orders = np.array(divergences), np.array(ORDERS)
        extra = 2 * ((1 - 1 / orders) * single + math.log(self.mean) / orders)
        total = single + extra.min() + math.log(self.mean) / (orders - 1)
        epsilons = np.exp(np.linspace(math.log(1e-3), math.log(1e3), 4000))
        log_delta = (
            (orders - 1)[:, None] * (total[:, None] - epsilons)
            + ((orders - 1) * np.log1p(-1 / orders) - np.log(orders))[:, None]
        ).min(axis=0)
        deltas = np.minimum(1.0, np.exp(np.minimum(log_delta, 0.0)) + self.mean * failure)
        return Profile(tuple(epsilons.tolist()), tuple(deltas.tolist()))
