r"""The cost of a fit whose plan depends on what an earlier one gave out.

Compositions add up as they are if all plans were fixed beforehand. A step of a pipeline may decide
how many features the next one sees, and its rules for "auto" read that number: its releases are
then chosen by an output, within a budget (epsilon, delta) that was fixed.

Formal guarantee
----------------
Whatever was given out before, the releases that follow are (epsilon, delta)-DP. Every such
mechanism is dominated by the one pair that ``Approximate(epsilon, delta)`` stands for: with
probability delta it tells everything, otherwise it is randomised response (Kairouz, Oh & Viswanath
2015). So the pair does not depend on earlier outputs, and compositions with it are valid though the
releases are chosen by these.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

from skdpfl.privacy.events import Approximate, Composition, Exact
from skdpfl.privacy.spending.cost import Cost, SiloCosts

Costs = TypeVar("Costs", bound=SiloCosts)


def chosen_by_outputs(paid: Costs) -> Costs:
    """Return the costs as those of releases that an earlier output may have chosen."""
    return dataclasses.replace(paid, costs=tuple(map(_whatever, paid.costs)))


def _whatever(cost: Cost) -> Cost:
    composition: Composition = ((Exact(), 1),)
    if not cost.composition:
        return cost
    if math.isfinite(cost.epsilon):
        composition = ((Approximate(cost.epsilon, cost.delta), 1),)
    return Cost(composition, cost.delta, cost.epsilon)
