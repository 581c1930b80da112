"""Adding costs of fits on the same records: what composes, what is refused.

Fits that were fixed beforehand compose: their releases are those of one longer fit. (Fits chosen
after looking at earlier outputs need a filter: :class:`skdpfl.privacy.PrivacyLedger`.)
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.events import Approximate, Profile, compose
from skdpfl.privacy.pricing import Neighbours

if TYPE_CHECKING:
    from skdpfl.privacy.spent import PrivacySpent

#: From the strongest model of trust (protects against most) to the weakest.
_TRUST = ("silo", "shuffler", "server")


def add(a: PrivacySpent, b: PrivacySpent) -> PrivacySpent:
    """Compose the releases of two fits on the same records."""
    from skdpfl.privacy.spent import PrivacySpent

    _check_alike(a, b)
    _warn_if_noise_repeats(a, b)
    pairs, silo_ids, silo_pairs = _pairs(a, b)
    deltas = [max(a.costs[i].delta, b.costs[j].delta) for i, j in pairs]
    spent = PrivacySpent.from_compositions(
        unit=a.unit,
        trust=max(a.trust, b.trust, key=_TRUST.index),
        neighbours=a.neighbours,
        delta=max(deltas),
        compositions=[
            compose((*a.costs[i].composition, *b.costs[j].composition)) for i, j in pairs
        ],
        group_deltas=deltas,
        silo_ids=silo_ids,
        group_of_silo=silo_pairs,
        noise_multiplier=a.noise_multiplier if a.noise_multiplier == b.noise_multiplier else None,
        n_releases=a.n_releases + b.n_releases,
        assignment=a.assignment if a.assignment == b.assignment else None,
        simulation_seeds=a.simulation_seeds | b.simulation_seeds,
    )
    outsider = None if a.outsider is None or b.outsider is None else add(a.outsider, b.outsider)
    return dataclasses.replace(spent, outsider=outsider, group_size=a.group_size)


def reprice(spent: PrivacySpent, neighbours: Neighbours) -> PrivacySpent:
    """Price the same releases under the coarser relation."""
    from skdpfl.privacy.spent import Cost

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


def _pairs(
    a: PrivacySpent, b: PrivacySpent
) -> tuple[list[tuple[int, int]], tuple | None, list[int] | None]:
    """Which costs meet in one record, and silo by silo where the silos are the same."""
    known = a.silo_costs is not None and b.silo_costs is not None and a.assignment is not None
    if known and a.assignment == b.assignment and a.silo_ids == b.silo_ids:
        assert a.silo_costs is not None and b.silo_costs is not None
        met = list(zip(a.silo_costs, b.silo_costs, strict=True))
        pairs = list(dict.fromkeys(met))
        position = {pair: k for k, pair in enumerate(pairs)}
        return pairs, a.silo_ids, [position[pair] for pair in met]
    return [(i, j) for i in range(len(a.costs)) for j in range(len(b.costs))], None, None
