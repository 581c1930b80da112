"""What is asked for is read once: budgets, weights and deltas of silos, and the model's rules."""

import numpy as np
import pandas as pd

import skdpfl
from skdpfl.choosing import PublicFacts

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
