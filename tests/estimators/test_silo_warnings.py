"""Silos that were not in the fit, and columns of people's ids, are named."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import StackingClassifier
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl import ISRLDPClassifier
from skdpfl.exceptions import UnseenSiloWarning
from skdpfl.model_selection import LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold, make_silo_scorer

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 3))
y = (X[:, 0] + rng.normal(size=240) > 0).astype(int)
HOSPITAL = np.repeat(["north", "south", "west"], 80)  # sorted, as tables are
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(hospital=HOSPITAL)
OPTIONS = {"epsilon": 5.0, "scaling": None, "n_rounds": 2, "delta": 1e-3}


def clf(**more):
    return ISRLDPClassifier(silo_column="hospital", **OPTIONS, **more)


def said(call):
    """Return the texts of the warnings about unseen silos; others are errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", UnseenSiloWarning)
        call()
    return [str(w.message) for w in caught]


def rows(frame, keep):
    return frame.filter(keep) if isinstance(frame, pl.DataFrame) else frame[keep]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_a_new_silo_is_named_once_per_model(kind, method):
    frame = kind(FRAME.to_dict("list"))
    known = HOSPITAL != "south"
    for _ in range(2):  # a refitted model says it again
        model = clf().fit(rows(frame, known), y[known])
        assert said(lambda m=model: getattr(m, method)(rows(frame, known))) == []
        before = dict(vars(model))
        text = said(lambda m=model: getattr(m, method)(frame))
        assert len(text) == 1 and "'south'" in text[0] and "'north'" not in text[0]
        assert vars(model) == before
        assert said(lambda m=model: m.score(frame, y)) == []


def test_plain_folds_of_sorted_hospitals_are_told():
    texts = said(lambda: cross_validate(clf(), FRAME, y, cv=KFold(3)))
    assert [any(f"'{h}'" in t for t in texts) for h in ("north", "south", "west")] == [True] * 3
    assert len(texts) == 3  # one for each model
    keeps = FunctionTransformer().set_output(transform="pandas")
    pipe = make_pipeline(keeps, clf())
    assert len(said(lambda: cross_validate(pipe, FRAME, y, cv=KFold(3)))) == 3


def search(cv):
    return GridSearchCV(clf(), {"clip_norm": [0.5, 1.0]}, cv=cv).fit(FRAME, y)


def stack(cv):
    splits = list(cv.split(FRAME))
    return StackingClassifier([("a", clf())], cv=splits, n_jobs=1).fit(FRAME, y)


@pytest.mark.parametrize("splitter", [LeaveOneSiloOut, SiloKFold, SiloStratifiedKFold])
@pytest.mark.parametrize(
    "call",
    [
        lambda cv: cross_validate(clf(), FRAME, y, cv=cv),
        lambda cv: cross_val_score(clf(), FRAME, y, cv=cv, scoring="roc_auc"),
        lambda cv: cross_val_predict(clf(), FRAME, y, cv=cv),
        search,
        stack,
        lambda cv: cross_validate(clf(), FRAME, y, cv=cv, scoring=make_silo_scorer()),
    ],
)
def test_folds_that_leave_silos_out_on_purpose_are_silent(splitter, call):
    n = {} if splitter is LeaveOneSiloOut else {"n_splits": 3}
    assert said(lambda: call(splitter(silo_column="hospital", **n))) == []


PLAIN = FRAME.drop(columns="hospital")


# ---- a column of people's ids -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["patient_id", "PatientID", "patientid", "person", "Subjects", "num__subject_no", "user_id"],
)
def test_a_column_of_people_is_told(name):
    """By the name alone: whatever the values are, the same words."""
    frame = PLAIN.assign(**{name: np.arange(240) // 3})
    with pytest.warns(UserWarning, match=rf"column '{name}'.*person_column='{name}'"):
        ISRLDPClassifier(**OPTIONS).fit(frame, y, silos=HOSPITAL)
    with pytest.warns(UserWarning, match=f"column '{name}'"):
        clf().fit(frame.assign(hospital=HOSPITAL, **{name: 0}), y)


@pytest.mark.parametrize(
    "name", ["student", "is_member", "patient_age", "persons_in_household", "user_score", "liquid"]
)
def test_what_people_are_is_a_feature(name):
    frame = PLAIN.assign(**{name: np.arange(240) // 80})
    assert ISRLDPClassifier(**OPTIONS).fit(frame, y, silos=HOSPITAL).n_features_in_ == 4
