"""What predicts at once in private pictures."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl import ISRLDPClassifier
from skdpfl.inspection import private_score
from skdpfl.model_selection import held_out, scoring

X = np.random.default_rng(0).uniform(-1, 1, (60, 3))


@pytest.mark.parametrize("unit", ["silo", "person"])
def test_no_bits_of_others_follow_from_a_units_secret_number_of_rows(unit, monkeypatch):
    """Products of matrices round a row by its place in the table."""
    rng, seen = np.random.default_rng(0), []
    X, of = rng.normal(size=(60, 30)), np.repeat(np.arange(4), 15)
    model = LinearRegression().fit(X, X @ rng.normal(size=30))
    made = held_out.predictions

    def predictions(*args, **options):
        seen.append(made(*args, **options))
        return seen[-1]

    monkeypatch.setattr(held_out, "predictions", predictions)
    for lost in range(8):  # rows of the first
        given = {"silos": of[lost:]} if unit == "silo" else {"persons": of[lost:]}
        private_score(
            model, X[lost:], np.zeros(60 - lost), scoring="r2", epsilon=1.0, unit=unit,
            target_bounds=(-9, 9), random_state=0, **given,
        )  # fmt: skip
    assert all(np.array_equal(each[-45:], seen[0][-45:]) for each in seen)


@pytest.mark.parametrize("classes", [[0, 1], [1, 0], ["no", "yes"], ["yes", "no"]])
@pytest.mark.parametrize("odd", [None, float("nan"), [1], {}, np.array([1, 2]), b"yes"])
def test_a_label_that_is_none_changes_no_other(classes, odd):
    """Also where a model of another library has its labels in an order of its own."""
    labels = np.empty(4, dtype=object)
    labels[:] = [classes[0], classes[1], classes[0], classes[1]]
    assert scoring.codes_of(labels, np.array(classes)).tolist() == [0, 1, 0, 1]
    assert scoring.codes_of(np.array(classes * 2), np.array(classes)).tolist() == [0, 1, 0, 1]
    labels[3] = odd
    assert scoring.codes_of(labels, np.array(classes)).tolist() == [0, 1, 0, -1]


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame])
def test_the_time_of_gaps_does_not_follow_from_their_number(form, monkeypatch):
    """A model that refuses them is asked about made-up rows; a few other rows by halving."""
    rng = np.random.default_rng(0)
    X, units = rng.normal(size=(600, 3)), np.arange(600) // 200
    clf = ISRLDPClassifier(1.0, feature_bounds=(-3, 3), n_rounds=2)
    clf.fit(form(X), X[:, 0] > 0)
    calls = []
    read = scoring._predictions
    monkeypatch.setattr(scoring, "_predictions", lambda *a: calls.append(1) or read(*a))
    counts = []
    for gaps in (1, 400):
        Z = X.copy()
        Z[:gaps, 1] = np.nan
        Z[gaps, 0] = np.inf
        calls.clear()
        found = scoring.predictions(clf, form(Z), "scores", clf.classes_, units=units)
        counts.append(len(calls))
        sound = np.isfinite(Z).all(axis=1)
        assert np.array_equal(np.isnan(found[:, 0]), ~sound)
        assert found[sound, 0] == pytest.approx(clf.decision_function(form(X))[sound])
    assert max(counts) < 1.5 * min(counts) < 60


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_a_row_that_is_refused_changes_no_other(value):
    """What a made-up row decides holds also where all rows can be read; -inf is no inf."""
    X = np.random.default_rng(0).normal(size=(600, 2))
    grows = FunctionTransformer(np.exp)  # 0 of -inf
    clf = make_pipeline(grows, LogisticRegression()).fit(X, X[:, 0] > 0)
    X[:300, 0] = value
    refused = X.copy()
    refused[-1] = np.nan
    before, after = (scoring.predictions(clf, Z, "scores", clf.classes_) for Z in (X, refused))
    assert np.array_equal(before[:-1], after[:-1], equal_nan=True)
    assert np.isnan(after[-1]) and np.isnan(before[:300]).all() == (value > 0)
