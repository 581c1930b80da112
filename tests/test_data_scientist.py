"""A data scientist's day: a raw table, a pipeline, a search, and one epsilon at the end."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

import skdpfl
from skdpfl.federation import LocalFederation, Schema, SiloData
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.privacy.randomness.streams import streams_for

SMOKES, BLOOD = ["no", "quit", "yes"], ["0", "A", "AB", "B"]


def patients(n=1200):
    """Return a raw table: numbers with gaps, strings with gaps, a hospital; and who fell ill."""
    rng = np.random.default_rng(0)
    age, weight = rng.uniform(20, 90, n), rng.normal(75, 12, n)
    smokes = rng.choice(SMOKES, n)
    risk = 0.08 * (age - 55) + 0.03 * (weight - 75) + 2.0 * (smokes == "yes")
    ill = np.where(risk + rng.logistic(size=n) > 0.5, "ill", "well")
    frame = pd.DataFrame(
        {"age": age, "weight": weight, "smokes": smokes, "blood": rng.choice(BLOOD, n)}
    )
    for column in ("age", "weight", "smokes"):
        frame.loc[rng.random(n) < 0.05, column] = np.nan
    return frame.assign(hospital=rng.choice(["north", "south", "west"], n)), ill


FRAME, ILL = patients()
PUBLIC = {"age": (0, 120), "weight": (0, 200)}  # anything else is 0 or 1


def pipeline(scaler="passthrough", **params):
    """Impute constants, encode declared categories, pass the hospital on; then the estimator."""
    gaps = {"strategy": "constant", "keep_empty_features": True}
    words = make_pipeline(
        SimpleImputer(fill_value="no", **gaps),
        OneHotEncoder(categories=[SMOKES, BLOOD], sparse_output=False),
    )
    columns = ColumnTransformer(
        [
            ("age", SimpleImputer(fill_value=55, **gaps), ["age"]),
            ("weight", SimpleImputer(fill_value=75, **gaps), ["weight"]),
            ("words", words, ["smokes", "blood"]),
            ("hospital", "passthrough", ["hospital"]),
        ],
        verbose_feature_names_out=False,
    )
    numbers = ColumnTransformer(
        [("scale", scaler, ["age", "weight"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    params = {"n_rounds": 20, "feature_bounds": bounds(scaler)} | params
    clf = skdpfl.ISRLDPClassifier(silo_column="hospital", **params)
    pipe = Pipeline([("columns", columns), ("numbers", numbers), ("clf", clf)])
    return pipe.set_output(transform="pandas")


def bounds(scaler):
    """Return what is public about the columns that the estimator sees."""
    encoded = [f"smokes_{s}" for s in SMOKES] + [f"blood_{b}" for b in BLOOD]
    numbers = PUBLIC if scaler == "passthrough" else {"age": (-4, 4), "weight": (-4, 4)}
    return numbers | dict.fromkeys(encoded, (0, 1))


def search(pipe, space=None, **params):
    space = {"clf__clip_norm": loguniform(0.3, 3)} if space is None else space
    params = {"n_iter": 3, "epsilon": 6.0, "delta": 1e-5, "random_state": 0} | params
    return DPRandomizedSearchCV(pipe, space, **params)


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
    fitted = search(pipe, space, n_iter=2, epsilon=20.0).fit(X, X[:, 0] > 0)
    assert set(fitted.candidates_["polynomialfeatures__degree"]) == {1, 2}
    assert priced == {3, 9}


NUMBERS = FRAME[["age", "weight"]].fillna(50.0)


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
