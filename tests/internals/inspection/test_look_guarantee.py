"""What a look releases costs what it says: the noise of each part, and the price of all."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from skdpfl.inspection._look import FirstLook
from skdpfl.privacy.pricing.price import price_epsilon

D, SIZES = 40, (300, 200, 100)
#: the largest distance of two records' terms, and the norm of one, over the root of the columns
REACH = {
    "magnitudes": {"replace": math.sqrt(2), "add_remove": 1.0},
    "bins": {"replace": math.sqrt(2), "add_remove": 1.0},
    "spreads": {"replace": 2.0, "add_remove": math.sqrt(1 + 1 + (13 / 8 * 5 / 16) ** 2)},
    "known": {"replace": 1.0, "add_remove": 1.0},
    "levels": {"replace": math.sqrt(2), "add_remove": 1.0},
}


def looked(parts, X, seed=0, **how):
    silos = np.repeat(np.arange(len(SIZES)), SIZES)
    return FirstLook(0.8, parts=parts, delta=1e-6, random_state=seed, **how).fit(X, silos=silos)


@pytest.mark.filterwarnings("ignore:The range of")
@pytest.mark.parametrize("trust", ["silo", "server"])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("part", REACH)
def test_noise_is_what_a_record_can_move_over_the_mu_that_is_paid(part, neighbours, trust):
    """A chi-square test of the noise in sums of gaps, which are zero; false alarms below 1e-7.

    Half the noise, or a price at half the distance, fails it.
    """
    words = part in ("known", "levels")
    d = 1 if part == "levels" else D
    X = np.full((sum(SIZES), d), None, dtype=object) if words else np.full((sum(SIZES), d), np.nan)
    relation = "auto" if neighbours == "replace" else neighbours
    parts, levels = (part,), tuple(range(50))
    if part == "magnitudes":
        parts = ("magnitudes", "spreads")
    bounds = None if part == "magnitudes" or words else (-1, 1)
    look = looked(parts, X, feature_bounds=bounds, trust=trust, neighbours=relation, levels=levels)
    mu = look.plan.mus[look.numbers[part]][0]
    each, std = look.sums[part]
    assert len(each) == (1 if trust == "server" else len(SIZES))
    least = REACH[part][neighbours] * math.sqrt(d) / mu
    assert least < std < 1.001 * least
    low, high = chi2.ppf([5e-8, 1 - 5e-8], each.size)
    assert low < np.square(each / std).sum() < high
    assert 0.79 < price_epsilon(look.plan.composition(), 1e-6, neighbours) <= 0.8


def test_the_parts_add_up_and_words_pay_for_their_threshold():
    X = np.array([[1.0, "a"], [2.0, "b"]] * 300, dtype=object)
    parts = ("magnitudes", "spreads", "bins", "known", "words")
    look = looked(parts, X, feature_bounds={0: None})
    plans = [look.plan, look.vocabulary.plan]
    assert [plan.purpose for plan in plans] == ["look", "vocabulary"]  # streams of their own
    assert len(look.plan.mus) == 4 and look.vocabulary.plan.failure == 1e-8
    whole = [event for plan in plans for event in plan.composition()]
    price = price_epsilon(tuple(whole), 1e-6, "replace")
    assert 0.79 < price <= 0.8 and look.privacy_spent_.epsilon == pytest.approx(price, rel=1e-3)
    assert look.privacy_spent_.n_releases == 5
