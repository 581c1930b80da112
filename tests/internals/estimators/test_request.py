"""What is asked for is read once: budgets, weights and deltas of silos, and the model's rules."""

import warnings

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl.choosing import PublicFacts
from tests.estimators.fits import ALL, data, make

FACTS = PublicFacts(pd.Index(["a", "b", "c"]), np.array([300, 200, 500]), 4)
BUDGETS = {"a": 1.0, "b": 2.0, "c": 0.5}


def request(**params):
    return skdpfl.ISRLDPClassifier(**params)._request(FACTS)


def test_numbers_are_one_for_each_silo_in_the_order_of_the_silos():
    shuffled = {"c": 0.5, "x": 1e-3, "a": 1.0, "b": 2.0}
    for given in (BUDGETS, shuffled, pd.Series(shuffled)):
        assert request(epsilon=given).promise.epsilon.tolist() == [1.0, 2.0, 0.5]
    assert request(delta={"a": 1e-6, "b": 1e-5, "c": 1e-7}).promise.delta.tolist() == [
        1e-6,
        1e-5,
        1e-7,
    ]
    assert request(silo_weights={"a": 1, "b": 1, "c": 2}).weights.tolist() == [0.25, 0.25, 0.5]
    assert request().weights.tolist() == [0.3, 0.2, 0.5]
    assert request(silo_weights="uniform").weights.tolist() == [1 / 3] * 3
    assert request().promise.delta.tolist() == [1e-4] * 3


@pytest.mark.parametrize("solver", ["minibatch", "accelerated"])
def test_entries_of_absent_silos_and_kinds_of_mapping_change_nothing(solver):
    sizes = dict(zip(FACTS.silo_ids, FACTS.public_sizes, strict=True))
    plans = [
        skdpfl.ISRLDPClassifier(epsilon, solver=solver).plan_for(silo_sizes=sizes, n_features=4)
        for epsilon in (BUDGETS, BUDGETS | {"x": 1e-3}, pd.Series(BUDGETS))
    ]
    for plan in plans:
        assert plan.steps == plans[0].steps
        assert np.array_equal(plan.noise_multiplier, plans[0].noise_multiplier)


@pytest.mark.parametrize("name", ALL)
def test_a_large_delta_is_said_once(name):
    X, y, silos = data(name)
    estimator = make(name, delta=0.1, n_rounds=2, scaling=None, random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        estimator.fit(X, y, silos=silos)
    assert sum("delta=0.1 is above 1 / n_records" in str(each.message) for each in said) == 1
