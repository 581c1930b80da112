"""More of tests/estimators/test_budget.py: what only private names show."""

from dataclasses import replace

import numpy as np
import pytest

from skdpfl import DPScaffoldClassifier
from skdpfl.privacy import epsilon_of
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.plan import outsider_multipliers
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from tests.estimators.test_budget import fit
from tests.estimators.test_mixed_budgets import SIZES, plan_for


def unequal(**kw):
    silos = np.repeat(["a", "b", "c"], [1000, 100, 50])
    X, y = np.zeros((1150, 2)), np.arange(1150) % 2
    options = {"epsilon": None, "noise_multiplier": 5.0, "silo_weights": "uniform"}
    return fit(**({"X": X, "y": y, "silos": silos, "n_rounds": 3} | options | kw))


def test_credit_for_other_silos_noise():
    """n = 1000, 100, 50, equal weights, z = 5: not 5 sqrt(3) = 8.66 for each."""
    clf = unequal()
    assert outsider_multipliers(clf.plan_).round(1).tolist() == [111.9, 11.2, 5.6]
    assert outsider_multipliers(replace(clf.plan_, steps=(1, 2, 1))) is None
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


def test_a_strict_silo_counts_for_what_it_can_say():
    plan = plan_for({"a": 0.3, "b": 3.0, "c": np.inf})
    mu = np.array([gaussian_mu(0.3, 1e-4), gaussian_mu(3.0, 1e-4), np.inf])
    values = SIZES.to_numpy() / (1000 / 3 / 7 + 4 / mu**2)
    np.testing.assert_allclose(plan.weights, values / values.sum())
    assert plan.weights[0] < 0.1
    assert plan.weights.sum() == pytest.approx(1)


BUDGETS = {"a": 0.5, "b": 3.0, "c": 1.0}


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("options", [{}, {"feature_bounds": None, "scaling": "private"}], ids=str)
@pytest.mark.filterwarnings("ignore:The scales of")
def test_a_silos_price_contains_its_own_releases(options, calibrate):
    plan = plan_for(BUDGETS, calibrate=calibrate, **options)
    groups, spent = plan.groups(), plan.spent().per_silo
    share = []
    for i, budget in enumerate(BUDGETS.values()):
        composition = dict(groups.compositions[groups.of_silo[i]])
        assert plan.setup[i]
        assert all(composition[event] >= count for event, count in plan.setup[i])
        assert 0.99 * budget <= spent.iloc[i] <= budget
        mu = gaussian_mu(budget, 1e-4)
        assert all(isinstance(event, Gaussian) for event, _ in plan.setup[i])
        total = sum(n * (2 / event.noise_multiplier) ** 2 for event, n in plan.setup[i])
        share.append(total / mu**2)
    np.testing.assert_allclose(share, share[0])  # the same part of each budget
    assert len(groups.compositions) == 3


def test_a_silo_that_never_trains_pays_for_its_own_releases():
    model = DPScaffoldClassifier(1.0, scaling=None, silo_fraction=0.5, n_rounds=1)
    spent = model.plan_for(silo_sizes=[100, 100], n_features=5).spent().per_silo
    assert 0 < spent.min() < spent.max() <= 1
