"""Bounds by name, labels and tables as data scientists have them: read right, or refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import skdpfl
from skdpfl.federation import LocalFederation, Schema, SiloData
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.privacy.randomness.streams import streams_for

RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame({"age": RNG.uniform(20, 90, 1200), "weight": RNG.normal(75, 12, 1200)})
RISK = 0.08 * (NUMBERS.age - 55) + 0.03 * (NUMBERS.weight - 75) + RNG.logistic(size=1200)
ILL = np.where(RISK > 0.5, "ill", "well")
PUBLIC = {"age": (0, 120), "weight": (0, 200)}


def test_candidates_are_priced_at_the_width_they_have(monkeypatch):
    priced, plan_for = set(), skdpfl.ISRLDPClassifier.plan_for
    monkeypatch.setattr(
        skdpfl.ISRLDPClassifier,
        "plan_for",
        lambda self, **sizes: priced.add(sizes["n_features"]) or plan_for(self, **sizes),
    )
    pipe = make_pipeline(PolynomialFeatures(include_bias=False), skdpfl.ISRLDPClassifier())
    X = np.random.default_rng(0).normal(size=(500, 3))
    space = {"polynomialfeatures__degree": [1, 2]}
    search = DPRandomizedSearchCV(pipe, space, n_iter=2, epsilon=20.0, delta=1e-5, random_state=0)
    fitted = search.fit(X, X[:, 0] > 0)
    assert set(fitted.candidates_["polynomialfeatures__degree"]) == {1, 2}
    assert priced == {3, 9}


@pytest.mark.parametrize("turned", [True, False])
def test_bounds_by_name_are_not_read_by_position(turned):
    """An array has no names: whether its columns are in the mapping's order nobody knows."""
    bounds = dict(reversed(PUBLIC.items())) if turned else PUBLIC
    clf = skdpfl.ISRLDPClassifier(feature_bounds=bounds, n_rounds=5, random_state=0)
    with pytest.raises(ValueError, match="feature_bounds has column names"):
        clf.fit(NUMBERS.to_numpy(), ILL)
    by_number = {0: PUBLIC["age"], 1: PUBLIC["weight"]}
    same = clone(clf).set_params(feature_bounds=by_number).fit(NUMBERS.to_numpy(), ILL)
    assert np.array_equal(clf.fit(NUMBERS, ILL).coef_, same.coef_)


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (NUMBERS, pd.Series([1, "a"] * 600), r"labels of type int and str.*astype\(str\)"),
        (NUMBERS, pd.Series([True, False] * 600, dtype=object), r"type bool.*astype\(bool\)"),
        (NUMBERS.astype(pd.SparseDtype(float)), ILL, r"sparse.*X\.sparse\.to_dense\(\)"),
    ],
)
def test_what_a_classifier_cannot_read_comes_with_the_way_out(X, y, match):
    with pytest.raises((TypeError, ValueError), match=match):
        skdpfl.ISRLDPClassifier(n_rounds=5, scaling=None).fit(X, y)


def test_words_for_weights_and_dates_for_targets():
    dates = pd.to_datetime(NUMBERS["age"], unit="D")
    with pytest.raises(ValueError, match="y holds dates"):
        skdpfl.ISRLDPRegressor(n_rounds=5, scaling=None).fit(NUMBERS, dates)
    with pytest.raises(ValueError, match="one number for each of the 1200 rows"):
        skdpfl.ISRLDPClassifier(n_rounds=5).fit(NUMBERS, ILL, sample_weight="balanced")


@pytest.mark.parametrize(
    "frame",
    [NUMBERS.describe(), pd.DataFrame([(0, 120), (0, 200)]), pd.DataFrame([(0, 0), (120, 200)])],
)
def test_a_frame_is_no_pair_of_bounds(frame):
    """Unpacked, one with two columns gives their names: the bounds 0 and 1."""
    with pytest.raises(ValueError, match=r'got a DataFrame.*frame\.loc\["min"\].*would leak'):
        skdpfl.ISRLDPClassifier(feature_bounds=frame, n_rounds=5).fit(NUMBERS, ILL)
    regressor = skdpfl.ISRLDPRegressor(target_bounds=frame, n_rounds=5)
    with pytest.raises(ValueError, match="got a DataFrame"):
        regressor.fit(NUMBERS, NUMBERS["age"])


def test_bounds_by_name_need_names_of_silos_elsewhere():
    data = SiloData(NUMBERS.to_numpy(), (ILL == "ill").astype(int), np.array([0, 600, 1200]))
    sizes = {"north": 600, "south": 600}
    clf = skdpfl.ISRLDPClassifier(
        feature_bounds=dict(reversed(PUBLIC.items())), classes=[0, 1], n_rounds=5, random_state=0
    )

    def fitted(names):
        facts = Schema(sizes, 2, feature_names=names)
        return clf.fit_federation(LocalFederation(data, streams_for(0)), facts)

    ids = np.repeat(list(sizes), 600)
    here = clone(clf).fit(NUMBERS, (ILL == "ill").astype(int), silos=ids)
    assert np.array_equal(fitted(["age", "weight"]).coef_, here.coef_)
    with pytest.raises(ValueError, match="feature_bounds has column names"):
        fitted(None)
    clf.set_params(feature_bounds=(0, 200))
    assert not hasattr(fitted(None), "feature_names_in_")
    plan = skdpfl.ISRLDPClassifier(feature_bounds=PUBLIC).plan_for(silo_sizes=sizes, n_features=2)
    assert plan.spent().epsilon <= 1.0
