"""Budgets, plans and what a fit cost."""

import numpy as np
import pandas as pd
import pytest

import skdpfl
from tests.estimators.fits import ALL, data, make, plain

INF = np.inf


def fit(name="ISRLDPClassifier", X=None, y=None, silos=None, **kw):
    if X is None:
        X, y, silos = data(name)
    options = {"n_rounds": 8, "scaling": None, "random_state": 0, "learning_rate": 0.1}
    return make(name, **(options | kw)).fit(X, y, silos=silos)


# ---- epsilon ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("name", ALL)
def test_the_budget_is_met_and_used(name, rate, epsilon):
    spent = fit(name, epsilon=epsilon, sampling_rate=rate).privacy_spent_
    assert 0.99 * epsilon <= spent.epsilon <= epsilon
    assert spent.delta == 1e-4  # 240 records: the largest power of ten up to 1 / 2400
    assert tuple(spent) == (spent.epsilon, spent.delta)
    assert (spent.unit, spent.trust, spent.neighbours) == ("record", "silo", "replace")


@pytest.mark.parametrize("cohort", ["balanced", "uniform", "poisson"])
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_the_budget_is_that_of_the_silo_that_pays_most(cohort, trust):
    rng = np.random.default_rng(0)
    silos = np.repeat(np.arange(12), rng.integers(5, 60, 12))
    X, y = rng.normal(size=(len(silos), 3)), rng.integers(0, 2, len(silos))
    fitted = fit(
        X=X, y=y, silos=silos, n_rounds=20, silo_fraction=0.3, cohort=cohort, trust=trust,
        sampling="without_replacement", sampling_rate=0.23, silo_weights="uniform",
    )  # fmt: skip
    spent = fitted.privacy_spent_
    assert 0.99 <= spent.epsilon <= 1
    assert spent.per_silo.max() == spent.epsilon
    assert spent.per_silo.min() < spent.epsilon


def test_warm_start_and_local_steps_are_charged():
    options = {"epsilon": None, "noise_multiplier": 4.0, "sampling_rate": 0.5, "n_rounds": 6}
    cost = {
        "plain": fit("DPScaffoldClassifier", **options),
        "warm": fit("DPScaffoldClassifier", warm_start_rounds=3, **options),
        "fedavg": fit("DPFedAvgClassifier", **options),
        "momentum": fit("DPFedAvgClassifier", momentum=0.9, **options),
    }
    assert len({fitted.privacy_spent_.epsilon for fitted in cost.values()}) == 1
    more = fit("DPScaffoldClassifier", local_steps=2, **options).privacy_spent_.epsilon
    twice = fit("DPScaffoldClassifier", **(options | {"n_rounds": 12})).privacy_spent_.epsilon
    assert more == twice > cost["plain"].privacy_spent_.epsilon


@pytest.mark.parametrize(("epochs", "steps"), [(2, (8,) * 3), ([1, 0.5, 3], (4, 2, 12))])
def test_local_epochs_are_charged_as_steps(epochs, steps):
    clf = fit("DPFedAvgClassifier", local_epochs=epochs, sampling_rate=0.25, n_rounds=3)
    assert clf.plan_.steps == steps
    assert clf.privacy_spent_.n_releases == sum(steps)


# ---- budgets of single silos --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [dict, pd.Series])
@pytest.mark.parametrize("name", ALL)
def test_each_silo_may_have_its_own_budget(name, kind):
    budgets = {0: 0.5, 1: 1.0, 2: 4.0, 3: INF, "not in the data": 9.0}
    fitted = fit(name, epsilon=kind(budgets), sampling_rate=0.5)
    per_silo = fitted.privacy_spent_.per_silo
    assert list(per_silo.index) == [0, 1, 2, 3]
    for silo in range(3):
        assert 0.99 * budgets[silo] <= per_silo[silo] <= budgets[silo]
    assert per_silo[3] == INF == fitted.privacy_spent_.epsilon
    z = fitted.plan_.noise_multiplier
    assert z[0] > z[1] > z[2] > z[3] == 0


def test_a_silo_with_an_infinite_budget_adds_no_noise_and_counts_no_less():
    X, silos = np.zeros((40, 3)), np.repeat([0, 1], 20)
    y = np.repeat([0, 1], 20)
    kw = {"epsilon": {0: INF, 1: INF}, "n_rounds": 1, "average": False}
    exact = fit(X=X, y=y, silos=silos, **(kw | {"clip_norm": 0.4}))
    assert not exact.coef_.any()
    mixed = fit(X=X, y=y, silos=silos, **(kw | {"epsilon": {0: INF, 1: 1e5}, "clip_norm": 0.4}))
    # silo 0's clipped gradient is +0.4 in the intercept, silo 1's is -0.4
    assert mixed.intercept_[0] == pytest.approx(0, abs=1e-2)
    assert 0 < np.abs(mixed.coef_).max() < 1e-2


def test_a_silo_without_an_entry_is_an_error():
    with pytest.raises(ValueError, match=r"epsilon has no entry for silo\(s\) \[3\]"):
        fit(epsilon={0: 1, 1: 1, 2: 1})
    with pytest.raises(ValueError, match=r"delta has no entry for silo\(s\) \[0\]"):
        fit(delta={1: 1e-5, 2: 1e-5, 3: 1e-5})


# ---- plans without data -------------------------------------------------------------------------


def test_a_plan_draws_nothing_from_a_generator():
    random_state = np.random.RandomState(0)
    clf = plain("ISRLDPClassifier", random_state=random_state)
    clf.plan_for(silo_sizes=[10, 20], n_features=2)
    assert random_state.randint(1000) == np.random.RandomState(0).randint(1000)


# ------------------------------------------------------------------ until the budget is spent

SIZES = {"silo_sizes": [300, 300, 300], "n_features": 3}
SLOWLY = {"local_steps": 3, "noise_multiplier": 30.0}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ISRLDPClassifier", {"sampling_rate": 0.1}),
        ("ISRLDPRegressor", {"solver": "localized"}),
        ("DPScaffoldClassifier", {"noise_schedule": ("round", 0.9, 4), **SLOWLY}),
        ("DPScaffoldClassifier", {"noise_schedule": ("step", 0.97, 4), **SLOWLY}),
        ("DPFedAvgClassifier", {"unit": "silo", "trust": "server", "silo_fraction": 0.5}),
        ("DPFedAvgClassifier", {"silo_fraction": 0.34, "cohort": "uniform"}),
    ],
)
def test_rounds_go_on_until_the_budget_is_spent(name, options):
    """One more round would cost more; the cost is that of a plan with so many rounds."""
    options = {"noise_multiplier": 8.0, "scaling": None, "random_state": 3, **options}
    cls = getattr(skdpfl, name)
    plan = cls(2.0, n_rounds="budget", **options).plan_for(**SIZES)
    assert (plan.noise_multiplier == options["noise_multiplier"]).all() and plan.n_rounds > 1
    same, more = (
        cls(None, n_rounds=plan.n_rounds + extra, **options).plan_for(**SIZES).spent().epsilon
        for extra in (0, 1 if options.get("cohort") != "uniform" else 20)
    )
    assert plan.spent().epsilon == same <= 2.0 < more


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_multiplier": None}, "give both noise_multiplier and epsilon"),
        ({"epsilon": None}, "give both noise_multiplier and epsilon"),
        ({"epsilon": {0: 1.0, 1: 2.0, 2: 2.0}}, "one number"),
        ({"epsilon": np.inf}, "epsilon"),
        ({"local_steps": (1, 2)}, "local_steps of each round"),
        ({"noise_multiplier": 0.3}, "one round at noise_multiplier=0.3 costs more"),
        ({"noise_multiplier": 1e5}, "100,000 rounds and more"),
    ],
)
def test_what_does_not_go_with_a_budget_for_rounds(options, words):
    options = {"epsilon": 1.0, "noise_multiplier": 9.0, "local_steps": 2, **options}
    with pytest.raises(ValueError, match=words):
        skdpfl.DPScaffoldClassifier(n_rounds="budget", scaling=None, **options).plan_for(**SIZES)


def test_one_pass_has_no_budget_of_rounds():
    with pytest.raises(ValueError, match="cost as much as one"):
        skdpfl.ISRLDPClassifier(
            1.0, noise_multiplier=9.0, n_rounds="budget", sampling="disjoint"
        ).plan_for(**SIZES)
