"""Unit, trust and estimator: what goes together fits, anything else is refused in words."""

import itertools

import pytest

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
