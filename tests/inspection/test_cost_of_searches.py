"""What privacy_spent says of a scikit-learn search is what a ledger saw while it ran."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdpfl.privacy import PrivacyLedger

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :4]
BOUNDS = (0, 3000)


def clf(**params):
    return skdpfl.ISRLDPClassifier(**({"n_rounds": 3, "delta": 1e-4, "scaling": None} | params))


def scaler(epsilon=1.0, delta=1e-4):
    return DPStandardScaler(epsilon, feature_bounds=BOUNDS, delta=delta)


def regressor():
    inner = skdpfl.ISRLDPRegressor(n_rounds=3, delta=1e-4, scaling=None)
    return TransformedTargetRegressor(inner, func=np.log1p, inverse_func=np.expm1)


CLIPS = [0.1, 1.0]
SEARCHES = {
    "an estimator": (clf(), {"clip_norm": CLIPS}),
    "budgets": (clf(), {"epsilon": [0.5, 2.0]}),
    "whole silos": (
        skdpfl.DPFedAvgClassifier(unit="silo", n_rounds=2, delta=0.01, feature_bounds=BOUNDS),
        {"clip_norm": CLIPS},
    ),
    "a scaler": (make_pipeline(scaler(), clf()), {"isrldpclassifier__clip_norm": CLIPS}),
    "a scaler's budget": (make_pipeline(scaler(), clf()), {"dpstandardscaler__epsilon": [0.5, 1]}),
    "a scaler's own delta": (
        make_pipeline(scaler(delta="auto"), clf()),
        {"isrldpclassifier__clip_norm": CLIPS},
    ),
    "a scaler of some columns": (
        make_pipeline(ColumnTransformer([("s", scaler(), [0, 1])]), clf()),
        {"isrldpclassifier__clip_norm": CLIPS},
    ),
    "declared ranges": (
        make_pipeline(DPMinMaxScaler(feature_bounds=BOUNDS), clf()),
        {"isrldpclassifier__clip_norm": CLIPS},
    ),
    "a target": (regressor(), {"regressor__clip_norm": CLIPS}),
}


def searched(estimator, grid):
    """Return the fitted search, what a ledger saw, and what is said afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with PrivacyLedger(delta=1e-4) as ledger:
            search = GridSearchCV(estimator, grid, cv=2, error_score="raise").fit(X, y)
    return search, ledger


@pytest.mark.filterwarnings("ignore::skdpfl.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_every_fit_is_counted_afterwards(name):
    search, ledger = searched(*SEARCHES[name])
    assert skdpfl.privacy_spent(search).epsilon == pytest.approx(ledger.spent.epsilon, rel=0.02)


def test_a_step_that_comes_and_goes():
    """Priced where the best candidate has it; else what it cost is not known."""
    pipe = Pipeline([("s", scaler()), ("clf", clf())])
    search, ledger = searched(pipe, {"s": ["passthrough", scaler(2.0)]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spent = skdpfl.privacy_spent(search)
    if search.best_params_["s"] == "passthrough":
        assert np.isinf(spent.epsilon)
        assert any("cannot be recovered" in str(w.message) for w in caught)
    else:
        assert spent.epsilon == pytest.approx(ledger.spent.epsilon, rel=0.02)


def test_what_was_fitted_before_is_counted_once():
    before = scaler(2.0).fit(X)
    pipe = make_pipeline(FrozenEstimator(before), clf())
    search, ledger = searched(pipe, {"isrldpclassifier__clip_norm": CLIPS})
    with pytest.warns(PrivacyLeakWarning, match="exact scores"):
        spent = skdpfl.privacy_spent(search)
    both = (ledger.spent + before.privacy_spent_).epsilon
    assert spent.epsilon == pytest.approx(both, rel=0.02)


UNKNOWN = {
    "members": (OneVsRestClassifier(clf()), {"estimator__clip_norm": CLIPS}),
    "a search of ours": (
        DPRandomizedSearchCV(clf(), {"clip_norm": CLIPS}, n_iter=2, epsilon=2.0),
        {"holdout": [0.2, 0.3]},
    ),
}


@pytest.mark.filterwarnings("ignore:.*exact scores")
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_any_more_is_not_guessed(name):
    search, _ = searched(*UNKNOWN[name])
    with pytest.warns(PrivacyLeakWarning, match=r"cannot be recovered.*PrivacyLedger"):
        assert np.isinf(skdpfl.privacy_spent(search).epsilon)
