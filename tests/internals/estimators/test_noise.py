"""The noise in a model is the noise that the plan says.

Models are fitted to features that are all zero: coefficients are then nothing but noise. With N
independent normals a sample deviation is off by 5.2 / sqrt(2 N) of itself with probability below
2e-7; N = 400 coefficients x 14 seeds, so 5 %.
"""

import numpy as np
import pytest

from skdpfl.federation import _batches, _local
from skdpfl.federation._batches import NoiseMaker
from skdpfl.privacy.randomness.streams import streams_for
from tests.estimators.fits import ALL, CLASSIFIERS, data, plain

X0 = np.zeros((1000, 400))
Y0 = np.arange(1000) % 2
FOUR = np.arange(1000) % 4
N_SEEDS = 14
LOCAL = ["DPFedAvgClassifier", "DPScaffoldRegressor"]
GRADIENTS_ON_THE_SUM = [name for name in ALL if "Scaffold" not in name]


def deviation(name, X=X0, silos=FOUR, **kw):
    """Sample deviation of the coefficients over the seeds."""
    y = Y0 if name in CLASSIFIERS else Y0.astype(float)
    options = {"epsilon": None, "noise_multiplier": 5.0} | kw
    fits = [
        plain(name, **options, random_state=seed).fit(X, y, silos=silos) for seed in range(N_SEEDS)
    ]
    return np.sqrt(np.mean([np.mean(fit.coef_.astype(float) ** 2) for fit in fits]))


UNEQUAL = np.repeat([0, 1, 2, 3], [100, 200, 300, 400])
SCHEDULED = np.sqrt(1 + 1 / 4 + 1 / 16)
#: estimators, options and the deviation: 5 / 250 of a silo, over the root of four
NOISES = {
    "one round": (ALL, {}, 0.01),
    "on the sum": (GRADIENTS_ON_THE_SUM, {"trust": "server"}, 5 / 1000),
    "partial cohorts": (ALL, {"silo_fraction": 0.5}, 5 / 250 / np.sqrt(2)),
    # unbalanced silos, uniform weights: each silo's mean gradient has its own noise
    "unequal silos": (
        ALL,
        {"silos": UNEQUAL, "silo_weights": "uniform"},
        np.sqrt(sum((5 / n / 4) ** 2 for n in (100, 200, 300, 400))),
    ),
    # variances 1, 1/4 and 1/16 of the first round's, or of its first step's
    "a schedule": (
        [name for name in ALL if "ISRL" not in name],
        {"n_rounds": 3, "noise_schedule": ("round", 0.25, 1)},
        0.01 * SCHEDULED,
    ),
    "local steps": (LOCAL, {"local_steps": 3}, 0.01 * np.sqrt(3)),
}


@pytest.mark.every
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("kind", NOISES)
def test_noise_is_as_planned(kind, threads, monkeypatch):
    """By two estimators, silo by silo in threads or together."""
    names, options, expected = NOISES[kind]
    if threads:
        monkeypatch.setattr(_batches, "GROUP", 1)
        monkeypatch.setattr(_local, "WORTH_THREADS", 0)
        options = options | {"n_jobs": 2}
    for name in (names[0], names[-1]):
        assert deviation(name, **options) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_two_noises_are_correlated(dtype, together, monkeypatch):
    """Silos, rounds and local steps: 5 x 4 x 3 vectors of 4000 numbers, 1770 pairs.

    A correlation beyond 6.4 / sqrt(4000) has probability 2e-10 for one pair, 3e-7 for any.
    """
    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
        monkeypatch.setattr(_local, "WORTH_THREADS", 0)
    drawn = []
    original = NoiseMaker._noise

    def noise(self, round, step, silos, units):
        made = original(self, round, step, silos, units)
        drawn.extend(np.atleast_2d(made.units).astype(float))
        return made

    monkeypatch.setattr(NoiseMaker, "_noise", noise)
    X, silos = np.zeros((50, 3999), dtype), np.arange(50) % 5
    clf = plain("DPFedAvgClassifier", n_rounds=4, local_steps=3)
    clf.set_params(epsilon=None, noise_multiplier=2.0).fit(X, np.arange(50) % 2, silos=silos)
    assert np.shape(drawn) == (60, 4000)
    correlations = np.corrcoef(drawn) - np.eye(60)
    assert np.abs(correlations).max() < 6.4 / np.sqrt(4000)


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("rate", [1e-9, 0.3])
def test_an_empty_batch_still_releases_noise(together, rate, trust, monkeypatch):
    if not together:
        monkeypatch.setattr(_batches, "GROUP", 1)
        monkeypatch.setattr(_local, "WORTH_THREADS", 0)
    X, y, silos = np.ones((12, 5)), np.arange(12) % 2, np.arange(12) % 4
    seed = 0
    while rate > 1e-6 and any(  # three records a silo: all four batches empty by chance
        len(streams_for(seed).stream("batch", i, 0).poisson_sample(3, rate)) for i in range(4)
    ):
        seed += 1
    clf = plain("ISRLDPClassifier", trust=trust, sampling_rate=rate, random_state=seed)
    clf.set_params(epsilon=None, noise_multiplier=2.0).fit(X, y, silos=silos)
    streams = streams_for(seed)
    silo_noise = np.mean([streams.stream("noise", i, 0).normal(6) for i in range(4)], axis=0)
    noise = silo_noise if trust == "silo" else streams.stream("aggregate").normal(6) / 4
    expected = -2.0 * noise / (3 * rate)
    np.testing.assert_allclose(clf.coef_[0], expected[:5], rtol=1e-6)
    np.testing.assert_allclose(clf.intercept_, expected[5:], rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(name, monkeypatch):
    X, y, silos = data(name)
    for least in (_local.WORTH_THREADS, 0):
        monkeypatch.setattr(_local, "WORTH_THREADS", least)
        fits = [
            plain(name, n_rounds=5, local_steps=2, sampling_rate=0.5, n_jobs=jobs)
            .fit(X, y, silos=silos)
            .coef_.tobytes()
            for jobs in (None, 1, 2, -1)
        ]
        assert len(set(fits)) == 1
