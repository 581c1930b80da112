"""clip_features: features and predictions within given bounds, or features in found ranges."""

import numpy as np
import pytest

from tests.estimators.fits import ALL, CLASSIFIERS, REGRESSORS, data, make

LIMITS = np.array([-1.0, -2.0, -0.5]), np.array([1.5, 2.0, 0.5])
COMMON = {"epsilon": 5.0, "n_rounds": 4, "random_state": 0, "feature_bounds": LIMITS}


def predictions(model, X):
    return model.predict(X) if hasattr(model, "target_bounds") else model.decision_function(X)


@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize("name", ALL)
def test_it_is_the_same_as_clipping_beforehand(name, scaling):
    X, y, silos = data(name)
    assert (LIMITS[1] < X).any()
    cut = np.clip(X, *LIMITS)
    kw = COMMON | {"scaling": scaling}
    clips = make(name, clip_features=True, **kw).fit(X, y, silos=silos)
    beforehand = make(name, **kw).fit(cut, y, silos=silos)
    as_is = make(name, **kw).fit(X, y, silos=silos)
    if scaling is None:  # scales that are found may differ: the second look is not in the bounds
        assert np.array_equal(clips.coef_, beforehand.coef_)
    assert not np.array_equal(clips.coef_, as_is.coef_)
    found = predictions(clips, X)
    assert np.array_equal(found, predictions(clips, cut))
    np.testing.assert_allclose(found, (cut @ np.atleast_2d(clips.coef_).T)[:, 0] + clips.intercept_)


@pytest.mark.parametrize("name", REGRESSORS)
def test_predictions_of_regressors_are_within_the_bounds_of_the_target(name):
    X, y, silos = data(name)
    kw = COMMON | {"target_bounds": (-0.1, 0.1)}
    clips = make(name, clip_features=True, **kw).fit(X, y, silos=silos)
    assert (abs(clips.predict(X)) <= 0.1).all()
    assert abs(make(name, **kw).fit(X, y, silos=silos).predict(X)).max() > 0.1


def heavy(n=4000, d=6, seed=0):
    """Records with features over many powers of ten, and labels that depend on their logarithms."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    X = np.exp(2.5 * Z) * 10.0 ** np.arange(-2, d - 2)
    return X, (Z.sum(axis=1) + rng.normal(size=n) > 0).astype(int), np.arange(n) % 4


def test_auto_clips_at_four_scales_but_not_without_privacy_or_scaling():
    X, y, silos = heavy()
    kw = {"epsilon": 3.0, "random_state": 0, "n_rounds": 5}

    def fitted(**params):
        return make("ISRLDPClassifier", **kw | params).fit(X, y, silos=silos)

    with pytest.warns(UserWarning, match="and are clipped at four scales"):
        auto = fitted()
    asked = fitted(clip_features=True)
    assert np.array_equal(auto.coef_, asked.coef_)
    inside = np.clip(X, auto.scaling_.low, auto.scaling_.high)
    np.testing.assert_allclose(
        auto.decision_function(X), (inside @ auto.coef_.T)[:, 0] + auto.intercept_, rtol=1e-9
    )
    bounded = fitted(feature_bounds=(0.0, 1e6)).scaling_
    np.testing.assert_allclose(bounded.high, bounded.center + 4 * bounded.scale)
    to_bounds = fitted(feature_bounds=(0.0, 1e6), clip_features=True)
    assert (to_bounds.scaling_.low == 0).all() and (to_bounds.scaling_.high == 1e6).all()
    for params in ({"epsilon": np.inf}, {"scaling": None}):
        free = fitted(**params)
        assert np.array_equal(free.coef_, fitted(clip_features=False, **params).coef_)
    assert make("ISRLDPClassifier", scaling=None).clip_features == "auto"  # and fits: see others
    with pytest.raises(ValueError, match='clip_features must be "auto", True or False'):
        fitted(clip_features="yes")


@pytest.mark.parametrize("d", [4, 60])
def test_indicators_too_rare_for_the_noise_are_warned_of_unless_others_are_not(d):
    rng = np.random.default_rng(0)
    X, silos = (rng.random((4000, d)) < 0.01).astype(float), np.arange(4000) % 4
    fit = make("DPFedAvgClassifier", epsilon=4.0, random_state=0, n_rounds=3).fit
    with pytest.warns(UserWarning, match="all features are 0 in nearly all records"):
        lost = fit(X, X[:, 0] > 0, silos=silos)
    assert np.median(lost.scaling_.scale) > 2  # where 1 would be right
    X[:, 0] = rng.random(4000) < 0.3
    fit(X, X[:, 0] > 0, silos=silos)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_limits_are_needed(name):
    X, y, silos = data(name)
    with pytest.raises(ValueError, match="give feature_bounds"):
        make(name, clip_features=True, scaling=None).fit(X, y, silos=silos)
    with pytest.raises(ValueError, match='clip_features must be "auto", True'):
        make(name, clip_features="yes").fit(X, y, silos=silos)
