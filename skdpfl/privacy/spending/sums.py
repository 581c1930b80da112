"""Adding costs of fits on the same records: what composes, what is refused.

Fits that were fixed beforehand compose: their releases are those of one longer fit. (Fits chosen
after looking at earlier outputs need a filter: :class:`skdpfl.privacy.PrivacyLedger`.)
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.events import Approximate, Composition, Profile, compose
from skdpfl.privacy.pricing.dominance import dearest
from skdpfl.privacy.pricing.price import Neighbours
from skdpfl.privacy.spending.cost import Cost

if TYPE_CHECKING:
    from skdpfl.privacy.spending.spent import PrivacySpent

#: From the strongest model of trust (protects against most) to the weakest.
_TRUST = ("silo", "shuffler", "server")

#: Up to so many costs of a fit that do not exceed each other are composed one by one.
_MOST_COSTS = 5


def add(a: PrivacySpent, b: PrivacySpent) -> PrivacySpent:
    """Compose the releases of two fits on the same records."""
    _check_alike(a, b)
    _warn_if_noise_repeats(a, b)
    return _composed([a, b])


def total(parts: Sequence[PrivacySpent]) -> PrivacySpent:
    """Compose many fits at once, without a word about seeds; partial sums are not priced."""
    for part in parts[1:]:
        _check_alike(parts[0], part)
    if len(parts) == 1:
        return parts[0]
    if _ways(parts) <= _MOST_COSTS**2:
        return _composed(parts)
    return reduce(lambda sum, part: _composed([sum, part]), parts)


def _ways(parts: Sequence[PrivacySpent]) -> int:
    """How many compositions a record may have paid."""
    return 1 if _aligned(parts) else math.prod(len(_in_short(part)) for part in parts)


def _composed(parts: Sequence[PrivacySpent]) -> PrivacySpent:
    first, met = parts[0], _silo_by_silo(parts) or _whatever_silo(parts)
    spent = first.from_compositions(
        unit=first.unit,
        trust=max((part.trust for part in parts), key=_TRUST.index),
        neighbours=first.neighbours,
        delta=max(met.deltas),
        compositions=met.compositions,
        group_deltas=met.deltas,
        silo_ids=met.silo_ids,
        group_of_silo=met.silo_costs,
        noise_multiplier=_if_all([part.noise_multiplier for part in parts]),
        n_releases=sum(part.n_releases for part in parts),
        assignment=None if met.silo_ids is None else first.assignment,
        simulation_seeds=frozenset().union(*(part.simulation_seeds for part in parts)),
    )
    if met.silo_ids is None and all(part.silo_ids for part in parts):
        spent = _dearest_for_all(spent, [part.silo_ids or () for part in parts])
    outsiders = [part.outsider for part in parts if part.outsider is not None]
    outsider = total(outsiders) if len(outsiders) == len(parts) else None
    return dataclasses.replace(spent, outsider=outsider, group_size=first.group_size)


def _if_all(values: list[float | None]) -> float | None:
    """The values, if they are one."""
    return values[0] if len(set(values)) == 1 else None


def _dearest_for_all(spent: PrivacySpent, ids: list[tuple[Any, ...]]) -> PrivacySpent:
    """Charge every silo the largest cost: records may have changed silos between the fits."""
    if any({*some} != {*ids[0]} for some in ids):
        return spent
    worst = max(range(len(spent.costs)), key=lambda i: spent.costs[i].epsilon)
    return dataclasses.replace(spent, silo_ids=ids[0], silo_costs=(worst,) * len(ids[0]))


def reprice(spent: PrivacySpent, neighbours: Neighbours) -> PrivacySpent:
    """Price the same releases under the coarser relation."""
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
    """What a record may have paid in all fits together."""

    compositions: list[Composition]
    deltas: list[float]
    silo_ids: tuple[Any, ...] | None = None
    silo_costs: list[int] | None = None


def _aligned(parts: Sequence[PrivacySpent]) -> bool:
    """Whether every record is known to be in the same silo in all fits."""
    first = parts[0]
    return first.assignment is not None and all(
        part.silo_costs is not None
        and (part.assignment, part.silo_ids) == (first.assignment, first.silo_ids)
        for part in parts
    )


def _silo_by_silo(parts: Sequence[PrivacySpent]) -> _Met | None:
    """Add within silos; None unless every record is known to be in the same silo in all fits."""
    if not _aligned(parts):
        return None
    met = list(zip(*(part.silo_costs or () for part in parts), strict=True))
    position = {ways: k for k, ways in enumerate(dict.fromkeys(met))}
    paid = [
        _together([part.costs[i] for part, i in zip(parts, ways, strict=True)]) for ways in position
    ]
    compositions, deltas = zip(*paid, strict=True)
    silo_costs = [position[ways] for ways in met]
    return _Met(list(compositions), list(deltas), parts[0].silo_ids, silo_costs)


def _whatever_silo(parts: Sequence[PrivacySpent]) -> _Met:
    """Add every cost of one fit that a record may have paid to every cost of the others."""
    paid = [_together(costs) for costs in itertools.product(*map(_in_short, parts))]
    compositions, deltas = zip(*paid, strict=True)
    return _Met(list(compositions), list(deltas))


def _in_short(spent: PrivacySpent) -> list[Cost]:
    """The costs that no other one exceeds; or, if they are many, one that exceeds them all."""
    costs = [spent.costs[i] for i in dearest([cost.composition for cost in spent.costs])]
    largest = max(cost.delta for cost in spent.costs)
    if len(costs) <= _MOST_COSTS:
        return [dataclasses.replace(cost, delta=largest) for cost in costs]
    return [Cost(((Approximate(spent.epsilon, largest), 1),), largest, spent.epsilon)]


def _together(costs: Sequence[Cost]) -> tuple[Composition, float]:
    """All costs' releases, and the delta to price them at: the largest, unless it is used up."""
    releases, told, delta = list(costs[0].composition), _told(costs[0]), costs[0].delta
    for cost in costs[1:]:
        releases += cost.composition
        told += _told(cost)
        delta = max(delta, cost.delta) if told < max(delta, cost.delta) else delta + cost.delta
    return compose(releases), delta


def _told(cost: Cost) -> float:
    """The chances of failure of a cost's releases."""
    return sum(n * event.delta for event, n in cost.composition if isinstance(event, Approximate))
