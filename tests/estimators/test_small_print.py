"""What fits say of themselves, and plans for data that cannot be."""

import warnings

import numpy as np
import pytest

from skdpfl.algorithms import AcceleratedSGD, FedAvg, FedExp, Released
from tests.estimators.fits import ALL, data, make

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


@pytest.mark.parametrize("verbose", ["x", -1, 1.5, None])
@pytest.mark.parametrize("estimator", ["ISRLDPClassifier", "DPFedAvgRegressor"])
def test_verbose_is_a_number(estimator, verbose):
    X, y, silos = data(estimator)
    with pytest.raises(ValueError, match="verbose must be True, False or an integer >= 0; got"):
        make(estimator, verbose=verbose).fit(X, y, silos=silos)


@pytest.mark.parametrize(
    ("name", "options", "steps"),
    [
        ("DPScaffoldClassifier", {}, 1),
        ("DPScaffoldClassifier", {"epsilon": np.inf}, 1),
        ("DPFedAvgClassifier", {"local_steps": [2, 3, 1], "n_rounds": 3}, (2, 3, 1)),
        ("DPFedAvgClassifier", {"local_epochs": 2, "sampling_rate": 0.5, "n_rounds": 3}, 4),
        ("ISRLDPClassifier", {}, 1),
    ],
)
def test_local_steps_are_told(name, options, steps):
    X, y, silos = data(name)
    options = {"feature_bounds": (-5, 5), "random_state": 0} | options
    assert make(name, **options).fit(X, y, silos=silos).local_steps_ == steps


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_an_algorithms_own_learning_rate_is_told(epsilon):
    X, y, silos = data("DPFederatedClassifier")
    for algorithm, rate in ((FedAvg(0.5), 0.5), (AcceleratedSGD(8.0), None)):
        options = {"feature_bounds": (-5, 5), "random_state": 0, "n_rounds": 9}
        clf = make("DPFederatedClassifier", algorithm=algorithm, epsilon=epsilon, **options)
        assert clf.fit(X, y, silos=silos).learning_rate_ == rate


def test_fedexp_that_diverged_is_no_missing_statistic():
    algorithm = FedExp(1.0)
    state = algorithm.init(np.zeros(2))
    diverged = Released(np.array([np.nan, np.inf]), squared_norm=float("nan"))
    assert algorithm.aggregate(state, diverged).step_sizes == (1.0,)
    with pytest.raises(ValueError, match="FedExp needs the mean squared norm"):
        algorithm.aggregate(state, Released(np.ones(2)))
    longest = FedExp(1.0, largest_step=2.0)
    assert longest.aggregate(state, Released(np.ones(2), squared_norm=100.0)).step_sizes == (2.0,)


@pytest.mark.slow
def test_a_target_without_a_scale_is_left_as_it_is():
    """Of four protected silos a private scale is noise, and R2 was -2e4."""
    X, y, silos = data("DPFedAvgRegressor", n=400)
    y, scores = y - y.mean(), []
    for seed in range(4):
        for name in ("DPFedEXPRegressor", "DPFedAvgRegressor"):
            reg = make(name, unit="silo", epsilon=3.0, random_state=seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                scores.append(reg.fit(X, y, silos=silos).score(X, y))
            told = " ".join(str(warning.message) for warning in caught)
            assert "left as it is. Give target_bounds=(low, high)" in told
            assert reg.privacy_spent_.epsilon <= 3
    assert min(scores) > -10
