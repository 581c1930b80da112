"""The scikit-learn surface: frames, names, routing, clones, pickles, searches."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.estimators.fits import ALL, CLASSIFIERS, data, make

COLUMNS = ["age", "weight", "height"]


def small(name, **kw):
    options = {"n_rounds": 4, "scaling": None, "random_state": 0}
    return make(name, **(options | kw))


def frame_of(X, silos, kind):
    columns = dict(zip(COLUMNS, X.T, strict=True))
    columns = {"age": columns["age"], "hospital": silos, **columns}
    return pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)


# ---- silo_column --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("name", ALL)
def test_a_silo_column_is_the_same_as_silos(name, kind):
    X, y, silos = data(name)
    ids = np.array(["north", "south", "east", "west"])[silos]
    frame = frame_of(X, ids, kind)
    before = frame.clone() if kind == "polars" else frame.copy()
    by_column = small(name, silo_column="hospital").fit(frame, y)
    by_array = small(name).fit(X, y, silos=ids)
    assert np.array_equal(by_column.coef_, by_array.coef_)
    assert by_column.silo_ids_.tolist() == ["east", "north", "south", "west"]
    assert by_column.n_features_in_ == 3
    assert by_column.feature_names_in_.tolist() == COLUMNS
    assert by_column.coef_.shape[-1] == 3
    assert list(by_column.privacy_spent_.per_silo.index) == ["east", "north", "south", "west"]
    without = frame.drop("hospital") if kind == "polars" else frame.drop(columns="hospital")
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(by_column, method):
            with_it, without_it = (
                getattr(by_column, method)(frame),
                getattr(by_column, method)(without),
            )
            assert np.array_equal(with_it, without_it)
    assert by_column.score(frame, y) == by_column.score(without, y)
    assert frame.equals(before)


# ---- routing ------------------------------------------------------------------------------------


def test_a_step_that_loses_the_frame_is_named():
    X, y, silos = data("ISRLDPClassifier")
    pipe = make_pipeline(StandardScaler(), small("ISRLDPClassifier", silo_column="hospital"))
    with pytest.raises(ValueError, match=r"needs a DataFrame, got ndarray.*set_output"):
        pipe.fit(frame_of(X, silos, "pandas"), y)


# ---- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["none", "bounds", "auto"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_probabilities_and_decisions_agree(name, n_classes, scaling):
    X, y, silos = data(name, n_classes=n_classes)
    labels = np.array(["a", "b", "c", "d"])[y]
    options = {"none": {}, "bounds": {"feature_bounds": (-6, 6), "scaling": "auto"}}
    clf = small(name, **options.get(scaling, {"scaling": "auto"})).fit(X, labels, silos=silos)
    raw, proba = clf.decision_function(X), clf.predict_proba(X)
    assert proba.shape == (240, n_classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.log(proba), clf.predict_log_proba(X))
    if n_classes == 2:
        assert raw.shape == (240,)
        np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-raw)), rtol=1e-12)
        assert (clf.predict(X) == clf.classes_[(raw > 0).astype(int)]).all()
    else:
        assert raw.shape == (240, n_classes)
        expected = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(proba, expected, rtol=1e-10)
        assert (clf.predict(X) == clf.classes_[raw.argmax(axis=1)]).all()
    assert (clf.predict(X) == clf.classes_[proba.argmax(axis=1)]).all()
    features = X if clf.scaling_.affine else clf.scaling_.transform(X)
    low, high = (getattr(clf.scaling_, end, None) for end in ("low", "high"))
    features = features if low is None else np.clip(features, low, high)
    by_hand = features @ clf.coef_.T + clf.intercept_
    np.testing.assert_allclose(by_hand.reshape(raw.shape), raw, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_only_the_log_loss_has_probabilities(name, loss):
    X, y, silos = data(name)
    clf = small(name, loss=loss).fit(X, y, silos=silos)
    assert not hasattr(clf, "predict_proba")
    assert not hasattr(clf, "predict_log_proba")
    assert clf.decision_function(X).shape == (240,)
    with pytest.raises(AttributeError, match="predict_proba") as caught:
        clf.predict_proba(X)
    said = f"loss='log_loss' and 'ordinal' only; this is loss={loss!r}"
    assert said in str(caught.value.__cause__)
