"""Without noise every convex method reaches scikit-learn's optimum.

weighted mean loss + alpha / 2 |w|^2     Ridge: alpha n     LogisticRegression: C = 1 / (alpha n)
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from tests.estimators.fits import data, make

ALPHA = 0.1
#: name, its options; heterogeneous silos throughout
METHODS = {
    "ISRLDP": {"n_rounds": 1200},
    "DPFedAvg": {"n_rounds": 400, "momentum": 0.8, "local_steps": 1},
    "DPScaffold": {"n_rounds": 350, "local_steps": 5},
    "DPFederated": {"n_rounds": 1200},
}

#: what DPFederated runs by default is DPFedAvg again: fast for labels, slow elsewhere
FEW = [m for m in METHODS if m != "DPFederated"]
FEW.append(pytest.param("DPFederated", marks=pytest.mark.slow))


def fitted(method, kind, X, y, silos, **kw):
    options = {"epsilon": np.inf, "scaling": None, "alpha": ALPHA, "sampling_rate": 1.0}
    options |= {"learning_rate": 0.3 if kind == "Classifier" else 0.1} | METHODS[method]
    return make(method + kind, **(options | kw)).fit(X, y, silos=silos)


def same(estimator, optimum):
    np.testing.assert_allclose(
        np.atleast_2d(estimator.coef_), np.atleast_2d(optimum.coef_), atol=1e-4
    )
    np.testing.assert_allclose(estimator.intercept_, optimum.intercept_, atol=1e-4)


@pytest.mark.parametrize("weights", ["uniform", {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}])
@pytest.mark.parametrize("method", FEW)
def test_weighted_silos_are_weighted_records(method, weights):
    X, y, silos = data("DPScaffoldClassifier")
    w = np.full(4, 0.25) if weights == "uniform" else np.array([0.1, 0.2, 0.3, 0.4])
    per_record = (w / np.bincount(silos))[silos]
    optimum = LogisticRegression(C=1 / ALPHA, tol=1e-10, max_iter=5000)
    optimum.fit(X, y, sample_weight=per_record)
    same(fitted(method, "Classifier", X, y, silos, silo_weights=weights), optimum)


def test_local_steps_drift_without_control_variates():
    """What SCAFFOLD is for: FedAvg with local steps misses the optimum of unlike silos."""
    X, y, silos = data("DPScaffoldClassifier")
    optimum = LogisticRegression(C=1 / (ALPHA * len(y)), tol=1e-10, max_iter=5000).fit(X, y)
    drifted = fitted("DPFedAvg", "Classifier", X, y, silos, local_steps=5, momentum=0.0)
    assert np.abs(drifted.coef_ - optimum.coef_).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("cohort", ["balanced", "uniform"])
def test_scaffold_reaches_it_with_partial_cohorts(cohort):
    X, y, silos = data("DPScaffoldClassifier")
    clf = fitted(
        "DPScaffold", "Classifier", X, y, silos,
        silo_fraction=0.5, cohort=cohort, silo_weights="uniform", n_rounds=1000, random_state=0,
    )  # fmt: skip
    per_record = (0.25 / np.bincount(silos))[silos]
    optimum = LogisticRegression(C=1 / ALPHA, tol=1e-10, max_iter=5000)
    same(clf, optimum.fit(X, y, sample_weight=per_record))


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize("method", ["ISRLDP", "DPScaffold"])
def test_scales_are_the_units_of_the_penalty(method, kind):
    X, y, silos = data(f"{method}{kind}")
    bounds = (X.min(axis=0) - 0.3, X.max(axis=0) + 1.0)
    kw = {"scaling": "auto", "feature_bounds": bounds, "learning_rate": 0.8}
    if kind == "Regressor":
        kw |= {"target_bounds": (-10, 30), "learning_rate": 0.3}
    estimator = fitted(method, kind, X, y, silos, **kw)
    Z = estimator.scaling_.transform(X)
    np.testing.assert_allclose(Z.std(axis=0), 1, rtol=1e-9)  # no budget: they are exact
    if kind == "Regressor":
        optimum = Ridge(alpha=ALPHA * len(y)).fit(Z, (y - y.mean()) / y.std())
        expected = y.mean() + y.std() * optimum.predict(Z)
        np.testing.assert_allclose(estimator.predict(X), expected, atol=1e-3)
    else:
        optimum = LogisticRegression(C=1 / (ALPHA * len(y)), tol=1e-10, max_iter=5000).fit(Z, y)
        raw = estimator.decision_function(X)
        np.testing.assert_allclose(raw, optimum.decision_function(Z), atol=1e-4)
    raw = X @ np.atleast_2d(estimator.coef_).T + estimator.intercept_
    got = estimator.predict(X) if kind == "Regressor" else estimator.decision_function(X)
    np.testing.assert_allclose(raw[:, 0], got, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_four_classes(method):
    X, y, silos = data("DPScaffoldClassifier", n_classes=4)
    clf = fitted(method, "Classifier", X, y, silos)
    optimum = LogisticRegression(C=1 / (ALPHA * len(y)), tol=1e-10, max_iter=5000).fit(X, y)
    same(clf, optimum)
    np.testing.assert_allclose(clf.predict_proba(X), optimum.predict_proba(X), atol=1e-4)
    assert clf.privacy_spent_.epsilon == np.inf
