"""Silos that were not in the fit, and silo columns that nobody named, are said."""

import pickle
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

from skdpfl import DPScaffoldClassifier, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.exceptions import PrivacyLeakWarning, UnseenSiloWarning
from skdpfl.inspection import PrivacyUtilityDisplay
from skdpfl.model_selection import (
    LeaveOneSiloOut,
    SiloKFold,
    SiloStratifiedKFold,
    make_silo_scorer,
    silo_scores,
)

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


def test_integer_ids_and_many_of_them():
    ids = np.arange(240) % 30
    frame = FRAME.assign(hospital=ids)
    model = clf(classes=[0, 1]).fit(frame[ids < 10], y[ids < 10])
    (text,) = said(lambda: model.score(frame, y))
    assert "[10, 11, 12, 13, 14] and 15 more" in text
    model = clf().fit(frame, y)
    assert said(lambda: model.score(frame.assign(hospital=ids.astype(float)), y)) == []


def test_the_warning_points_at_the_users_line():
    model = clf().fit(FRAME[:160], y[:160])
    with pytest.warns(UnseenSiloWarning) as caught:
        model.score(FRAME, y)
    assert caught[0].filename == __file__


def test_without_the_column_nothing_can_be_known():
    model = clf().fit(FRAME[:160], y[:160])
    assert said(lambda: model.predict(FRAME.drop(columns="hospital"))) == []
    by_argument = ISRLDPClassifier(**OPTIONS).fit(X[:160], y[:160], silos=HOSPITAL[:160])
    assert said(lambda: by_argument.predict(X)) == []


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


def test_the_mark_survives_a_trip_to_another_process():
    for _, test in LeaveOneSiloOut().split(X, silos=HOSPITAL):
        again = pickle.loads(pickle.dumps(test))
        assert type(again) is type(test) is not np.ndarray and (again == test).all()


def test_scores_by_silo_name_the_silos_themselves():
    model = clf().fit(FRAME[:160], y[:160])
    assert said(lambda: silo_scores(model, FRAME, y)) == []
    assert len(said(lambda: model.score(FRAME, y))) == 1  # that was not the one warning


def test_the_picture_of_epsilons_goes_by_its_folds():
    def draw(cv):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)  # exact scores, said elsewhere
            PrivacyUtilityDisplay.from_estimator(clf(), FRAME, y, epsilons=[5.0], cv=cv)

    assert said(lambda: draw(LeaveOneSiloOut())) == []


# ---- a silo column that nobody named ------------------------------------------------------------

CODES = np.unique(HOSPITAL, return_inverse=True)[1]
PLAIN = FRAME.drop(columns="hospital")


@pytest.mark.parametrize(
    "name",
    ["hospital", "Site", "clinic_id", "CentreCode", "center.no", "num__school", "wards", "REGION"],
)
@pytest.mark.parametrize("model", [DPScaffoldClassifier, ISRLDPRegressor])
def test_a_forgotten_silo_column(name, model):
    with pytest.warns(UserWarning, match=f"column '{name}'.*silo_column='{name}'"):
        model(**OPTIONS).fit(PLAIN.assign(**{name: CODES}), y)


def test_of_several_columns_the_likeliest_is_named():
    frame = PLAIN.assign(ward=CODES, region=CODES, hospital=CODES)
    with pytest.warns(UserWarning, match="give silo_column='hospital'"):
        ISRLDPClassifier(**OPTIONS).fit(frame, y)


@pytest.mark.parametrize(
    "name", ["blood_group", "region_north", "hospital_beds", "bank_balance", "age", "id", "code"]
)
def test_other_names_are_features(name):
    assert ISRLDPClassifier(**OPTIONS).fit(PLAIN.assign(**{name: CODES}), y).n_features_in_ == 4


def test_silent_where_silos_were_given():
    frame = PLAIN.assign(hospital=CODES, region=CODES)
    assert ISRLDPClassifier(**OPTIONS).fit(frame, y, silos=HOSPITAL).n_features_in_ == 5
    assert clf().fit(frame, y).n_features_in_ == 4


def test_the_warning_goes_by_the_name_alone():
    """Whatever the values are, the same warning: it tells nothing of the records."""
    texts = []
    for values in (CODES, np.zeros(240), rng.normal(size=240)):
        with pytest.warns(UserWarning) as caught:
            ISRLDPClassifier(**OPTIONS).fit(PLAIN.assign(hospital=values), y)
        texts.append([str(w.message) for w in caught])
    assert texts[0] == texts[1] == texts[2]


def test_a_forgotten_column_of_words_is_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"hold no numbers.*silo_column='hospital'"):
        ISRLDPClassifier(**OPTIONS).fit(FRAME, y)


# ---- a column of people's ids -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["patient_id", "PatientID", "patientid", "person", "Subjects", "num__subject_no", "user_id"],
)
def test_a_column_of_people_is_told(name):
    """By the name alone: whatever the values are, the same words."""
    frame = PLAIN.assign(**{name: np.arange(240) // 3})
    with pytest.warns(
        UserWarning, match=rf"column '{name}'.*limit_rows\(X\['{name}'\], k\).*group"
    ):
        ISRLDPClassifier(**OPTIONS).fit(frame, y, silos=HOSPITAL)
    with pytest.warns(UserWarning, match=f"column '{name}'"):
        clf().fit(frame.assign(hospital=HOSPITAL, **{name: 0}), y)


@pytest.mark.parametrize(
    "name", ["student", "is_member", "patient_age", "persons_in_household", "user_score", "liquid"]
)
def test_what_people_are_is_a_feature(name):
    frame = PLAIN.assign(**{name: CODES})
    assert ISRLDPClassifier(**OPTIONS).fit(frame, y, silos=HOSPITAL).n_features_in_ == 4


def test_a_column_of_peoples_words_is_an_error_that_says_so():
    frame = FRAME.assign(patient_id=[f"P{i}" for i in range(240)])
    with pytest.raises(ValueError, match=r"hold no numbers.*whose row.*limit_rows"):
        clf().fit(frame, y)


# ---- a column of years, without bounds -----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["year", "BirthYear", "year_of_birth", "num__YearBuilt", "timestamp"]
)
def test_a_column_of_years_without_bounds_is_told(name):
    """By the name alone: their scale is not found, and nothing else tells of it."""
    frame = PLAIN.assign(**{name: 2010 + CODES})
    free = OPTIONS | {"scaling": "private", "epsilon": 100.0}
    with pytest.warns(UserWarning, match=f"column '{name}'.*feature_bounds"):
        ISRLDPClassifier(**free).fit(frame, y, silos=HOSPITAL)
    for known in ({"feature_bounds": (-3000, 3000)}, {"scaling": None}, {"epsilon": np.inf}):
        ISRLDPClassifier(**free | known).fit(frame, y, silos=HOSPITAL)


@pytest.mark.parametrize(
    "name", ["years", "income_per_year", "years_of_school", "year_2019", "date"]
)
def test_other_names_are_no_dates(name):
    frame = PLAIN.assign(**{name: CODES})
    free = OPTIONS | {"scaling": "private", "epsilon": 100.0}
    ISRLDPClassifier(**free).fit(frame, y, silos=HOSPITAL)
