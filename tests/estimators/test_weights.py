"""Weights of records and of classes: factors of the loss before clipping, which cost nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.losses import LogLoss, loss_for, with_weights
from skdpfl.models import MLP, LinearModel
from tests.estimators.fits import ALL, CLASSIFIERS, REGRESSORS, data, make, plain

N = 240
BOUNDED = {"feature_bounds": (-4, 6), "target_bounds": (-6, 6), "random_state": 0}
HUGE = [0.0, 1e-300, 3.0, 1e12, 1e300]


def weights_of(n=N, seed=1):
    return np.random.default_rng(seed).exponential(size=n)


# ---- privacy --------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", HUGE)
@pytest.mark.parametrize("name", ALL)
def test_a_weight_lifts_no_record_beyond_the_clip_norm(name, weight):
    """**Formal guarantee**: one round, another record of any weight: 2 C / n at most."""
    X, y, silos = data(name)
    weights, other, target = weights_of(), X.copy(), y.copy()
    other[7], target[7] = 1e6, y[7] if name in REGRESSORS else 1 - y[7]
    new = weights.copy()
    new[7] = weight
    model = plain(name, epsilon=None, noise_multiplier=1.0, clip_norm=0.6, random_state=3)
    before = model.fit(X, y, silos=silos, sample_weight=weights)
    before = np.append(np.ravel(before.coef_), before.intercept_)
    after = model.fit(other, target, silos=silos, sample_weight=new)
    after = np.append(np.ravel(after.coef_), after.intercept_)
    distance = np.linalg.norm(after - before)
    assert distance <= 2 * 0.6 / N * (1 + 1e-9)
    assert distance > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", ["linear", "network"])
def test_the_clipped_sum_of_one_record_is_within_the_norm(kind, n_classes, dtype):
    """For the numbers as stored, whatever weight, features and label."""
    rng = np.random.default_rng(0)
    outputs = 1 if n_classes == 2 else n_classes
    model = LinearModel(3, outputs) if kind == "linear" else MLP((4,), "tanh").build(3, outputs)
    X = (rng.normal(size=(500, 1, 3)) * 10 ** rng.uniform(-20, 20, (500, 1, 1))).astype(dtype)
    labels = rng.integers(0, n_classes, (500, 1))
    weights = np.append(10 ** rng.uniform(-30, 30, 498), [np.inf, np.nan])[:, None].astype(dtype)
    y = with_weights(labels, weights)
    params = rng.normal(size=(500, model.size)).astype(dtype)
    with np.errstate(over="ignore"):
        sums = model.clipped_gradient_sum(params, X, y, loss_for(LogLoss(), y), clip_norm=0.3)
    norms = np.linalg.norm(sums.astype(np.longdouble), axis=1)
    assert (norms <= 0.3).all()
    assert (norms[:498] > 0.29).sum() > 100
    assert (norms[-2:] == 0).all()


@pytest.mark.parametrize("name", ["ISRLDPClassifier", "DPScaffoldRegressor"])
def test_public_numbers_ignore_weights(name):
    X, y, silos = data(name)
    model = make(name, epsilon=2.0, **BOUNDED)
    with_, without = (
        model.fit(X, y, silos=silos, sample_weight=w).__dict__.copy()
        for w in (1e3 * weights_of(), None)
    )
    for what in ("clip_norm_", "learning_rate_", "sampling_rate_", "n_rounds_"):
        assert with_[what] == without[what], what
    assert with_["privacy_spent_"].to_dict() == without["privacy_spent_"].to_dict()
    assert np.array_equal(with_["plan_"].noise_multiplier, without["plan_"].noise_multiplier)
    assert not np.array_equal(with_["coef_"], without["coef_"])


# ---- what they mean --------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1.0, 0.4])
@pytest.mark.parametrize("name", ALL)
def test_weights_of_one_change_no_bit(name, rate):
    X, y, silos = data(name, n_classes=3)
    kw = {"sampling_rate": rate, "n_rounds": 4, "class_weight": {0: 1, 1: 1, 2: 1}} | BOUNDED
    model, twin = make(name, **kw), make(name, **(kw | {"class_weight": None}))
    model.fit(X, y, silos=silos, sample_weight=np.ones(N))
    twin.fit(X, y, silos=silos)
    assert np.array_equal(model.coef_, twin.coef_)
    assert np.array_equal(model.intercept_, twin.intercept_)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_of_classes_are_weights_of_their_records(name, n_classes):
    X, y, silos = data(name, n_classes=n_classes)
    labels, table = np.array(["a", "b", "c"])[y], {"b": 3.0, "a": 0.5}
    own = np.array([0.5, 3.0, 1.0])[y] / 3
    # calibrated models of rare labels are drawn to their shares, which classes' weights move
    kw = {"n_rounds": 4, "calibrate": False} | BOUNDED
    by_class = make(name, class_weight=pd.Series(table), **kw)
    by_class.fit(X, labels, silos=silos, sample_weight=weights_of())
    by_record = make(name, **kw).fit(X, labels, silos=silos, sample_weight=own * weights_of())
    np.testing.assert_allclose(by_class.coef_, by_record.coef_, rtol=1e-9)


@pytest.mark.parametrize("by", ["record", "class"])
def test_without_privacy_it_is_the_weighted_optimum(by):
    X, y, silos = data("ISRLDPClassifier")
    weights = weights_of() if by == "record" else np.array([0.3, 4.0])[y] / 4
    kw = {"epsilon": np.inf, "alpha": 0.05, "scaling": None, "silo_weights": "size"}
    kw |= {"class_weight": {0: 0.3, 1: 4.0}} if by == "class" else {}
    model = make("ISRLDPClassifier", **kw)
    model.fit(X, y, silos=silos, sample_weight=weights if by == "record" else None)
    optimum = LogisticRegression(C=1 / (0.05 * N), tol=1e-10, max_iter=5000)
    optimum.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, optimum.coef_, rtol=2e-3, atol=2e-3)


# ---- around them -----------------------------------------------------------------------------


RECORDS, *_ = data("ISRLDPClassifier")
IMBALANCED = np.arange(N) % 5 == 0


@pytest.mark.parametrize(
    "weights",
    [
        compute_sample_weight("balanced", IMBALANCED),
        compute_sample_weight("balanced", IMBALANCED).astype(np.float32),
        3 * compute_sample_weight("balanced", IMBALANCED),
        (1 + IMBALANCED) / (1 + IMBALANCED).sum(),
        (1 + RECORDS[:, 0] ** 2) / (1 + RECORDS[:, 0] ** 2).mean(),
    ],
)
def test_weights_that_were_counted_from_the_records_are_warned_of(weights):
    with pytest.warns(
        PrivacyLeakWarning, match="counts in y, so it was computed from the records|its sum or mean"
    ):
        make("ISRLDPClassifier", **BOUNDED).fit(RECORDS, IMBALANCED, sample_weight=weights)
    counted = {label: 1 / np.mean(label == IMBALANCED) for label in (False, True)}
    with pytest.warns(PrivacyLeakWarning, match="class_weight is inversely proportional"):
        make("ISRLDPClassifier", class_weight=counted, **BOUNDED).fit(RECORDS, IMBALANCED)


@pytest.mark.parametrize(
    "weights", [1 + IMBALANCED, np.arange(N) % 3, 0.5 + np.abs(RECORDS[:, 0]), np.full(N, 2.0)]
)
def test_other_weights_are_taken_without_a_word(weights):
    model = make("ISRLDPClassifier", class_weight={False: 1, True: 2}, **BOUNDED)
    model.fit(RECORDS, IMBALANCED, sample_weight=weights)
