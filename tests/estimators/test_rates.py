"""Counts, rates and amounts: as good as scikit-learn's without noise, useful with it."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpfl import ISRLDPRegressor
from skdpfl.losses import Gamma, Huber, NegativeBinomial, Offset, Poisson, Tweedie, with_offsets
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


DATA = {"counts": counts, "diabetes": diabetes}


def d2(model, X, y):
    return d2_tweedie_score(y, model.predict(X), power=1)


def reference(X, y):
    glm = make_pipeline(StandardScaler(), PoissonRegressor(alpha=0, max_iter=5000, tol=1e-8))
    return d2(glm.fit(X, y), X, y)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", REGRESSORS)
def test_without_noise_it_is_scikit_learns(name, data):
    X, y, silos = DATA[data]()
    model = make(name, epsilon=INF, loss="poisson", random_state=0).fit(X, y, silos=silos)
    assert d2(model, X, y) > reference(X, y) - 0.02


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


# ---- rates: exposures, and the other losses of a log link ----------------------------------------

LOSSES = [Poisson(), Gamma(), Tweedie(1.3), Tweedie(1.8), NegativeBinomial(0.5)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
RATES = np.array([0.4, -0.3, 0.2, 0.0])


def rates(loss=None, n=5000, unit=30.0, seed=0):
    """Targets of rates exp(X w - 2), over exposures of about ``unit``; five silos."""
    rng = np.random.default_rng(seed)
    X, exposure = rng.normal(size=(n, 4)), unit * rng.gamma(4, 0.25, n)
    mean = exposure * np.exp(X @ RATES - 2) / unit * 30
    y = rng.poisson(mean).astype(float)
    if isinstance(loss, Gamma):
        y = mean * rng.gamma(2, 0.5, n)
    elif isinstance(loss, Tweedie):
        y = y * rng.gamma(2, 0.5, n)
    return X, y, exposure, np.arange(n) % 5


def fitted_exactly(loss, X, y, exposure):
    """The maximum of the likelihood, by scipy: coefficients and the intercept."""
    A, pairs, of_pairs = np.c_[X, np.ones(len(X))], with_offsets(y, np.log(exposure)), Offset(loss)

    def objective(w):
        raw = (A @ w)[:, None]
        return of_pairs.value(pairs, raw).mean(), A.T @ of_pairs.gradient(pairs, raw)[:, 0] / len(y)

    start = np.append(np.zeros(X.shape[1]), np.log(y.mean() / exposure.mean()))
    return minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x


@every_loss
def test_rates_are_those_of_the_exact_fit(loss):
    X, y, exposure, silos = rates(loss)
    want = fitted_exactly(loss, X, y, exposure)
    # clipping moves the fit of counts that are far more spread than their mean
    noisy = 0.12 if isinstance(loss, NegativeBinomial) else 0.06
    for epsilon, tolerance in ((INF, 0.005), (3, noisy)):
        model = ISRLDPRegressor(epsilon, loss=loss, trust="secagg", random_state=0)
        model.fit(X, y, silos=silos, exposure=exposure)
        np.testing.assert_allclose(np.append(model.coef_, model.intercept_), want, atol=tolerance)
        assert model.privacy_spent_.epsilon <= epsilon
    means = np.exp(X @ want[:-1] + want[-1]) * exposure
    apart = model.predict(X, exposure) / means - 1
    assert np.sqrt(np.mean(apart**2)) < 0.1
    np.testing.assert_allclose(model.predict(X) * exposure, model.predict(X, exposure))


@every_loss
def test_score_is_the_deviance_explained(loss):
    X, y, exposure, silos = rates(loss, n=600)
    model = ISRLDPRegressor(INF, loss=loss).fit(X, y, silos=silos, exposure=exposure)
    found = model.predict(X)
    one = np.ones(len(y))
    if isinstance(loss, NegativeBinomial):
        assert model.score(X, np.maximum(found, 0), exposure=one) == pytest.approx(1)
        assert 0 < model.score(X, y, exposure=exposure) < 1
        return
    power = {Poisson(): 1, Gamma(): 2}.get(loss) or loss.power
    want = d2_tweedie_score(y, found, power=power)
    assert model.score(X, y, exposure=one) == pytest.approx(want, rel=1e-10)
    weights = exposure ** (2 - power)
    want = d2_tweedie_score(y / exposure, found, sample_weight=weights, power=power)
    assert model.score(X, y, exposure=exposure) == pytest.approx(want, rel=1e-10)
    ones = model.score(X, y, one, exposure=exposure)
    assert ones == pytest.approx(want, rel=1e-10)


def test_counts_are_not_scored_against_rates():
    X, y, exposure, silos = rates(n=600)
    plain = ISRLDPRegressor(INF, loss="poisson", random_state=0).fit(X, y, silos=silos)
    assert np.isfinite(plain.score(X, y))
    model = clone(plain).fit(X, y, silos=silos, exposure=exposure)
    saved = ISRLDPRegressor.from_dict(json.loads(json.dumps(model.to_dict())))
    for each in (model, saved):
        with pytest.raises(ValueError, match=r"fitted with exposure=, .* Give score the exposure="):
            each.score(X, y)
        assert each.score(X, y, exposure=exposure) > 0.1
        np.testing.assert_allclose(each.predict(X, np.ones(len(X))), each.predict(X))
    assert np.isfinite(model.fit(X, y, silos=silos).score(X, y))  # without, again


@pytest.mark.parametrize("exposure", [1e-300, 1e-3, 1e300])
@pytest.mark.parametrize("name", REGRESSORS)
def test_an_exposure_lifts_no_record_beyond_the_clip_norm(name, exposure):
    """**Formal guarantee**: one round, another record of any exposure: 2 C / n at most."""
    X, y, own, silos = rates(n=240)
    other, target, new = X.copy(), y.copy(), own.copy()
    other[7], target[7], new[7] = 1e6, 1e9, exposure
    kw = {"n_rounds": 1, "learning_rate": 1.0, "scaling": None, "average": False, "clip_norm": 0.6}
    kw |= {"epsilon": None, "noise_multiplier": 1.0, "random_state": 3, "sampling_rate": 1.0}
    before, after = (
        make(name, loss="poisson", **kw).fit(a, b, silos=silos, exposure=c)
        for a, b, c in ((X, y, own), (other, target, new))
    )
    moved = np.append(after.coef_ - before.coef_, after.intercept_ - before.intercept_)
    assert 0 < np.linalg.norm(moved) <= 2 * 0.6 / 240 * (1 + 1e-9)


def test_exposures_are_charged_as_planned():
    """Random plans with exposures cost at most their budgets; the histogram is one release."""
    rng = np.random.default_rng(0)
    X, y, exposure, silos = rates(n=400)
    for _ in range(20):
        kw = {"epsilon": 10 ** rng.uniform(-0.5, 1), "n_rounds": int(rng.integers(1, 40))}
        kw |= {"trust": rng.choice(["silo", "secagg", "server"]), "loss": "poisson"}
        model = ISRLDPRegressor(**kw, feature_bounds=(-4, 4), target_bounds=(0, 99), random_state=0)
        sizes = dict(enumerate(np.bincount(silos)))
        plans = [model.plan_for(silo_sizes=sizes, n_features=4, exposure=e) for e in (True, False)]
        counts = [sum(times for _, times in plan.setup[0]) for plan in plans]
        assert counts[0] == counts[1] + 1
        spent = plans[0].spent()
        assert spent.epsilon <= kw["epsilon"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y, silos=silos, exposure=exposure)
    assert model.privacy_spent_.epsilon == spent.epsilon


WRONG = {
    "missing": (lambda e: np.where(np.arange(len(e)) == 3, np.nan, e), "exposure"),
    "negative": (lambda e: np.where(np.arange(len(e)) == 3, -1.0, e), "exposure must be above 0"),
    "zero": (lambda e: np.where(np.arange(len(e)) == 3, 0.0, e), "exposure must be above 0"),
    "one number": (lambda e: 2.0, "exposure must be one number for each"),
    "too few": (lambda e: e[:-1], "exposure must be one number for each"),
    "text": (lambda e: ["a"] * len(e), "exposure"),
    "another order": (lambda e: pd.Series(e, index=np.arange(len(e))[::-1]), "exposure"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_exposures_are_refused_in_words(case):
    (spoil, words), (X, y, exposure, silos) = WRONG[case], rates(n=60)
    model, frame = ISRLDPRegressor(loss="poisson"), pd.DataFrame(X, columns=list("abcd"))
    with pytest.raises(ValueError, match=words):
        model.fit(frame, y, silos=silos, exposure=spoil(exposure))
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("loss", ["squared_error", "quantile", Huber()])
def test_exposures_need_a_log_link(loss):
    X, y, exposure, silos = rates(n=60)
    with pytest.raises(ValueError, match=r"exposure .* log link"):
        ISRLDPRegressor(loss=loss).fit(X, y, silos=silos, exposure=exposure)
    with pytest.raises(ValueError, match=r"exposure .* log link"):
        make("DPFedAvgClassifier").fit(X, y > 1, silos=silos, exposure=exposure)


def test_amounts_of_zero_are_tweedies_not_gammas():
    X, y, _, silos = rates(Tweedie(), n=60)
    assert not y.all()
    ISRLDPRegressor(INF, loss="tweedie").fit(X, y, silos=silos)
    for loss in ("gamma", Gamma(), Tweedie(power=2)):
        with pytest.raises(ValueError, match="takes targets above 0"):
            ISRLDPRegressor(loss=loss, target_bounds=(0, 9)).fit(X, y, silos=silos)
