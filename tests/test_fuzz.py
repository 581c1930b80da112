"""Random calls of everything public end in an answer, or in an error in words.

``benchmarks/fuzz.py`` has them; it runs 40,000, each in a process that may be ended.
"""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks import fuzz
from skdpfl import (
    DPFedAvgClassifier,
    DPFedEXPClassifier,
    ISRLDPClassifier,
    ISRLDPRegressor,
    inspection,
    papers,
)
from skdpfl.algorithms import Ball, FedAvg
from skdpfl.algorithms.theory import effective_silos
from skdpfl.datasets import make_federated_classification
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import (
    DPRocCurveDisplay,
    PrivacyUtilityDisplay,
    affordable_features,
    heterogeneity,
)
from skdpfl.losses import Huber, Poisson, Quantile
from skdpfl.model_selection import (
    DPRandomizedSearchCV,
    SharedBudget,
    SiloStratifiedKFold,
    silo_scores,
)
from skdpfl.models import MLP
from skdpfl.papers import chang2022_rounds
from skdpfl.preprocessing import (
    DPPCA,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
    limit_rows,
)
from skdpfl.privacy import (
    PrivacyLedger,
    audit_epsilon,
    check_independent,
    epsilon_per_record,
    n_steps_for,
    noise_multiplier_for,
)

X = np.random.default_rng(0).normal(size=(30, 2))
y = np.arange(30) % 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_calls_are_answered_or_refused_in_words(first):
    ends = {seed: fuzz.call(seed) for seed in range(first, first + 20)}
    assert set(ends.values()) <= {"answered", "refused"}, ends


def test_what_is_wrong_is_found(monkeypatch):
    """A raw error, words of no one, a number that is none, and an endless call."""
    faults = {
        "KeyError": lambda rng: {}["key"],
        "no words": lambda rng: int("x" * 20),
        "NaN": lambda rng: fuzz.finite("predict", [np.nan]),
    }
    for word, call in faults.items():
        monkeypatch.setattr(fuzz, "CALLS", {call: 1.0})
        assert word in fuzz.call(0)
    monkeypatch.setattr(fuzz, "CALLS", {lambda rng: ISRLDPClassifier(-1.0).fit(X, y): 1.0})
    assert fuzz.call(0) == "refused"


@pytest.mark.slow
def test_a_call_that_does_not_end_is_ended(monkeypatch):
    worker = fuzz.Worker()
    monkeypatch.setattr(fuzz, "PATIENCE", 0.01)
    assert "ended its process" in worker.run(0)
    monkeypatch.undo()
    assert worker.run(1) in ("answered", "refused")
    worker.end()


CHANG = {"scheme": 1, "beta": 0.9, "local_steps": 5, "constant_rounds": 60}
TWO = {"silo_sizes": {"a": 9, "b": 9}, "n_features": 2}
RATE = {"sampling_rate": 0.5, "delta": 1e-5}
WORDS = np.array(["yes", "no"])[y]
NOTHING = make_pipeline(DPStandardScaler(), ISRLDPClassifier())
ONE = pd.DataFrame({"c": np.arange(30) % 3})


def price(**how):
    return noise_multiplier_for(epsilon=1.0, n_steps=1, **RATE, **how)


def display(epsilons, y=y, cv=2):
    with pytest.warns(PrivacyLeakWarning):
        PrivacyUtilityDisplay.from_estimator(ISRLDPClassifier(), X, y, epsilons=epsilons, cv=cv)


LINEAR = LogisticRegression().fit(X, WORDS)
ARRAY = np.array([0.5, 1.0])
NOISE = {"scheme": 1, "sigma0_squared": 1.0, "beta": 0.9, "start": 2, "local_steps": 3}
BOUND = {"n_silos": 4, "silos_per_round": 2, "batch": 5, "distance": 1.0, "drift": 1.0}
BOUND |= {"gradient_variance": 0.0, "global_step": 2.0}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Huber("x"), "delta must be a number"),
        (lambda: Quantile(None), "q must be a number"),
        (lambda: Quantile(smoothing="x"), "smoothing must be a number"),
        (lambda: Poisson(b"x"), "largest must be a number"),
        (lambda: epsilon_per_record(1.0, k=[1], delta=1e-5), "an integer of"),
        (lambda: DPRandomizedSearchCV(ISRLDPClassifier(), None).fit(X, y), "must be a mapping"),
        (lambda: DPRandomizedSearchCV(ISRLDPClassifier(), [3]).fit(X, y), "must be a mapping"),
        (
            lambda: DPFedAvgClassifier(silo_column="c").fit(ONE, y),
            "0 feature.*in addition to the silo column",
        ),
        (lambda: SharedBudget(NOTHING).fit(X[:0], y[:0]), "0 sample"),
        (lambda: PrivacyLedger(neighbours=pd.NA), "neighbours must be one of"),
        (lambda: ISRLDPClassifier(trust=pd.NA).fit(X, y), "trust must be one of"),
        (lambda: ISRLDPClassifier(silo_column=np.zeros(2)).fit(ONE, y), "name of a column"),
        (lambda: limit_rows(None, 2), "one id for each row"),
        (lambda: limit_rows(np.zeros((3, 1)), 2), "people must be ids that can be compared"),
        (lambda: DPOneHotEncoder(categories=3).fit(X), "categories must be"),
        (lambda: Ball("x"), "radius must be a number"),
        (lambda: FedAvg(b"x"), "learning_rate must be a number"),
        (lambda: price(neighbours=np.zeros(2)), "neighbours must be one of"),
        (lambda: n_steps_for(epsilon=1e30, noise_multiplier=1, **RATE), "promises nothing"),
        (lambda: ISRLDPClassifier(feature_bounds=np.array(0.5)).fit(X, y), "feature_bounds"),
        (lambda: DPFedEXPClassifier(silo_weights=ONE["c"]).plan_for(**TWO), "entry|silo_weights"),
        (lambda: DPPCA(2, center=b"x").fit(X), "center must be True, False or 2 numbers"),
        (lambda: make_federated_classification(unit_norm=pd.NA), "unit_norm must be True or False"),
        (lambda: chang2022_rounds(**CHANG, start=np.datetime64("2020")), "start must be an integ"),
        (lambda: heterogeneity(X, WORDS, silos=y), "y must hold numbers; it holds a str"),
        (lambda: display(3.0), "epsilons must be a sequence"),
        (lambda: display(()), "epsilons must be a sequence"),
        (lambda: display(""), "epsilons must be a sequence"),
        (lambda: display((1.0,), cv=np.array(0.5)), "cv must be a number of folds"),
        (lambda: display((1.0,), y=None), "Expected sequence"),
        (lambda: display((1.0,), y=y[:9]), "inconsistent numbers of samples"),
        (lambda: ISRLDPClassifier().fit(X, y, sample_weight=pd.NA), "one number for each"),
        (lambda: ISRLDPClassifier().fit(X, y, silos=[{}] * 30), "silos must be ids"),
        (lambda: DPOneHotEncoder(max_categories=10**30).fit(X), "max_categories must be an int"),
        (lambda: DPPCA(row_norm=1e308).fit(X), "row_norm must be a number"),
        (lambda: DPRandomizedSearchCV(ISRLDPClassifier(), {0: [1]}).fit(X, y), "names of para"),
        (lambda: inspection.describe(X, by_silo=pd.NA), "by_silo must be True or False"),
        (lambda: inspection.quantile(X, "half"), "q must be one or several numbers"),
        (lambda: inspection.value_counts(y, categories=3), "categories must be a list of val"),
        (lambda: inspection.value_counts(y, categories=[[1]]), "categories must be a list of v"),
        (lambda: inspection.value_counts(y, categories=[]), "at least one value"),
        (lambda: papers.chang2022_variances(**NOISE | {"n_rounds": 10**30}), "are listed"),
        (lambda: DPSimpleImputer(keep_silo_column=pd.NA).fit(X), "keep_silo_column must be Tr"),
        (lambda: ISRLDPClassifier().fit(X, y, sample_weight={0: 1.0}), "sample_weight must be"),
        (lambda: ISRLDPClassifier(solver=ARRAY, model=MLP((2,))).fit(X, y), "solver must be one"),
        (lambda: papers.chang2022_convergence("v", **BOUND), "variances must be finite"),
        (lambda: ISRLDPRegressor().plan_for(silo_sizes=[10**30], n_features=2), "silo_sizes.0."),
        (lambda: ISRLDPRegressor().plan_for(silo_sizes=[9], n_features=10**30), "n_features must"),
        (lambda: SharedBudget(NOTHING, public=3).fit(X, y), "public must be a list of n"),
        (lambda: inspection.PrivacySpentDisplay.from_estimator(None, kind=pd.NA), "kind must be"),
        (lambda: list(SiloStratifiedKFold(stratify_y=pd.NA).split(X, y, y)), "stratify_y must"),
        (lambda: DPRocCurveDisplay.from_estimator(3, X, y, epsilon=1.0), "needs a classifier"),
        (lambda: ISRLDPClassifier(scaling=None).fit(X, y).predict(object()), "holds a object"),
        (lambda: ISRLDPClassifier().plan_for(**TWO, n_classes=10**30), "n_features . n_classes m"),
        (
            lambda: heterogeneity(X, y, silos=y, fit_intercept=pd.NA),
            "fit_intercept must be True or",
        ),
        (lambda: heterogeneity(X, y, silos=y, coef="x"), "coef must hold numbers"),
        (lambda: effective_silos("x"), "counts must hold numbers"),
        (lambda: silo_scores(LINEAR, X, WORDS, silos=y, scoring="r2"), "y must hold numbers; it"),
        (lambda: audit_epsilon(ISRLDPClassifier(), view=pd.NA), "view must be one of"),
    ],
)
def test_what_was_raw_is_in_words(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_small_integers_do_not_overflow():
    plans = [ISRLDPClassifier().plan_for(**TWO, n_classes=k(3)) for k in (int, np.int8)]
    assert repr(plans[0]) == repr(plans[1])
    many = affordable_features(ISRLDPClassifier(), silo_sizes={0: 10**6}, n_classes=np.int8(3))
    assert many == affordable_features(ISRLDPClassifier(), silo_sizes={0: 10**6}, n_classes=3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"learning_rate": 1e3, "alpha": 1.0}, "diverged"),
        ({"silo_fraction": 1e-3, "cohort": "poisson", "trust": "silo"}, "did not move"),
        ({"alpha": 1e308}, "did not move"),
    ],
)
def test_models_that_diverge_or_never_move_have_no_noise_error(how, why):
    how = {"trust": "server", "random_state": 4, "n_rounds": 40} | how
    summary = ISRLDPClassifier(**how).fit(X, y).summary()
    assert list(summary) == ["coefficient"] and why in summary.attrs["no_noise_error"]


def test_numbers_of_other_kinds_are_numbers():
    """A fraction is one, to losses, too."""
    for loss in (Huber(Fraction(1, 3)), Quantile(Fraction(1, 3)), Poisson(largest=Fraction(3))):
        check_independent(loss)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [DPStandardScaler, DPOneHotEncoder, DPSimpleImputer, DPPCA])
def test_budgets_of_transformers_may_be_fractions(kind):
    fits = [kind(epsilon=e, random_state=0).fit(X) for e in (Fraction(5, 2), 2.5)]
    assert fits[0].privacy_spent_.epsilon == fits[1].privacy_spent_.epsilon


@pytest.mark.filterwarnings("ignore")
def test_a_fraction_of_the_records_may_be_held_out():
    how = {"n_iter": 1, "epsilon": 9.0, "random_state": 0}
    searches = [
        DPRandomizedSearchCV(ISRLDPClassifier(n_rounds=2), {"alpha": [0]}, holdout=share, **how)
        for share in (Fraction(1, 3), 1 / 3)
    ]
    found = [search.fit(X, y, silos=np.arange(30) % 3).best_score_ for search in searches]
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", ["linear", MLP((3,)), MLP(())], ids=str)
def test_a_step_in_which_no_silo_draws_a_record_is_noise_alone(model):
    how = {"model": model, "scaling": None, "sampling_rate": 1e-9, "n_rounds": 2, "random_state": 0}
    fitted = DPFedAvgClassifier(5.0, local_steps=2, **how).fit(X, y, silos=np.arange(30) % 3)
    assert np.isfinite(fitted.predict_proba(X)).all()
