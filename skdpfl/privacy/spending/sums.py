"""Adding costs of fits on the same records: what composes, what is refused.

Fits that were fixed beforehand compose: their releases are those of one longer fit. (Fits chosen
after looking at earlier outputs need a filter: :class:`skdpfl.privacy.PrivacyLedger`.)
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.events import Approximate, Composition, Event, Profile, compose
from skdpfl.privacy.pricing.dominance import dearest
from skdpfl.privacy.pricing.price import Neighbours

if TYPE_CHECKING:
    from skdpfl.privacy.spending.spent import Cost, PrivacySpent

#: From the strongest model of trust (protects against most) to the weakest.
_TRUST = ("silo", "shuffler", "server")

#: Up to so many costs of a fit that do not exceed each other are composed one by one.
_MOST_COSTS = 5


def add(a: PrivacySpent, b: PrivacySpent) -> PrivacySpent:
    """Compose the releases of two fits on the same records."""
    from skdpfl.privacy.spending.spent import PrivacySpent

    _check_alike(a, b)
    _warn_if_noise_repeats(a, b)
    met = _silo_by_silo(a, b) or _whatever_silo(a, b)
    spent = PrivacySpent.from_compositions(
        unit=a.unit,
        trust=max(a.trust, b.trust, key=_TRUST.index),
        neighbours=a.neighbours,
        delta=max(met.deltas),
        compositions=met.compositions,
        group_deltas=met.deltas,
        silo_ids=met.silo_ids,
        group_of_silo=met.silo_costs,
        noise_multiplier=a.noise_multiplier if a.noise_multiplier == b.noise_multiplier else None,
        n_releases=a.n_releases + b.n_releases,
        assignment=None if met.silo_ids is None else a.assignment,
        simulation_seeds=a.simulation_seeds | b.simulation_seeds,
    )
    if met.silo_ids is None and a.silo_ids and b.silo_ids and {*a.silo_ids} == {*b.silo_ids}:
        spent = _dearest_for_all(spent, a.silo_ids)
    outsider = None if a.outsider is None or b.outsider is None else add(a.outsider, b.outsider)
    return dataclasses.replace(spent, outsider=outsider, group_size=a.group_size)


def _dearest_for_all(spent: PrivacySpent, silo_ids: tuple[Any, ...]) -> PrivacySpent:
    """Charge every silo the largest cost: records may have changed silos between the fits."""
    worst = max(range(len(spent.costs)), key=lambda i: spent.costs[i].epsilon)
    return dataclasses.replace(spent, silo_ids=silo_ids, silo_costs=(worst,) * len(silo_ids))


def reprice(spent: PrivacySpent, neighbours: Neighbours) -> PrivacySpent:
    """Price the same releases under the coarser relation."""
    from skdpfl.privacy.spending.spent import Cost

    if neighbours == spent.neighbours:
        return spent
    events = [event for cost in spent.costs for event, _ in cost.composition]
    if neighbours != "replace" or any(isinstance(e, Approximate | Profile) for e in events):
        raise ValueError(
            f"A cost under neighbours={spent.neighbours!r} says nothing about "
            f"neighbours={neighbours!r}."
        )
    costs = tuple(Cost.of(c.composition, c.delta, neighbours) for c in spent.costs)
    return dataclasses.replace(
        spent,
        epsilon=max(cost.epsilon for cost in costs),
        neighbours=neighbours,
        costs=costs,
        outsider=None if spent.outsider is None else reprice(spent.outsider, neighbours),
    )


def _check_alike(a: PrivacySpent, b: PrivacySpent) -> None:
    for name in ("unit", "neighbours", "group_size"):
        left, right = getattr(a, name), getattr(b, name)
        if left != right:
            raise ValueError(
                f"Costs for different {name} do not add up: {name}={left!r} and {name}={right!r}."
            )


def _warn_if_noise_repeats(a: PrivacySpent, b: PrivacySpent) -> None:
    if a.simulation_seeds & b.simulation_seeds:
        warnings.warn(
            "Two fits on the same records drew their noise from the same integer seed; the noise "
            "repeats, and together the fits may reveal the records exactly. The sum shows what "
            "fresh noise would cost: use random_state=None, or different seeds.",
            PrivacyLeakWarning,
            stacklevel=4,
        )


class _Met(NamedTuple):
    """What a record may have paid in both fits together."""

    compositions: list[Composition]
    deltas: list[float]
    silo_ids: tuple[Any, ...] | None = None
    silo_costs: list[int] | None = None


def _silo_by_silo(a: PrivacySpent, b: PrivacySpent) -> _Met | None:
    """Add within silos; None unless every record is known to be in the same silo in both fits."""
    if a.assignment is None or a.assignment != b.assignment or a.silo_ids != b.silo_ids:
        return None
    if a.silo_costs is None or b.silo_costs is None:
        return None
    met = list(zip(a.silo_costs, b.silo_costs, strict=True))
    position = {pair: k for k, pair in enumerate(dict.fromkeys(met))}
    both = [_together(a.costs[i], b.costs[j]) for i, j in position]
    compositions, deltas = zip(*both, strict=True)
    return _Met(list(compositions), list(deltas), a.silo_ids, [position[pair] for pair in met])


def _whatever_silo(a: PrivacySpent, b: PrivacySpent) -> _Met:
    """Add every cost of one fit that a record may have paid to every cost of the other."""
    both = [_together(x, y) for x in _in_short(a) for y in _in_short(b)]
    compositions, deltas = zip(*both, strict=True)
    return _Met(list(compositions), list(deltas))


def _in_short(spent: PrivacySpent) -> list[Cost]:
    """The costs that no other one exceeds; or, if they are many, one that exceeds them all."""
    from skdpfl.privacy.spending.spent import Cost

    costs = [spent.costs[i] for i in dearest([cost.composition for cost in spent.costs])]
    largest = max(cost.delta for cost in spent.costs)
    if len(costs) <= _MOST_COSTS:
        return [dataclasses.replace(cost, delta=largest) for cost in costs]
    return [Cost(((Approximate(spent.epsilon, largest), 1),), largest, spent.epsilon)]


def _together(x: Cost, y: Cost) -> tuple[Composition, float]:
    """Both costs' releases, and the delta to price them at: the larger, unless it is used up."""
    told = sum(n * e.delta for e, n in (*x.composition, *y.composition) if _fails(e))
    delta = max(x.delta, y.delta)
    return compose((*x.composition, *y.composition)), delta if told < delta else x.delta + y.delta


def _fails(event: Event) -> TypeGuard[Approximate]:
    return isinstance(event, Approximate) and event.delta > 0
