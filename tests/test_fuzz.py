"""Random calls of everything public end in an answer, or in an error in words.

``benchmarks/fuzz.py`` has them; it runs 40,000, each in a process that may be ended.
"""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import fuzz
from skdpfl import (
    DPFedAvgClassifier,
    ISRLDPClassifier,
)
from skdpfl.inspection import (
    affordable_features,
)
from skdpfl.losses import Huber, Poisson, Quantile
from skdpfl.model_selection import (
    DPRandomizedSearchCV,
)
from skdpfl.models import MLP
from skdpfl.preprocessing import (
    DPPCA,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
)
from skdpfl.privacy import (
    check_independent,
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


TWO = {"silo_sizes": {"a": 9, "b": 9}, "n_features": 2}


BOUND = {"n_silos": 4, "silos_per_round": 2, "batch": 5, "distance": 1.0, "drift": 1.0}
BOUND |= {"gradient_variance": 0.0, "global_step": 2.0}


def test_small_integers_do_not_overflow():
    plans = [ISRLDPClassifier().plan_for(**TWO, n_classes=k(3)) for k in (int, np.int8)]
    assert repr(plans[0]) == repr(plans[1])
    many = affordable_features(ISRLDPClassifier(), silo_sizes={0: 10**6}, n_classes=np.int8(3))
    assert many == affordable_features(ISRLDPClassifier(), silo_sizes={0: 10**6}, n_classes=3)


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
