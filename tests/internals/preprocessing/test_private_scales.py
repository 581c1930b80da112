"""Scales found privately: how good they are, and that no record matters more than another."""

import numpy as np
import pytest

from skdpfl import ISRLDPRegressor
from skdpfl.federation import SiloBudgets
from skdpfl.privacy.events import Guarantee
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.scaling._choice import plan_scaling
from skdpfl.scaling._magnitudes import MagnitudeGrid, shape_library
from skdpfl.scaling._maps import AffineScaling, read_feature_bounds, read_target_bounds
from tests.internals.preprocessing.held import scales_of

N, M = 4000, 4
MEANS = np.array([40.0, -3.0, 0.3, 1e4, 0.02])
SPREADS = np.array([12.0, 1.0, np.sqrt(0.21), 4e3, 0.004])
LOW = np.array([0, -10, 0, 0, 0])
HIGH = np.array([100, 10, 1, 5e4, 0.1])


def records(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(MEANS, SPREADS, (N, 5))
    X[:, 2] = rng.random(N) < 0.3
    return X, 5e4 + 2e4 * rng.normal(size=N), rng.integers(0, M, N)


def plan_for(sizes, mu, known=(), **words):
    return plan_scaling(SiloBudgets.of(Guarantee(**words), sizes, mu), 5, **dict(known))


def planned(codes, mu=1.0, trust="silo", **known):
    sizes = np.bincount(codes, minlength=M)
    return plan_for(sizes, mu, known | {"has_target": True}, trust=trust)


BOUNDS = dict(feature_bounds=read_feature_bounds((LOW, HIGH), 5))


def assert_good(scales, factor=2.0):
    assert (np.abs(np.log2(scales.features.scale / SPREADS)) < np.log2(factor)).all()
    assert (np.abs(scales.features.center - MEANS) < SPREADS).all()
    assert 1e4 < scales.target.scale < 4e4 and abs(scales.target.center - 5e4) < 2e4


@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("known", [{}, BOUNDS], ids=["without", "with"])
def test_scales_are_within_a_small_factor_and_centers_within_a_deviation(known, trust):
    """The last column's bounds are 25 deviations long: too long for a factor of two."""
    X, y, codes = records()
    plan = planned(codes, trust=trust, **known)
    for seed in range(5):
        assert_good(scales_of(plan, X, y, codes, streams_for(seed)), 3.0 if known else 2.0)


@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
def test_rare_flags_without_bounds_have_a_scale(share):
    """Their ones were taken for noise, and scales were anything from 1e-5 to 400."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((20_000, 10)) < share, rng.normal(size=20_000)])
    y = X @ np.append(np.ones(10), 1) + 0.1 * rng.normal(size=20_000)
    known = {"target_bounds": (-5, 8), "clip_features": False, "random_state": 0}
    model = ISRLDPRegressor(3.0, **known).fit(X, y, silos=np.arange(20_000) % 3)
    assert np.abs(model.coef_ - 1).max() < 0.25


def test_ignored_features_get_no_coefficient_and_the_radius_covers_the_bounds():
    X, y, codes = records()
    low, high = LOW.astype(float).copy(), HIGH.astype(float).copy()
    low[1] = high[1] = -3
    known = read_feature_bounds((low, high), 5)
    plan = planned(codes, feature_bounds=known, target_bounds=read_target_bounds((0, 1e5)))
    scaling = scales_of(plan, X, y, codes, streams_for(0)).features
    assert isinstance(scaling, AffineScaling) and np.isinf(scaling.scale[1])
    corners = np.array([low, high, np.where(np.arange(5) % 2, low, high)])
    norms = np.linalg.norm(scaling.transform(corners), axis=1)
    assert norms.max() <= scaling.radius * (1 + 1e-12)
    assert 0.5 < scaling.row_norm / 2 < 1.2


@pytest.mark.slow
def test_of_many_records_a_part_is_read_and_paid_for():
    """Each third of a silo's records, say; the others may be anything."""
    n = 2**18
    rng = np.random.default_rng(0)
    X, codes = rng.normal(MEANS, SPREADS, (n, 5)), np.repeat([0, 1], [n // 2 - 1, n // 2 + 1])
    plan = plan_for([n // 2 - 1, n // 2 + 1], 1.0)
    every = plan.budgets.every
    assert every == 4
    read = np.concatenate([np.arange(0, n // 2 - 1, every), np.arange(n // 2 - 1, n, every)])
    np.testing.assert_array_equal(plan.budgets.units, np.bincount(codes[read]))
    one = scales_of(plan, X, None, codes, streams_for(0)).features
    Z = X.copy()
    Z[np.setdiff1d(np.arange(n), read)] = np.nan
    two = scales_of(plan, Z, None, codes, streams_for(0)).features
    np.testing.assert_array_equal(one.center, two.center)
    np.testing.assert_array_equal(one.scale, two.scale)


def test_columns_that_noise_drowns_have_one_box_if_they_are_alike():
    """60 normal columns, of one scale or over five decades, and columns without values."""
    rng, library = np.random.default_rng(0), shape_library()
    noise, unclear = np.full(60, 0.2), np.ones(60, bool)
    rest = np.zeros(60, bool), 0.0
    for decades, values, shared in ((0, 1.0, True), (5, 1.0, False), (0, 0.0, False)):
        scales = 0.07 * 10 ** rng.uniform(0, decades or 1e-9, 60)
        columns = values * scales * rng.normal(size=(3000, 60))
        bins = MagnitudeGrid().bins(columns.copy())
        shares = (bins[:, :, None] == np.arange(MagnitudeGrid.n_bins)).mean(axis=0)
        noisy = shares * values + 0.2 * rng.normal(size=shares.shape)
        own, found = (library.boxes(noisy, noise, which, *rest)[0] for which in (~unclear, unclear))
        assert (len(set(found.high)) == 1) == shared
        if shared:
            assert 1 < found.high[0] / 0.07 < 6 and len(set(own.high)) > 5
        else:
            assert (found.high == own.high).all()


@pytest.mark.parametrize(("noise", "wide", "doubted"), [(0.03, 0.0, 0.0), (0.12, 0.15, 0.4)])
def test_targets_that_noise_drowns_have_boxes_that_fit_or_are_doubted(noise, wide, doubted):
    """Normal targets beside five normal features of another scale, 100 draws of the noise."""
    rng, library, grid = np.random.default_rng(0), shape_library(), MagnitudeGrid()
    columns = rng.normal(size=(20_000, 6)) * [1, 1, 1, 1, 1, 2.25]
    bins = grid.bins(columns)
    shares = (bins[:, :, None] == np.arange(grid.n_bins)).mean(axis=0)
    all_noise, target = np.array([2 * noise] * 5 + [noise]), np.arange(6) == 5
    found = []
    for _ in range(100):
        noisy = shares + all_noise[:, None] * rng.normal(size=shares.shape)
        box, _, narrow = library.boxes(noisy, all_noise, np.zeros(6, bool), target, 0.2)
        found.append((max(-box.low[5], box.high[5]) / 2.25, narrow[5]))
        assert not narrow[:5].any()
    far, narrow = np.array(found).T
    assert (far > 30).mean() <= wide
    assert (narrow > 0.05).mean() <= doubted
    assert (narrow[far > 30] > 0.05).sum() >= 0.8 * (far > 30).sum()
