"""loss="ordinal": one slope, an intercept for each cut, labels in the given order."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from skdpfl import ISRLDPClassifier
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import private_score
from skdpfl.models import MLP
from tests.estimators.fits import CLASSIFIERS, make

LEVELS = ["mild", "some", "bad", "awful"]
SLOPE, CUTS = np.array([0.8, -0.5, 0.3]), np.array([-1.0, 0.5, 2.0])


def grades(n=4000, seed=0):
    """Labels of proportional odds, and five silos."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    codes = np.searchsorted(CUTS, X @ SLOPE + rng.logistic(size=n))
    return X, np.array(LEVELS)[codes], np.arange(n) % 5


def fitted(name="ISRLDPClassifier", n=300, **kw):
    X, y, silos = grades(n)
    known = {"epsilon": 3.0, "classes": LEVELS, "n_rounds": 4, "feature_bounds": (-4, 4)}
    return make(name, **(known | {"loss": "ordinal", "random_state": 0} | kw)).fit(
        X, y, silos=silos
    )


@pytest.mark.slow
def test_it_is_the_proportional_odds_model():
    for seed in range(2):
        X, y, silos = grades(seed=seed)
        for epsilon, tolerance in ((np.inf, 0.15), (3, 0.25)):
            model = ISRLDPClassifier(
                epsilon, loss="ordinal", classes=LEVELS, trust="secagg", random_state=seed
            )
            model.fit(X, y, silos=silos)
            assert model.coef_.shape == (1, 3)
            np.testing.assert_allclose(model.coef_[0], SLOPE, atol=tolerance)
            np.testing.assert_allclose(model.intercept_, -CUTS, atol=tolerance)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_keep_their_order_and_probabilities_are_theirs(name):
    X, y, _ = grades(300)
    model = fitted(name)
    assert model.classes_.tolist() == LEVELS
    found = model.predict_proba(X)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), np.array(LEVELS)[found.argmax(axis=1)])
    assert model.score(X, y) > 0.3
    order = X @ model.coef_[0]
    assert np.corrcoef(found @ np.arange(4), order)[0, 1] > 0.8
    turned = fitted(name, classes=LEVELS[::-1])
    np.testing.assert_allclose(turned.coef_, -model.coef_, atol=0.6)


def test_crossed_intercepts_give_no_negative_probability():
    model = fitted()
    model.intercept_ = np.array([0.0, 0.5, -0.5])
    found = model.predict_proba(np.zeros((1, 3)))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)


def test_summary_names_the_cuts_and_a_file_predicts_the_same():
    X, _, _ = grades(50)
    model = fitted(n=4000, epsilon=8.0, n_rounds=60, learning_rate=8.0)
    rows = ["x0", "x1", "x2", "above mild", "above some", "above bad"]
    assert model.summary().index.tolist() == rows
    assert (model.summary()["noise error"] > 0).all()
    again = ISRLDPClassifier.from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))
    assert again.classes_.tolist() == LEVELS
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("levels", [LEVELS, ["mild", "light"]], ids=len)
def test_private_scores_read_levels_in_their_order(levels):
    """Not as if they were sorted: accuracy was 1, and the area undefined."""
    X, y, silos = grades(2000)
    if len(levels) == 2:
        y = np.where(np.isin(y, LEVELS[:2]), *levels)
    model = make(
        "ISRLDPClassifier", epsilon=20.0, loss="ordinal", classes=levels, feature_bounds=(-4, 4)
    ).fit(X, y, silos=silos)
    assert list(model.classes_) == levels
    codes = np.array([levels.index(label) for label in y])
    exact = {
        "accuracy": model.score(X, y),
        "neg_log_loss": np.log(model.predict_proba(X))[np.arange(len(y)), codes].mean(),
    }
    if len(levels) == 2:
        exact["roc_auc"] = roc_auc_score(codes, model.decision_function(X))
    for scoring, value in exact.items():
        found = private_score(model, X, y, silos=silos, epsilon=2000.0, scoring=scoring)
        assert abs(float(found) - value) < 0.01, scoring


def test_shares_of_levels_are_in_their_order():
    """So that shares that were counted from the records are seen to be."""
    y = grades(300)[1]
    counted = {level: float(np.mean(y == level)) for level in LEVELS}
    with pytest.warns(PrivacyLeakWarning, match="counted"):
        model = fitted(classes=counted)
    assert model._class_shares() == pytest.approx(list(counted.values()))


WRONG = {
    "no order": ({"classes": None}, "needs classes"),
    "twice": ({"classes": [*LEVELS, "mild"]}, "each label once"),
    "a network": ({"model": MLP((3,))}, "model must be"),
    "curves": ({"model": "additive"}, "model must be"),
    "no intercept": ({"fit_intercept": False}, "intercept"),
    "unknown": ({"classes": LEVELS[:3]}, "not in classes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_go_is_refused_in_words(case):
    given, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        fitted(**given)
