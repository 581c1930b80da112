"""What is chosen from public numbers, and what it is said to cost."""

import numpy as np
import pytest

from skdpfl.federation import SiloBudgets
from skdpfl.privacy.events import Guarantee
from skdpfl.scaling._choice import plan_scaling
from skdpfl.scaling._curves import denoise_histogram
from skdpfl.scaling._maps import read_feature_bounds, read_target_bounds
from tests.internals.preprocessing.held import planned
from tests.internals.test_sums import PROTECTED


def bounds(d):
    return read_feature_bounds((0, 1), d)


def plan(sizes=(200,) * 5, d=8, mu=0.7, **known):
    words = {name: known.pop(name) for name in ("unit", "trust", "neighbours") if name in known}
    return plan_scaling(SiloBudgets.of(Guarantee(**words), list(sizes), mu), d, **known)


TARGET = read_target_bounds((0, 1))


@pytest.mark.parametrize(
    ("given", "features", "target", "share"),
    [
        (dict(scaling=None, has_target=True), "none", "none", 0),
        (dict(feature_bounds=bounds(8)), "refined bounds", "none", 0.41),
        (dict(sizes=[10**7], feature_bounds=bounds(8)), "refined bounds", "none", 0.003),
        (dict(has_target=True), "private", "private", 0.54),
        (
            dict(feature_bounds=bounds(8), target_bounds=TARGET, has_target=True),
            "refined bounds",
            "refined bounds",
            0.42,
        ),
        (dict(d=30, sizes=[91] * 5, mu=0.23), "squash", "none", 0),
        (dict(d=30, sizes=[9] * 5, mu=0.1, has_target=True), "squash", "private", 0.54),
        (dict(feature_bounds=read_feature_bounds((0, 0), 8)), "bounds", "none", 0),
    ],
)
def test_choices(given, features, target, share):
    made = plan(**given)
    assert (made.features, made.target) == (features, target)
    assert made.share <= share + 0.01
    assert made.is_free == (share == 0)


def test_a_larger_budget_never_means_more_noise():
    noises = [plan(mu=mu).noise(plan(mu=mu).counts).max() for mu in (0.3, 0.6, 1.2, 5, 50)]
    assert (np.diff(noises) <= 1e-9).all()


def test_shares_shrink_once_noise_is_small_enough():
    shares = [plan(sizes=[n] * 5, feature_bounds=bounds(8)).share for n in (20, 10**4, 10**6)]
    assert shares[0] == pytest.approx(np.sqrt(0.3**2 + 2 * 0.22**2)) and (np.diff(shares) < 0).all()


def test_ignored_features_are_neither_read_nor_paid_for():
    some = read_feature_bounds(([0] * 8, [1] * 4 + [0] * 4), 8)
    made, four = plan(feature_bounds=some), plan(d=4, feature_bounds=bounds(4))
    assert made.features_read.sum() == 4
    assert made.moments[0].what.diameter == four.moments[0].what.diameter


def test_columns_that_turn_out_to_be_a_point_cost_nothing_and_spare_noise():
    wide = plan(d=40, feature_bounds=bounds(40))
    found = bounds(40)
    found.high[8:] = 0.0
    narrow = wide.within(found)
    assert narrow.composition() == wide.composition()
    for before, after in zip(wide.looks, narrow.looks, strict=True):
        assert after.what.columns.used.sum() == 8
        ratio = narrow.noise(after)[0] / wide.noise(before)[0]
        assert ratio == pytest.approx(np.sqrt(8 / 40), rel=0.01)


def test_protected_silos_sizes_are_not_told():
    made = plan(sizes=[13, 29], mu=0.1, unit="silo")
    assert "2 protected silos" in made.advice and "42" not in made.advice


# ---- what a scaling plan charges is what its sums cost -------------------------------------------

D = 300
SIZES = np.array([5, 20, 40])
BUDGETS = [30.0, [20.0, 50.0, 30.0]]


def plan_of(unit="record", trust="silo", neighbours="replace", mu=30.0, d=D, bounded=True):
    return planned(
        SIZES,
        d,
        mu,
        scaling="private",
        feature_bounds=read_feature_bounds((-1, 1), d) if bounded else None,
        unit=unit,
        trust=trust,
        neighbours=neighbours,
    )


@pytest.mark.parametrize("mu", BUDGETS, ids=["equal", "unequal"])
@pytest.mark.parametrize("setting", PROTECTED, ids="-".join)
@pytest.mark.parametrize("bounded", [True, False], ids=["moments", "counts"])
def test_composition_charges_the_share_that_noise_is_made_for(setting, mu, bounded):
    """What is charged in all, and the noise of each look: at least its sensitivity over its mu."""
    plan = plan_of(*setting, mu=mu, bounded=bounded)
    difference = 2.0 if setting[2] == "replace" else 1.0
    for silo in range(3):
        spent = sum(c * (difference / e.noise_multiplier) ** 2 for e, c in plan.composition(silo))
        assert np.sqrt(spent) == pytest.approx(plan.share * plan.budgets.spends[silo])
        for number, look in zip(plan.sums.numbers, plan.looks, strict=True):
            reach = look.what.diameter if setting[2] == "replace" else look.what.radius
            std = plan.sums.noised(number, look.what).std[silo]
            assert reach / std <= look.share * plan.budgets.spends[silo]


# ---- noisy shares of cells: a total that is kept, also where no single cell stands out -----------


def test_without_noise_shares_stay_and_with_it_they_sum_to_one():
    shares = np.random.default_rng(0).dirichlet(np.ones(95))
    prior = np.ones(95)
    np.testing.assert_allclose(denoise_histogram(shares, prior, 0.0), shares, atol=1e-12)
    for noise in (0.001, 0.1, 10.0):
        found = denoise_histogram(
            shares + np.random.default_rng(1).normal(0, noise, 95), prior, noise
        )
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(), 1.0)
    np.testing.assert_allclose(
        denoise_histogram(shares, prior, 10.0), 1 / 95
    )  # noise alone: the prior


def test_a_tail_keeps_its_mass_where_every_cell_is_below_the_noise():
    """20 % in 64 cells of .3 % each, noise 1 %: cut cell by cell, next to nothing would be left."""
    shares = np.concatenate([[0.8], np.zeros(31), np.full(64, 0.2 / 64)])
    kept = [
        denoise_histogram(
            shares + np.random.default_rng(seed).normal(0, 0.01, 96), np.ones(96), 0.01
        )[32:].sum()
        for seed in range(20)
    ]
    assert 0.1 < np.mean(kept) < 0.3
    assert min(kept) > 0.02
