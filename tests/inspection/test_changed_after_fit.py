"""A cost that follows from parameters is not known any more once they were changed.

What was changed has to contradict a fitted part: a removed step, another ``cv`` or another function
leaves no trace.
"""

import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, SplineTransformer, StandardScaler

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.preprocessing import DPStandardScaler

X, y = load_breast_cancer(return_X_y=True)
X, y = (X / np.abs(X).max(axis=0))[:300, :5], y[:300]


def clf(epsilon=1.0, **params):
    params = {"scaling": None, "n_rounds": 2, "delta": 1e-5} | params
    return skdpfl.ISRLDPClassifier(epsilon=epsilon, **params)


def search(estimator=None, **words):
    return GridSearchCV(estimator or clf(), {"alpha": [0, 1]}, cv=KFold(2), **words)


def replaced(pipe):
    pipe.steps[0] = ("standardscaler", Normalizer())


def spent(fitted):
    with pytest.warns(PrivacyLeakWarning) as caught:
        found = skdpfl.privacy_spent(fitted)
    return found.epsilon, " ".join(str(w.message) for w in caught)


def set_params(**params):
    return lambda fitted: fitted.set_params(**params)


def of_member(**params):
    return lambda fitted: fitted.estimators_[0].set_params(**params)


def scaled_then(step):
    return make_pipeline(step, clf())


cross = {"cv": KFold(2)}
#: what is fitted, and how it is changed so that a smaller cost would be computed
CHANGED = {
    "a search's estimator": (search(), set_params(estimator__epsilon=0.1)),
    "its noise": (search(), set_params(estimator__epsilon=None, estimator__noise_multiplier=99.0)),
    "its seed": (search(clf(random_state=0)), set_params(estimator__random_state=None)),
    "another estimator": (search(), set_params(estimator=clf(0.1))),
    "a search over scalers that pay": (
        GridSearchCV(
            make_pipeline(DPStandardScaler(1.0, delta=1e-5, feature_bounds=(0, 1)), clf()),
            {"isrldpclassifier__alpha": [0, 1]},
            cv=KFold(2),
        ),
        set_params(estimator__dpstandardscaler__epsilon=0.1),
    ),
    "a search inside a pipeline": (
        make_pipeline(Normalizer(), search()),
        set_params(gridsearchcv__estimator__epsilon=0.1),
    ),
    "a stack's members": (
        StackingClassifier([("a", clf())], **cross, final_estimator=clf()),
        of_member(epsilon=0.1),
    ),
    "its splits": (
        StackingClassifier([("a", clf())], **cross, final_estimator=clf()),
        set_params(cv="prefit"),
    ),
    "a replaced step": (scaled_then(StandardScaler()), replaced),
    "a step's parameters": (
        scaled_then(SimpleImputer()),
        set_params(simpleimputer__strategy="constant", simpleimputer__fill_value=0),
    ),
    "a kernel's width": (
        scaled_then(RBFSampler(gamma="scale", random_state=0)),
        set_params(rbfsampler__gamma=1.0),
    ),
    "knots": (
        scaled_then(SplineTransformer(3)),
        set_params(splinetransformer__knots=np.tile([[0.0], [0.5], [1.0]], 5)),
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_was_changed_after_the_fit_is_not_priced(name):
    model, change = CHANGED[name]
    fitted = pickle.loads(pickle.dumps(model.fit(X, y)))
    change(fitted)
    epsilon, words = spent(fitted)
    assert epsilon == np.inf
    assert "changed after the fit" in words or "learnt from the records" in words


HARMLESS = {
    "a search": (search(), set_params(n_jobs=1, verbose=0)),
    "an estimator": (clf(), set_params(epsilon=0.1)),
    "bags": (BaggingClassifier(clf(), n_estimators=2), set_params(estimator__epsilon=0.1)),
    "votes": (VotingClassifier([("a", clf()), ("b", clf())]), set_params(a__epsilon=0.1)),
    "one against the rest": (OneVsRestClassifier(clf()), set_params(estimator__epsilon=0.1)),
    "one against the rest's members": (OneVsRestClassifier(clf()), of_member(epsilon=0.1)),
    "a chain": (ClassifierChain(clf()), of_member(epsilon=0.1)),
    "the last step": (scaled_then(Normalizer()), set_params(isrldpclassifier__epsilon=0.1)),
    "frozen": (scaled_then(FrozenEstimator(Normalizer())), set_params(isrldpclassifier__alpha=1)),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_changes_on_which_no_cost_depends_leave_it_as_it_was(name):
    model, change = HARMLESS[name]
    fitted = model.fit(X, np.column_stack([y, y]) if name == "a chain" else y)
    with pytest.warns(PrivacyLeakWarning) if name == "a search" else nullcontext():
        before = skdpfl.privacy_spent(fitted)
    change(fitted)
    with pytest.warns(PrivacyLeakWarning) if name == "a search" else nullcontext():
        assert skdpfl.privacy_spent(fitted).epsilon == before.epsilon < np.inf


def test_heads_inside_an_ensemble_have_no_price():
    """The joint model is paid for; votes give out what silos learnt by themselves."""
    frame = pd.DataFrame(X).set_axis(list("abcde"), axis=1).assign(silo=np.arange(len(X)) % 3)
    adapted = skdpfl.SiloAdapted(clf(silo_column="silo"))
    assert skdpfl.privacy_spent(adapted.fit(frame, y)).epsilon < 1.01
    epsilon, words = spent(VotingClassifier([("a", adapted)]).fit(frame, y))
    assert epsilon == np.inf and "heads are fitted to the records" in words


def test_members_that_were_fitted_before_are_known():
    member = clf().fit(X, y)
    stack = StackingClassifier([("a", member)], cv="prefit", final_estimator=LogisticRegression())
    words = spent(stack.fit(X, y))[1]
    assert "changed" not in words
