"""More of tests/model_selection/test_search.py: what only private names show."""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl.model_selection import DPRandomizedSearchCV
from skdpfl.model_selection._candidates import divide_budget, within
from skdpfl.model_selection._wrapped import protection_of
from skdpfl.model_selection.scoring import NoisyScore, Split
from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.spending.cost import Repetition
from tests.guaranteed import cost_of
from tests.model_selection.test_search import SILOS, X, base, search, y


class Listener:
    """Counts the rounds it is told of, as a callback or a display would."""

    def __init__(self):
        self.calls = 0

    def __call__(self, model):
        self.calls += 1


@pytest.mark.slow
def test_secret_runs_fail_no_more_often_than_was_priced():
    """The failures of a mechanism lie beside its Renyi curve."""

    def often(failure, falls):
        def price(epsilon, delta):
            z = calibrate(lambda z: ((Gaussian(z), 1),), epsilon, delta, "replace")
            fails = Approximate(0.0, failure * epsilon if falls else failure)
            return cost_of(
                unit="record", trust="server", neighbours="replace", delta=delta,
                compositions=[((Gaussian(z), 1), (fails, 1))],
            )  # fmt: skip

        return price

    law = Repetition(4.0)
    budget = divide_budget("replace", [often(1e-9, False)], 4.0, 1e-5, law)

    def failure(price):
        epsilon = within(budget, price, 1e-5, law, "replace")
        return renyi(price(epsilon, 1e-5).costs[0].composition, 2.0, "replace")[1]

    assert failure(often(1e-9, False)) == 1e-9
    assert failure(often(1.2e-9 / budget.epsilon, True)) <= 1e-9
    with pytest.raises(ValueError, match="would cost more, at any epsilon"):
        within(budget, often(1e-8, False), 1e-5, law, "replace")


@pytest.mark.slow
def test_nothing_is_told_of_secret_runs(monkeypatch):
    """Overflowing scores warn, and rounds are watched: both tell how many runs there were."""
    listener = Listener()
    wild = np.where(np.arange(X.size).reshape(X.shape) == 7, 1e300, X)
    monkeypatch.setattr(Repetition, "draw", lambda self, stream: 4)
    inner = base(trust="server")
    inner._watch = listener
    secret = search(inner)
    monkeypatch.setattr(type(inner), "__sklearn_clone__", _clone_with_watch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        secret.fit(wild, y, silos=SILOS)
    assert listener.calls == 0
    hidden = ["are not called" in str(w.message) for w in caught]
    assert hidden == [True]  # known before any run
    talking = make_pipeline(FunctionTransformer(says_something), inner)
    clips = {"isrldpclassifier__clip_norm": [0.1, 1.0]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        free = {"public": "functiontransformer", "random_state": 0}
        DPRandomizedSearchCV(talking, clips, n_iter=3, epsilon=4.0, **free).fit(X, y)
    hidden = ["are not called" in str(w.message) for w in caught]
    assert hidden == [True]  # known before any run
    open_ = search(base(trust="silo"))
    open_.estimator._watch = listener
    open_.fit(X, y, silos=SILOS)
    assert listener.calls == 3 * 10


def says_something(Z):
    warnings.warn("a run", UserWarning, stacklevel=2)
    return Z


def _clone_with_watch(self):
    copy = type(self)(**{name: clone(v, safe=False) for name, v in self.get_params().items()})
    if hasattr(self, "_watch"):
        copy._watch = self._watch
    return copy


class Right:
    __module__, plan_for = "sklearn", None  # known to keep rows apart; and no search inside
    classes_ = np.array([0.0, 1.0])

    def predict(self, features):
        return np.ones(len(features))


@pytest.mark.slow
def test_scores_are_as_noisy_as_was_priced():
    z, codes = 3.0, np.arange(100) % 4
    rows, truth = np.arange(100), np.ones(100)
    score = NoisyScore(base(), protection_of(base()), Split(rows, {}, rows, codes))
    noisy = np.array([score.of([Right()] * 4, X, truth, z, streams_for(i)) for i in range(400)])
    # four silos, clip norm sqrt(4)/2 = 1: deviation z * 1 * sqrt(4) / 100; 1600 draws: 5 sigma
    assert noisy.std() == pytest.approx(z * 2 / 100, rel=5 / math.sqrt(2 * 1600))
    assert noisy.mean() == pytest.approx(1.0, abs=5 * z * 2 / 100 / math.sqrt(1600))
    assert abs(np.corrcoef(noisy[:, 0], noisy[:, 1])[0, 1]) < 5 / math.sqrt(400)


@pytest.mark.slow
def test_the_noise_of_a_score_does_not_tell_the_number_of_runs():
    """Random repetition is about runs of one mechanism, and their number is a secret."""
    n, z = 40, 5.0
    rows, truth = np.arange(n), np.ones(n)
    guarantee = protection_of(base(trust="server"))
    score = NoisyScore(base(), guarantee, Split(rows, {}, rows, np.zeros(n, int)))
    for runs in (1, 2, 9):
        noisy = np.array([
            score.of([Right()] * runs, X[:n], truth, z, streams_for(i)) for i in range(900 // runs)
        ])  # fmt: skip
        # one sum, clip norm 1/2: deviation z / 2 / 40
        assert noisy.std() == pytest.approx(z / 80, rel=5 / math.sqrt(2 * 900))
        if runs > 1:
            assert abs(np.corrcoef(noisy[:, 0], noisy[:, 1])[0, 1]) < 5 / math.sqrt(len(noisy))
