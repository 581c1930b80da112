"""Random calls of everything public end in an answer, or in an error in words.

``benchmarks/fuzz.py`` has them; it runs 40,000, each in a process that may be ended.
"""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import fuzz
from skdpfl import DPFedAvgClassifier, ISRLDPClassifier
from skdpfl.inspection import affordable_features
from skdpfl.losses import Huber, Poisson, Quantile
from skdpfl.models import MLP
from skdpfl.privacy import check_independent

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


TWO = {"silo_sizes": {"a": 9, "b": 9}, "n_features": 2}


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
@pytest.mark.parametrize("model", ["linear", MLP((3,)), MLP(())], ids=str)
def test_a_step_in_which_no_silo_draws_a_record_is_noise_alone(model):
    how = {"model": model, "scaling": None, "sampling_rate": 1e-9, "n_rounds": 2, "random_state": 0}
    fitted = DPFedAvgClassifier(5.0, local_steps=2, **how).fit(X, y, silos=np.arange(30) % 3)
    assert np.isfinite(fitted.predict_proba(X)).all()
