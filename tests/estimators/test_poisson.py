"""loss="poisson": as good as scikit-learn's without noise, useful with it, counts only."""

import os
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpfl import ISRLDPRegressor
from skdpfl.datasets import fetch_heart_disease, fetch_insurance
from tests.estimators.fits import REGRESSORS, make

INF = np.inf


def counts(n=2000, d=6, seed=0):
    """More spread than Poisson counts, around means that are not quite log-linear."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    mean = np.exp(1 + X @ rng.normal(scale=0.35, size=d) + 0.3 * np.sin(2 * X[:, 0]))
    y = rng.negative_binomial(2, 2 / (2 + mean)).astype(float)
    return X * 10 ** rng.uniform(-2, 3, d), y, np.arange(n) % 5


def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X, y, np.arange(len(y)) % 4


def of_bunch(bunch):
    return np.nan_to_num(np.asarray(bunch.data, float)), bunch.target, bunch.silos


real = pytest.mark.skipif("SKDPFL_DATA" not in os.environ, reason="SKDPFL_DATA is not set")
DATA = {
    "counts": counts,
    "diabetes": diabetes,
    "insurance": lambda: of_bunch(fetch_insurance(n_silos=5)),
    "heart": lambda: of_bunch(fetch_heart_disease()),
}
every_data = pytest.mark.parametrize(
    "data", [name if i < 2 else pytest.param(name, marks=real) for i, name in enumerate(DATA)]
)


def d2(model, X, y):
    return d2_tweedie_score(y, model.predict(X), power=1)


def reference(X, y):
    glm = make_pipeline(StandardScaler(), PoissonRegressor(alpha=0, max_iter=5000, tol=1e-8))
    return d2(glm.fit(X, y), X, y)


@every_data
@pytest.mark.parametrize("name", REGRESSORS)
def test_without_noise_it_is_scikit_learns(name, data):
    X, y, silos = DATA[data]()
    model = make(name, epsilon=INF, loss="poisson", random_state=0).fit(X, y, silos=silos)
    assert d2(model, X, y) > reference(X, y) - 0.02


@every_data
@pytest.mark.parametrize("seed", range(3))
def test_with_noise_it_keeps_more_than_half(data, seed):
    X, y, silos = DATA[data]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ISRLDPRegressor(3, loss="poisson", random_state=seed).fit(X, y, silos=silos)
    assert d2(model, X, y) > reference(X, y) / 2
    assert model.privacy_spent_.epsilon <= 3


def test_target_bounds_are_a_factor_and_no_shift():
    X, y, silos = counts()
    model = ISRLDPRegressor(3, loss="poisson", target_bounds=(0, 100), random_state=0)
    assert d2(model.fit(X, y, silos=silos), X, y) > reference(X, y) / 2
    # ten times the target, and its bounds: the same fit, its intercept log(10) higher
    tenfold = ISRLDPRegressor(3, loss="poisson", target_bounds=(0, 1000), random_state=0)
    tenfold.fit(X, 10 * y, silos=silos)
    np.testing.assert_allclose(tenfold.coef_, model.coef_, rtol=1e-6)
    assert tenfold.intercept_ - model.intercept_ == pytest.approx(np.log(10), rel=1e-6)


@pytest.mark.parametrize("name", REGRESSORS)
def test_negative_targets_are_refused_before_anything_is_learnt(name):
    X, y, silos = counts(60)
    model = make(name, loss="poisson")
    with pytest.raises(ValueError, match=r"loss='poisson' .* at least 0"):
        model.fit(X, np.where(np.arange(60) == 7, -1e-9, y), silos=silos)
    assert not [name for name in vars(model) if name.endswith("_")]
    bounded = make(name, loss="poisson", target_bounds=(-1, 10))
    with pytest.raises(ValueError, match=r"target_bounds=\(-1, 10\).*at least 0"):
        bounded.fit(X, y, silos=silos)


def test_steps_without_noise_bear_the_largest_counts():
    # one count is a thousand times the others: exp is steepest where it is
    X, y, silos = counts(300, 2)
    y[X[:, 0].argmax()] = 3000.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ISRLDPRegressor(INF, loss="poisson").fit(X, y, silos=silos)
    assert d2(model, X, y) > 0
