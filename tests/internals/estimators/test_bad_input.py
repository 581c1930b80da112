"""More of tests/estimators/test_bad_input.py: what only private names show."""

import numpy as np
import pytest

from skdpfl import engine
from skdpfl.estimators import _training
from tests.estimators.fits import ALL, REGRESSORS, data, make
from tests.estimators.test_bad_input import attributes

#: parameters, and what the message must hold
PARAMETERS = {
    "epsilon 0": ({"epsilon": 0}, r"epsilon must be a number in \(0, inf\].*got 0"),
    "epsilon listed": ({"epsilon": [1.0] * 4}, r"epsilon must .*or a mapping from silo .*got \[1"),
    "one silo's epsilon": ({"epsilon": {0: 1, 1: 1, 2: 0, 3: 1}}, r"epsilon must be .*got 0"),
    "both budgets": ({"epsilon": 1.0, "noise_multiplier": 2.0}, r"either epsilon .* or noise_mult"),
    "no budget": ({"epsilon": None}, r"either epsilon .* or noise_multiplier"),
    "noise 0": ({"epsilon": None, "noise_multiplier": 0}, r"noise_multiplier must .*epsilon=inf"),
    "delta 0": ({"delta": 0}, r"delta must be a number in \(0, 1\).*got 0"),
    "unit": ({"unit": "person"}, r"""unit="person" needs the person of each row|got 'person'"""),
    "alpha": ({"alpha": -1e-3}, r"alpha must be .*got -0.001"),
    "rounds 0": ({"n_rounds": 0}, r"n_rounds must be an integer of at least 1.*got 0"),
    "clip 1e-300": ({"clip_norm": 1e-300}, r"clip_norm must be .*\[1e-100.*got 1e-300"),
    "weights": ({"silo_weights": "equal"}, r"silo_weights must be one of .*'uniform'.*got 'equal'"),
    "one weight": ({"silo_weights": {0: -1.0}}, r"silo_weights\[0\] must be .*got -1.0"),
    "average": ({"average": "yes"}, r"average must be True or False, .* got 'yes'"),
    "rounds 1e7": ({"n_rounds": 10**7}, r"n_rounds=10000000 is too large.* 100,000"),
    "epochs 1e6": ({"local_epochs": 1e6, "sampling_rate": 1e-300}, r"steps are too many"),
    "local steps 0": ({"local_steps": 0}, r"local_steps must be an integer .*got 0"),
    "steps and epochs": (
        {"local_steps": 2, "local_epochs": 2},
        r"local_steps or local_epochs, not both; got 2 and 2",
    ),
    "schedule": ({"noise_schedule": "round"}, r"noise_schedule must be None, .*got 'round'"),
    "bounds crossed": ({"feature_bounds": (1, 0)}, r"feature_bounds must have low <= high"),
    "target bounds": ({"target_bounds": (3, 3)}, r"target_bounds must have low < high"),
    "large target bounds": ({"target_bounds": (-1e300, 1e300)}, r"within -1e\+150 and 1e\+150"),
    "column": ({"silo_column": "hospital"}, r"silo_column='hospital'"),
    # what does not go together
    "server, local steps": (
        {"trust": "server", "local_steps": 2},
        r'trust="server".*one local step.*Use trust="silo"',
    ),
    "whole silos, shuffler": ({"unit": "silo", "trust": "shuffler"}, r"unit must be one of|trust"),
    "whole silos by size": (
        {"unit": "silo", "silo_weights": "size"},
        r'"size" would reveal each silo\'s size.*"uniform"',
    ),
    "whole silos' budgets": (
        {"unit": "silo", "epsilon": {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}},
        r'unit="silo" has one epsilon',
    ),
    "whole silos' deltas": (
        {"unit": "silo", "delta": dict.fromkeys(range(4), 1e-5)},
        r'unit="silo" has one delta',
    ),
    "fixed batches, zero-out": (
        {"sampling": "without_replacement", "neighbours": "add_remove"},
        r'priced under neighbours="replace" only',
    ),
    "too many parts": (
        {"sampling": "disjoint", "n_rounds": 100},
        r"100 steps need at least as many records, but silo \d has \d+\. Use fewer rounds",
    ),
}


def cases():
    for what, (params, message) in PARAMETERS.items():
        for name in ALL:
            if what == "server, local steps" and "ISRL" in name:
                continue
            if params.keys() <= set(make(name).get_params()):
                yield pytest.param(name, params, message, id=f"{what}-{name}")


@pytest.mark.parametrize(("name", "params", "message"), [*cases()])
def test_parameters(name, params, message, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("the data were used")

    monkeypatch.setattr(engine, "_round", never)
    monkeypatch.setattr(_training, "run", never)
    X, y, silos = data(name)
    estimator = make(name, **({"n_rounds": 5} | params))
    before = attributes(estimator)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y, silos=silos)
    assert attributes(estimator) == before


@pytest.mark.filterwarnings("ignore:delta=1e-30 is below")
@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 1e-30, "delta": 1e-30},
        {"epsilon": {0: 1.0, 1: 1.0, 2: 1.0, 3: 1e-15}, "delta": 1e-14},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ALL)
def test_a_budget_that_no_noise_can_meet(name, budget, monkeypatch):
    monkeypatch.setattr(_training, "run", None)
    X, y, silos = data(name)
    estimator = make(name, **budget, scaling=None, n_rounds=3)
    before = attributes(estimator)
    with pytest.raises(ValueError, match="epsilon"):
        estimator.fit(X, y, silos=silos)
    assert attributes(estimator) == before


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("wrong", ["rows", "silos", "parameter", "interrupt"])
def test_a_failed_refit_leaves_the_first_fit(name, wrong, monkeypatch):
    X, y, silos = data(name)
    estimator = make(name, scaling=None, n_rounds=3, random_state=0).fit(X, y, silos=silos)
    before, predicted = attributes(estimator), estimator.predict(X)
    wider = np.column_stack([X, X])
    labels = y if name in REGRESSORS else y + 5
    if wrong == "rows":
        with pytest.raises(ValueError, match="NaN"):
            estimator.fit(np.where(X > 1, np.nan, X), y, silos=silos)
    elif wrong == "silos":
        with pytest.raises(ValueError, match="missing"):
            estimator.fit(wider, labels, silos=[None] * 240)
    elif wrong == "parameter":
        estimator.epsilon = -1
        with pytest.raises(ValueError, match="epsilon"):
            estimator.fit(wider, labels, silos=silos)
        estimator.epsilon = 1.0
        before["epsilon"] = id(estimator.epsilon)
    else:

        def interrupted(*args, **kwargs):
            raise KeyboardInterrupt

        monkeypatch.setattr(_training, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(wider, labels, silos=silos)
    assert attributes(estimator) == before
    assert np.array_equal(estimator.predict(X), predicted)
