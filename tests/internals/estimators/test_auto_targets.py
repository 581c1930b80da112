"""More of tests/estimators/test_auto_targets.py: what only private names show."""

import numpy as np
import pytest

from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling._maps import read_feature_bounds, read_target_bounds
from tests.internals.preprocessing.held import planned, scales_of


def doubted(n, epsilon, spread, n_fits):
    """How often a target of normal values, its deviation in half boxes, is said not to fit."""
    return doubts(spread * np.random.default_rng(0).normal(size=n), (-1, 1), epsilon, n_fits)


def doubts(y, bounds, epsilon, n_fits):
    """How often it is said that a target does not fit its bounds, or what was found for it."""
    n, features = len(y), np.random.default_rng(1).normal(size=(len(y), 5))
    sizes = [n // 10] * 10
    plan = planned(
        sizes, 5, gaussian_mu(epsilon, n**-2.0), has_target=True,
        feature_bounds=read_feature_bounds((-4, 4), 5),
        target_bounds=None if bounds is None else read_target_bounds(bounds),
    )  # fmt: skip
    codes = np.repeat(np.arange(10), sizes)
    fits = (scales_of(plan, features, y, codes, streams_for(seed)) for seed in range(n_fits))
    return sum(scales.coarse_target for scales in fits) / n_fits


OTHERS = [(1000, 1.0), (1000, 3.0), (5000, 3.0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "epsilon"),
    [(500, 1.0), *(pytest.param(*other, marks=pytest.mark.slow) for other in OTHERS)],
)
def test_bounds_at_five_deviations_are_not_doubted_whatever_the_noise(n, epsilon):
    """A rate of 1/1000 would be seen as 4 of 300 once in a few thousand settings."""
    assert doubted(n, epsilon, 0.2, 300) <= 3 / 300


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(1000, 3.0), (5000, 3.0)])
def test_targets_within_a_hundredth_of_the_bounds_are_mostly_said(n, epsilon):
    assert doubted(n, epsilon, 0.005, 200) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_targets_at_an_end_of_bounds_that_are_far_too_wide_are_mostly_said(epsilon):
    """Earnings between 0 and a "safe" 100 million: predictions would be millions off."""
    earnings = 30_000 * np.random.default_rng(0).lognormal(0, 0.5, size=2000)
    assert doubts(earnings, (0, 1e8), epsilon, 100) > 0.7
    assert doubts(earnings, (0, 1.5e5), epsilon, 100) == 0
    rare = (np.random.default_rng(0).random(2000) < 0.1).astype(float)
    assert doubts(rare, (0, 1), epsilon, 100) == 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_skewed_targets_without_bounds_are_not_said_to_vary_little(epsilon):
    """What is left of their variance in the box may well drown; counts show how wide they are."""
    skewed = np.random.default_rng(0).lognormal(9, 1.5, size=1000)
    assert doubts(skewed, None, epsilon, 200) == 0
    years = 2010 + 4 * np.random.default_rng(0).normal(size=1000)
    assert doubts(years, None, 3.0, 100) > 0.5


def test_narrow_targets_are_found_below_the_features_floor():
    """A hundredth of the bounds: errors of predictions would be ten times as large at the floor."""
    y = 0.01 * np.random.default_rng(1).normal(size=4000)
    plan = planned(
        [1000] * 4, 4, 1.0, has_target=True,
        feature_bounds=read_feature_bounds((-4, 4), 4), target_bounds=read_target_bounds((-1, 1)),
    )  # fmt: skip
    codes = np.repeat(np.arange(4), 1000)
    found = scales_of(plan, np.zeros((4000, 4)), y, codes, streams_for(0))
    assert found.target.scale < 0.1 < plan.floor
    assert found.target.scale > 0.005
