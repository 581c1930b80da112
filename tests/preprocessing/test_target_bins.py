"""Counts of a target in few bins: what they may tell, what they cost, what they are for."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2

from skdpfl import ISRLDPRegressor
from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling._bounds import read_feature_bounds, read_target_bounds
from skdpfl.scaling._choice import plan_scaling
from skdpfl.scaling._contributions import CountsOn
from skdpfl.scaling._messages import Look
from skdpfl.scaling._target_bins import LinearGrid, seen_in_bins
from tests.preprocessing import held

SIZES = np.array([20, 25, 30] * 10)
CODES = np.repeat(np.arange(30), SIZES)
WILD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, -0.0, 5e-324, 3.0, 17.0]


def plan_of(mu=0.5, **changes):
    given = {
        "silo_sizes": SIZES,
        "n_features": 4,
        "mu": mu,
        "feature_bounds": read_feature_bounds((-1, 1), 4),
        "target_bounds": read_target_bounds((0, 100)),
        "has_target": True,
    }
    return plan_scaling(**given | changes)


def look_of(plan):
    return Look(plan, plan.target_bins, CountsOn(plan.target_bins.grid), 0)


def records(seed=0, mean=17.0, deviation=4.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (len(CODES), 4)), rng.normal(mean, deviation, len(CODES))


@pytest.mark.parametrize("grid", [LinearGrid(0, 10), LinearGrid(-1e308, 1e308, 3)], ids=repr)
def test_every_value_has_exactly_one_bin(grid):
    values = np.array(WILD)
    sums = CountsOn(grid)(values[:, None], np.zeros(len(values), int), 1)
    assert sums.sum() == len(values) and sums.shape == (1, 1, grid.n_bins)
    ends = grid.bins(np.array([-np.inf, np.inf, np.nan]))
    assert ends.tolist() == [0, grid.n_bins - 1, grid.n_bins // 2]


def exact_sums(plan, X, y):
    data = held.held(plan, X, y, CODES, streams_for(0)).data
    return np.concatenate([sums for _, sums in look_of(plan).exact_sums(data)])


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_the_worst_record_moves_a_sum_by_the_sensitivity(neighbours):
    plan = plan_of(0.2, neighbours=neighbours)
    X, y = records()
    others = []
    for value in WILD:
        changed = y.copy()
        changed[-1] = value
        others.append(exact_sums(plan, X, changed)[-1])
    if neighbours == "add_remove":  # its contribution is set to zero
        alone = CountsOn(plan.target_bins.grid)(np.array(WILD)[:, None], np.arange(len(WILD)), 10)
        moved = np.linalg.norm(alone[:, 0], axis=1).max() * plan.weights(plan.target_bins)[0]
    else:
        moved = max(np.linalg.norm(a - b) for a in others for b in others)
    assert moved == pytest.approx(plan.sensitivity(plan.target_bins), rel=1e-12)


@pytest.mark.parametrize("mu", [0.5, np.linspace(0.2, 0.5, 30)], ids=["equal", "unequal"])
def test_noise_is_what_is_charged(mu):
    """Half of it would fail both: the size of what is added, and the multiplier that is paid."""
    plan, (X, y) = plan_of(mu), records()
    release = plan.target_bins
    for silo in (0, 29):
        event, times = plan.composition(silo)[0]
        assert times == 1 and isinstance(event, Gaussian)
        assert event.noise_multiplier == pytest.approx(2 / (release.share * plan.setting.mu[silo]))
    exact, added = exact_sums(plan, X, y), []
    for seed in range(40):
        federation = held.held(plan, X, y, CODES, streams_for(seed))
        for silos, answers in federation.ask(look_of(plan)):
            added.append((answers - exact[silos].reshape(len(silos), -1)) / owed(plan)[silos])
    noise = np.concatenate([each.ravel() for each in added])
    low, high = chi2.ppf([5e-8, 1 - 5e-8], noise.size)
    assert noise.size == 40 * 30 * 6 and low < (noise**2).sum() < high * 1.001


def owed(plan):
    """The least standard deviations that the price allows (n_silos, 1)."""
    mu = plan.target_bins.share * plan.setting.spends
    return (plan.sensitivity(plan.target_bins) / mu)[:, None]


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
    shares = CountsOn(LinearGrid(-1, 1))(y[:, None], np.zeros(len(y), int), 1)[0, 0] / len(y)
    seen = seen_in_bins(shares, 0.005)
    assert seen.mean == pytest.approx(y.mean(), abs=0.08)
    assert np.sqrt(seen.variance) == pytest.approx(y.std(), rel=0.25)
    drowned = seen_in_bins(shares, 50.0)
    assert abs(drowned.mean) < 0.1 and drowned.mean_error > 5 * seen.mean_error


def test_scales_of_a_target_in_wide_bounds_are_found():
    """Without it, the target's scale is mostly that of its bounds."""
    plan = plan_of()
    without = dataclasses.replace(plan, target_bins=None)
    errors = {name: [] for name in ("with", "without")}
    for seed in range(12):
        X, y = records(seed)
        for name, each in (("with", plan), ("without", without)):
            target = held.scales_of(each, X, y, CODES, streams_for(seed)).target
            errors[name].append([(target.center - 17) / 4, np.log(target.scale / 4)])
    center, scale = (np.square(errors["with"]).mean(0) / np.square(errors["without"]).mean(0)).T
    assert center < 0.5 and scale < 0.7
