"""Scores of each silo and what is made of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, mean_squared_error, r2_score
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl.model_selection import (
    SiloStratifiedKFold,
    make_silo_scorer,
    silo_scores,
)

RNG = np.random.default_rng(0)
N = 240
SILOS = RNG.choice(["a", "b", "c"], size=N)
X = RNG.standard_normal((N, 3))
# the model is right in silos a and b, and upside down in a part of c
FLIPPED = (SILOS == "c") & (RNG.random(N) < 0.4)
Y = (X[:, 0] > 0) ^ FLIPPED
MODEL = LogisticRegression().fit(X, Y)
EXPECTED = pd.Series(
    {s: accuracy_score(Y[s == SILOS], MODEL.predict(X[s == SILOS])) for s in "abc"}, name="score"
)


class WithColumn(LogisticRegression):
    """A classifier that takes its silo column out of a frame, as those of skdpfl do."""

    def __init__(self, silo_column=None):
        super().__init__()
        self.silo_column = silo_column

    def fit(self, X, y):
        return super().fit(X.drop(columns=self.silo_column), y)

    def predict(self, X):
        return super().predict(X.drop(columns=self.silo_column, errors="ignore"))


def frame(index=None):
    return pd.DataFrame(X, columns=["u", "v", "w"], index=index).assign(hospital=SILOS)


@pytest.mark.parametrize("scoring", [None, "accuracy"])
@pytest.mark.parametrize(
    ("features", "silos"),
    [
        (X, SILOS),
        (X.tolist(), list(SILOS)),
        (X, pd.Series(SILOS, dtype="category").cat.add_categories(["z"])),
    ],
)
def test_scores_of_each_silo(features, silos, scoring):
    scores = silo_scores(MODEL, features, Y, silos=silos, scoring=scoring)
    assert list(scores.index) == ["a", "b", "c"]
    pd.testing.assert_series_equal(scores, EXPECTED)
    assert scores.idxmin() == "c"


def test_any_scoring():
    y = X @ [1.0, 2, 3] + (SILOS == "b")
    model = Ridge().fit(X, y)
    got = silo_scores(model, X, y, silos=SILOS, scoring="neg_mean_squared_error")
    got_r2 = silo_scores(model, X, y, silos=SILOS)
    for silo in "abc":
        rows = silo == SILOS
        assert got[silo] == pytest.approx(-mean_squared_error(y[rows], model.predict(X[rows])))
        assert got_r2[silo] == pytest.approx(r2_score(y[rows], model.predict(X[rows])))
    constant = silo_scores(model, X, y, silos=SILOS, scoring=lambda estimator, X, y: len(y))
    assert constant.to_dict() == pd.Series(SILOS).value_counts().to_dict()


@pytest.mark.parametrize("explicit", [True, False])
def test_silo_column(explicit):
    model = WithColumn("hospital").fit(frame(), Y)
    column = {"silo_column": "hospital"} if explicit else {}
    expected = {s: accuracy_score(Y[s == SILOS], model.predict(frame()[s == SILOS])) for s in "abc"}
    assert silo_scores(model, frame(), Y, **column).to_dict() == expected
    piped = make_pipeline(FunctionTransformer(), model)
    assert silo_scores(piped, frame(), Y, **column).to_dict() == expected
    shuffled = frame(index=np.arange(N)[::-1])
    assert silo_scores(model, shuffled, Y, **column).to_dict() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "need silos=.* silo_column="),
        ({"silos": "hospital"}, "the string 'hospital'"),
        ({"silos": SILOS[1:]}, "one id per row"),
        ({"silo_column": "hospital"}, "needs a DataFrame"),
    ],
)
def test_bad_silos(options, message):
    with pytest.raises(ValueError, match=message):
        silo_scores(MODEL, X, Y, **options)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("min", EXPECTED.min()),
        ("mean", EXPECTED.mean()),
        (np.median, EXPECTED.median()),
        (lambda s: s.max() - s.min(), np.ptp(EXPECTED)),
    ],
)
def test_aggregates(aggregate, expected):
    scorer = make_silo_scorer("accuracy", aggregate=aggregate)
    score = scorer(MODEL, X, Y, silos=SILOS)
    assert isinstance(score, float)
    assert score == pytest.approx(expected)
    assert repr(scorer).startswith("SiloScorer('accuracy', aggregate=")


def test_an_undefined_score_is_not_hidden():
    def scoring(estimator, X, y):
        return np.nan if len(y) == 1 else 1.0

    silos = np.where(np.arange(N) == 0, "lonely", SILOS)
    assert np.isnan(make_silo_scorer(scoring)(MODEL, X, Y, silos=silos))


def test_each_silo_becomes_a_column_of_cross_validate():
    with config_context(enable_metadata_routing=True):
        out = cross_validate(
            LogisticRegression(),
            X,
            Y,
            cv=SiloStratifiedKFold(3),
            scoring=make_silo_scorer("accuracy", aggregate="each"),
            params={"silos": SILOS},
        )
    assert {f"test_silo_{s}" for s in "abc"} <= set(out)
    assert out["test_silo_c"].mean() < out["test_silo_a"].mean()


def test_without_routing_and_column_the_error_says_what_to_do():
    with pytest.raises(ValueError, match=r"need silos=\.\.\."):
        cross_validate(
            LogisticRegression(), X, Y, scoring=make_silo_scorer("accuracy"), error_score="raise"
        )


@pytest.mark.parametrize("aggregate", ["max", None, 3])
def test_bad_aggregate(aggregate):
    with pytest.raises(ValueError, match=r"aggregate must be .*got"):
        make_silo_scorer(aggregate=aggregate)
