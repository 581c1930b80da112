"""Relative root mean squared error."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from skdpfl.model_selection import neg_relative_rmse

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ np.array([1.0, 2.0, -1.0]) + RNG.normal(size=60) + 5
MODEL = Ridge().fit(X[:40], Y[:40])


def test_it_is_what_r2_leaves():
    score = neg_relative_rmse(MODEL, X[40:], Y[40:])
    assert score == pytest.approx(-np.sqrt(1 - r2_score(Y[40:], MODEL.predict(X[40:]))))
    assert -1 < score < 0


def test_the_reference_may_be_the_training_mean():
    mean = Y[:40].mean()
    score = neg_relative_rmse(MODEL, X[40:], Y[40:], reference=mean)
    errors = np.linalg.norm(Y[40:] - MODEL.predict(X[40:])), np.linalg.norm(Y[40:] - mean)
    assert score == pytest.approx(-errors[0] / errors[1])
    constant = DummyRegressor().fit(X[:40], Y[:40])
    assert neg_relative_rmse(constant, X[40:], Y[40:], reference=mean) == pytest.approx(-1)


def test_equal_targets_have_no_score():
    assert np.isnan(neg_relative_rmse(MODEL, X[:5], np.ones(5)))
