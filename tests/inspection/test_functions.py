"""Functions in pipelines: free if they are known to treat rows alone, or declared to."""

import traceback
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPOneHotEncoder, RowTransformer

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(0, 1, (300, 3)), columns=["a", "b", "c"])
y = (X["a"] > 0.5).to_numpy()
BOUNDS = {"feature_bounds": (0, 1), "delta": 1e-5, "n_rounds": 2}


def fitted(step, table=X, **params):
    clf = skdpfl.ISRLDPClassifier(**({"clip_features": True, "scaling": None} | BOUNDS | params))
    return make_pipeline(step, clf).fit(table, y)


def ffill(D):
    return pd.DataFrame(D).ffill().fillna(0)


def outliers_to_the_mean(D):
    D = np.array(D, float)
    return np.where(np.abs(D) > 1e3, np.where(np.abs(D) > 1e3, 0, D).mean(0), D)


#: what mixes records, and is seen to on made-up rows
MIXING = {
    "mean": lambda D: D.fillna(D.mean()).fillna(0),
    "nanmean": lambda D: np.nan_to_num(np.where(np.isnan(D), np.nanmean(D, axis=0), D)),
    "ffill": ffill,
    "units": lambda D: D / 100 if np.nanmax(D) > 1 else D,
    "outliers": outliers_to_the_mean,
    "standardised": lambda D: (D - D.mean(axis=0)) / np.std(np.asarray(D), axis=0),
    "ranks": lambda D: pd.DataFrame(D).rank() / len(D),
    "whole": lambda D: D * 0 + len(D),
}


@pytest.mark.filterwarnings("ignore:The values of .* outside feature_bounds")  # "whole"
@pytest.mark.parametrize("name", MIXING)
def test_a_function_that_mixes_is_never_free(name):
    step = FunctionTransformer(MIXING[name])
    clean = FunctionTransformer(np.nan_to_num)
    pipe = make_pipeline(step, clean, skdpfl.ISRLDPClassifier(clip_features=True, **BOUNDS))
    pipe.fit(X.where(X > 0.1), y)
    for public in ([], ["functiontransformer-1"]):
        with pytest.warns(PrivacyLeakWarning, match="functiontransformer-1: .* mixes records"):
            assert skdpfl.privacy_spent(pipe, public=public).epsilon == np.inf
    shared = SharedBudget(make_pipeline(step, pipe[-1]), epsilon=1.0)
    with pytest.raises(ValueError, match="mix"):
        shared.fit(X, y)
    with pytest.raises(ValueError, match="mixes records"):
        shared.set_params(public="functiontransformer").fit(X, y)


def test_a_function_that_mixes_for_one_value_in_a_million_needs_a_declaration():
    def rarely(D):
        return D / 100 if np.any((D > 1370.4) & (D < 1370.41)) else D

    pipe = fitted(FunctionTransformer(rarely))
    with pytest.warns(PrivacyLeakWarning, match="rarely.*RowTransformer.*DPSimpleImputer.*public="):
        assert skdpfl.privacy_spent(pipe).epsilon == np.inf
    with pytest.raises(ValueError, match=r"rarely .* may mix .*public=\['functiontransformer'\]"):
        SharedBudget(pipe, epsilon=1.0).fit(X, y)
    search = DPRandomizedSearchCV(pipe, {"isrldpclassifier__alpha": [0, 1]}, n_iter=2)
    with pytest.warns(PrivacyLeakWarning, match="rarely .* infinite"):
        assert search.fit(X, y).privacy_spent_.epsilon == np.inf


ENTRYWISE = [
    FunctionTransformer(),
    FunctionTransformer(np.log1p),
    FunctionTransformer(expit),
    FunctionTransformer(np.clip, kw_args={"a_min": 0.1, "a_max": 0.5}),
    FunctionTransformer(partial(np.clip, min=0.1, max=0.5)),
    FunctionTransformer(np.nan_to_num, kw_args={"nan": 0.5}),
    FunctionTransformer(np.power, kw_args=None).set_params(func=partial(np.round, decimals=1)),
    FunctionTransformer(pd.isna),
    RowTransformer(lambda row: row.fillna(row.mean())),
    ColumnTransformer([("a", Normalizer(), make_column_selector(dtype_include=float))]),
]


@pytest.mark.parametrize("step", ENTRYWISE)
def test_what_is_known_to_treat_rows_alone_is_free(step):
    pipe = fitted(step)
    assert skdpfl.privacy_spent(pipe) == pipe[-1].privacy_spent_
    shared = SharedBudget(pipe, epsilon=1.0, delta=1e-5).fit(X, y)
    assert shared.privacy_spent_.epsilon <= 1.0


def test_ufuncs_that_see_several_entries_are_not_entrywise():
    everything = np.frompyfunc(lambda value: value, 1, 1)
    for func in (np.linalg._umath_linalg.inv, everything, partial(np.add, 1), np.vectorize(abs)):
        assert not skdpfl._functions.is_entrywise(FunctionTransformer(func))


HONEST = {
    "product": lambda D: np.asarray(D)[:, :2] @ np.array([[1.0, 2.0], [0.5, 0.25]]),
    "shares": lambda D: np.asarray(D) / (1e-9 + np.abs(np.asarray(D)).sum(axis=1, keepdims=True)),
    "table": lambda D: pd.DataFrame(D).iloc[:, :2] ** 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_function_is_free_once_declared(name):
    pipe = fitted(FunctionTransformer(HONEST[name]))
    with pytest.warns(PrivacyLeakWarning, match="it is unknown whether"):
        assert skdpfl.privacy_spent(pipe).epsilon == np.inf
    declared = ["functiontransformer"]
    assert skdpfl.privacy_spent(pipe, public=declared) == pipe[-1].privacy_spent_
    shared = SharedBudget(pipe, epsilon=1.0, delta=1e-5, public=declared).fit(X, y)
    assert shared.privacy_spent_.epsilon <= 1.0
    search = DPRandomizedSearchCV(
        pipe, {"isrldpclassifier__alpha": [0, 1]}, n_iter=2, delta=1e-5, public=declared
    ).fit(X, y)
    assert skdpfl.privacy_spent(search) == search.privacy_spent_
    assert search.privacy_spent_.epsilon <= 1.0


def test_declared_names_must_exist_and_be_functions():
    pipe = fitted(Normalizer())
    with pytest.raises(ValueError, match="is not a step"):
        SharedBudget(pipe, public=["other"]).fit(X, y)
    from sklearn.preprocessing import StandardScaler

    learns = make_pipeline(StandardScaler(), pipe[-1])
    with pytest.raises(ValueError, match="learns from the records"):
        SharedBudget(learns, public=["standardscaler"]).fit(X, y)


@pytest.mark.filterwarnings("ignore:The coefficients do not surely")
def test_targets_are_transformed_one_by_one():
    bounds = {"target_bounds": (-5, 5), "random_state": 0, **BOUNDS}
    target = X["a"].to_numpy()
    for func, epsilon in ((np.log1p, 1.0), (lambda t: t - t.mean(), np.inf)):
        model = TransformedTargetRegressor(
            skdpfl.ISRLDPRegressor(**bounds), func=func, inverse_func=np.expm1, check_inverse=False
        ).fit(X, target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if epsilon == np.inf else "error", PrivacyLeakWarning)
            assert skdpfl.privacy_spent(model).epsilon == pytest.approx(epsilon, rel=0.02)


def test_columns_that_a_function_of_the_records_chooses_are_not_free():
    full = lambda D: D.columns[D.notna().all()].tolist()  # noqa: E731
    step = ColumnTransformer([("full", "passthrough", full)])
    pipe = fitted(step)
    with pytest.warns(PrivacyLeakWarning, match="columntransformer__full: .* chooses the columns"):
        assert skdpfl.privacy_spent(pipe).epsilon == np.inf
    assert skdpfl.privacy_spent(pipe, public=["full"]) == pipe[-1].privacy_spent_
    with pytest.raises(ValueError, match="chooses the columns"):
        SharedBudget(pipe).fit(X, y)
    assert SharedBudget(pipe, public=["full"]).fit(X, y).privacy_spent_.epsilon <= 1.0


class Chosen(make_column_selector):
    """Chooses columns by what is in them."""

    def __call__(self, df):
        return [name for name in df.columns if df[name].max() > 0.5]


class OwnUnion(FeatureUnion):
    def fit_transform(self, X, y=None, **params):
        return np.asarray(X - X.mean(axis=0))


class OwnPipeline(Pipeline):
    def fit(self, X, y=None, **params):
        return super().fit(X - X.mean(axis=0), y, **params)


class OwnBagging(BaggingClassifier):
    def fit(self, X, y, **params):
        return super().fit(X - X.mean(axis=0), y, **params)


class Wrapped(ClassifierMixin, BaseEstimator):
    """Hands on whatever the estimator inside has, its cost too."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y):
        self.inner_ = clone(self.inner).fit(X - X.mean(axis=0), y)
        return self

    def __getattr__(self, name):
        if name == "inner_":
            raise AttributeError(name)
        return getattr(self.inner_, name)


def patched():
    step = Normalizer()
    step.fit_transform = lambda X, y=None, **params: np.asarray(X - X.mean(axis=0))
    return step


CLF = skdpfl.ISRLDPClassifier(clip_features=True, scaling=None, **BOUNDS)
OWN = {
    "selector": make_pipeline(ColumnTransformer([("a", "passthrough", Chosen())]), CLF),
    "union": make_pipeline(OwnUnion([("a", Normalizer())]), CLF),
    "pipeline": OwnPipeline([("a", Normalizer()), ("clf", CLF)]),
    "bagging": OwnBagging(CLF, n_estimators=2, bootstrap=False),
    "wrapper": Wrapped(CLF),
    "method": make_pipeline(patched(), CLF),
}


@pytest.mark.filterwarnings("ignore:The values of .* outside feature_bounds")
@pytest.mark.parametrize("name", OWN)
def test_code_of_ones_own_around_an_estimator_is_not_free(name):
    model = OWN[name].fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="learnt from the records|chooses the columns"):
        assert skdpfl.privacy_spent(model).epsilon == np.inf
    if name in ("selector", "union", "pipeline"):
        with pytest.raises(ValueError, match=r"learns from the records|chooses the columns"):
            SharedBudget(model).fit(X, y)


@pytest.mark.filterwarnings("ignore:GridSearchCV")
def test_a_search_over_functions_pays_for_those_that_lost():
    """What is fitted best may be entrywise; the others mixed the records in their fits."""
    pipe = make_pipeline(FunctionTransformer(np.log1p), CLF)
    space = {"functiontransformer__func": [lambda D: D - D.mean() + 5, np.log1p]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(pipe, space, cv=KFold(2), scoring=_prefers_ufuncs).fit(X, y)
    assert search.best_params_["functiontransformer__func"] is np.log1p
    with pytest.warns(PrivacyLeakWarning, match="functiontransformer: <lambda> mixes records"):
        assert skdpfl.privacy_spent(search).epsilon == np.inf


def _prefers_ufuncs(model, X, y):
    return float(model[0].func is np.log1p)


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")
def test_arguments_that_let_entries_see_others_are_not_free():
    """Entries that ``where`` leaves out are what the memory held before."""
    known = {"test_elements": np.arange(40.0)}
    assert skdpfl._functions.is_entrywise(FunctionTransformer(np.isin, kw_args=known))
    for func, words in (
        (np.isin, known | {"assume_unique": True}),
        (np.abs, {"where": [True, False, True]}),
        (np.interp, {"xp": [0.0, 2.0, 1.0], "fp": [0.0, 1.0, 2.0]}),
        (np.digitize, {"bins": [0.0, np.nan, 1.0]}),
        (partial(np.abs, where=[True, False, True]), None),
    ):
        pipe = fitted(FunctionTransformer(func, kw_args=words))
        with pytest.warns(PrivacyLeakWarning, match="functiontransformer: "):
            assert skdpfl.privacy_spent(pipe).epsilon == np.inf


def test_a_vectorizer_of_words_may_keep_what_it_has_seen():
    for tokenizer, free in ((None, True), (str.split, False)):
        step = HashingVectorizer(tokenizer=tokenizer)
        assert skdpfl._pipelines.learns_nothing(step) == free


def test_functions_inside_unions_and_columns_are_found():
    mean = FunctionTransformer(lambda D: pd.DataFrame(D).fillna(pd.DataFrame(D).mean()))
    for step in (
        FeatureUnion([("inner", mean)]),
        ColumnTransformer([("inner", mean, ["a", "b"])]),
        make_pipeline(Normalizer(), mean),
    ):
        pipe = fitted(step)
        with pytest.warns(PrivacyLeakWarning, match="mixes records"):
            assert skdpfl.privacy_spent(pipe).epsilon == np.inf
        with pytest.warns(PrivacyLeakWarning, match="mixes records"):
            whole = skdpfl.privacy_spent(pipe, public=[pipe.steps[0][0]])
        assert whole.epsilon == np.inf


#: functions whose values of integers are not those of equal floats
WRAPPING = [np.reciprocal, np.invert, np.square, np.negative, np.absolute]


@pytest.mark.parametrize("func", WRAPPING)
def test_a_function_whose_values_depend_on_the_type_is_not_free(func):
    """One gap turns a column of integers into floats: all other records' reciprocals changed."""
    counts = pd.DataFrame({"n": rng.integers(1, 9, 300)})
    with pytest.warns(PrivacyLeakWarning, match=func.__name__):
        assert skdpfl.privacy_spent(fitted(FunctionTransformer(func), counts)).epsilon == np.inf
    if func is not np.invert:
        step = FunctionTransformer(func, kw_args={"dtype": np.float64})
        assert skdpfl.privacy_spent(fitted(step, counts)).epsilon <= 1.0


def one_hot(**how):
    return OneHotEncoder(categories=[["a", "b"]], **how)


def frozen_rare():
    """A pipeline inside what tells no parameters of it."""
    rare = make_pipeline(one_hot(handle_unknown="ignore"))
    return FrozenEstimator(rare.fit(pd.DataFrame({"w": ["a", "b"]})))


SPEAKING = [
    (FunctionTransformer(np.log1p, inverse_func=np.expm1), "check_inverse=False"),
    (ColumnTransformer([("c", one_hot(handle_unknown="ignore"), ["w"])]), "sparse_threshold=0"),
    (ColumnTransformer([("c", make_pipeline(one_hot(drop="first")), ["w"])]), "sparse_threshold=0"),
    (ColumnTransformer([], remainder=one_hot(handle_unknown="ignore")), "sparse_threshold=0"),
    (ColumnTransformer([("c", frozen_rare(), ["w"])]), "sparse_threshold=0"),
    (FunctionTransformer(np.log1p, inverse_func=np.expm1, check_inverse=False), ""),
    (ColumnTransformer([("c", one_hot(handle_unknown="ignore"), ["w"])], sparse_threshold=0), ""),
    (ColumnTransformer([("c", one_hot(handle_unknown="ignore", sparse_output=False), ["w"])]), ""),
    (ColumnTransformer([("c", one_hot(), ["w"])], sparse_threshold=0.1), ""),
]


@pytest.mark.every
@pytest.mark.parametrize("step, way_out", SPEAKING)
def test_steps_whose_warnings_and_errors_tell_of_a_record_are_leaks(step, way_out):
    """359 known values of 400 made a sparse table, at which the fit raised; 360 did not."""
    words = isinstance(step, ColumnTransformer)
    table = pd.DataFrame({"w": rng.choice(list("ab"), 300)}) if words else X
    pipe = make_pipeline(step, skdpfl.ISRLDPClassifier(**BOUNDS, clip_features=True))
    if not way_out:
        assert SharedBudget(pipe, epsilon=1.0).fit(table, y).privacy_spent_.epsilon <= 1.0
        return
    with pytest.raises(ValueError, match=way_out):
        SharedBudget(pipe, epsilon=1.0).fit(table, y)
    with pytest.warns(PrivacyLeakWarning, match=type(step).__name__.lower()):
        assert skdpfl.privacy_spent(pipe.fit(table, y)).epsilon == np.inf


def test_what_foreign_steps_say_is_not_passed_on():
    """Neither their warnings, nor their errors; those of this package are."""
    roots = make_pipeline(FunctionTransformer(np.sqrt), FunctionTransformer(np.nan_to_num))
    parts = [("a", roots, ["a"]), ("w", one_hot(), ["w"]), ("v", DPOneHotEncoder(), ["v"])]
    columns = ColumnTransformer(parts, sparse_threshold=0)
    model = make_pipeline(columns, skdpfl.ISRLDPClassifier(feature_bounds=(0, 1)))
    shared = SharedBudget(model, epsilon=2.0, random_state=0)
    table = pd.DataFrame({"a": -1, "w": rng.choice(list("ab"), 300), "v": "c"})
    with pytest.warns(UserWarning) as said:
        shared.fit(table, y)
    assert said and all("Only categories with" in str(each.message) for each in said)
    table.loc[7, "w"] = "secret"
    with pytest.raises(ValueError, match="made-up records") as error:
        shared.fit(table, y)
    assert "secret" not in "".join(traceback.format_exception(error.value))
