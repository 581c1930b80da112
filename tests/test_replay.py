"""Fits are replayed on neighbouring data: only noised sums depend on a record, and as priced.

The harness is ``benchmarks/replay.py``, which has more seeds. It has to find faults that are made.
"""

import warnings

import numpy as np
import pytest

from benchmarks.replay import Case, cases, data_of, judged, replaying
from skdpfl import DPScaffoldClassifier, ISRLDPClassifier
from skdpfl.privacy.mechanisms import ShuffledGradients, ShuffledSums
from skdpfl.privacy.mechanisms.privunit import PrivUnitMessages
from skdpfl.privacy.release import GridRows

CASES = {case.name: case for case in cases()}
#: an estimator's settings by turns, so that each is met
SOME = sorted(set(sorted(CASES)[::9]) | {
    "DPConfusionMatrixDisplay", "DPFedEXP regression PrivUnit", "DPRocCurveDisplay",
    "ISRLDP two intervals", "ISRLDP regression intervals",
    "ISRLDP two shuffled batches", "ISRLDP regression shuffled sums", "describe bounds",
    "DPOneHotEncoder", "elsewhere", "describe words", "rates, server", "rates, shared noise",
    "survival, shared noise", "survival, server", "survival curves", "survival curves by groups",
})  # fmt: skip


def replayed(case, seed=0):
    try:
        return judged(case, data_of(case, seed))
    except ValueError as error:
        pytest.skip(f"refused: {error}"[:80])


@pytest.mark.slow
@pytest.mark.every
@pytest.mark.parametrize("name", SOME)
def test_a_record_tells_what_was_priced(name):
    assert replayed(CASES[name]) == []


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(set(CASES) - set(SOME)))
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


class Speaking(ISRLDPClassifier):
    """Warns of large values."""

    def fit(self, X, y, *, silos=None):
        if np.abs(X).max() > 100:
            warnings.warn("A value is large.", UserWarning, stacklevel=2)
        return super().fit(X, y, silos=silos)


class Mixing(ISRLDPClassifier):
    """Centres all silos' records by their common mean."""

    def fit(self, X, y, *, silos=None):
        return super().fit(X - np.tanh(X).mean(), y, silos=silos)


@pytest.mark.parametrize(
    ("estimator", "fault"),
    [
        (Counting(3.0, scaling=None, random_state=0), "sum"),
        (Remembering(3.0, scaling=None, random_state=0), "the model depends"),
        (Speaking(3.0, scaling=None, random_state=0), "warnings differ"),
        (Mixing(3.0, feature_bounds=(-9, 9), random_state=0), "silos' rows differ"),
    ],
)
def test_a_fault_is_found(estimator, fault):
    found = replayed(Case("a fault", estimator))
    assert any(fault in words for words in found), found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_kind_of_release_is_met():
    """A record moves messages of PrivUnit, shuffled ones and bits, by something."""
    for name, kind in {
        "DPFedEXP regression PrivUnit": "epsilon",
        "ISRLDP two shuffler": "noise",
        "ISRLDP regression shuffled sums": "noise",
        "describe bounds": "noise",
    }.items():
        case = CASES[name]
        data, neighbour, _ = data_of(case, 0)
        with replaying() as first:
            case.fit(data)
        with replaying(first.sums) as second:
            case.fit(neighbour)
        both = list(zip(first.sums, second.sums, strict=True))
        assert any((one.exact != other.exact).any() for one, other in both), name
        assert any((one.deviation < 0).all() for one, _ in both) == (kind == "epsilon"), name


@pytest.mark.every
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "method", "less"),
    [
        ("DPFedEXP regression PrivUnit", PrivUnitMessages, "_epsilon", 2.0),
        ("ISRLDP regression shuffled sums", ShuffledSums, "protocol", 0.3),
        ("ISRLDP regression shuffler", ShuffledGradients, "noise_on_sums", 0.3),
    ],
)
def test_messages_that_are_randomised_too_little_are_found(name, kind, method, less, monkeypatch):
    """Twice the epsilon, bits for a third of the noise, a third of the noise."""
    original = getattr(kind, method)
    if method == "protocol":  # as it runs; ``composition`` asks for its price
        method, wrong = (
            "_run",
            lambda self, plan, r: original(self, plan, less * plan.noise_multiplier.max()),
        )
    else:
        wrong = lambda self, plan: less * original(self, plan)  # noqa: E731
    monkeypatch.setattr(kind, method, wrong)
    found = [fault for seed in range(4) for fault in replayed(CASES[name], seed)]
    assert any("priced" in words for words in found), found


@pytest.mark.parametrize("make", [ISRLDPClassifier, DPScaffoldClassifier])
def test_too_little_noise_is_found(monkeypatch, make):
    original = GridRows.of

    def of(grids, *how):
        return original(0.4 * grids, *how)

    monkeypatch.setattr(GridRows, "of", of)
    estimator = make(3.0, scaling=None, clip_norm=0.1, learning_rate=1.0, n_rounds=4)
    found = replayed(Case("too little noise", estimator.set_params(random_state=0)))
    assert any("priced" in words for words in found), found
