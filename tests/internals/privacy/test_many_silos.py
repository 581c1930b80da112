"""Thousands of silos that all differ: few prices, each within its budget, none below the truth."""

from dataclasses import replace

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.privacy import plan as plans
from skdpfl.privacy.calibration import shared_budgets
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.plan import cells_of, composition_of
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import dominates

M = 10_000
SERVER = {"trust": "server", "silo_weights": "uniform"}  # one noise: each silo its own multiplier
SAMPLED = dict(scaling=None, n_rounds=20, sampling_rate=0.1)


def plan_for(epsilon, sizes, **settings):
    estimator = ISRLDPClassifier(epsilon, **SAMPLED | settings)
    return estimator.plan_for(silo_sizes=sizes, n_features=4)


@pytest.fixture
def counted(monkeypatch):
    """The compositions that the search for noise asked a price of, each once."""
    asked = set()

    def price(composition, delta, neighbours):
        asked.add(composition)
        return price_epsilon(composition, delta, neighbours)

    monkeypatch.setattr(plans, "price_epsilon", price)
    return asked


def test_budgets_are_rounded_down_by_less_than_a_hundredth_where_there_are_many():
    few = np.array([0.1, np.inf, 3.0])
    assert shared_budgets(few) is few
    many = np.append(np.random.default_rng(0).uniform(0.5, 5, M), np.inf)
    rounded = shared_budgets(many)
    assert rounded[-1] == np.inf
    assert len(np.unique(rounded)) < 300
    assert (rounded <= many).all()
    assert (rounded[:-1] > 0.991 * many[:-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, pytest.param(SERVER, marks=pytest.mark.slow)], ids=str)
def test_ten_thousand_sizes(counted, settings):
    """Batches of round(n / 10) of n records: every silo has a rate of its own."""
    sizes = np.random.default_rng(0).permutation(np.arange(1000, 1000 + M))
    plan = plan_for(1.0, sizes.tolist(), sampling="without_replacement", **settings)
    assert len(np.unique(plan.rates)) > M / 2
    spent, groups = plan.spent(), plan.groups()
    assert len(groups.first) <= 600
    assert len(counted) <= 1200
    assert 0.99 <= spent.epsilon <= 1.0
    for i in range(0, M, 97):  # a group's composition costs at least each member's own
        own = composition_of(plan, plan.mechanism, i, plan.noise_multiplier[i])
        assert dominates(groups.compositions[groups.of_silo[i]], own)
    for i in range(0, M, 2499):
        own = composition_of(plan, plan.mechanism, i, plan.noise_multiplier[i])
        truth = price_epsilon(own, float(plan.delta[i]), plan.neighbours)
        assert truth <= spent.per_silo.iloc[i] <= 1.03 * truth


class Unknown(Mechanism):
    """Nobody knows whether its releases cost more at a higher rate."""

    def composition(self, plan, z, n, levels):
        return ((Approximate(1 / n), 1),)


def test_silos_whose_releases_cannot_be_compared_are_not_merged():
    sizes = np.arange(1000, 2000)
    plan = plan_for(1.0, sizes.tolist(), sampling="without_replacement")
    cell, _ = cells_of(plan, plan.mechanism)
    assert len(np.unique(cell)) < 20
    cell, costliest = cells_of(replace(plan, mechanism=Unknown()), Unknown())
    assert len(np.unique(cell)) == len(costliest) == len(np.unique(plan.rates)) > 500


def test_silos_that_release_something_else_beside_are_not_merged():
    sizes = np.arange(1000, 2000)
    plan = plan_for(1.0, sizes.tolist(), sampling="without_replacement")
    setup = tuple(((Gaussian(50.0 + i % 2), 1),) for i in range(len(sizes)))
    plan = replace(plan, setup=setup)
    groups = plan.groups()
    assert len(groups.first) < 20
    for i in range(0, len(sizes), 7):
        own = composition_of(plan, plan.mechanism, i, plan.noise_multiplier[i])
        assert dominates(groups.compositions[groups.of_silo[i]], own)
