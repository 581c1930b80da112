"""Fits are replayed on neighbouring data: only noised sums depend on a record, and as priced.

The harness is ``benchmarks/replay.py``, which has more seeds. It has to find faults that are made.
"""

import numpy as np
import pytest

from benchmarks.replay import Case, cases, data_of, judged
from skdpfl import DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.privacy.release import NoisedSum

CASES = {case.name: case for case in cases()}
#: an estimator's settings by turns, so that each is met
FAST = sorted(CASES)[::9]


def replayed(case, seed=0):
    try:
        return judged(case, *data_of(case, seed))
    except ValueError as error:
        pytest.skip(f"refused: {error}"[:80])


@pytest.mark.parametrize("name", FAST)
def test_a_record_tells_what_was_priced(name):
    assert replayed(CASES[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - set(FAST)))
def test_a_record_tells_what_was_priced_in_all_cases(name):
    assert replayed(CASES[name], seed=1) == []


class Counting(ISRLDPClassifier):
    """Chooses its rounds by the records."""

    def fit(self, X, y, *, silos=None):
        self.n_rounds = 3 + int(np.abs(X).max() > 100)
        return super().fit(X, y, silos=silos)


class Remembering(ISRLDPClassifier):
    """Keeps a mean of the records."""

    def fit(self, X, y, *, silos=None):
        super().fit(X, y, silos=silos)
        self.mean_ = float(np.tanh(X).mean())
        return self


class Mixing(ISRLDPClassifier):
    """Centres all silos' records by their common mean."""

    def fit(self, X, y, *, silos=None):
        return super().fit(X - np.tanh(X).mean(), y, silos=silos)


@pytest.mark.parametrize(
    ("estimator", "fault"),
    [
        (Counting(3.0, scaling=None, random_state=0), "sum"),
        (Remembering(3.0, scaling=None, random_state=0), "the model depends"),
        (Mixing(3.0, feature_bounds=(-9, 9), random_state=0), "silos' rows differ"),
    ],
)
def test_a_fault_is_found(estimator, fault):
    found = replayed(Case("a fault", estimator))
    assert any(fault in words for words in found), found


@pytest.mark.parametrize("make", [ISRLDPClassifier, DPScaffoldClassifier])
def test_too_little_noise_is_found(monkeypatch, make):
    original = NoisedSum.added

    def added(self, sums, units, **how):
        return original(self._replace(grid=self.grid * 0.4), sums, units, **how)

    monkeypatch.setattr(NoisedSum, "added", added)
    estimator = make(3.0, scaling=None, clip_norm=0.1, learning_rate=1.0, n_rounds=4)
    found = replayed(Case("too little noise", estimator.set_params(random_state=0)))
    assert any("priced" in words for words in found), found
