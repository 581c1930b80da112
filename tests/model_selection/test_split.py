"""Splitters: every silo in every fold, or whole silos; nothing but position and silo counts."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import LeaveOneSiloOut, SiloGroupKFold, SiloKFold, SiloStratifiedKFold

SIZES = {"a": 7, "b": 12, "c": 9, "d": 5}
SILOS = np.random.default_rng(0).permutation(np.repeat(list(SIZES), list(SIZES.values())))
N = len(SILOS)
X = np.random.default_rng(1).standard_normal((N, 2))
Y = np.arange(N) % 2
SPLITTERS = {
    "stratified": SiloStratifiedKFold(3),
    "stratified, shuffled": SiloStratifiedKFold(3, shuffle=True, random_state=0),
    "whole": SiloKFold(3),
    "whole, shuffled": SiloKFold(3, shuffle=True, random_state=0),
    "one out": LeaveOneSiloOut(),
}
each = pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS)
with_column = pytest.mark.parametrize(
    "cv",
    [
        SiloStratifiedKFold(3, silo_column="hospital"),
        SiloKFold(3, silo_column="hospital"),
        LeaveOneSiloOut(silo_column="hospital"),
    ],
    ids=["stratified", "whole", "one out"],
)


def folds(cv, *args, **kwargs):
    return [(train.tolist(), test.tolist()) for train, test in cv.split(*args, **kwargs)]


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that takes silos in fit, and needs them to have the length of X."""

    __metadata_request__fit = {"silos": True}  # noqa: RUF012

    def __init__(self, shift=0.0, silo_column=None):
        self.shift = shift
        self.silo_column = silo_column

    def fit(self, X, y, silos=None):
        if self.silo_column is not None:
            silos = X[self.silo_column]
        assert len(silos) == len(X)
        self.seen_ = sorted(set(silos))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@each
class TestEverySplitter:
    def test_each_record_is_tested_once(self, cv):
        pairs = folds(cv, X, Y, silos=SILOS)
        assert sorted(np.concatenate([test for _, test in pairs]).tolist()) == list(range(N))
        for train, test in pairs:
            assert sorted(train + test) == list(range(N))
        assert len(pairs) == cv.get_n_splits(X, Y, silos=SILOS)
        assert len(pairs) == cv.get_n_splits(X, Y, groups=SILOS)

    def test_folds_depend_on_position_and_silo_only(self, cv):
        """The formal guarantee: other features and other labels, the same folds."""
        ours = folds(cv, X, Y, silos=SILOS)
        assert folds(cv, X[::-1] * 7, 1 - Y, silos=SILOS) == ours
        assert folds(cv, np.zeros((N, 0)), None, silos=SILOS) == ours
        assert folds(cv, X.astype(np.float32), Y.astype(str), silos=SILOS) == ours

    def test_bad_silos(self, cv):
        missing = np.where(np.arange(N) == 3, None, SILOS)
        frame = pd.DataFrame(X, index=np.arange(N))
        for silos, message in [
            (None, "needs the silo of each record: pass silos=.*groups=.* silo_column="),
            ("hospital", "the string 'hospital'"),
            (SILOS[:-1], f"X has {N} rows, silos {N - 1}"),
            (missing, "1 missing value"),
            (pd.Series(SILOS, index=np.arange(N)[::-1]), "another order"),
        ]:
            with pytest.raises(ValueError, match=message):
                folds(cv, frame, Y, silos=silos)
        with pytest.raises(ValueError, match="silos and groups were both passed"):
            folds(cv, X, Y, SILOS, silos=SILOS)

    @pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
    def test_with_routing(self, cv, n_jobs):
        with config_context(enable_metadata_routing=True):
            out = cross_validate(
                Recorder(),
                X,
                Y,
                cv=cv,
                params={"silos": SILOS},
                return_estimator=True,
                n_jobs=n_jobs,
            )
            self.check_seen(cv, out["estimator"])
            piped = make_pipeline(StandardScaler(), Recorder())
            search = GridSearchCV(piped, {"recorder__shift": [0, 1]}, cv=cv)
            search.fit(X, Y, silos=SILOS)
            assert search.n_splits_ == cv.get_n_splits(X, silos=SILOS)

    def test_without_routing(self, cv):
        out = cross_validate(
            Recorder(), X, Y, cv=cv, groups=SILOS, params={"silos": SILOS}, return_estimator=True
        )
        self.check_seen(cv, out["estimator"])
        search = GridSearchCV(Recorder(), {"shift": [0, 1]}, cv=cv)
        search.fit(X, Y, groups=SILOS, silos=SILOS)
        assert search.n_splits_ == cv.get_n_splits(X, silos=SILOS)
        with pytest.raises(ValueError, match=r"groups=\.\.\. without metadata routing"):
            GridSearchCV(Recorder(), {"shift": [0]}, cv=cv).fit(X, Y, silos=SILOS)

    @staticmethod
    def check_seen(cv, estimators):
        seen = [e.seen_ for e in estimators]
        if isinstance(cv, SiloStratifiedKFold):
            assert seen == [list("abcd")] * 3
        elif isinstance(cv, LeaveOneSiloOut):
            assert seen == [list("bcd"), list("acd"), list("abd"), list("abc")]
        else:
            assert all(0 < len(s) < 4 for s in seen)


@with_column
class TestSiloColumn:
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames(self, cv, frame):
        df = frame({"x": X[:, 0], "hospital": SILOS})
        plain = clone_without_column(cv)
        assert folds(cv, df, Y) == folds(plain, X, Y, silos=SILOS)
        assert cv.get_n_splits(df, Y) == plain.get_n_splits(X, Y, silos=SILOS)

    @pytest.mark.parametrize("routing", [True, False])
    def test_cross_validation_needs_nothing_else(self, cv, routing):
        df = pd.DataFrame({"x": X[:, 0], "hospital": SILOS}, index=np.arange(N)[::-1])
        with config_context(enable_metadata_routing=routing):
            scores = cross_val_score(Recorder(silo_column="hospital"), df, Y, cv=cv)
            assert len(scores) == cv.get_n_splits(df)
            search = GridSearchCV(Recorder(silo_column="hospital"), {"shift": [0, 1]}, cv=cv)
            assert search.fit(df, Y).n_splits_ == len(scores)

    def test_errors(self, cv):
        df = pd.DataFrame({"x": X[:, 0], "hospital": SILOS})
        with pytest.raises(ValueError, match="silo_column='hospital' needs a DataFrame"):
            folds(cv, X, Y)
        with pytest.raises(ValueError, match="'hospital' is not a column of X"):
            folds(cv, df[["x"]], Y)
        with pytest.raises(ValueError, match="give one of the two"):
            folds(cv, df, Y, silos=SILOS)


def clone_without_column(cv):
    return type(cv)(**({} if isinstance(cv, LeaveOneSiloOut) else {"n_splits": cv.n_splits}))


@settings(max_examples=80, derandomize=True)
@given(
    sizes=st.lists(st.integers(4, 13), min_size=1, max_size=6),
    n_splits=st.integers(2, 4),
    shuffle=st.booleans(),
    seed=st.integers(0, 9),
)
def test_stratified_folds_are_even(sizes, n_splits, shuffle, seed):
    silos = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    cv = SiloStratifiedKFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
    tests = [test for _, test in cv.split(silos, silos=silos)]
    assert np.ptp([len(t) for t in tests]) <= 1
    counts = np.array([np.bincount(silos[t], minlength=len(sizes)) for t in tests])
    assert np.ptp(counts, axis=0).max() <= 1
    assert counts.min() >= 1


def test_shuffle():
    def of(seed):
        return folds(SiloStratifiedKFold(3, shuffle=True, random_state=seed), X, silos=SILOS)

    assert of(0) == of(0) != of(1)
    assert of(np.random.default_rng(0)) == of(np.random.default_rng(0))
    generator = np.random.default_rng(0)
    assert of(generator) != of(generator)
    plain = folds(SiloStratifiedKFold(3), X, silos=SILOS)
    assert of(0) != plain


def test_stratify_y_keeps_classes_inside_silos_and_says_that_it_looks_at_labels():
    rng = np.random.default_rng(0)
    silos = rng.integers(3, size=300)
    y = rng.choice(["no", "yes"], p=[0.9, 0.1], size=300)
    for shuffle in (False, True):
        cv = SiloStratifiedKFold(
            5, stratify_y=True, shuffle=shuffle, random_state=0 if shuffle else None
        )
        with pytest.warns(PrivacyLeakWarning, match="stratify_y=True .*depend on the labels"):
            tests = [test for _, test in cv.split(y, y, silos=silos)]
        counts = np.array(
            [[((silos[t] == s) & (y[t] == "yes")).sum() for s in range(3)] for t in tests]
        )
        assert np.ptp(counts, axis=0).max() <= 1
        assert np.ptp([len(t) for t in tests]) <= 1
    plain = [((y[t] == "yes").sum()) for _, t in SiloStratifiedKFold(5).split(y, silos=silos)]
    assert np.ptp(plain) > 3  # it is the labels that made the difference


@pytest.mark.parametrize("y", [None, Y[:-1], np.where(np.arange(N) == 0, np.nan, 1.0)])
def test_stratify_y_needs_labels(y):
    with pytest.raises(ValueError, match="stratify_y=True needs"):
        list(SiloStratifiedKFold(3, stratify_y=True).split(X, y, silos=SILOS))


def test_silos_with_too_few_records_are_named():
    silos = [0] * 9 + ["x"] * 2 + ["y"]
    with pytest.raises(ValueError, match=r"n_splits=3 .*2 silo\(s\): 'x' \(2\), 'y' \(1\).*SiloKF"):
        list(SiloStratifiedKFold(3).split(silos, silos=silos))
    with pytest.raises(ValueError, match=r"7 silo\(s\): 0 \(1\), .*, \.\.\.\. Use"):
        list(SiloStratifiedKFold(3).split(np.arange(7), silos=np.arange(7)))


def test_whole_silos_stay_whole_and_folds_are_balanced():
    sizes = np.array([50, 1, 2, 49, 30, 20, 48])
    silos = np.repeat(np.arange(7), sizes)
    tests = [test for _, test in SiloKFold(4).split(silos, silos=silos)]
    # 50 / 49 + 1 / 48 + 2 / 30 + 20: largest first, each to the lightest fold
    of_fold = [sorted(set(silos[t].tolist())) for t in tests]
    assert of_fold == [[0], [1, 3], [2, 6], [4, 5]]
    for train, test in SiloKFold(4, shuffle=True, random_state=0).split(silos, silos=silos):
        assert not set(silos[train]) & set(silos[test])
        assert len(set(silos[test].tolist())) in (1, 2)


def test_leave_one_out_follows_sorted_ids_and_needs_no_X():
    cv = LeaveOneSiloOut()
    assert [SILOS[test][0] for _, test in cv.split(X, silos=SILOS)] == list("abcd")
    assert cv.get_n_splits(groups=SILOS) == 4
    with pytest.raises(ValueError, match="at least 2 silos, got 1"):
        list(cv.split(X, silos=np.zeros(N)))
    with pytest.raises(ValueError, match="needs the silo"):
        cv.get_n_splits()


@pytest.mark.parametrize("kind", [SiloStratifiedKFold, SiloKFold])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_splits": 1}, "n_splits must be an integer of at least 2; got 1"),
        ({"n_splits": 2.0}, "n_splits must be an integer of at least 2; got 2.0"),
        ({"shuffle": "yes"}, "shuffle must be True or False, got 'yes'"),
        ({"random_state": 0}, "random_state=0 has no effect with shuffle=False"),
    ],
)
def test_bad_arguments(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


def test_more_folds_than_silos():
    with pytest.raises(ValueError, match=r"n_splits=5 is more than the 4 silo\(s\)"):
        list(SiloKFold(5).split(X, silos=SILOS))


class TestWholePersons:
    """SiloGroupKFold: a person's rows in one fold, dealt evenly in each silo."""

    def people(self):
        """5,000 persons in 6 silos, a tenth in two, with 1 to 4 rows in each."""
        rng = np.random.default_rng(0)
        ids, home = np.arange(5000), rng.integers(0, 6, 5000)
        both = rng.random(5000) < 0.1
        persons = np.concatenate([ids, ids[both]])
        silos = np.concatenate([home, (home[both] + 1) % 6])
        rows = rng.integers(1, 5, len(persons))
        shuffled = rng.permutation(rows.sum())
        return persons.repeat(rows)[shuffled], silos.repeat(rows)[shuffled]

    @pytest.mark.parametrize("how", [{}, {"shuffle": True, "random_state": 0}])
    def test_folds(self, how):
        persons, silos = self.people()
        splits = SiloGroupKFold(5, **how).split(None, silos=silos, persons=persons)
        tests = [set(persons[test]) for _, test in splits]
        assert sum(map(len, tests)) == 5000 == len(set.union(*tests))
        assert max(map(len, tests)) - min(map(len, tests)) <= 1
        of_silo = [[len(fold & set(persons[silos == s])) for s in range(6)] for fold in tests]
        assert np.ptp(of_silo, axis=0).max() < 0.1 * np.min(of_silo)

    def test_fold_ignores_rows(self):
        """Another order, other rows of others, other features: the same fold of a person."""
        persons, silos = self.people()
        cv = SiloGroupKFold(5, shuffle=True, random_state=3)

        def fold_of(rows):
            frame = pd.DataFrame({"h": silos[rows], "id": persons[rows]})
            named = clone(cv, safe=False)
            named.silo_column, named.person_column = "h", "id"
            found = [set(persons[rows][test]) for _, test in named.split(frame)]
            return {p: i for i, fold in enumerate(found) for p in fold}

        everyone = np.arange(len(persons))
        one_each = np.unique(np.stack([persons, silos]), axis=1, return_index=True)[1]
        assert fold_of(everyone) == fold_of(everyone[::-1]) == fold_of(one_each)

    def test_others_warn(self):
        persons, silos = self.people()
        for cv in (SiloStratifiedKFold(5), SiloKFold(5), LeaveOneSiloOut()):
            with pytest.warns(UserWarning, match="rows of one person .* Use SiloGroupKFold"):
                folds(cv, persons[:, None], silos=silos, persons=persons)
        folds(SiloStratifiedKFold(3), X, silos=SILOS, persons=np.arange(N))

    def test_errors(self):
        for kwargs, message in [
            ({}, "needs persons="),
            ({"persons": [0, 1]}, f"X has {N} rows, persons 2"),
            ({"persons": np.zeros(N)}, "more than the 1 person"),
        ]:
            with pytest.raises(ValueError, match=message):
                folds(SiloGroupKFold(2), X, silos=SILOS, **kwargs)
