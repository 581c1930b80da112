"""A silo's own part: better where silos differ, free, and never given away."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils import estimator_html_repr

import skdpfl
from skdpfl import ISRLDPClassifier, ISRLDPRegressor, SiloAdapted
from skdpfl.inspection import PrivacyUtilityDisplay
from skdpfl.model_selection import DPRandomizedSearchCV

REGRESSOR = ISRLDPRegressor(
    3.0, feature_bounds=(-4, 4), target_bounds=(-6, 6), n_rounds=20, random_state=0
)
CLASSIFIER = ISRLDPClassifier(3.0, feature_bounds=(-4, 4), n_rounds=20, random_state=0)


def schools(n_silos=30, size=40, level=1.0, seed=0):
    """Records of silos that differ by a level each."""
    rng = np.random.default_rng(seed)
    silos = np.repeat(np.arange(n_silos), size)
    X = rng.normal(size=(len(silos), 3))
    levels = rng.normal(scale=level, size=n_silos)
    return X, X @ [0.5, -0.3, 0.2] + levels[silos] + rng.normal(scale=0.8, size=len(silos)), silos


@pytest.mark.slow
@pytest.mark.parametrize(("head", "n_classes"), [("trees", 3), ("intercept", 2), ("ridge", 3)])
def test_classes_have_own_parts_too(head, n_classes):
    X, raw, silos = schools(3, 250, level=2.0)
    y = np.array(["a", "b", "c"])[np.digitize(raw, [0.0] if n_classes == 2 else [-0.7, 0.7])]
    model = SiloAdapted(clone(CLASSIFIER), head).fit(X, y, silos=silos)
    assert model.score(X, y, silos=silos) > model.score(X, y) + 0.05
    proba = model.predict_proba(X, silos=silos)
    assert np.allclose(proba.sum(axis=1), 1)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(X, silos=silos)).all()
    raw = model.decision_function(X, silos=silos)
    assert raw.shape == ((len(y),) if n_classes == 2 else (len(y), 3))


def test_trees_are_for_what_bends_and_none_where_nothing_is_left():
    """Their number is chosen by the silo's cross-validation, 0 included, at most 80."""
    rng, n = np.random.default_rng(0), 1200
    X, silos = rng.uniform(-1, 1, (n, 3)), np.arange(n) // 600
    bends = np.where(silos == 0, np.sign(X[:, 0] * X[:, 1]), 0.0)
    y = X[:, 2] + bends + rng.normal(size=n) / 5
    model = SiloAdapted(clone(REGRESSOR)).fit(X, y, silos=silos)
    first, second = (len(model.silo_heads_[silo].rounds) for silo in (0, 1))
    assert 20 <= first <= 80
    assert second < 20
    here = silos == 0
    joint, own = (model.predict(X[here], **who) for who in ({}, {"silos": silos[here]}))
    assert np.mean((own - y[here]) ** 2) < np.mean((joint - y[here]) ** 2) / 3
    nothing = model.fit_heads(X, rng.normal(size=n) + model.estimator_.predict(X))
    assert [len(part.rounds) for part in nothing.silo_heads_.values()] == [0]


@pytest.mark.parametrize("bend", [0.0, 2.0])
def test_trees_lose_nothing_on_lines_of_silos_and_find_what_bends(bend):
    rng = np.random.default_rng(1)
    X, silos = np.clip(rng.normal(size=(2800, 4)), -4, 4), np.arange(2800) % 2
    effects = rng.normal(size=(2, 4))
    y = (X * effects[silos]).sum(axis=1) + bend * (np.abs(X[:, 0]) - 0.8)
    y += rng.normal(scale=0.7, size=len(y))
    joint = clone(REGRESSOR).fit(X[:800], y[:800], silos=silos[:800])
    scores = []
    for head in ("ridge", "trees"):
        model = SiloAdapted(joint, head).fit_heads(X[:800], y[:800], silos=silos[:800])
        scores.append(model.score(X[800:], y[800:], silos=silos[800:]))
    ridge, trees = scores
    assert trees > (ridge + 0.03 if bend else ridge - 0.005)


@pytest.mark.parametrize("value", [0.1, 1e15 / 3, 1e300])
def test_columns_of_one_value_and_huge_values_move_no_prediction_far(value):
    X, y, silos = schools(1, 250)
    X = np.column_stack([X, np.arange(len(X)) % 2])
    joint = clone(REGRESSOR).set_params(feature_bounds=(-4, 4)).fit(X, y)
    X[:, 3] = value
    X[1:, 3] = 0.0 if value == 1e300 else value
    elsewhere = X.copy()
    elsewhere[:, 3] /= 2
    for head in ("ridge", "trees"):
        model = SiloAdapted(joint, head).fit_heads(X, y)
        assert np.abs(model.predict(elsewhere, silos=silos) - joint.predict(elsewhere)).max() < 8


@pytest.mark.parametrize("head", ["ridge", "trees"])
def test_gaps_do_not_change_the_columns_of_an_own_part(head):
    """One turns a column of True and False into objects, which are no numbers by their type."""
    X, y, silos = schools(2, 250)
    frame = pd.DataFrame(X, columns=list("abc")).assign(flag=np.arange(500) % 3 == 0)
    bounds = dict.fromkeys("abc", (-4, 4)) | {"flag": "flag"}
    joint = clone(REGRESSOR).set_params(feature_bounds=bounds)
    model = SiloAdapted(joint, head).fit(frame, y + frame.flag, silos=silos)
    expected = model.predict(frame, silos=silos)
    np.testing.assert_array_equal(model.predict(frame.astype(object), silos=silos), expected)
    gap = frame.astype({"flag": object})
    gap.iloc[7, 3] = None
    found = model.predict(gap, silos=silos)
    assert set(np.flatnonzero(found != expected)) <= {7}
    joint.set_params(feature_bounds={"a": (-4, 4), "kind": ["u", "v"]})
    words, ends = frame[["a"]].assign(kind="u"), []
    model = SiloAdapted(joint, head).fit(words, y, silos=silos)
    for end in (np.nan, np.inf, -np.inf):
        words.loc[7, "a"] = end
        ends.append(model.fit_heads(words, y, silos=silos).predict(words, silos=silos))
    assert (ends[0] == ends[1]).all() and (ends[1] == ends[2]).all()


@pytest.mark.parametrize("head", ["intercept", "ridge", "trees"])
def test_a_target_that_overflows_leaves_its_silo_the_joint_model(head):
    X, y, silos = schools(2, 250)
    joint = clone(REGRESSOR).fit(X, y, silos=silos)
    y[silos == 0] = np.where(np.arange(250) % 2, 1.7e308, -1.7e308)
    model, first = SiloAdapted(joint, head).fit_heads(X, y, silos=silos), silos == 0
    own, plain = model.predict(X, silos=silos), joint.predict(X)
    np.testing.assert_array_equal(own[first], plain[first])
    assert np.isfinite(own).all() and (own != plain)[~first].any()


def test_no_head_small_silos_and_unknown_silos_get_the_joint_model():
    X, y, silos = schools(4, 30)
    silos[:5] = 99  # too few records for an own part
    model = SiloAdapted(clone(REGRESSOR)).fit(X, y, silos=silos)
    joint = model.estimator_.predict(X)
    assert (model.predict(X) == joint).all()
    assert (model.predict(X, silos=np.full(len(X), 99)) == joint).all()
    assert (model.predict(X, silos=np.full(len(X), "elsewhere")) == joint).all()
    none = SiloAdapted(clone(REGRESSOR), None).fit(X, y, silos=silos)
    assert (none.predict(X, silos=silos) == joint).all()


def test_two_hundred_records_have_trees_fewer_an_intercept():
    X, y, _ = schools(1, 399)
    silos = np.arange(399) >= 200
    parts = SiloAdapted(clone(REGRESSOR)).fit(X, y, silos=silos).silo_heads_
    assert hasattr(parts[False], "rounds")
    assert parts[True].weights.shape == (1, 1)


def test_it_costs_what_the_joint_model_costs():
    X, y, silos = schools(4, 50)
    model = SiloAdapted(clone(REGRESSOR)).fit(X, y, silos=silos)
    assert model.privacy_spent_.epsilon == model.estimator_.privacy_spent_.epsilon
    assert skdpfl.privacy_spent(model).epsilon == model.privacy_spent_.epsilon
    alone = clone(REGRESSOR).fit(X, y, silos=silos)
    assert (model.estimator_.coef_ == alone.coef_).all()


def test_own_parts_are_in_no_pickle_and_no_repr():
    X, y, silos = schools(4, 50)
    model = SiloAdapted(clone(REGRESSOR)).fit(X, y, silos=silos)
    value = float(model.silo_heads_[0].weights[0, 0])
    for text in (repr(model), estimator_html_repr(model), repr(model.silo_heads_)):
        assert f"{value:.4g}"[1:6] not in text
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(model.silo_heads_)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert not hasattr(other, "silo_heads_")
        assert (other.predict(X) == model.predict(X)).all()
        with pytest.warns(UserWarning, match="a pickle leaves out the silos' own parts"):
            assert (other.predict(X, silos=silos) == model.predict(X)).all()


def test_a_silo_fits_its_own_part_by_itself():
    X, y, silos = schools(4, 50)
    whole = SiloAdapted(clone(REGRESSOR)).fit(X, y, silos=silos)
    here = silos == 2
    own = SiloAdapted(whole.estimator_).fit_heads(X[here], y[here])
    assert own.estimator_ is whole.estimator_
    expected = whole.predict(X[here], silos=silos[here])
    assert (own.predict(X[here], silos=np.zeros(50)) == expected).all()


def test_silos_may_be_a_column_and_the_joint_model_a_pipeline():
    X, y, silos = schools(4, 50)
    frame = pd.DataFrame(X, columns=list("abc")).assign(school=[f"s{i}" for i in silos])
    columns = clone(REGRESSOR).set_params(silo_column="school")
    model = SiloAdapted(columns, "ridge").fit(frame, y)
    assert sorted(model.silo_heads_) == ["s0", "s1", "s2", "s3"]
    assert model.score(frame, y) > model.score(frame.drop(columns="school"), y)
    steps = make_pipeline(Normalizer(), clone(REGRESSOR))
    piped = SiloAdapted(steps).fit(X, y, silos=silos)
    assert piped.privacy_spent_.epsilon == pytest.approx(3.0, rel=0.01)


def test_what_would_let_own_parts_out_refuses_them():
    X, y, silos = schools(4, 50)
    adapted = SiloAdapted(clone(REGRESSOR))
    with pytest.raises(ValueError, match="may not leave the silo"):
        DPRandomizedSearchCV(adapted, {"head": ["ridge"]}, epsilon=1.0).fit(X, y, silos=silos)
    with pytest.raises(ValueError, match="may not leave the silo"):
        PrivacyUtilityDisplay.from_estimator(adapted, X, y, silos=silos, cv=2)
    with pytest.raises(ValueError, match="may not leave the silo"):
        SiloAdapted(adapted).fit(X, y, silos=silos)
    with pytest.raises(ValueError, match="head must be"):
        SiloAdapted(clone(REGRESSOR), "both").fit(X, y, silos=silos)
