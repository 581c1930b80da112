"""privacy_spent: what whole pipelines, searches and ensembles cost."""

import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

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
    Normalizer(),
    FunctionTransformer(),
    FunctionTransformer(np.log1p),
    PolynomialFeatures(2, interaction_only=True, include_bias=False),
    SplineTransformer(knots=np.repeat([[-1.0], [0.0], [1.0]], 30, axis=1), degree=1),
    FunctionTransformer(np.clip, kw_args={"a_min": -0.5, "a_max": 0.5}),
    RowTransformer(lambda Z: Z[:, :2] ** 2),
    SimpleImputer(strategy="constant", fill_value=0),
    SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
    FeatureUnion([("a", Normalizer()), ("b", "passthrough")]),
    ColumnTransformer([("a", Normalizer(), [0, 1])], remainder="passthrough"),
]


@pytest.mark.parametrize("step", STEPS_THAT_LEARN_NOTHING, ids=lambda s: type(s).__name__)
def test_a_pipeline_costs_what_its_estimator_costs(step):
    pipe = make_pipeline(step, clf()).fit(X, y)
    assert skdpfl.privacy_spent(pipe) == pipe[-1].privacy_spent_


STEPS_THAT_LEARN = [
    StandardScaler(),
    SplineTransformer(3, degree=1),
    SimpleImputer(),
    SimpleImputer(strategy="constant", add_indicator=True),
    ColumnTransformer([("scale", StandardScaler(), [0, 1])], remainder="passthrough"),
]


@pytest.mark.parametrize("step", STEPS_THAT_LEARN, ids=lambda s: type(s).__name__)
def test_a_step_that_learnt_is_named_and_costs_everything(step):
    pipe = make_pipeline(step, clf()).fit(X, y)
    name = "columntransformer__scale" if isinstance(step, ColumnTransformer) else pipe.steps[0][0]
    with pytest.warns(PrivacyLeakWarning, match=f"{name}: .* learnt from the records"):
        spent = skdpfl.privacy_spent(pipe)
    assert np.isinf(spent.epsilon)
    assert skdpfl.privacy_spent(pipe, public=[name]).epsilon == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
def test_encoders_pay_unless_their_categories_are_declared(encoder):
    letters = np.array([["a", "b", "c"][i % 3] for i in range(len(y))])[:, None]
    sparse = {"sparse_output": False} if encoder is OneHotEncoder else {}
    declared = make_pipeline(encoder(categories=[["a", "b", "c"]], **sparse), clf())
    assert skdpfl.privacy_spent(declared.fit(letters, y)).epsilon < 1.01
    learnt = make_pipeline(encoder(**sparse), clf()).fit(letters, y)
    with pytest.warns(PrivacyLeakWarning, match="Declare"):
        assert np.isinf(skdpfl.privacy_spent(learnt).epsilon)


def test_a_search_pays_for_all_its_fits():
    grid = GridSearchCV(clf(), {"epsilon": [0.5, 1.0], "clip_norm": [0.3, 1.0]}, cv=3).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="exact scores"):
        spent = skdpfl.privacy_spent(grid)
    halves, ones = clf(0.5).fit(X, y).privacy_spent_, clf(1.0).fit(X, y).privacy_spent_
    by_hand = sum([halves] * 6, start=grid.best_estimator_.privacy_spent_)
    by_hand = sum([ones] * 6, start=by_hand)
    assert spent.epsilon == pytest.approx(by_hand.epsilon, rel=0.02)
    assert spent.epsilon > 2.5


def test_a_search_over_whole_silos_pays_for_all_its_fits_though_their_sizes_are_protected():
    silo = skdpfl.DPFedAvgClassifier(
        unit="silo", trust="server", epsilon=1.0, n_rounds=2, scaling=None
    )
    silo.set_params(silo_column="silo", delta=1e-3)
    X20 = pd.DataFrame(X).rename(columns=str).assign(silo=np.arange(len(X)) % 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        grid = GridSearchCV(silo, {"clip_norm": [0.3, 1.0]}, cv=2).fit(X20, y)
        with pytest.warns(PrivacyLeakWarning, match="exact scores"):
            spent = skdpfl.privacy_spent(grid)
        one = grid.best_estimator_.privacy_spent_
    assert (spent.unit, spent.per_silo) == ("silo", None)
    assert spent.epsilon == pytest.approx((one + one + one + one + one).epsilon, rel=0.01)


def test_a_search_over_a_pipeline_names_the_step_that_learnt():
    pipe = make_pipeline(StandardScaler(), clf())
    grid = GridSearchCV(pipe, {"isrldpclassifier__epsilon": [0.5, 1.0]}, cv=2).fit(X, y)
    with pytest.warns(PrivacyLeakWarning) as caught:
        assert np.isinf(skdpfl.privacy_spent(grid).epsilon)
    assert len(caught) == 2  # the scaler, the scores: one warning per cause
    with pytest.warns(PrivacyLeakWarning, match="exact scores"):
        assert np.isfinite(skdpfl.privacy_spent(grid, public=["standardscaler"]).epsilon)


def test_ensembles_pay_for_all_members():
    flowers, kinds = load_iris(return_X_y=True)
    one = clf(1.0).fit(flowers, kinds == 0).privacy_spent_
    ovr = OneVsRestClassifier(clf(1.0)).fit(flowers, kinds)
    assert skdpfl.privacy_spent(ovr).epsilon == pytest.approx((one + one + one).epsilon, rel=1e-5)
    vote = VotingClassifier([("a", clf(1.0)), ("b", clf(1.0)), ("c", "drop")]).fit(X, y)
    assert skdpfl.privacy_spent(vote).epsilon == pytest.approx((one + one).epsilon, rel=1e-5)


def test_bags_pay_for_copies_of_records_and_not_for_their_weights():
    """A pipeline is given copies; the weight of a record is a factor before the clip."""
    for each in (clf(0.2), make_pipeline(Normalizer(), clf(0.2))):
        with PrivacyLedger(delta=1e-5) as ledger:
            bag = BaggingClassifier(each, n_estimators=2, random_state=0).fit(X, y)
        spent = skdpfl.privacy_spent(bag)
        assert ledger.spent.epsilon * 0.999 <= spent.epsilon < 1.2 * ledger.spent.epsilon
        assert (spent.epsilon > 1) == isinstance(each, Pipeline)
        assert spent.group_size == 1  # copies of one record, not several people


def test_scores_out_of_the_bag_and_draws_by_weights_are_told():
    bag = BaggingClassifier(clf(), 8, max_samples=0.2, oob_score=True, random_state=0).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="oob_score_ and the out-of-bag predictions"):
        assert np.isfinite(skdpfl.privacy_spent(bag).epsilon)
    bag.set_params(oob_score=False).fit(X, y, sample_weight=1 + X[:, 0])
    with pytest.warns(PrivacyLeakWarning, match="drawn by weights"):
        assert np.isinf(skdpfl.privacy_spent(bag).epsilon)


def test_fits_on_splits_of_what_has_a_budget_for_all_of_it_are_not_known():
    pipe = SharedBudget(make_pipeline(Normalizer(), clf()), delta=1e-5)
    stack = StackingClassifier([("a", pipe)], final_estimator=clf(), cv=KFold(2)).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="cannot be recovered"):
        assert np.isinf(skdpfl.privacy_spent(stack).epsilon)


@pytest.mark.parametrize("member", [clf(0.2), make_pipeline(Normalizer(), clf(0.2))])
def test_a_ledger_counts_the_copies_that_bagging_makes(member):
    """A pipeline is given copies of records, an estimator their number as a weight."""
    with PrivacyLedger(delta=1e-5) as ledger:
        bag = BaggingClassifier(member, n_estimators=2, random_state=0).fit(X, y)
    copies = isinstance(bag.estimators_[0], Pipeline)
    once = [getattr(m, "steps", [[m]])[-1][-1].privacy_spent_ for m in bag.estimators_]
    times = [np.bincount(rows).max() if copies else 1 for rows in bag.estimators_samples_]
    paid = [entry.spent.epsilon for entry in ledger.entries]
    assert paid == [one.group(k).epsilon for one, k in zip(once, times, strict=True)]
    assert (min(paid) > 0.6) == copies
    assert {entry.spent.group_size for entry in ledger.entries} == {1}


@pytest.mark.parametrize("cv", [
    3, LeaveOneOut(), ShuffleSplit(3, train_size=0.3, random_state=0), list(KFold(3).split(X[:18])),
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
    if whole and isinstance(cv, list):  # which silos were in a training set is cannot be recovered
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


@pytest.mark.parametrize(("seed", "known"), [(0, True), (None, False)])
def test_given_noise_costs_what_the_draw_of_silos_made_of_it(seed, known):
    model = skdpfl.ISRLDPClassifier(None, noise_multiplier=9.0, cohort="uniform", silo_fraction=0.5,
                                    scaling=None, n_rounds=20, random_state=seed)  # fmt: skip
    silos = np.arange(len(y)) % 5
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, {"clip_norm": [1.0]}, cv=2).fit(X, y, silos=silos)
    with pytest.warns(PrivacyLeakWarning):
        assert np.isfinite(skdpfl.privacy_spent(search).epsilon) == known


@pytest.mark.parametrize(("n_silos", "cv", "how", "known"), [
    (2, KFold(2, shuffle=True, random_state=0), {}, False), (1, KFold(2), {}, True),
    (2, SiloStratifiedKFold(2), {}, True),
    (2, KFold(2, shuffle=True, random_state=0), {"sampling": "disjoint", "scaling": None}, False),
])  # fmt: skip
def test_given_noise_costs_what_the_share_of_a_silo_made_of_it(n_silos, cv, how, known):
    rows = np.repeat(np.arange(n_silos), (100, 500)[-n_silos:])
    model = skdpfl.ISRLDPClassifier(None, noise_multiplier=9.0, delta=1e-5, n_rounds=5,
                                    random_state=0, **how)  # fmt: skip
    data = np.arange(len(rows))[:, None] / len(rows), np.arange(len(rows)) // 2 % 2
    with config_context(enable_metadata_routing=True), pytest.warns(PrivacyLeakWarning):
        with PrivacyLedger(delta=1e-2) as ledger:
            search = GridSearchCV(model, {"clip_norm": [1.0]}, cv=cv).fit(*data, silos=rows)
        spent = skdpfl.privacy_spent(search)
    assert spent.epsilon == (pytest.approx(ledger.spent.epsilon, rel=0.01) if known else np.inf)


@pytest.mark.parametrize("cv", [LeaveOneOut(), 3])
def test_a_stack_pays_for_as_many_fits_as_its_splits_made(cv):
    with PrivacyLedger(delta=1e-2) as ledger:
        stack = StackingClassifier([("a", clf())], clf(), cv=cv).fit(X[:20], np.arange(20) % 2)
    if cv == 3:  # classifiers' folds follow the labels: said, but of no price
        with pytest.warns(PrivacyLeakWarning, match="changing one label moves other records"):
            spent = skdpfl.privacy_spent(stack)
    else:
        spent = skdpfl.privacy_spent(stack)
    assert spent.epsilon == pytest.approx(ledger.spent.epsilon, rel=0.01)
    stack.cv = iter(KFold(3).split(X[:20]))  # which a fit uses up
    with pytest.warns(PrivacyLeakWarning, match="its splits cannot be recovered|cv .* changed"):
        assert np.isinf(skdpfl.privacy_spent(stack).epsilon)


def test_members_of_two_labels_show_how_many_records_have_them():
    three = np.arange(len(y)) % 3
    one_to_one = OneVsOneClassifier(clf()).fit(X, three)
    with pytest.warns(PrivacyLeakWarning, match="Use OneVsRestClassifier"):
        assert np.isinf(skdpfl.privacy_spent(one_to_one).epsilon)


@pytest.mark.parametrize(("cv", "told"), [(2, True), (KFold(2), False)])
def test_folds_of_a_search_that_follow_the_labels_are_named(cv, told):
    search = GridSearchCV(clf(), {"clip_norm": [1.0]}, cv=cv).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="exact scores") as said:
        skdpfl.privacy_spent(search)
    assert ("changing one label moves" in str(said[0].message)) == told


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
    stack = StackingClassifier([("a", model)], clone(model).set_params(silo_column=None), cv=cv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"clip_norm": [1.0]}, cv=cv).fit(table, np.arange(24) % 2)
    with pytest.warns(PrivacyLeakWarning, match="exact scores") as said:
        skdpfl.privacy_spent(search)
    assert ("one silo's size moves" in str(said[0].message)) == told
    if isinstance(cv, KFold):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stack.fit(table, np.arange(24) % 2)
        with pytest.warns(PrivacyLeakWarning, match="one silo's size moves"):
            skdpfl.privacy_spent(stack)


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
    with pytest.warns(PrivacyLeakWarning, match="was given noise_multiplier, whose cost depends"):
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


def test_a_stack_pays_for_the_fits_that_only_gave_predictions():
    one = clf(0.2).fit(X, y).privacy_spent_
    stack = StackingClassifier([("a", clf(0.2)), ("b", clf(0.2))], clf(0.2), cv=KFold(3)).fit(X, y)
    by_hand = sum([one] * 8, start=one)  # 2 members, each on 3 splits as well, and the last step
    assert skdpfl.privacy_spent(stack).epsilon == pytest.approx(by_hand.epsilon, rel=0.02)
    frozen = [("a", clf(0.2).fit(X, y)), ("b", clf(0.2).fit(X, y))]
    prefit = StackingClassifier(frozen, clf(0.2), cv="prefit").fit(X, y)
    assert skdpfl.privacy_spent(prefit).epsilon == pytest.approx((one + one + one).epsilon)


def test_a_chain_pays_for_the_fits_that_only_gave_predictions():
    both = np.column_stack([y, X[:, 0] > 0.5]).astype(int)
    one = clf(0.3).fit(X, y).privacy_spent_
    chain = ClassifierChain(clf(0.3)).fit(X, both)
    assert skdpfl.privacy_spent(chain).epsilon == pytest.approx((one + one).epsilon)
    crossed = ClassifierChain(clf(0.3), cv=KFold(3)).fit(X, both)
    by_hand = sum([one] * 4, start=one)
    assert skdpfl.privacy_spent(crossed).epsilon == pytest.approx(by_hand.epsilon, rel=0.02)


def test_boosting_weighs_records_by_exact_errors():
    class Weighted(skdpfl.ISRLDPClassifier):
        """Takes weights and draws its records by them, as boosting of regressors does."""

        def fit(self, X, y, sample_weight=None):
            return super().fit(X, y)

    weak = Weighted(epsilon=5.0, scaling=None, n_rounds=3, random_state=0)
    boosted = AdaBoostClassifier(weak, n_estimators=2, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="AdaBoostClassifier learnt from the records"):
        assert np.isinf(skdpfl.privacy_spent(boosted.fit(X, y)).epsilon)


def test_a_given_threshold_costs_nothing():
    model = FixedThresholdClassifier(clf(1.0), threshold=0.3).fit(X, y)
    assert skdpfl.privacy_spent(model).epsilon == pytest.approx(1.0, rel=0.01)


def test_what_was_not_fitted_has_no_cost():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        skdpfl.privacy_spent(clf())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        skdpfl.privacy_spent(make_pipeline(Normalizer(), clf()))
    for around in (VotingClassifier([("a", clf())]), GridSearchCV(clf(), {}), StandardScaler()):
        with pytest.raises(NotFittedError, match=f"{type(around).__name__} instance is not fitted"):
            skdpfl.privacy_spent(around)
    with pytest.raises(TypeError, match=r"must be a fitted estimator; got int.*sum\("):
        skdpfl.privacy_spent(3)


def test_names_declared_public_are_looked_for():
    pipe = make_pipeline(StandardScaler(), clf()).fit(X, y)
    assert skdpfl.privacy_spent(pipe, public="standardscaler").epsilon < 1.01
    with pytest.raises(ValueError, match=r"\['standardscalar'\] is not a step; the steps are"):
        skdpfl.privacy_spent(pipe, public=["standardscalar"])


def test_calibration_on_the_records_is_a_leak():
    calibrated = CalibratedClassifierCV(clf(), cv=2).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="calibration on exact predictions"):
        assert np.isinf(skdpfl.privacy_spent(calibrated).epsilon)


def test_a_transformed_target():
    data, target = load_diabetes(return_X_y=True)
    inner = skdpfl.ISRLDPRegressor(epsilon=1.0, scaling=None, n_rounds=3)
    model = TransformedTargetRegressor(inner, func=np.log1p, inverse_func=np.expm1)
    assert skdpfl.privacy_spent(model.fit(data, target)).epsilon < 1.01
    scaled = TransformedTargetRegressor(inner, transformer=StandardScaler()).fit(data, target)
    with pytest.warns(PrivacyLeakWarning, match="transformer: StandardScaler"):
        assert np.isinf(skdpfl.privacy_spent(scaled).epsilon)


def test_nothing_learnt_costs_nothing():
    assert skdpfl.privacy_spent(make_pipeline(Normalizer()).fit(X)).epsilon == 0


def test_a_search_with_one_integer_seed_says_once_that_noise_repeats():
    grid = GridSearchCV(clf(random_state=3), {"clip_norm": [0.3, 1.0]}, cv=2).fit(X, y)
    with pytest.warns(PrivacyLeakWarning) as caught:
        skdpfl.privacy_spent(grid)
    words = [str(w.message) for w in caught]
    assert sum("5 fits drew their noise from random_state=3" in text for text in words) == 1
    assert len(words) == 2  # the other: exact scores


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
