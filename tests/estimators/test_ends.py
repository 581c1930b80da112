"""The ends of what can be given: words or a fit, never a raw error or an endless call."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import skdpfl
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPPCA, DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpfl.privacy import noise_multiplier_for

N = 200
X = np.random.default_rng(0).uniform(size=(N, 3))
y = (X[:, 0] > 0.5).astype(int)
BOUNDS = {"feature_bounds": (0, 1)}


def clf(*given, **params):
    return skdpfl.ISRLDPClassifier(*given, **BOUNDS, **params)


BUDGETED = {
    "estimator": lambda e: clf(e).fit(X, y),
    "sampled": lambda e: clf(e, sampling_rate=0.3, n_rounds=3).fit(X, y),
    "server": lambda e: clf(e, trust="server").fit(X, y),
    "by silo": lambda e: clf({0: e, 1: 1.0}).fit(X, y, silos=y),
    "whole silos": lambda e: skdpfl.DPFedEXPClassifier(e, **BOUNDS).fit(X, y, silos=np.arange(N)),
    "scaler": lambda e: DPStandardScaler(e).fit(X),
    "imputer": lambda e: DPSimpleImputer(e).fit(X),
    "encoder": lambda e: DPOneHotEncoder(e).fit(X.round(1)),
    "projection": lambda e: DPPCA(2, e).fit(X),
    "shared": lambda e: SharedBudget(
        make_pipeline(DPStandardScaler(**BOUNDS), clf(scaling=None)), epsilon=e
    ).fit(X, y),
    "search": lambda e: DPRandomizedSearchCV(clf(), {"alpha": [0, 1]}, n_iter=2, epsilon=e).fit(
        X, y
    ),
    "noise": lambda e: noise_multiplier_for(epsilon=e, sampling_rate=0.1, n_steps=9, delta=1e-5),
}


@pytest.mark.parametrize("name", BUDGETED)
@pytest.mark.parametrize("epsilon", [1.1e9, 1e20, 1e308])
def test_an_epsilon_beyond_all_reason_is_refused_in_words(name, epsilon):
    with pytest.raises(ValueError, match=r"promises nothing. Give epsilon=inf"):
        BUDGETED[name](epsilon)


@pytest.mark.parametrize("kind", ["ISRLDP", "DPScaffold", "DPFedAvg"])
def test_features_that_are_all_ignored_leave_nothing_to_learn(kind):
    ignored = {"feature_bounds": (0, 0), "fit_intercept": False, "random_state": 0}
    for name, target, more in (
        ("Classifier", y, {}),
        ("Regressor", X[:, 1], {"target_bounds": (0, 1)}),
    ):
        model = getattr(skdpfl, kind + name)(**ignored, **more).fit(
            X, target, silos=np.arange(N) % 4
        )
        assert np.all(np.isfinite(model.predict(X))) or name == "Classifier"


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_a_search_of_a_billion_runs_is_refused(trust):
    search = DPRandomizedSearchCV(clf(trust=trust), {"alpha": [0, 1]}, n_iter=10**9)
    with pytest.raises(ValueError, match="n_iter must be an integer in"):
        search.fit(X, y)


def test_targets_without_axes_are_refused_in_words():
    for target in (np.array(1), 1, None):
        with pytest.raises(ValueError, match="y"):
            clf().fit(X, target)
        with pytest.raises((TypeError, ValueError), match=r"y|dimension"):
            DPRandomizedSearchCV(clf(), {"alpha": [0, 1]}, n_iter=2).fit(X, target)


@pytest.mark.parametrize("name", ["local_steps", "local_epochs"])
@pytest.mark.parametrize("nothing", [(), [], np.array([])])
def test_no_number_of_local_steps_is_refused_in_words(name, nothing):
    with pytest.raises(ValueError, match=f"{name} is empty"):
        skdpfl.DPFedAvgClassifier(**BOUNDS, **{name: nothing}).fit(X, y, silos=y)
