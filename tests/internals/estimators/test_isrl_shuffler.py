"""More of tests/estimators/test_isrl_shuffler.py: what only private names show."""

import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.privacy.mechanisms import mechanism_for
from skdpfl.privacy.mechanisms.records import ShuffledGradients, ShuffledSums


def test_the_row_exists():
    assert mechanism_for("record", "shuffler") == ShuffledGradients()


@pytest.mark.parametrize("solver", ["accelerated", "multistage"])
def test_accelerated_solvers_send_sums(solver):
    clf = ISRLDPClassifier(
        1.0, trust="shuffler", solver=solver, sampling="disjoint", alpha=0.1, n_rounds=5
    )
    plan = clf.plan_for(silo_sizes=[60] * 8, n_features=6)
    assert (plan.mechanism, plan.size) == (ShuffledSums(), 7)
    assert 0.985 <= plan.spent().epsilon <= 1.0
    server = ISRLDPClassifier(
        1.0, trust="server", solver=solver, sampling="disjoint", alpha=0.1, n_rounds=5
    ).plan_for(silo_sizes=[60] * 8, n_features=6)
    ratio = plan.mechanism.noise_on_mean(plan) / server.mechanism.noise_on_mean(server)
    assert 1.0 <= ratio < 1.05
