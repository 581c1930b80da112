"""What fits say of themselves, and plans for data that cannot be."""

import numpy as np
import pytest

from skdpfl.algorithms import FedExp, Released
from tests.estimators.fits import ALL, make

SHAPE = {"silo_sizes": {"a": 50, "b": 60}, "n_features": 3, "n_classes": 2}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("silo_sizes", {"a": 0}, r"silo_sizes\['a'\] must be an integer in .1, 10*.; got 0"),
        ("silo_sizes", {"a": -1}, r"silo_sizes\['a'\] must be an integer in .1, 10*.; got -1"),
        ("silo_sizes", {"a": 1.5}, r"silo_sizes\['a'\] must be an integer in .1, 10*."),
        ("silo_sizes", ["many"], r"silo_sizes\[0\] must be an integer in .1, 10*."),
        ("silo_sizes", {}, "silo_sizes must name at least one silo"),
        ("silo_sizes", [], "silo_sizes must name at least one silo"),
        ("n_features", 0, "n_features must be an integer in .1, 10*.; got 0"),
        ("n_features", 2.5, "n_features must be an integer in .1, 10*.; got 2.5"),
        ("n_classes", 1, "n_classes must be an integer of at least 2; got 1"),
    ],
)
@pytest.mark.parametrize("estimator", ALL)
def test_no_plan_for_data_that_cannot_be(estimator, name, value, message):
    with pytest.raises(ValueError, match=message):
        make(estimator).plan_for(**(SHAPE | {name: value}))


def test_fedexp_that_diverged_is_no_missing_statistic():
    algorithm = FedExp(1.0)
    state = algorithm.init(np.zeros(2))
    diverged = Released(np.array([np.nan, np.inf]), squared_norm=float("nan"))
    assert algorithm.aggregate(state, diverged).step_sizes == (1.0,)
    with pytest.raises(ValueError, match="FedExp needs the mean squared norm"):
        algorithm.aggregate(state, Released(np.ones(2)))
    longest = FedExp(1.0, largest_step=2.0)
    assert longest.aggregate(state, Released(np.ones(2), squared_norm=100.0)).step_sizes == (2.0,)
