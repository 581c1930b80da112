"""Without noise every convex method reaches scikit-learn's optimum.

weighted mean loss + alpha / 2 |w|^2     Ridge: alpha n     LogisticRegression: C = 1 / (alpha n)
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

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
