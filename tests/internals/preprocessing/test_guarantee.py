"""What a scaling plan charges is what its sums cost."""

import numpy as np
import pytest

from skdpfl.scaling._maps import read_feature_bounds
from tests.internals.preprocessing.held import planned
from tests.internals.test_sums import PROTECTED

D = 300
SIZES = np.array([5, 20, 40])
BUDGETS = [30.0, [20.0, 50.0, 30.0]]


def plan_of(unit="record", trust="silo", neighbours="replace", mu=30.0, d=D, bounded=True):
    return planned(
        SIZES,
        d,
        mu,
        scaling="private",
        feature_bounds=read_feature_bounds((-1, 1), d) if bounded else None,
        unit=unit,
        trust=trust,
        neighbours=neighbours,
    )


@pytest.mark.parametrize("mu", BUDGETS, ids=["equal", "unequal"])
@pytest.mark.parametrize("setting", PROTECTED, ids="-".join)
@pytest.mark.parametrize("bounded", [True, False], ids=["moments", "counts"])
def test_composition_charges_the_share_that_noise_is_made_for(setting, mu, bounded):
    """What is charged in all, and the noise of each look: at least its sensitivity over its mu."""
    plan = plan_of(*setting, mu=mu, bounded=bounded)
    difference = 2.0 if setting[2] == "replace" else 1.0
    for silo in range(3):
        spent = sum(c * (difference / e.noise_multiplier) ** 2 for e, c in plan.composition(silo))
        assert np.sqrt(spent) == pytest.approx(plan.share * plan.budgets.spends[silo])
        for number, look in zip(plan.sums.numbers, plan.looks, strict=True):
            reach = look.what.diameter if setting[2] == "replace" else look.what.radius
            std = plan.sums.noised(number, look.what).std[silo]
            assert reach / std <= look.share * plan.budgets.spends[silo]
