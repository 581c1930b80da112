"""Ranges that are known of what leaves transformers: the estimator after them takes them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.metrics import log_loss
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
)

import skdpfl
from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.models import Additive
from skdpfl.preprocessing import (
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPSplineTransformer,
    DPStandardScaler,
)

N = 2000
RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.uniform(20, 80, N), "pay": RNG.uniform(-1, 3, N)})
X["town"] = RNG.choice(list("abcd"), N)
Y = ((X.age > 50) ^ (X.town == "a")).to_numpy()
SILOS = np.arange(N) % 3
NUMBERS = {"age": (20, 80), "pay": (-2, 4)}
KNOTS = np.linspace([20.0, -2.0], [80.0, 4.0], 5)


def clf(**options):
    return ISRLDPClassifier(**{"epsilon": 1.0, "random_state": 0} | options)


def encoder(**options):
    return DPOneHotEncoder(**{"categories": [list("abcd")]} | options)


def columns(numbers, **options):
    return make_column_transformer(
        (numbers, ["age", "pay"]), (encoder(**options), ["town"]), verbose_feature_names_out=False
    )


def with_flags(Z, flags):
    """A frame whose last columns are True and False."""
    frame = pd.DataFrame(np.asarray(Z, float))
    return frame.astype(dict.fromkeys(frame.columns[frame.shape[1] - flags :], bool))


def same_as_given(step, low, high, flags=0):
    """Whether a pipeline's estimator is that of bounds by hand."""
    piped = make_pipeline(step, clf()).fit(X, Y, isrldpclassifier__silos=SILOS)
    given = clf(feature_bounds=(low, high))
    given.fit(with_flags(piped[:-1].transform(X), flags), Y, silos=SILOS)
    return np.array_equal(piped[-1].coef_, given.coef_)


def of_numbers(step):
    return make_pipeline(make_column_transformer((step, ["age", "pay"])))


HALF = DPMinMaxScaler(feature_bounds=NUMBERS)
STEPS = {
    "curves": (DPSplineTransformer(feature_bounds=NUMBERS, knots=4, random_state=0), -1, 1),
    "found range": (DPMinMaxScaler(random_state=0), 0, 1),
    "free splines": (SplineTransformer(knots=KNOTS, degree=2), 0, 1),
    "rows of norm 1": (Normalizer(), -1, 1),
    "products": (make_pipeline(HALF, PolynomialFeatures(2, include_bias=False)), 0, 1),
    "side by side": (make_union(HALF, SplineTransformer(knots=KNOTS)), 0, 1),
    "weighted": (FeatureUnion([("a", HALF)], transformer_weights={"a": -3.0}), -3, 0),
    "imputer": (make_pipeline(HALF, DPSimpleImputer(random_state=0)), 0, 1),
    "nothing more": (make_pipeline(HALF, "passthrough"), 0, 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_leaves_it_lies_in_known_bounds(name):
    step, low, high = STEPS[name]
    if name != "curves":
        assert same_as_given(of_numbers(step), low, high)
        return
    piped = make_pipeline(of_numbers(step), clf()).fit(X, Y)  # bins are 0 or 1
    assert (piped[-1].scaling_.low >= [-1, -1, *[-1, 0, 0, 0, 0] * 2]).all()
    assert (piped[-1].scaling_.high <= 1).all()


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_columns_of_all_kinds(output):
    step = columns(DPSimpleImputer(feature_bounds=NUMBERS, random_state=0))
    low, high = [20, -2, 0, 0, 0, 0], [80, 4, 1, 1, 1, 1]
    assert same_as_given(step.set_output(transform=output), low, high, flags=4)


def test_a_silo_column_passes():
    frame = X.assign(silo=SILOS).loc[:, ["silo", "age", "pay"]]
    first = DPMinMaxScaler(feature_bounds=NUMBERS, silo_column="silo")
    piped = make_pipeline(first, clf(silo_column="silo")).fit(frame, Y)
    given = clf(feature_bounds=(0, 1))
    given.fit(HALF.fit_transform(X[["age", "pay"]]), Y, silos=SILOS)
    assert np.array_equal(piped[-1].coef_, given.coef_)


def test_pipelines_within_pipelines():
    inner = make_pipeline(PolynomialFeatures(2, include_bias=False), clf())
    nested = make_pipeline(of_numbers(HALF), inner).fit(X, Y)
    flat = make_pipeline(of_numbers(HALF), *[step for _, step in inner.steps]).fit(X, Y)
    assert np.array_equal(nested[-1][-1].coef_, flat[-1].coef_)
    assert nested[-1][-1].plan_.setup == flat[-1].plan_.setup


class Doubled(Normalizer):
    def transform(self, X, copy=None):
        return 2 * super().transform(X)


@pytest.mark.parametrize(
    "step", [DPStandardScaler(random_state=0), MaxAbsScaler(), Doubled(), FunctionTransformer()]
)
def test_nothing_is_known_of_others(step):
    alone = clf().fit(of_numbers(step).fit_transform(X), Y)
    piped = make_pipeline(of_numbers(step), clf()).fit(X, Y)
    assert np.array_equal(piped[-1].coef_, alone.coef_)


def test_bounds_that_are_given_come_first_and_may_leave_out_what_is_known():
    step = columns(DPStandardScaler(random_state=0)).set_output(transform="pandas")
    piped = make_pipeline(step, clf(feature_bounds={"age": (-3, 3), "pay": (-3, 3)})).fit(X, Y)
    low, high = [-3, -3, 0, 0, 0, 0], [3, 3, 1, 1, 1, 1]
    given = clf(feature_bounds=(low, high)).fit(with_flags(step.transform(X), 4), Y)
    assert np.array_equal(piped[-1].coef_, given.coef_)
    wide = make_pipeline(of_numbers(HALF), clf(feature_bounds=(-9, 9))).fit(X, Y)
    assert not np.array_equal(
        wide[-1].coef_, make_pipeline(of_numbers(HALF), clf()).fit(X, Y)[-1].coef_
    )


def test_values_beyond_a_range_are_cut():
    piped = make_pipeline(of_numbers(HALF), clf()).fit(X, Y)
    ends, beyond = X.head(2).assign(age=[20, 80]), X.head(2).assign(age=[-1e6, 1e6])
    assert np.array_equal(piped.decision_function(ends), piped.decision_function(beyond))


def test_categories_are_indicators_of_an_additive_model():
    step = columns(DPSimpleImputer(feature_bounds=NUMBERS, random_state=0))
    model = clf(epsilon=8.0, model=Additive(interactions=True))
    names = make_pipeline(step, model).fit(X, Y)[-1].summary().index
    assert {"x0: rank", "x0 * x2"} <= set(names)
    assert not {"x2: rank", "x2 * x3"} & set(names)


def test_a_shared_budget_and_a_search_price_what_they_run():
    step = columns(DPSimpleImputer(feature_bounds=NUMBERS), categories="auto", max_categories=4)
    shared = SharedBudget(make_pipeline(step, clf(random_state=None)), epsilon=3.0, random_state=0)
    shared.fit(X, Y, silos=SILOS)
    assert 2.9 < shared.privacy_spent_.epsilon <= 3.0
    last = shared.estimator_[-1]
    given = clf(feature_bounds=([20, -2, 0, 0, 0, 0], [80, 4, 1, 1, 1, 1]))
    given.set_params(**{n: last.get_params()[n] for n in ("epsilon", "delta", "random_state")})
    sizes, flags = np.bincount(SILOS), np.arange(6) > 1
    plan = given.plan_for(silo_sizes=sizes, n_features=6, indicators=flags)
    assert last.plan_.setup == plan.setup
    free = make_pipeline(columns(HALF), clf(random_state=None))
    search = DPRandomizedSearchCV(
        free, {"isrldpclassifier__alpha": [0, 0.01]}, epsilon=3.0, n_iter=2, random_state=0
    ).fit(X, Y, silos=SILOS)
    assert search.privacy_spent_.epsilon <= 3.0


def test_it_helps():
    rng = np.random.default_rng(1)
    shares = np.geomspace(1, 0.02, 20) / np.geomspace(1, 0.02, 20).sum()
    codes = rng.choice(20, (N, 4), p=shares)
    raw = rng.normal(size=(4, 20))[np.arange(4), codes].sum(axis=1) + 0.05 * (X.age - 50)
    y = (raw + rng.logistic(size=N) > 0).to_numpy()
    data = pd.DataFrame(codes.astype(str), columns=list("abcd")).assign(age=X.age)
    categories = [[str(j) for j in range(20)]] * 4
    losses = []
    for hidden in (None, FunctionTransformer()):
        step = make_column_transformer(
            (encoder(categories=categories), list("abcd")),
            (DPMinMaxScaler(feature_bounds=(20, 80)), ["age"]),
        )
        fits = [make_pipeline(step, hidden, clf(random_state=s)).fit(data, y) for s in (0, 1)]
        losses.append(np.mean([log_loss(y, model.predict_proba(data)) for model in fits]))
    assert losses[0] < losses[1] - 0.01


def test_a_later_fit_alone_knows_nothing():
    piped = make_pipeline(of_numbers(HALF), clf()).fit(X, Y)
    table = X[["age", "pay"]].to_numpy()
    again = piped[-1].fit(table, Y)
    assert np.array_equal(again.coef_, clf().fit(table, Y).coef_)


def test_own_encoders_of_scikit_learn():
    step = make_column_transformer(
        (OneHotEncoder(categories=[list("abcd")], sparse_output=False), ["town"])
    )
    assert same_as_given(step, 0, 1, flags=4)
    piped = make_pipeline(step, clf()).fit(X, Y)
    assert skdpfl.privacy_spent(piped).epsilon <= 1.0
