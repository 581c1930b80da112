"""More of tests/estimators/test_auto.py: what only private names show."""

import dataclasses
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import skdpfl
from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.choosing import PublicFacts
from skdpfl.choosing._choose import choose
from skdpfl.choosing._final_step import _with_step, largest_eigenvalue
from skdpfl.choosing._noise_level import noise_level
from skdpfl.losses import LogLoss
from skdpfl.models import MLP
from skdpfl.privacy import SecureAggregation
from tests.estimators.fits import ALL, CLASSIFIERS, data, make


def settled(estimator, *, sizes=(60,) * 4, d=3, k=1):
    """The settings for a shape, without any data."""
    facts = PublicFacts(
        pd.RangeIndex(len(sizes)), np.array(sizes), d, k, type(estimator).__name__ in CLASSIFIERS
    )
    recipe = choose(estimator._recipe(facts))
    classes = {} if k == 1 else {"n_classes": k}
    plan = estimator.plan_for(silo_sizes=sizes, n_features=d, **classes)
    if not plan.private:
        return recipe.settings
    return _with_step(dataclasses.replace(recipe, plan=plan), None).settings


def test_labels_are_left_out_of_clipping_where_all_is_automatic():
    """Of two classes and a linear model; given clip norms and steps are clipped as published."""
    for options, free in (
        ({}, True),
        ({"class_weight": {0: 0.1, 1: 1.0}}, True),
        ({"trust": "server"}, True),
        ({"unit": "person"}, True),
        ({"sampling_rate": 0.2}, True),
        ({"model": "additive", "feature_bounds": (-1, 1)}, True),
        ({"noise_multiplier": 20.0, "epsilon": None}, True),
        ({"clip_norm": 0.5}, False),
        ({"learning_rate": 0.1}, False),
        ({"epsilon": np.inf}, False),
        ({"loss": "hinge"}, False),
        ({"model": MLP((4,))}, False),
        ({"trust": "shuffler"}, False),
        ({"unit": "silo"}, False),
    ):
        family = "DPFedAvg" if options.get("unit") == "silo" else "ISRLDP"
        estimator = make(f"{family}Classifier", **options)
        facts = PublicFacts(pd.RangeIndex(2), np.array([90, 80]), 3, 1, True)
        assert (estimator._recipe(facts).loss == LogLoss(label_free=True)) == free
    three = PublicFacts(pd.RangeIndex(2), np.array([90, 80]), 3, 3, True)
    assert make("ISRLDPClassifier")._recipe(three).loss == LogLoss()
    one = PublicFacts(pd.RangeIndex(2), np.array([90, 80]), 3, 1, False)
    assert not make("ISRLDPRegressor")._recipe(one).label_free


@pytest.mark.parametrize("name", [n for n in ALL if "Scaffold" in n or "FedAvg" in n])
def test_several_local_steps_are_split_between_silos_and_server(name):
    """As far in all as steps that are not: gradients are read near the model of all silos."""
    kw = {"scaling": None, "epsilon": 0.3, "local_steps": 5, "n_rounds": 20}
    split, plain = (settled(make(name, **kw, global_learning_rate=g)) for g in ("auto", 1.0))
    assert (split.server_step, plain.server_step) == (150.0, 1.0)
    assert 150 * split.learning_rate == pytest.approx(plain.learning_rate)


def test_steps_that_fall_to_zero_begin_longer_than_what_is_stable():
    kw = {"scaling": None, "epsilon": 50.0, "local_steps": 5, "n_rounds": 20}
    split, plain = (
        settled(make("DPFedAvgClassifier", **kw, global_learning_rate=g)) for g in ("auto", 1.0)
    )
    assert split.falls and not plain.falls
    at_once = 2 / 5  # a round's five gradients near one model make two steps
    assert 150 * split.learning_rate == pytest.approx(3 * at_once * plain.learning_rate)


def test_one_local_step_where_records_are_protected_five_where_silos_are():
    assert settled(skdpfl.DPScaffoldClassifier()).steps == (1,) * 40
    assert settled(skdpfl.DPScaffoldClassifier(n_rounds=30)).steps == (1,) * 30
    whole = settled(skdpfl.DPFedAvgClassifier(unit="silo"))
    assert min(whole.steps) == 5


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_steps_with_a_given_momentum_are_not_fewer(momentum):
    """Short fits were tried with the momentum of "auto" only."""
    chosen, given = (
        skdpfl.DPFedAvgClassifier(np.inf, model="linear", momentum=m) for m in ("auto", momentum)
    )
    assert settled(given).steps == (1,) * 3 * len(settled(chosen).steps)
    private = skdpfl.DPFedAvgClassifier(momentum=momentum)
    assert settled(private).steps == (1,) * 100


@pytest.mark.parametrize("epsilon", [1.0, 30.0, np.inf])
def test_one_step_of_any_family_is_that_of_minibatch_sgd(epsilon):
    X, y, silos = data("DPFedAvgClassifier")
    names = "ISRLDP", "DPFedAvg", "DPScaffold"
    coefs = [
        make(f"{name}Classifier", epsilon=epsilon, model="linear", random_state=0)
        .fit(X, y, silos=silos)
        .coef_
        for name in names
    ]
    np.testing.assert_array_equal(coefs[1], coefs[0])
    np.testing.assert_array_equal(coefs[2], coefs[0])


def test_local_steps_and_silos_by_label_leave_a_model_nearly_as_it_is():
    """As which.md says: with steps by "auto" there is no drift to be mended."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)).clip(-4, 4)
    y = (X[:, 0] - X[:, 1] / 2 + rng.logistic(size=2000) / 2 > 0).astype(int)
    by_label = np.empty(2000, int)
    by_label[np.argsort(y, kind="stable")] = np.arange(2000) // 400
    given = {"epsilon": 8.0, "local_steps": 5, "feature_bounds": (-4, 4), "random_state": 0}
    coefs = [
        kind(**given).fit(X, y, silos=silos).coef_[0]
        for kind in (skdpfl.DPFedAvgClassifier, skdpfl.DPScaffoldClassifier)
        for silos in (np.arange(2000) % 5, by_label)
    ]
    spread = np.ptp(coefs, axis=0).max()
    assert spread < 0.005 * np.abs(coefs[0]).max()


LEVELS = [
    {},
    {"trust": "server"},
    {"trust": SecureAggregation(2)},
    {"neighbours": "add_remove"},
    {"silo_fraction": 0.5},
    {"name": "DPFedAvgClassifier", "unit": "silo", "trust": "secagg", "silo_fraction": 0.5},
    {"epsilon": {0: 1.0, 1: 2.0, 2: 4.0, 3: 2.0}},
    {"name": "DPFedAvgClassifier", "unit": "silo", "trust": "silo", "clip_norm": 1.0},
    {"name": "DPScaffoldClassifier", "local_steps": 3, "n_rounds": 20},
]


@pytest.mark.parametrize("options", LEVELS, ids=str)
def test_the_level_of_noise_is_the_plans(options):
    """Known before the plan is calibrated, up to what sampling and silo fractions change."""
    options = {"name": "ISRLDPClassifier", "scaling": None, "random_state": 0} | options
    name = options.pop("name")
    estimator, sizes = make(name, **options), pd.Series([300, 200, 500, 400])
    plan = estimator.plan_for(silo_sizes=sizes, n_features=4)
    whole = options.get("unit") == "silo"
    facts = PublicFacts(sizes.index, None if whole else sizes.to_numpy(), 4)
    n_steps = plan.n_rounds if whole else sum(plan.steps)
    level = noise_level(estimator._recipe(facts), options.get("sampling_rate", 1.0), plan.steps)
    planned = plan.mechanism.noise_on_mean(plan) / (plan.clip_norm * np.sqrt(n_steps))
    assert level.noise == pytest.approx(planned, rel=0.12)


@pytest.mark.parametrize("sizes", [(50, 3), (20, 400), (600, 350)])
def test_the_largest_eigenvalue_is_never_missed(sizes):
    """Nor where the one direction of all columns is orthogonal to it."""
    A = np.random.default_rng(0).normal(size=sizes)
    A[:, 0] = -A[:, 1] * 3
    exact = np.linalg.eigvalsh(A.T @ A)[-1]
    half = len(A) // 2
    found = largest_eigenvalue(lambda: [A[:half], A[half:]])
    assert exact * (1 - 1e-9) <= found <= 1.06 * exact


def advice(epsilon, n=870, d=39, n_silos=6, kind=ISRLDPClassifier, **kw):
    """What a fit of this shape is told before any record is read; "" if nothing."""
    X = np.random.default_rng(0).normal(size=(n, d))
    y = X[:, 0] > 0 if kind is ISRLDPClassifier else X[:, 0]
    with warnings.catch_warnings(record=True) as said, pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(kind, "_run", None)
        with pytest.raises(TypeError):
            kind(epsilon, delta=1e-5, **kw).fit(X, y, silos=np.arange(n) % n_silos)
    return "".join(str(each.message) for each in said if "will drown" in str(each.message))


def number(pattern, text):
    return float(re.search(pattern, text)[1].replace(",", ""))


@pytest.mark.parametrize("kind", [ISRLDPClassifier, ISRLDPRegressor])
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_who_follows_the_advice_is_warned_no_more(kind, epsilon):
    kw = {"kind": kind, "scaling": None}
    said = advice(epsilon, **kw)
    needed = number(r"an epsilon of about ([\d.,]+)", said)
    assert not advice(needed, **kw)
    assert advice(0.9 * needed, **kw)
    records = number(r"about ([\d,]+) records", said)
    assert not advice(epsilon, n=int(records), **kw)
    assert advice(epsilon, n=int(0.9 * records), **kw)
