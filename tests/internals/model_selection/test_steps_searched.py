"""Searches over pipelines whose steps learn within the budget: nothing that runs is left unpaid."""

import numpy as np
import pytest
import sklearn
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

import skdpfl
from skdpfl import ISRLDPClassifier, ISRLDPRegressor
from skdpfl._pipelines import keeps_rows_apart
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget, _candidates
from skdpfl.model_selection._wrapped import TriedSteps
from skdpfl.preprocessing import DPMinMaxScaler, DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import compose
from skdpfl.privacy.pricing.price import price_epsilon
from tests.model_selection.test_shared_budget import BOUNDS, FRAME, SILOS, Y

CODES = {"max_categories": 4}
NUMBERS = ["age", "dose"]


def pipeline(trust="silo", imputing=(), **codes):
    steps = [
        ("num", DPSimpleImputer(feature_bounds=BOUNDS, trust=trust, **dict(imputing)), NUMBERS),
        ("cat", DPOneHotEncoder(trust=trust, **(codes or CODES)), ["region"]),
    ]
    last = ISRLDPClassifier(feature_bounds=(0, 100), n_rounds=3, trust=trust)
    return make_pipeline(ColumnTransformer(steps), last)


def search(model, n_iter=2, epsilon=6.0, **more):
    prefix = "estimator__" if isinstance(model, SharedBudget) else ""
    space = {f"{prefix}isrldpclassifier__alpha": [0.0, 0.1, 0.2, 0.3]}
    return DPRandomizedSearchCV(
        model, space, n_iter=n_iter, epsilon=epsilon, delta=1e-5, random_state=0, **more
    )


@pytest.fixture
def ran(monkeypatch):
    """The costs of all fits that ran, as their steps say."""
    found = []
    check = _candidates.Candidate.check

    def checked(self, fitted, epsilon, delta):
        found.extend(step.privacy_spent_ for step in fitted.values())
        check(self, fitted, epsilon, delta)

    monkeypatch.setattr(_candidates.Candidate, "check", checked)
    return found


def assert_paid(fitted, ran):
    spent = fitted.privacy_spent_
    assert spent.epsilon <= fitted.epsilon
    assert skdpfl.privacy_spent(fitted) == spent
    if spent.trust == "silo":  # else a secret number of runs pays for the best
        together = compose(pair for each in ran for pair in each.costs[0].composition)
        assert price_epsilon(together, 1e-5, spent.neighbours) <= spent.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("trust", ["silo", pytest.param("server", marks=pytest.mark.slow)])
@pytest.mark.parametrize("shared", [False, True])
def test_steps_are_fitted_in_each_run_and_paid_once(trust, shared, ran):
    model = pipeline(trust)
    if shared:
        shares = {"columntransformer__num": 0.02, "columntransformer__cat": 0.2}
        model = SharedBudget(model, shares=shares)
    with PrivacyLedger(delta=1e-5) as ledger:
        fitted = search(model).fit(FRAME, Y, silos=SILOS)
    assert [entry.name for entry in ledger.entries] == ["DPRandomizedSearchCV"]
    assert ledger.spent.epsilon == pytest.approx(fitted.privacy_spent_.epsilon)
    assert_paid(fitted, ran)
    best = fitted.best_estimator_
    assert fitted.score(FRAME, Y) > 0.7 and hasattr(best, "epsilons_") == shared
    step = (best.estimator_ if shared else best)[0].named_transformers_["cat"]
    assert 0.5 * shared < step.epsilon < fitted.fit_epsilon_
    with PrivacyLedger(delta=1e-5) as later:  # the run is over: its steps pay for themselves
        step.fit(FRAME[["region"]])
    assert len(later.entries) == 1


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["record", "person"])
def test_no_value_makes_the_trial_of_steps_fail_before_it_is_paid(unit):
    frame = FRAME.assign(age=np.nan)
    frame.loc[0, "age"] = np.finfo(float).max
    how = {"unit": unit, "random_state": 0}
    steps = DPSimpleImputer(**how), DPStandardScaler(**how)
    model = make_pipeline(*steps, ISRLDPClassifier(n_rounds=3, unit=unit))
    ids = np.array([f"{silo} {i // 4}" for i, silo in enumerate(SILOS)])
    persons = ids if unit == "person" else None
    with pytest.warns(UserWarning, match="Too few values"), PrivacyLedger(delta=1e-5) as ledger:
        search(model).fit(frame[NUMBERS], Y, silos=SILOS, persons=persons)
    assert len(ledger.entries) == 1


def test_a_run_that_costs_more_than_its_price_is_withheld(monkeypatch):
    cheap = DPOneHotEncoder.cost_for
    monkeypatch.setattr(
        DPOneHotEncoder,
        "cost_for",
        lambda self, sizes: cheap(self.set_params(epsilon=self.epsilon * 0.9), sizes),
    )
    with pytest.raises(RuntimeError, match="its result is withheld"):
        search(pipeline(), n_iter=1).fit(FRAME, Y, silos=SILOS)


def test_found_categories_do_not_name_the_columns_of_a_plan():
    """Steps are tried without noise: the name of a level would be that of a single record."""
    model = pipeline().set_output(transform="pandas")
    names = TriedSteps.of(model, (FRAME, SILOS, None), 2).columns["feature_names"]
    assert names[2:] == [f"cat__region_unused{k}" for k in range(4)]


MIXED = pipeline()
MIXED[0].transformers[1][1].set_params(trust="server")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (pipeline(categories="auto"), "give max_categories"),
        (MIXED, "the last step trust="),
        (SharedBudget(ISRLDPClassifier()), "a Pipeline of several steps"),
    ],
)
def test_refusals(model, words):
    with pytest.raises(ValueError, match=words):
        search(model).fit(FRAME, Y, silos=SILOS)


def target(**how):
    inner = ISRLDPRegressor(feature_bounds=(0, 100), target_bounds=(0, 3), n_rounds=10)
    last = TransformedTargetRegressor(inner, **how)
    return SharedBudget(make_pipeline(DPSimpleImputer(feature_bounds=BOUNDS), last), epsilon=3.0)


def test_targets_may_be_transformed_by_what_learns_nothing():
    X, y = FRAME[NUMBERS], np.exp(FRAME["dose"].to_numpy() / 5)
    model = target(func=np.log1p, inverse_func=np.expm1).set_params(random_state=0)
    with PrivacyLedger(delta=1e-5) as ledger:
        model.fit(X, y, silos=SILOS)
    assert ledger.spent.epsilon <= model.privacy_spent_.epsilon * 1.001 <= 3.003
    assert skdpfl.privacy_spent(model) == model.privacy_spent_
    assert model.score(X, y) > 0.9 and y.min() < model.predict(X).mean() < y.max()
    scaled = target(transformer=DPMinMaxScaler(feature_bounds=(0, 8)))
    scaled.estimator[-1].regressor.set_params(target_bounds=(0, 1))
    assert scaled.set_params(random_state=0).fit(X, y, silos=SILOS).score(X, y) > 0.6
    for learns in ({"transformer": StandardScaler()}, {"func": lambda y: y / y.max()}):
        with pytest.raises(ValueError, match="may learn from the targets"):
            target(**learns).fit(X, y)
    inside = target(func=np.log1p, inverse_func=np.expm1)
    inside.estimator[-1].regressor = make_pipeline(DPStandardScaler(), ISRLDPRegressor())
    with pytest.raises(ValueError, match="have no part of the budget: put them before"):
        inside.fit(X, y)


def of_targets(model, **more):
    space = {"estimator__transformedtargetregressor__regressor__alpha": [0.0, 0.1]}
    how = {"n_iter": 2, "epsilon": 6.0, "delta": 1e-5, "random_state": 0}
    return DPRandomizedSearchCV(model, space, **(how | more))


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_a_search_transforms_targets_and_scores_them_as_they_are(trust, ran):
    X, y = FRAME[NUMBERS], np.exp(FRAME["dose"].to_numpy() / 5)
    model = target(func=np.log1p, inverse_func=np.expm1)
    model.set_params(estimator__dpsimpleimputer__trust=trust)
    model.estimator[-1].regressor.set_params(trust=trust)
    with PrivacyLedger(delta=1e-5) as ledger:
        fitted = of_targets(model, scoring="neg_mean_absolute_error").fit(X, y, silos=SILOS)
    assert [entry.name for entry in ledger.entries] == ["DPRandomizedSearchCV"]
    assert_paid(fitted, ran)
    assert fitted.score(X, y) > 0.9 and list(fitted.best_estimator_.epsilons_) == [
        "dpsimpleimputer", "transformedtargetregressor__regressor",
    ]  # fmt: skip
    # 800 records' absolute errors, up to the range of exp(3) - 1, have noise of .05 or less
    error = np.abs(fitted.predict(X) - y).mean()
    assert fitted.best_score_ == pytest.approx(-error, abs=0.3)
    last = fitted.best_estimator_.estimator_[-1]
    with PrivacyLedger(delta=1e-5) as later:
        for i, step in enumerate((last.regressor_, last.regressor)):
            step.set_params(epsilon=1.0, random_state=i).fit(X.fillna(0), np.log1p(y))
    assert len(later.entries) == 2


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"transformer": StandardScaler()}, "may learn from the targets"),
        ({"func": lambda y: y / y.max(), "inverse_func": abs}, "may learn from the targets"),
        ({"func": np.exp, "inverse_func": np.log}, "Private scores need a range"),  # of log(0)
    ],
)
def test_searches_refuse_targets_that_are_learnt_or_have_no_range(how, words):
    with PrivacyLedger(delta=1e-5) as ledger, pytest.raises(ValueError, match=words):
        of_targets(target(**how)).fit(FRAME[NUMBERS], FRAME["dose"], silos=SILOS)
    assert not ledger.entries


def test_an_inverse_that_mixes_predictions_gets_them_one_by_one():
    for back, apart in ((np.expm1, True), (np.sort, False)):
        last = TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=back)
        fitted = last.set_params(check_inverse=False).fit([[0.0], [1.0]], [0.0, 1.0])
        assert keeps_rows_apart(fitted) == apart


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="its losses lack a module"
)
@pytest.mark.parametrize("kind", [HistGradientBoostingClassifier, GradientBoostingClassifier])
def test_boosted_trees_get_rows_together(kind):
    """They keep the generator that they drew from in fit, and draw for no row."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = kind(random_state=np.random.RandomState(0)).fit(X, X[:, 0] > 0)
    assert keeps_rows_apart(model)
    one_by_one = [model.predict_proba(row[None])[0] for row in X[::-1]]
    np.testing.assert_array_equal(model.predict_proba(X)[::-1], one_by_one)
    model.classes_ = np.random.RandomState(0), *model.classes_
    assert not keeps_rows_apart(model)


class Own(ISRLDPClassifier):
    """A fit of a user's own."""

    def fit(self, X, y, **owners):
        self.mean_ = np.mean(y)
        return super().fit(X, y, **owners)


def test_a_fit_of_ones_own_has_no_budget():
    model = make_pipeline(DPSimpleImputer(feature_bounds=BOUNDS), Own())
    with pytest.raises(ValueError, match="own: Own learns from the records"):
        SharedBudget(model).fit(FRAME[NUMBERS], Y, silos=SILOS)
