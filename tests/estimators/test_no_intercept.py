"""fit_intercept=False: the model is zero where all features are, whatever scaled them."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from tests.estimators.fits import ALL, make

#: scaling, what is given, budget: exact, found in bounds, bounds alone, found without bounds, curve
SCALINGS = {
    "exact": {"epsilon": np.inf},
    "refined bounds": {"epsilon": 10.0, "feature_bounds": (-2, 8), "target_bounds": (90, 130)},
    "bounds": {"epsilon": 0.02, "feature_bounds": (-2, 8), "target_bounds": (90, 130)},
    "private": {"epsilon": 10.0, "scaling": "private"},
    "squash": {"epsilon": 0.4},
    "none": {"epsilon": 10.0, "scaling": None},
}


def problem(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)) + 3
    y = X.sum(axis=1) + 100
    if name.endswith("Classifier"):
        y = (X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=400) > 0).astype(int)
    return X, y, np.repeat([0, 1, 2, 3], 100)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("name", ALL)
def test_no_intercept_anywhere(name, scaling):
    X, y, silos = problem(name)
    model = make(name, fit_intercept=False, random_state=0, **SCALINGS[scaling])
    model.fit(X, y, silos=silos)
    assert not np.any(model.intercept_)
    raw = model.predict if name.endswith("Regressor") else model.decision_function
    assert not np.any(raw(np.zeros((1, 4))))
    assert np.any(model.coef_)


@pytest.mark.parametrize("name", ALL)
def test_it_is_the_optimum_through_the_origin(name):
    X, y, silos = problem(name)
    model = make(name, epsilon=np.inf, fit_intercept=False).fit(X, y, silos=silos)
    if name.endswith("Regressor"):
        best = LinearRegression(fit_intercept=False).fit(X, y)
        assert model.score(X, y) == pytest.approx(best.score(X, y), abs=0.02)
    else:
        best = LogisticRegression(C=1e6, fit_intercept=False, max_iter=9999).fit(X, y)
        assert model.score(X, y) > best.score(X, y) - 0.02
