"""What is chosen from public numbers, and what it is said to cost."""

import numpy as np
import pytest

from skdpfl.federation import SiloBudgets
from skdpfl.privacy.events import Guarantee
from skdpfl.scaling._choice import plan_scaling
from skdpfl.scaling._maps import read_feature_bounds, read_target_bounds


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
