"""The cost of an object is what its fits executed, however objects are put together.

A ledger around a fit sees each private fit as it is charged. ``privacy_spent`` of the fitted object
is never below that, and infinite where anything reads the records without a charge.
"""

import pickle
import re
import warnings
from itertools import product

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import skdpfl
from skdpfl import SiloAdapted
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import DPConfusionMatrixDisplay
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.preprocessing import DPPCA, DPMinMaxScaler, DPSimpleImputer, DPStandardScaler
from skdpfl.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (150, 3))
Y = (X[:, 0] > 0).astype(int)
BOTH = np.column_stack([Y, X[:, 1] > 0]).astype(int)
BOUNDS, DELTA, FOLDS = {"feature_bounds": (-1, 1)}, {"delta": 1e-3}, KFold(2)
CLIPS = {"clip_norm": [0.5, 1.0]}


def clf(kind=skdpfl.ISRLDPClassifier, **params):
    return kind(**{"epsilon": 1.0, "scaling": None, "n_rounds": 2, **DELTA, **params})


def scaler(epsilon=1.0):
    return DPStandardScaler(epsilon, **BOUNDS, **DELTA)


class Filled:
    """Reads all records before a fit, which no ledger sees."""

    def fit(self, X, y=None, **words):
        return super().fit(np.where(np.isnan(X), np.nanmean(X), X), y, **words)


class MixingClassifier(Filled, skdpfl.ISRLDPClassifier):
    pass


class Against(skdpfl.ISRLDPClassifier):
    """Predicts the other label wherever rows stand beside others."""

    def predict_proba(self, X):
        found = super().predict_proba(X)
        return found if len(X) == 1 else 1 - found


class MixingScaler(Filled, DPStandardScaler):
    pass


class Carrier(TransformerMixin, BaseEstimator):
    """A class of a user's that carries a cost."""

    def fit(self, X, y=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.privacy_spent_ = clf().fit(X, X[:, 0] > 0).privacy_spent_
        return self

    def transform(self, X):
        return X


#: what may be put into anything; each is given a private classifier or a pipeline
INNER = {
    "plain": lambda step, last: last,
    "piped": lambda step, last: make_pipeline(step, last),
    "shared": lambda step, last: SharedBudget(make_pipeline(step, last), epsilon=2.0, **DELTA),
    "searched": lambda step, last: DPRandomizedSearchCV(
        last, CLIPS, n_iter=2, epsilon=2.0, **DELTA
    ),
    "searched exactly": lambda step, last: GridSearchCV(last, CLIPS, cv=FOLDS),
    "adapted": lambda step, last: SiloAdapted(last),
    "adapted pipe": lambda step, last: SiloAdapted(make_pipeline(step, last)),
    "frozen": lambda step, last: make_pipeline(FrozenEstimator(clone(step).fit(X)), last),
    "shared, frozen": lambda step, last: SharedBudget(
        make_pipeline(FrozenEstimator(clone(step).fit(X)), last), epsilon=2.0, **DELTA
    ),
}
OUTER = {
    "alone": lambda inner: inner,
    "vote": lambda inner: VotingClassifier([("a", inner), ("b", clone(inner))]),
    "stack": lambda inner: StackingClassifier([("a", inner)], clf(), cv=FOLDS),
    "bag": lambda inner: BaggingClassifier(inner, 2, bootstrap=False, random_state=0),
    "bag of copies": lambda inner: BaggingClassifier(inner, 2, random_state=0),
    "labels": OneVsRestClassifier,
    "outputs": MultiOutputClassifier,
    "chain": ClassifierChain,
    "chain, crossed": lambda inner: ClassifierChain(inner, cv=FOLDS),
    "threshold": FixedThresholdClassifier,
    "selection": lambda inner: make_pipeline(
        SelectFromModel(inner, threshold=-np.inf, max_features=2), clf()
    ),
    "search": lambda inner: GridSearchCV(inner, {}, cv=FOLDS),
    "pipe": lambda inner: make_pipeline(Normalizer(), inner),
}
MANY = ("outputs", "chain", "chain, crossed")
#: the price is known, and within 2 % of the ledger's
KNOWN = {
    (inner, outer)
    for inner in ("plain", "piped", "shared", "searched", "frozen")
    for outer in ("alone", "vote", "bag", "labels", "threshold", "outputs", "chain", "pipe")
}
KNOWN |= {
    (inner, outer)
    for inner in ("plain", "piped", "frozen")
    for outer in ("stack", "chain, crossed", "search")
}
KNOWN |= {("plain", "bag of copies")}
KNOWN |= {("plain", "selection"), ("searched exactly", "alone")}
KNOWN |= {("adapted", "alone"), ("adapted pipe", "alone"), ("shared, frozen", "alone")}
#: what scikit-learn refuses: a selection needs coefficients, a frozen step of a chain its columns
REFUSED = {(inner, "selection") for inner in INNER if inner != "plain"}
REFUSED |= {pair for pair in product(INNER, OUTER) if "frozen" in pair[0] and "chain" in pair[1]}
PAIRS = [pair for pair in product(INNER, OUTER) if pair not in REFUSED]
FAST = [("plain", outer) for outer in OUTER] + [(inner, "alone") for inner in INNER]
FAST += [("searched exactly", "stack"), ("adapted", "stack"), ("piped", "stack")]


def marked(rows, fast):
    """Return rows of a table, slow ones marked."""
    return [row if row in fast else pytest.param(*row, marks=pytest.mark.slow) for row in rows]


def put_together(inner, outer, step, last):
    return OUTER[outer](INNER[inner](step, last))


def fitted(model, y):
    """Fit with a ledger, and return what it recorded."""
    with warnings.catch_warnings(), PrivacyLedger(delta=1e-3) as ledger:
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return ledger.spent


#: a shared budget of steps it does not know, coefficients of a pipeline
REFUSED_WITH = "the privacy cost does not cover|importance_getter"


def epsilon(spent):
    return spent.epsilon_at(1e-2)


def priced(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return epsilon(skdpfl.privacy_spent(model))


@pytest.mark.parametrize(("inner", "outer"), marked(PAIRS, FAST))
def test_no_cost_is_below_what_a_ledger_saw(inner, outer):
    model, y = put_together(inner, outer, scaler(), clf()), BOTH if outer in MANY else Y
    ran = fitted(model, y)
    if outer == "bag of copies" and inner in ("piped", "shared"):  # rows may be one record
        rows = int(np.bincount(model.estimators_samples_[0]).max())
        ran = ran.group(rows)
    if "frozen" in inner:
        ran = ran + scaler().fit(X).privacy_spent_
    said = priced(model)
    assert said >= epsilon(ran) * (1 - 1e-9)
    if (inner, outer) in KNOWN:
        assert said == pytest.approx(epsilon(ran), rel=0.02)
    assert priced(pickle.loads(pickle.dumps(model))) >= said * (1 - 1e-9)
    if inner == "plain" or outer == "alone":
        fitted(model, y)
        assert priced(model) == pytest.approx(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "outer"),
    [
        ("loky", "stack"),
        ("loky", "search"),
        ("multiprocessing", "bag"),
        ("multiprocessing", "labels"),
        ("threading", "vote"),
        ("threading", "outputs"),
    ],
)
def test_no_cost_follows_from_where_fits_ran(backend, outer):
    y = BOTH if outer in MANY else Y
    for inner, step in (("plain", scaler()), ("piped", scaler()), ("piped", StandardScaler())):
        model = put_together(inner, outer, step, clf())
        with parallel_config(backend, n_jobs=2):
            ran = fitted(model, y)
        known = not isinstance(step, StandardScaler)
        assert priced(model) == (pytest.approx(epsilon(ran), rel=0.02) if known else np.inf)
        assert priced(model) >= epsilon(ran) * (1 - 1e-9)


HOW = {
    "an exact step": (StandardScaler(), clf()),
    "a subclass as a step": (MixingScaler(1.0, **BOUNDS, **DELTA), clf()),
    "a subclass": (scaler(), clf(MixingClassifier)),
    "a user's class": (Carrier(), clf()),
}
TWINS = [(*pair, how) for pair in PAIRS for how in HOW]


@pytest.mark.parametrize(
    ("inner", "outer", "how"),
    marked(TWINS, [(*pair, "an exact step") for pair in FAST] + [("plain", "vote", "a subclass")]),
)
def test_what_reads_the_records_unpaid_makes_any_cost_infinite(inner, outer, how):
    step, last = HOW[how]
    if how != "a subclass" and inner in ("plain", "searched", "searched exactly", "adapted"):
        last = Pipeline([("step", step), ("last", last)])
    model = put_together(inner, outer, step, last)
    for name in ("param_grid", "param_distributions"):
        for place, value in model.get_params().items():
            if place.endswith(name) and value and isinstance(last, Pipeline):
                model.set_params(**{place: {"last__clip_norm": [0.5, 1.0]}})
    try:
        fitted(model, BOTH if outer in MANY else Y)
    except ValueError as refused:
        assert re.search(REFUSED_WITH, str(refused))
    else:
        assert priced(model) == np.inf


def regressor(kind=skdpfl.ISRLDPRegressor):
    return clf(kind, target_bounds=(-1, 1))


KINDS = [
    kind
    for name in skdpfl.__all__
    if name.endswith(("ifier", "essor")) and hasattr(kind := getattr(skdpfl, name), "plan_for")
]
#: searches by exact scores over what fits each part once: estimator, grid
SEARCHED = {
    kind.__name__: (clf(kind) if "ifier" in kind.__name__ else regressor(kind), {})
    for kind in KINDS
}
SEARCHED |= {
    "budgets": (clf(), {"epsilon": [0.5, 2.0]}),
    "whole silos": (clf(skdpfl.DPFedAvgClassifier, unit="silo"), CLIPS),
    "a scaler's budget": (make_pipeline(scaler(), clf()), {"dpstandardscaler__epsilon": [0.5, 1]}),
    "a scaler's own delta": (make_pipeline(scaler().set_params(delta="auto"), clf()), {}),
    "columns": (make_pipeline(ColumnTransformer([("s", scaler(), [0, 1])]), clf()), {}),
    "declared ranges": (make_pipeline(DPMinMaxScaler(**BOUNDS), clf()), {}),
    "found ranges": (make_pipeline(DPMinMaxScaler(1.0, **DELTA), clf()), {}),
    "gaps": (make_pipeline(DPSimpleImputer(1.0, **BOUNDS, **DELTA), clf()), {}),
    "a projection": (make_pipeline(DPPCA(2, 1.0, **DELTA), clf()), {}),
    "a target": (
        TransformedTargetRegressor(regressor(), func=np.cbrt, inverse_func=np.exp).set_params(
            check_inverse=False
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_every_fit_of_a_search_is_counted(name):
    estimator, grid = SEARCHED[name]
    search = GridSearchCV(estimator, grid, cv=FOLDS)
    ran = fitted(
        search, X[:, 0] if hasattr(estimator, "target_bounds") or name == "a target" else Y
    )
    assert priced(search) == pytest.approx(epsilon(ran), rel=0.02)


#: what is fitted in ways that are not known any more
LOST = {
    "one noise": GridSearchCV(clf(random_state=np.random.default_rng(0)), {}, cv=FOLDS),
    "given noise": GridSearchCV(clf(epsilon=None, noise_multiplier=9.0), {}, cv=FOLDS),
    "a subclass of a container": type("Mine", (VotingClassifier,), {})([("a", clf())]),
    "calibration": CalibratedClassifierCV(clf(), cv=FOLDS),
    "pairs of labels": OneVsOneClassifier(clf()),
    "predictions that mix": StackingClassifier([("a", Against(1.0, **DELTA))], clf(), cv=FOLDS),
    "members in a search": GridSearchCV(OneVsRestClassifier(clf()), {}, cv=FOLDS),
    "a step that comes and goes": GridSearchCV(
        Pipeline([("s", scaler()), ("clf", clf())]), {"s": [scaler(), "passthrough"]}, cv=FOLDS
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_what_is_not_known_is_infinite_by_name_and_a_ledger_is_the_way_out(name):
    model = LOST[name]
    if "goes" in name:
        model.set_params(scoring=lambda fitted, X, y: float(isinstance(fitted[0], str)))
    fitted(model, Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert skdpfl.privacy_spent(model).epsilon == np.inf
    words = [str(each.message) for each in caught if "PrivacyLedger()" in str(each.message)]
    assert words and all(each.category is PrivacyLeakWarning for each in caught)


def test_a_part_of_a_pipeline_says_that_it_is_one():
    pipe = make_pipeline(StandardScaler(), clf()).fit(X, Y)
    said = skdpfl.report(pipe[-1]).methods
    assert "No other step" not in said and "Steps before this fit, if there were any" in said


@pytest.mark.parametrize("outer", ["threshold", "vote", "alone"])
def test_no_display_shows_what_silos_keep_for_themselves(outer):
    model = OUTER[outer](SiloAdapted(clf())).fit(X, Y)
    with pytest.raises(ValueError, match="may not leave the silo"):
        DPConfusionMatrixDisplay.from_estimator(model, X, Y, epsilon=1.0)
