"""clip_features=True: features within feature_bounds, in fit and predict, and predictions, too."""

import numpy as np
import pytest

from skdpfl.models import MLP
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


def test_a_typing_error_has_no_large_effect():
    X, y, silos = data("DPScaffoldClassifier")
    model = make("DPScaffoldClassifier", clip_features=True, **COMMON).fit(X, y, silos=silos)
    typed, most = X.copy(), X.copy()
    typed[:, 0], most[:, 0] = 999.0, LIMITS[1][0]
    assert np.array_equal(model.predict_proba(typed), model.predict_proba(most))


@pytest.mark.parametrize("name", REGRESSORS)
def test_predictions_of_regressors_are_within_the_bounds_of_the_target(name):
    X, y, silos = data(name)
    kw = COMMON | {"target_bounds": (-0.1, 0.1)}
    clips = make(name, clip_features=True, **kw).fit(X, y, silos=silos)
    assert (abs(clips.predict(X)) <= 0.1).all()
    assert abs(make(name, **kw).fit(X, y, silos=silos).predict(X)).max() > 0.1


def test_networks_and_single_precision():
    X, y, silos = data("DPFedAvgClassifier", dtype=np.float32)
    model = make("DPFedAvgClassifier", clip_features=True, model=MLP((3,)), **COMMON)
    model.fit(X, y, silos=silos)
    cut = np.clip(X, *(limit.astype(np.float32) for limit in LIMITS))
    assert np.array_equal(model.decision_function(X), model.decision_function(cut))
    assert model.decision_function(X).dtype == np.float32


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_bounds_are_needed(name):
    X, y, silos = data(name)
    with pytest.raises(ValueError, match="give feature_bounds"):
        make(name, clip_features=True).fit(X, y, silos=silos)
    with pytest.raises(ValueError, match="clip_features must be True or False; got 'yes'"):
        make(name, clip_features="yes").fit(X, y, silos=silos)
