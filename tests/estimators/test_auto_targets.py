"""Targets that do not fit what is known of them: said in words, and no further off than need be."""

import warnings

import numpy as np
import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.losses import Quantile

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 4))
TARGET = X @ [1.0, -1, 0.5, 0] + 0.3 * RNG.normal(size=800)
SILOS = np.arange(800) % 4


def fitted(y, **kw):
    common = {"epsilon": 3, "delta": 1e-5, "random_state": 0, "feature_bounds": (-4, 4)}
    model = ISRLDPRegressor(**common | kw)
    return model.fit(X, y, silos=SILOS)


@pytest.mark.parametrize(
    ("y", "given"),
    [
        (TARGET + 1e6, {}),
        (TARGET * 1e-9, {}),
        (TARGET, {"target_bounds": (-5000, 5000)}),
        (TARGET, {"target_bounds": (100, 200)}),
    ],
    ids=["large offset", "tiny", "wide bounds", "wrong bounds"],
)
def test_a_scale_that_was_not_found_is_said(y, given):
    with pytest.warns(UserWarning, match="target_bounds"):
        assert np.isfinite(fitted(y, **given).coef_).all()


@pytest.mark.parametrize(
    ("y", "given"),
    [
        (TARGET, {}),
        (np.round(1e6 + 100 * TARGET), {"target_bounds": (999_400, 1_000_600)}),
        (TARGET * 1e12, {}),
        (TARGET, {"target_bounds": (-10, 10)}),
        (50 + 10.7 / TARGET.std() * TARGET, {"target_bounds": (0, 100)}),
    ],
    ids=["found", "large offset, bounds", "huge", "fairly wide bounds", "deviation 10.7"],
)
def test_a_scale_that_was_found_is_not(y, given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted(y, **given).score(X, y) > 0.5


@pytest.mark.parametrize("q", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("skewed", [False, True])
def test_quantiles_cover_what_they_should(q, skewed):
    """Without noise, on the records themselves; the binomial deviation is below 0.01."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(3000, 4))
    rest = 2 * rng.exponential(size=3000) if skewed else rng.normal(size=3000)
    y = features @ [2.0, -1, 0.5, 0] + rest
    known = {"feature_bounds": (-5, 5), "target_bounds": (-10, 25), "random_state": 0}
    model = ISRLDPRegressor(np.inf, loss=Quantile(q), **known)
    model.fit(features, y, silos=np.arange(3000) % 4)
    assert abs((y <= model.predict(features)).mean() - q) < 0.02


def test_skewed_errors_of_a_scale_that_depends_on_a_feature_move_its_coefficient():
    """As the page of "auto" says; without privacy they do not."""
    off = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2000, 5)).clip(-4, 4)
        errors = (rng.exponential(size=2000) - 1) * np.exp(rows[:, 0] / 2)
        y = rows @ [1.0, -1.0, 0.5, 0.0, 0.0] + errors
        given = {"feature_bounds": (-4, 4), "target_bounds": (-8, 20), "trust": "secagg"}
        for epsilon in (1.0, np.inf):
            model = ISRLDPRegressor(epsilon, model="linear", random_state=seed, **given)
            off.append(model.fit(rows, y, silos=np.arange(2000) % 4).coef_[0] - 1)
    private, exact = np.mean(np.reshape(off, (-1, 2)), axis=0)
    assert private == pytest.approx(-0.13, abs=0.04)
    assert abs(exact) < 0.03
