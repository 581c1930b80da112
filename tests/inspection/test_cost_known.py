"""privacy_spent: steps, folds, widths and silos around private estimators, and what is said."""

import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context, preprocessing
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, make_pipeline

import skdpfl
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import LeaveOneSiloOut, SharedBudget, SiloKFold, SiloStratifiedKFold
from skdpfl.preprocessing import DPMinMaxScaler, DPOneHotEncoder, DPSimpleImputer, RowTransformer
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import Approximate

X, y = load_breast_cancer(return_X_y=True)
X = X / np.abs(X).max(axis=0)


def clf(epsilon=1.0, **params):
    params = {"scaling": None, "n_rounds": 3, "delta": 1e-5} | params
    return skdpfl.ISRLDPClassifier(epsilon=epsilon, **params)


STEPS_THAT_LEARN_NOTHING = [
    preprocessing.Normalizer(),
    preprocessing.FunctionTransformer(),
    preprocessing.FunctionTransformer(np.log1p),
    preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False),
    preprocessing.SplineTransformer(knots=np.repeat([[-1.0], [0.0], [1.0]], 30, axis=1), degree=1),
    preprocessing.FunctionTransformer(np.clip, kw_args={"a_min": -0.5, "a_max": 0.5}),
    RowTransformer(lambda Z: Z[:, :2] ** 2),
    SimpleImputer(strategy="constant", fill_value=0),
    SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
    FeatureUnion([("a", preprocessing.Normalizer()), ("b", "passthrough")]),
    ColumnTransformer([("a", preprocessing.Normalizer(), [0, 1])], remainder="passthrough"),
]


@pytest.mark.parametrize("step", STEPS_THAT_LEARN_NOTHING, ids=lambda s: type(s).__name__)
def test_a_pipeline_costs_what_its_estimator_costs(step):
    pipe = make_pipeline(step, clf()).fit(X, y)
    assert skdpfl.privacy_spent(pipe) == pipe[-1].privacy_spent_


STEPS_THAT_LEARN = [
    preprocessing.StandardScaler(),
    preprocessing.SplineTransformer(3, degree=1),
    SimpleImputer(),
    SimpleImputer(strategy="constant", add_indicator=True),
    ColumnTransformer([("scale", preprocessing.StandardScaler(), [0, 1])], remainder="passthrough"),
]


@pytest.mark.parametrize("step", STEPS_THAT_LEARN, ids=lambda s: type(s).__name__)
def test_a_step_that_learnt_is_named_and_costs_everything(step):
    pipe = make_pipeline(step, clf()).fit(X, y)
    name = "columntransformer__scale" if isinstance(step, ColumnTransformer) else pipe.steps[0][0]
    with pytest.warns(PrivacyLeakWarning, match=f"{name}: .* learnt from the records"):
        spent = skdpfl.privacy_spent(pipe)
    assert np.isinf(spent.epsilon)
    assert skdpfl.privacy_spent(pipe, public=[name]).epsilon == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("encoder", [preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder])
def test_encoders_pay_unless_their_categories_are_declared(encoder):
    letters = np.array([["a", "b", "c"][i % 3] for i in range(len(y))])[:, None]
    sparse = {"sparse_output": False} if encoder is preprocessing.OneHotEncoder else {}
    declared = make_pipeline(encoder(categories=[["a", "b", "c"]], **sparse), clf())
    assert skdpfl.privacy_spent(declared.fit(letters, y)).epsilon < 1.01
    learnt = make_pipeline(encoder(**sparse), clf()).fit(letters, y)
    with pytest.warns(PrivacyLeakWarning, match="Declare"):
        assert np.isinf(skdpfl.privacy_spent(learnt).epsilon)


def test_scores_out_of_the_bag_and_draws_by_weights_are_told():
    bag = BaggingClassifier(clf(), 8, max_samples=0.2, oob_score=True, random_state=0).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="oob_score_ and the out-of-bag predictions"):
        assert np.isfinite(skdpfl.privacy_spent(bag).epsilon)
    bag.set_params(oob_score=False).fit(X, y, sample_weight=1 + X[:, 0])
    with pytest.warns(PrivacyLeakWarning, match="drawn by weights"):
        assert np.isinf(skdpfl.privacy_spent(bag).epsilon)


TWICE = [(np.repeat(np.arange(k, k + 200), 2), np.arange(400, 500)) for k in (0, 200)]


class Bootstrap:
    """A splitter from outside, whose list does not say what it makes of it."""

    def __init__(self):
        self.cv = list(KFold(2).split(y))

    def split(self, X, y=None, groups=None):
        return iter(TWICE)

    def get_n_splits(self, X=None, y=None, groups=None):
        return len(TWICE)


LAST_TWICE = [([-1, len(y) - 1, *range(200)], [300])]


@pytest.mark.filterwarnings("ignore:.*choice was based on exact scores")
@pytest.mark.parametrize("cv", [TWICE, check_cv(TWICE), iter(TWICE), LAST_TWICE, Bootstrap()])
def test_training_sets_that_repeat_records_have_no_price(cv):
    search = GridSearchCV(clf(1.0, delta=1e-5), {}, cv=cv).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="may contain a record twice"):
        assert np.isinf(skdpfl.privacy_spent(search).epsilon)


@pytest.mark.filterwarnings("ignore:.*choice was based on exact scores", "ignore:The noise will")
@pytest.mark.parametrize("cv", [KFold(2), list(KFold(2).split(y))])
def test_how_many_persons_folds_of_rows_have_is_not_known(cv):
    """The automatic delta follows from it: here one fold of rows has many more than the other."""
    few = np.append(np.arange(len(y) - 300), len(y) + np.arange(300) // 15)
    with config_context(enable_metadata_routing=True):
        for delta, expected in (("auto", np.inf), (1e-5, 1.8)):
            person = clf(1.0, delta=delta, unit="person").set_fit_request(persons=True)
            search = GridSearchCV(person, {}, cv=cv).fit(X, y, persons=few)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert skdpfl.privacy_spent(search).epsilon >= expected


def test_members_of_earlier_fits_are_not_priced_by_the_draws_of_the_last():
    bag = BaggingClassifier(make_pipeline(clf()), 2, random_state=0, warm_start=True).fit(X, y)
    with pytest.warns(UserWarning, match="does not fit new trees"):
        bag.set_params(max_samples=1).fit(X, y)  # of one row each, if drawn again
    with pytest.warns(PrivacyLeakWarning, match="earlier fits may have drawn"):
        assert np.isinf(skdpfl.privacy_spent(bag).epsilon)
    bag.set_params(warm_start=False, max_samples=1.0).fit(X, y)
    assert np.isfinite(skdpfl.privacy_spent(bag).epsilon)


@pytest.mark.parametrize("name", [True, "w"])
def test_bagging_copies_rows_whose_weights_have_another_name(name):
    """Draws are weights only if no others are routed to the members."""
    with config_context(enable_metadata_routing=True):
        inner = clf().set_fit_request(sample_weight=name)
        own = {} if name is True else {name: np.ones(len(y))}
        bag = BaggingClassifier(inner, 1, random_state=0).fit(X, y, **own)
    copies = int(np.bincount(bag.estimators_samples_[0]).max())
    one = bag.estimators_[0].privacy_spent_.epsilon
    assert copies > 2
    assert (skdpfl.privacy_spent(bag).epsilon > 2 * one) == (name == "w")


class OwnBag(BaggingClassifier):
    """A bag whose fits are not known."""

    def fit(self, X, y):
        return super().fit(X, y)


def test_no_ledger_is_recommended_for_copies_of_rows_which_it_does_not_see():
    with PrivacyLedger() as ledger:
        bag = BaggingClassifier(make_pipeline(clf()), 1, random_state=0).fit(X, y)
    assert skdpfl.privacy_spent(bag).epsilon > 5 * ledger.spent.epsilon
    assert "copies of a record, as bags" in skdpfl.report(bag, ledger=ledger).methods
    unknown = OwnBag(make_pipeline(clf()), 1, random_state=0).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="Unless rows are copied .*, a ledger has the cost"):
        assert np.isinf(skdpfl.privacy_spent(unknown).epsilon)


@pytest.mark.parametrize("cv", [
    3, LeaveOneOut(), ShuffleSplit(3, train_size=0.3, random_state=0), list(KFold(3).split(X[:18])),
    np.array([(np.arange(9), np.arange(9, 18)), (np.arange(9, 18), np.arange(9))]),
    SiloStratifiedKFold(3, silo_column="silo"), LeaveOneSiloOut(silo_column="silo"),
], ids=lambda cv: type(cv).__name__)  # fmt: skip
@pytest.mark.parametrize("whole", [{}, {"unit": "silo", "trust": "server"}], ids=["", "silos"])
def test_discarded_fits_cost_what_a_ledger_saw(cv, whole):
    """The automatic delta, and with it the noise, follows from the size of a training set."""
    table = pd.DataFrame(X[:18, :2], columns=["a", "b"]).assign(silo=np.arange(18) % 6)
    model = skdpfl.DPFedAvgClassifier(1.0, n_rounds=2, local_steps=1, scaling=None,
                                      classes=[0, 1], silo_column="silo", **whole)  # fmt: skip
    with warnings.catch_warnings(), PrivacyLedger(delta=1e-2) as ledger:
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"clip_norm": [1.0]}, cv=cv).fit(table, np.arange(18) % 2)
    with pytest.warns(PrivacyLeakWarning):
        spent = skdpfl.privacy_spent(search)
    if whole and isinstance(
        cv, list | np.ndarray
    ):  # which silos were in a training set is cannot be recovered
        assert np.isinf(spent.epsilon)
        return
    assert spent.delta == ledger.spent.delta
    assert spent.epsilon == pytest.approx(ledger.spent.epsilon, rel=0.01)


@pytest.mark.parametrize(("delta", "known"), [(1e-5, True), ("auto", False)])
def test_a_search_that_halves_has_training_sets_of_several_sizes(delta, known):
    model = clf(delta=delta, n_rounds=2, classes=[0, 1])
    with warnings.catch_warnings(), PrivacyLedger(delta=1e-2) as ledger:
        warnings.simplefilter("ignore")
        search = HalvingGridSearchCV(model, {"clip_norm": [0.1, 0.2, 0.3]}, cv=2, min_resources=30,
                                     random_state=0).fit(X[:120], np.arange(120) % 2)  # fmt: skip
    with pytest.warns(PrivacyLeakWarning):
        spent = skdpfl.privacy_spent(search)
    assert spent.epsilon == (pytest.approx(ledger.spent.epsilon, rel=0.01) if known else np.inf)


@pytest.mark.parametrize(("cv", "told"), [(2, True), (KFold(2), False)])
def test_folds_of_a_search_that_follow_the_labels_are_named(cv, told):
    search = GridSearchCV(clf(), {"clip_norm": [1.0]}, cv=cv).fit(X, y)
    with pytest.warns(PrivacyLeakWarning) as said:
        skdpfl.privacy_spent(search)
    assert any("changing one label moves" in str(each.message) for each in said) == told


@pytest.mark.parametrize(
    ("cv", "told"),
    [
        (SiloKFold(2, silo_column="silo"), True),
        (SiloKFold(2, shuffle=True, random_state=0, silo_column="silo"), False),
        (KFold(2), True),
    ],
)
def test_folds_that_follow_protected_sizes_are_named(cv, told):
    table = pd.DataFrame(X[:24, :2], columns=["a", "b"]).assign(silo=np.arange(24) % 6)
    model = skdpfl.DPFedAvgClassifier(1.0, n_rounds=2, scaling=None, classes=[0, 1], delta=1e-3,
                                      silo_column="silo", unit="silo", trust="server")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"clip_norm": [1.0]}, cv=cv).fit(table, np.arange(24) % 2)
    with pytest.warns(PrivacyLeakWarning) as said:
        skdpfl.privacy_spent(search)
    assert any("one silo's size moves" in str(each.message) for each in said) == told


def test_a_member_that_was_not_told_the_silos_trusts_who_has_all_rows():
    table = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(where=np.arange(len(y)) % 3)
    told, pooled = clf(silo_column="where"), clf()
    for members, trust in ([(told, told), "silo"], [(told, pooled), "server"]):
        named = [(str(i), clone(member)) for i, member in enumerate(members)]
        vote = VotingClassifier(named).fit(table, y)
        says = pytest.warns(PrivacyLeakWarning, match="took all records as one silo, where another")
        with says if trust == "server" else nullcontext():
            assert skdpfl.privacy_spent(vote).trust == trust


def found_width(last, **how):
    """A pipeline whose encoder finds how many columns its last step sees."""
    encoder = DPOneHotEncoder(2.0, delta=1e-5, **how)
    return make_pipeline(encoder, last)


def test_what_follows_from_a_found_width_costs_the_budget_that_was_given():
    words = np.where(X[:, :1] > 0.5, "high", "low")
    model = found_width(clf(1.0, random_state=0)).fit(words, y)
    own = model[-1].privacy_spent_
    assert own.epsilon < 1.0
    chosen = skdpfl.privacy_spent(model)
    assert Approximate(1.0, 1e-5) in dict(chosen.costs[0].composition)
    given = {"noise_multiplier": 9.0, "random_state": 0}
    with pytest.warns(PrivacyLeakWarning, match="given noise depends on columns"):
        assert np.isinf(skdpfl.privacy_spent(found_width(clf(None, **given)).fit(words, y)).epsilon)
    fixed = found_width(clf(None, **given), max_categories=2).fit(words, y)
    assert np.isfinite(skdpfl.privacy_spent(fixed).epsilon)


def test_fits_on_splits_behind_a_found_width_cost_their_budget_too():
    words = np.where(X[:, :1] > 0.5, "high", "low")
    model = found_width(clf(1.0))
    stack = StackingClassifier([("a", model)], clf(1.0), cv=KFold(2)).fit(words, y)
    spent = skdpfl.privacy_spent(stack)
    of_step = dict(spent.costs[0].composition)
    assert of_step[Approximate(1.0, 1e-5)] == 2 + 1  # on splits, and at last


def test_the_cost_of_what_a_selection_chose_has_no_outsider():
    silos = np.arange(len(y)) % 3
    select = SelectFromModel(clf(1.0, random_state=1), threshold="mean")
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(select, clf(1.0, random_state=2)).fit(X, y, silos=silos)
    assert pipe[-1].privacy_spent_.outsider is not None
    with warnings.catch_warnings():  # scikit-learn 1.8 does not tell the selection the silos
        warnings.filterwarnings("ignore", "1 step.s. or member.s. took all records as one silo")
        assert skdpfl.privacy_spent(pipe).outsider is None


@pytest.mark.filterwarnings("ignore:Skipping features without")
def test_an_imputer_that_dropped_a_column_learnt_that_it_is_empty():
    empty = np.column_stack([X[:, :3], np.full(len(X), np.nan)])
    pipe = make_pipeline(SimpleImputer(strategy="constant", fill_value=0), clf()).fit(empty, y)
    with pytest.warns(PrivacyLeakWarning, match="simpleimputer: .* learnt"):
        assert np.isinf(skdpfl.privacy_spent(pipe).epsilon)


def test_what_was_not_fitted_has_no_cost():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        skdpfl.privacy_spent(clf())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        skdpfl.privacy_spent(make_pipeline(preprocessing.Normalizer(), clf()))
    for around in (
        VotingClassifier([("a", clf())]),
        GridSearchCV(clf(), {}),
        preprocessing.StandardScaler(),
    ):
        with pytest.raises(NotFittedError, match=f"{type(around).__name__} instance is not fitted"):
            skdpfl.privacy_spent(around)
    with pytest.raises(TypeError, match=r"must be a fitted estimator; got int.*sum\("):
        skdpfl.privacy_spent(3)


def test_names_declared_public_are_looked_for():
    pipe = make_pipeline(preprocessing.StandardScaler(), clf()).fit(X, y)
    assert skdpfl.privacy_spent(pipe, public="standardscaler").epsilon < 1.01
    with pytest.raises(ValueError, match=r"\['standardscalar'\] is not a step; the steps are"):
        skdpfl.privacy_spent(pipe, public=["standardscalar"])


def test_a_transformed_target():
    data, target = load_diabetes(return_X_y=True)
    inner = skdpfl.ISRLDPRegressor(epsilon=1.0, scaling=None, n_rounds=3)
    how = {"func": np.log1p, "inverse_func": np.expm1, "check_inverse": False}
    model = TransformedTargetRegressor(inner, **how)
    assert skdpfl.privacy_spent(model.fit(data, target)).epsilon < 1.01
    scaled = TransformedTargetRegressor(inner, transformer=preprocessing.StandardScaler()).fit(
        data, target
    )
    with pytest.warns(PrivacyLeakWarning, match="transformer: StandardScaler"):
        assert np.isinf(skdpfl.privacy_spent(scaled).epsilon)


def test_nothing_learnt_costs_nothing():
    assert skdpfl.privacy_spent(make_pipeline(preprocessing.Normalizer()).fit(X)).epsilon == 0


def test_steps_that_release_nothing_need_not_know_the_silos():
    model = make_pipeline(DPMinMaxScaler(feature_bounds=(0, 1)), clf())
    model.fit(X, y, isrldpclassifier__silos=np.arange(len(X)) % 3)
    assert skdpfl.privacy_spent(model).trust == "silo"


def test_steps_that_were_not_told_the_silos_trust_who_has_all_rows():
    frame = pd.DataFrame({"age": X[:, 0], "hospital": np.arange(len(X)) % 3})
    last = clf(silo_column="hospital")
    for told in (True, False):
        column = {"silo_column": "hospital", "keep_silo_column": False} if told else {}
        fill = DPSimpleImputer(feature_bounds=(0, 1), delta=1e-5, **column)
        names = ["age", "hospital"] if told else ["age"]
        columns = ColumnTransformer(
            [("age", fill, names), ("silo", "passthrough", ["hospital"])],
            verbose_feature_names_out=False,
        ).set_output(transform="pandas")
        model = make_pipeline(columns, last).fit(frame, y)
        shared = SharedBudget(make_pipeline(columns, last))
        if told:
            assert skdpfl.privacy_spent(model).trust == "silo"
            assert shared.fit(frame, y).privacy_spent_.trust == "silo"
            continue
        with pytest.warns(PrivacyLeakWarning, match=r"1 step\(s\) .* as one silo, .* given 3"):
            assert skdpfl.privacy_spent(model).trust == "server"
        with pytest.warns(PrivacyLeakWarning, match="metadata routing"):
            assert shared.fit(frame, y).privacy_spent_.trust == "server"
