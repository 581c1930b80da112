"""More of tests/model_selection/test_search_silos.py: what only private names show."""

import math

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.model_selection._candidates import Candidate
from skdpfl.model_selection._wrapped import protection_of
from skdpfl.model_selection.scoring import NoisyScore, split
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.silos import read_silos
from skdpfl.table import Owners
from tests.model_selection.test_search_silos import SILOS, X, fedavg, search, y

pytestmark = pytest.mark.filterwarnings("ignore:Hiding a whole silo:UserWarning")


class Says:
    """A model that always gives the same label."""

    __module__, plan_for = "sklearn", None  # known to keep rows apart; and no search inside

    def __init__(self, label):
        self.label = label
        self.classes_ = np.array([label])

    def predict(self, features):
        return np.full(len(features), self.label)


def scores(labels, silos, models, z, seed, trust):
    inner = fedavg(trust=trust)
    groups = read_silos(silos, len(silos))
    parts = split(Owners(groups, None, groups.sizes), "silo", 0.5, streams_for(0))
    score = NoisyScore(inner, protection_of(inner), parts)
    noisy = score.of(models, np.zeros((len(silos), 1)), labels, z, streams_for(seed))
    return noisy, parts


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("n_records", [1, 1000])
def test_one_silo_moves_the_scores_no_more_than_is_priced(n_records, trust):
    """The canary: a scoring silo, small or huge, turns from all right to all wrong.

    With the same noise the sum of the silos' score vectors moves by 2 C = sqrt(k): it would by
    hundreds of C if records were counted instead of silos.
    """
    k, z, others = 4, 3.0, np.arange(1, 10)
    models = [Says("a")] * k
    everyone = np.concatenate([np.repeat(0, n_records), others])
    _, parts = scores(np.full(len(everyone), "a"), everyone, models, z, 1, trust)
    canary = np.unique(everyone[parts.test])[-1]
    silos = np.concatenate([np.repeat(canary, n_records), np.setdiff1d(np.arange(10), canary)])
    right = np.full(len(silos), "a")
    wrong = np.where(silos == canary, "b", right)
    (one, parts), (two, _) = (scores(v, silos, models, z, 1, trust) for v in (right, wrong))
    assert canary in silos[parts.test]
    n_scoring = len(np.unique(silos[parts.test]))
    clip = math.sqrt(k) / 2
    moved = np.linalg.norm(one - two) * n_scoring
    assert moved <= 2 * clip * (1 + 1e-9)
    assert moved > 2 * clip * 0.99  # the canary is as loud as a silo can be
    halves = np.where((silos == canary) & (np.arange(len(silos)) % 2 == 0), "b", right)
    if n_records > 1:  # a score of one half is no contribution at all: zero-out moves half as far
        zero, _ = scores(halves, silos, models, z, 1, trust)
        assert np.linalg.norm(one - zero) * n_scoring <= clip * (1 + 1e-9)


PLANS = {
    "some silos, by chance": {"silo_fraction": 0.5, "cohort": "uniform"},
    "a fixed batch": {"sampling_rate": 0.3, "sampling": "without_replacement"},
    "scales": {"feature_bounds": None},
}


@pytest.mark.parametrize(
    ("trust", "random_state"), [("silo", None), pytest.param("server", 0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", PLANS)
def test_what_runs_is_what_was_priced(name, trust, random_state):
    """Also schedules by chance, and labels that only scoring records have."""
    silos, labels = np.arange(len(y)) % 5, y.copy()
    labels[0] = "rare"
    model = ISRLDPClassifier(
        **({"trust": trust, "n_rounds": 5, "feature_bounds": (-1, 1)} | PLANS[name])
    )
    space = {"learning_rate": [0.3, 1.0]}
    tried = DPRandomizedSearchCV(model, space, n_iter=2, epsilon=4.0, random_state=random_state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Candidate, "check", counting := Counting(Candidate.check))
        fitted = tried.fit(X, labels, silos=silos)  # each fit is checked: it raises otherwise
    assert counting.n >= 1
    assert "rare" in fitted.classes_


class Counting:
    """A method that counts its calls."""

    def __init__(self, method):
        self.method, self.n = method, 0

    def __get__(self, candidate, kind):
        def call(*args):
            self.n += 1
            return self.method(candidate, *args)

        return call


def test_a_fit_that_was_priced_too_low_is_not_given_out(monkeypatch):
    true = Candidate._parts
    monkeypatch.setattr(Candidate, "_parts", lambda self, e, d: true(self, 0.9 * e, d))
    tried = search()
    with pytest.raises(RuntimeError, match="withheld"):
        tried.fit(X, y, silos=SILOS)
    assert not hasattr(tried, "best_estimator_")
