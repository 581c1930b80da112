"""Costs where objects are put together: what ran is paid for, and nothing is believed."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import skdpfl
from skdpfl import ISRLDPClassifier, SiloAdapted
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import DPConfusionMatrixDisplay
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPStandardScaler

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (200, 3))
y = (X[:, 0] > 0).astype(int)
FOLDS = KFold(2)


def clf(**params):
    return ISRLDPClassifier(
        **({"epsilon": 1.0, "scaling": None, "n_rounds": 2, "delta": 1e-4} | params)
    )


def scaler(epsilon=1.0):
    return DPStandardScaler(epsilon, feature_bounds=(-1, 1), delta=1e-4)


class Filled:
    def fit(self, X, y, **words):
        return super().fit(np.where(np.isnan(X), np.nanmean(X), X), y, **words)


class Subclass(Filled, ISRLDPClassifier):
    pass


class Foreign(BaseEstimator):
    def fit(self, X, y):
        self.privacy_spent_ = clf().fit(X, y).privacy_spent_
        return self


EXACT = FrozenEstimator(StandardScaler().fit(X))
CASES = {
    "adapted, exact": (SiloAdapted(make_pipeline(StandardScaler(), clf())), np.inf),
    "adapted, paid": (SiloAdapted(make_pipeline(scaler(), clf())), 1.482),
    "stack of adapted": (StackingClassifier([("a", SiloAdapted(clf()))], clf(), cv=FOLDS), np.inf),
    "chain of adapted": (ClassifierChain(SiloAdapted(clf()), cv=FOLDS), np.inf),
    "frozen, paid": (
        SharedBudget(make_pipeline(FrozenEstimator(scaler(5.0).fit(X)), clf()), delta=1e-4),
        5.186,
    ),
    "frozen, exact": (SharedBudget(make_pipeline(EXACT, clf()), delta=1e-4), np.inf),
    "searched, frozen, exact": (
        DPRandomizedSearchCV(make_pipeline(EXACT, clf()), {}, n_iter=1, delta=1e-4),
        np.inf,
    ),
    "stack of a search": (
        StackingClassifier([("a", GridSearchCV(clf(), {}, cv=FOLDS))], clf(), cv=FOLDS),
        np.inf,
    ),
    "one noise": (
        GridSearchCV(clf(random_state=np.random.default_rng(0)), {}, cv=FOLDS),
        np.inf,
    ),
    "a subclass": (Subclass(scaling=None, n_rounds=2), np.inf),
    "a subclass as a step": (make_pipeline(Normalizer(), Subclass(scaling=None)), np.inf),
    "a foreign class": (Foreign(), np.inf),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_what_was_priced_too_low(name):
    model, epsilon = CASES[name]
    model.fit(X, np.column_stack([y, y]) if "chain" in name else y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert skdpfl.privacy_spent(model).epsilon == pytest.approx(epsilon, rel=0.01)
    leaks = [each for each in caught if each.category is PrivacyLeakWarning]
    assert bool(leaks) == np.isinf(epsilon)


def test_a_part_of_a_pipeline_says_that_it_is_one():
    pipe = make_pipeline(StandardScaler(), clf()).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="fitted as a part of a Pipeline.* the whole"):
        said = skdpfl.report(pipe[-1]).methods
    assert "No other step" not in said


@pytest.mark.parametrize(
    "model",
    [
        FixedThresholdClassifier(SiloAdapted(clf())),
        VotingClassifier([("a", SiloAdapted(clf()))]),
    ],
)
def test_no_display_shows_what_silos_keep_for_themselves(model):
    with pytest.raises(ValueError, match="may not leave the silo"):
        DPConfusionMatrixDisplay.from_estimator(model.fit(X, y), X, y, epsilon=1.0)
    plt.close("all")
