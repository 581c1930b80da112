"""More of tests/estimators/test_isrl_shuffler.py: what only private names show."""

import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.privacy.mechanisms.records import ShuffledSums


@pytest.mark.parametrize("solver", ["accelerated", "multistage"])
def test_accelerated_solvers_send_sums(solver):
    given = {"solver": solver, "sampling": "disjoint", "alpha": 0.1, "n_rounds": 5}
    given["calibrate"] = False  # so that all of the budget is the rounds'
    sizes = {"silo_sizes": [60] * 8, "n_features": 6}
    plan = ISRLDPClassifier(1.0, trust="shuffler", **given).plan_for(**sizes)
    assert (plan.mechanism, plan.size) == (ShuffledSums(), 7)
    assert 0.985 <= plan.spent().epsilon <= 1.0
    server = ISRLDPClassifier(1.0, trust="server", **given).plan_for(**sizes)
    ratio = plan.mechanism.noise_on_mean(plan) / server.mechanism.noise_on_mean(server)
    assert 1.0 <= ratio < 1.05
