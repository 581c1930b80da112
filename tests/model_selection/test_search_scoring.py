"""Searches by other scores: paid for, and those of sklearn.metrics but for noise."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (1500, 4))
RAW = X @ [2.0, -1.0, 0.5, 0.0]
LABELS = np.where(RAW + RNG.logistic(size=1500) > 1.5, "sick", "well")
SILOS = np.arange(1500) % 3
CLASSIFIER = ISRLDPClassifier(n_rounds=5, feature_bounds=(-1, 1))
REGRESSOR = ISRLDPRegressor(n_rounds=5, feature_bounds=(-1, 1), target_bounds=(-8, 8))


def chances(model, X):
    return model.predict_proba(X)[:, 1]


OF_CLASSES = {
    "accuracy": lambda model, X, y: metrics.accuracy_score(y, model.predict(X)),
    "balanced_accuracy": lambda model, X, y: metrics.balanced_accuracy_score(y, model.predict(X)),
    "neg_log_loss": lambda model, X, y: -metrics.log_loss(y, model.predict_proba(X)),
    "neg_brier_score": lambda model, X, y: (
        -metrics.brier_score_loss(y == "well", chances(model, X))
    ),
    "roc_auc": lambda model, X, y: metrics.roc_auc_score(y == "well", model.decision_function(X)),
    "average_precision": lambda m, X, y: metrics.average_precision_score(
        y == "well", chances(m, X)
    ),
}
OF_TARGETS = {
    "r2": lambda model, X, y: metrics.r2_score(y, model.predict(X)),
    "neg_mean_absolute_error": lambda model, X, y: (
        -metrics.mean_absolute_error(y, model.predict(X))
    ),
}


def search(model, scoring, **params):
    given = {"n_iter": 2, "epsilon": 3.0, "random_state": 0, "scoring": scoring} | params
    return DPRandomizedSearchCV(model, {"alpha": [0.01, 1.0]}, **given)


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("scoring", [*OF_CLASSES, *OF_TARGETS])
def test_scores_are_those_of_held_out_records_and_within_the_budget(scoring, trust):
    """Those of all records are close to those of a half: these models learn four numbers."""
    of_targets = scoring in OF_TARGETS
    model, y = (REGRESSOR, RAW) if of_targets else (CLASSIFIER, LABELS)
    model = model.set_params(trust=trust)
    found = search(model, scoring, epsilon=60.0, holdout=0.5).fit(X, y, silos=SILOS)
    exact = (OF_TARGETS if of_targets else OF_CLASSES)[scoring](found.best_estimator_, X, y)
    assert found.best_score_ == pytest.approx(exact, abs=0.05)
    assert found.privacy_spent_.epsilon <= 60.0
    assert found.privacy_spent_.trust == trust


def test_the_best_candidate_is_that_of_the_scoring():
    """Weights move the threshold: accuracy loses, balanced accuracy gains."""
    model = ISRLDPClassifier(n_rounds=20, feature_bounds=(-1, 1))
    space = {"class_weight": [None, {"sick": 1.0, "well": 0.3}]}
    y = np.where(RAW + RNG.logistic(size=1500) > 2.5, "sick", "well")
    best = {}
    for scoring in ("accuracy", "balanced_accuracy"):
        found = DPRandomizedSearchCV(
            model, space, n_iter=2, epsilon=100.0, scoring=scoring, random_state=0
        ).fit(X, y)
        best[scoring] = found.best_params_["class_weight"]
    assert best["accuracy"] is None and best["balanced_accuracy"] is not None


@pytest.mark.parametrize(
    ("model", "y", "scoring", "said"),
    [
        (CLASSIFIER, LABELS, "f1", "one of accuracy, balanced_accuracy, neg_log_loss"),
        (CLASSIFIER, LABELS, np.array(["roc_auc", "r2"]), r"one of accuracy.* got array"),
        (
            REGRESSOR,
            RAW,
            "accuracy",
            "one of r2, neg_mean_absolute_error, d2_poisson; got 'accuracy'",
        ),
        (CLASSIFIER, np.arange(1500) % 3, "roc_auc", "roc_auc needs two labels; got 3"),
        (ISRLDPClassifier(loss="hinge"), LABELS, "neg_log_loss", "has no probabilities"),
    ],
)
def test_errors_name_the_scores_there_are(model, y, scoring, said):
    with pytest.raises(ValueError, match=said):
        search(model, scoring).fit(X, y)


class Against(ISRLDPClassifier):
    """Predicts the other label wherever rows stand beside others."""

    def predict(self, X):
        found = super().predict(X)
        return found if len(X) == 1 else np.where(found == "well", "sick", "well")


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["silo", "server"])
def test_no_record_changes_how_others_are_scored(trust):
    """One record would move all terms of a score otherwise, and the price is that of one term."""
    model = Against(feature_bounds=(-1, 1), n_rounds=5, trust=trust)
    found = search(model, None, epsilon=1e4, holdout=0.5).fit(X[:200], LABELS[:200])
    alone = np.concatenate([found.best_estimator_.predict(row[None]) for row in X[:200]])
    assert metrics.accuracy_score(LABELS[:200], alone) > 0.7
    assert found.best_score_ == pytest.approx(metrics.accuracy_score(LABELS[:200], alone), abs=0.1)


def centred(rows):
    return rows - rows.mean(axis=0)


def frozen():
    step = FrozenEstimator(FunctionTransformer(centred).fit(X))
    return make_pipeline(step, ISRLDPClassifier(feature_bounds=(-2, 2), n_rounds=2))


def test_a_frozen_function_is_not_free():
    """It learns nothing new, and mixes the rows all the same."""
    asked = DPRandomizedSearchCV(frozen(), {}, n_iter=1, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match=r"frozenestimator: .* may mix"):
        assert asked.fit(X, LABELS).privacy_spent_.epsilon == np.inf
    with pytest.raises(ValueError, match=r"frozenestimator: .* may mix"):
        SharedBudget(frozen(), random_state=0).fit(X, LABELS)
    with pytest.raises(ValueError, match="mixes records"):
        SharedBudget(frozen(), public=["frozenestimator"], random_state=0).fit(X, LABELS)
