r"""Group privacy: from one record to k.

Change k records one after the other: every step is a neighbour, in whichever silo it happens.

- mu-GDP each step gives (k mu)-GDP in all (Dong, Roth & Su 2022, theorem 2.14).
- (eps, delta(eps)) each step gives (k eps, delta(eps) (1 + e^eps + ... + e^{(k-1) eps})) in all:
  P_0(A) <= e^eps P_1(A) + delta <= ... <= e^{k eps} P_k(A) + delta sum_j e^{j eps}.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from skdpfl.privacy.events import Composition, Exact, Gaussian, Profile, compose
from skdpfl.privacy.pricing import price_delta

if TYPE_CHECKING:
    from skdpfl.privacy.spent import PrivacySpent


def of_group(spent: PrivacySpent, k: int) -> PrivacySpent:
    """Price ``spent`` for k records together; see :meth:`PrivacySpent.group`."""
    from skdpfl.privacy.spent import Cost

    if isinstance(k, bool) or int(k) != k or k < 1:
        raise ValueError(f"k={k!r}: a group has a whole number of members, at least 1.")
    if k == 1:
        return spent
    events = [event for cost in spent.costs for event, _ in cost.composition]
    if any(isinstance(event, Exact) for event in events):
        compositions: list[Composition] = [((Exact(), 1),)]
    elif all(isinstance(event, Gaussian) for event in events):
        compositions = [_scaled(cost.composition, k) for cost in spent.costs]
    else:
        compositions = [_chained(spent, k)]
    costs = tuple(Cost.of(c, spent.delta, spent.neighbours) for c in compositions)
    return dataclasses.replace(
        spent,
        epsilon=max(cost.epsilon for cost in costs),
        costs=costs,
        silo_ids=None,
        silo_costs=None,
        outsider=None,
        group_size=spent.group_size * int(k),
    )


def _scaled(composition: Composition, k: int) -> Composition:
    """k times the distance: 1/k of the noise."""
    return compose((Gaussian(e.noise_multiplier / k), n) for e, n in composition)  # type: ignore[attr-defined]


def _chained(spent: PrivacySpent, k: int) -> Composition:
    """The chain bound at many epsilons, as a profile."""
    epsilons = np.geomspace(1e-3, max(20.0, 2 * spent.epsilon), 200)
    deltas = []
    for epsilon in epsilons:
        delta = max(
            price_delta(c.composition, float(epsilon), spent.neighbours) for c in spent.costs
        )
        log_sum = k * epsilon + math.log(-math.expm1(-k * epsilon) / math.expm1(epsilon))
        deltas.append(min(1.0, delta * math.exp(min(700.0, log_sum))))
    points = tuple(float(k * e) for e in epsilons)
    return ((Profile(points, tuple(np.minimum.accumulate(deltas).tolist())), 1),)
