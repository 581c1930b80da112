"""Relative root mean squared error."""

from functools import partial

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from skdpfl.model_selection import make_silo_scorer, neg_relative_rmse

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


def test_it_is_a_scorer():
    for scoring in (neg_relative_rmse, partial(neg_relative_rmse, reference=5.0)):
        scores = cross_val_score(Ridge(), X, Y, scoring=scoring, error_score="raise")
        assert scores.shape == (5,) and (scores < 0).all() and (scores > -1).all()
    silos = np.repeat(["a", "b"], 30)
    worst = make_silo_scorer(neg_relative_rmse)(MODEL, X, Y, silos=silos)
    assert worst == min(neg_relative_rmse(MODEL, X[s], Y[s]) for s in (silos == "a", silos == "b"))


def test_equal_targets_have_no_score():
    assert np.isnan(neg_relative_rmse(MODEL, X[:5], np.ones(5)))
