"""More of tests/estimators/test_budget.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.privacy import epsilon_of
from skdpfl.privacy.plan import outsider_multipliers
from tests.estimators.test_budget import fit


def unequal(**kw):
    silos = np.repeat(["a", "b", "c"], [1000, 100, 50])
    X, y = np.zeros((1150, 2)), np.arange(1150) % 2
    options = {"epsilon": None, "noise_multiplier": 5.0, "silo_weights": "uniform"}
    return fit(**({"X": X, "y": y, "silos": silos, "n_rounds": 3} | options | kw))


def test_credit_for_other_silos_noise():
    """n = 1000, 100, 50, equal weights, z = 5: not 5 sqrt(3) = 8.66 for each."""
    clf = unequal()
    assert outsider_multipliers(clf.plan_).round(1).tolist() == [111.9, 11.2, 5.6]
    outsider = clf.privacy_spent_.outsider
    assert outsider.trust == "server"
    assert outsider.epsilon < clf.privacy_spent_.epsilon
    by_hand = epsilon_of(
        noise_multiplier=5 * np.sqrt(1 + 1 / 4 + 1 / 400), sampling_rate=1, n_steps=3, delta=1e-5
    )
    assert outsider.epsilon == pytest.approx(by_hand, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "kw"),
    [
        ("DPScaffoldClassifier", {}),
        ("DPScaffoldClassifier", {"local_steps": 1}),
        ("DPFedAvgClassifier", {"local_steps": 2}),
        ("DPFedAvgClassifier", {"local_steps": [1, 1, 2], "n_rounds": 3}),
        ("ISRLDPClassifier", {"trust": "server"}),
    ],
)
def test_no_credit_where_it_is_not_sound(name, kw):
    """Several local steps, control variates that mix old noise into new sums, noise on the sum."""
    clf = fit(name, **kw)
    assert outsider_multipliers(clf.plan_) is None
    assert clf.privacy_spent_.outsider is None
