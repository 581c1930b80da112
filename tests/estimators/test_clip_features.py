"""clip_features: features and predictions within given bounds, or features in found ranges."""

import numpy as np
import pytest

from skdpfl import DPFedAvgRegressor, DPFedEXPRegressor, ISRLDPRegressor
from skdpfl.privacy.mechanisms import NoPrivacy
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
        flags = fit(X, X[:, 0] > 0, silos=silos)
    assert np.median(flags.scaling_.scale) == pytest.approx(X.std(), rel=0.5)
    X[:, 0] = rng.random(4000) < 0.3
    fit(X, X[:, 0] > 0, silos=silos)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_limits_are_needed(name):
    X, y, silos = data(name)
    with pytest.raises(ValueError, match="give feature_bounds"):
        make(name, clip_features=True, scaling=None).fit(X, y, silos=silos)
    with pytest.raises(ValueError, match='clip_features must be "auto", True'):
        make(name, clip_features="yes").fit(X, y, silos=silos)


# ---- A given clip norm clips where nothing is hidden, too; "auto" does not -----------------------

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X @ np.array([1.0, -2.0, 0.5])
SILOS = np.repeat([0, 1, 2, 3], 10)
CLIP = 0.6
WILD = Y.copy()
WILD[7] = 1e9
PLAIN = {
    "epsilon": np.inf, "scaling": None, "fit_intercept": False, "average": False,
    "n_rounds": 1, "learning_rate": 1.0, "random_state": 0,
}  # fmt: skip


def clipped(rows, norm=CLIP):
    return rows * np.minimum(1, norm / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_records_gradients_are_clipped(trust, n_jobs):
    model = ISRLDPRegressor(**PLAIN, clip_norm=CLIP, trust=trust, n_jobs=n_jobs)
    model.fit(X, WILD, silos=SILOS)
    # at 0 a record's gradient is -x y
    np.testing.assert_allclose(model.coef_, clipped(X * WILD[:, None]).mean(axis=0), rtol=1e-9)
    assert model.clip_norm_ == model.plan_.clip_norm == CLIP
    assert isinstance(model.plan_.mechanism, NoPrivacy)
    assert model.privacy_spent_.epsilon == np.inf
    again = model.set_params(random_state=1).fit(X, WILD, silos=SILOS)
    assert np.array_equal(again.coef_, model.coef_)  # no noise


@pytest.mark.parametrize("cls", [DPFedAvgRegressor, DPFedEXPRegressor])
def test_whole_silos_messages_are_clipped_and_not_their_records(cls):
    unit = {"unit": "silo"} if cls is DPFedAvgRegressor else {}
    options = PLAIN | unit | {"local_steps": 1, "silo_weights": "uniform"}
    model = cls(**options, clip_norm=CLIP).fit(X, WILD, silos=SILOS)
    messages = (X * WILD[:, None]).reshape(4, 10, 3).mean(axis=1)
    mean = clipped(messages).mean(axis=0)
    assert (np.linalg.norm(messages, axis=1) > CLIP).any()
    if cls is DPFedEXPRegressor:
        squares = np.square(clipped(messages)).sum(axis=1).mean()
        step = max(1.0, squares / (mean @ mean))
        np.testing.assert_allclose(model.global_step_sizes_, [step], rtol=1e-9)
        mean = mean * step
    np.testing.assert_allclose(model.coef_, mean, rtol=1e-9)
    assert model.clip_norm_ == model.plan_.clip_norm == CLIP
    free = cls(**options).fit(X, Y, silos=SILOS)
    assert free.clip_norm_ == free.plan_.clip_norm == np.inf
