"""What ran is what was priced: gradients counted and noise measured against the plan."""

import numpy as np
import pytest

from skdpfl.privacy.sampling import PoissonSampling
from tests.engine.reference import Setting
from tests.engine.settings import plan_of, problem


def test_with_noise_on_the_sum_every_silo_is_priced_by_its_share(monkeypatch):
    """The noise is one vector; a record of silo i moves the sum by up to 2 C w_i / (q n_i)."""
    sizes = np.array([50, 10, 20])
    p = problem(sizes=tuple(sizes))
    w = np.array([0.2, 0.5, 0.3])
    s = Setting(4, [1] * 4, 0.1, 0.7, None, w, PoissonSampling(0.5), on_sum=0.03)
    plan = plan_of(p, s)
    np.testing.assert_allclose(plan.noise_multiplier, 0.03 / (0.7 * w / (0.5 * sizes)))
    groups = plan.groups()
    for i in range(3):
        ((event, count),) = groups.compositions[groups.of_silo[i]]
        assert (count, event.sampling_rate) == (4, 0.5)
        assert event.noise_multiplier == pytest.approx(plan.noise_multiplier[i])
    assert plan.spent().per_silo.idxmax() == 1
