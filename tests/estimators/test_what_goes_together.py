"""Unit, trust and estimator: what goes together fits, anything else is refused in words."""

import itertools

import numpy as np
import pytest

from skdpfl.algorithms import FedExp, Released
from tests.estimators.fits import ALL, data, make

#: (unit, trust) -> families of estimators, and what they need for it
TOGETHER = {
    ("record", "silo"): {"ISRLDP": {}, "DPScaffold": {}, "DPFedAvg": {}, "DPFederated": {}},
    ("record", "shuffler"): {"ISRLDP": {}},
    ("record", "server"): {"ISRLDP": {}, "DPFedAvg": {"local_steps": 1}, "DPFederated": {}},
    ("record", "secagg"): {"ISRLDP": {}, "DPFedAvg": {"local_steps": 1}, "DPFederated": {}},
    ("silo", "silo"): {"DPFedEXP": {}, "DPScaffold": {}, "DPFedAvg": {}, "DPFederated": {}},
    ("silo", "server"): {"DPFedEXP": {}, "DPScaffold": {}, "DPFedAvg": {}, "DPFederated": {}},
    ("silo", "secagg"): {"DPFedEXP": {}, "DPScaffold": {}, "DPFedAvg": {}, "DPFederated": {}},
}
EVERYTHING = [
    pytest.param(name, unit, trust, id=f"{name}-{unit}-{trust}")
    for name, unit, trust in itertools.product(
        ALL, ("record", "silo"), ("silo", "secagg", "shuffler", "server")
    )
]


def family(name):
    return name.removesuffix("Classifier").removesuffix("Regressor")


def estimator_of(name, unit, trust, **kw):
    """The estimator, or None where it has but one unit and this is not it."""
    estimator = make(name, unit=unit, trust=trust, n_rounds=3, scaling=None, epsilon=2.0, **kw)
    has = estimator.get_params()
    if "unit" not in has and unit != getattr(estimator, "unit", "record"):
        return None
    return estimator


@pytest.mark.filterwarnings("ignore::UserWarning")  # shuffling so few records gains nothing
@pytest.mark.parametrize(("name", "unit", "trust"), EVERYTHING)
def test_the_table(name, unit, trust):
    options = TOGETHER.get((unit, trust), {}).get(family(name))
    estimator = estimator_of(name, unit, trust, **(options or {}))
    if estimator is None:
        return
    X, y, silos = data(name)
    if options is not None:
        spent = estimator.fit(X, y, silos=silos).privacy_spent_
        assert (spent.unit, spent.trust) == (unit, trust)
        assert spent.neighbours == (
            "add_remove" if (unit, trust) == ("silo", "server") else "replace"
        )
        assert 0 < spent.epsilon <= 2
        assert (spent.per_silo is None) == (unit == "silo")
    else:
        with pytest.raises(ValueError, match=r"trust|unit must be one of"):
            estimator.fit(X, y, silos=silos)
        assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize("name", ["DPScaffoldClassifier", "DPFedAvgRegressor"])
def test_the_nearest_row_is_named(name):
    X, y, silos = data(name)
    with pytest.raises(ValueError, match=r"ISRLDPClassifier.*DP.* supports trust='silo'"):
        make(name, trust="shuffler").fit(X, y, silos=silos)
    with pytest.raises(ValueError, match=r'Use trust="silo", unit="silo", ISRLDP'):
        make(name, trust="server", local_steps=2).fit(X, y, silos=silos)
    with pytest.raises(
        ValueError,
        match=r'trust="secagg" with unit="record" needs an algorithm with one local step',
    ):
        make(name, trust="secagg", local_steps=2).fit(X, y, silos=silos)


# ---- what fits say of themselves, and plans for data that cannot be ------------------------------

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
