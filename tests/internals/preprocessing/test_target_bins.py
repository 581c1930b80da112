"""Counts of a target in few bins: what they may tell, what they cost, what they are for."""

import numpy as np
import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.scaling._magnitudes import LinearGrid, seen_in_bins
from skdpfl.scaling._maps import read_feature_bounds, read_target_bounds
from tests.internals.preprocessing import held

SIZES = np.array([20, 25, 30] * 10)
CODES = np.repeat(np.arange(30), SIZES)


def plan_of(mu=0.5, **changes):
    given = {
        "silo_sizes": SIZES,
        "n_features": 4,
        "mu": mu,
        "feature_bounds": read_feature_bounds((-1, 1), 4),
        "target_bounds": read_target_bounds((0, 100)),
        "has_target": True,
    }
    return held.planned(**given | changes)


def records(seed=0, mean=17.0, deviation=4.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (len(CODES), 4)), rng.normal(mean, deviation, len(CODES))


def test_a_fit_pays_for_it_within_its_budget():
    X, y = records()
    known = {"feature_bounds": (-1, 1), "target_bounds": (0, 100)}
    reg = ISRLDPRegressor(epsilon=1.0, delta=1e-5, n_rounds=5, random_state=0, **known)
    reg.fit(X, y, silos=CODES)
    assert 0.99 < reg.privacy_spent_.epsilon <= 1.0
    shares = [event.noise_multiplier for event, _ in reg.plan_.setup[0]]
    assert len(shares) == 4 - 1 and sum(n for _, n in reg.plan_.setup[0]) == 4


@pytest.mark.parametrize(
    "changes",
    [{"mu": 8.0}, {"unit": "silo"}, {"target_bounds": None}, {"has_target": False}],
    ids=str,
)
def test_it_is_for_targets_in_bounds_that_moments_would_drown(changes):
    assert plan_of().target_bins is not None
    assert plan_of(**changes).target_bins is None


@pytest.mark.parametrize("kind", ["normal", "lognormal", "other end", "few"])
def test_exact_shares_tell_mean_and_deviation(kind):
    rng = np.random.default_rng(0)
    y = {
        "normal": rng.normal(-0.4, 0.2, 4000),
        "lognormal": np.exp(rng.normal(-1.2, 0.7, 4000)) - 1,
        "other end": 1 - np.exp(rng.normal(-1.2, 0.7, 4000)),
        "few": rng.choice([-1.0, 1.0], 4000, p=[0.7, 0.3]),
    }[kind]
    y = np.clip(y, -1, 1)
    shares = np.bincount(LinearGrid(-1, 1).bins(y), minlength=6) / len(y)
    seen = seen_in_bins(shares, 0.005)
    assert seen.mean == pytest.approx(y.mean(), abs=0.08)
    assert np.sqrt(seen.variance) == pytest.approx(y.std(), rel=0.25)
    drowned = seen_in_bins(shares, 50.0)
    assert abs(drowned.mean) < 0.1 and drowned.mean_error > 5 * seen.mean_error
