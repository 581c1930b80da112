"""More of tests/privacy/test_shared_noise.py: what only private names show."""

import math

import numpy as np
import pytest

from skdpfl.privacy.pricing.gaussian import gaussian_delta
from tests.privacy.test_shared_noise import SHARES, law_of_sum

EPSILONS = [0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0]


def delta_of(law, shift, epsilon):
    """The hockey-stick divergence of the sum and itself moved by ``shift`` steps."""
    still, moved = np.append(law, np.zeros(shift)), np.append(np.zeros(shift), law)
    return math.fsum(np.maximum(still - math.exp(epsilon) * moved, 0.0).tolist())


def excess(shares, factors=(0.3, 1.0, 2.0, 4.0)):
    """By how much the sum's curve is above that of a normal of the same variance, at most."""
    law, deviation = law_of_sum(shares), math.sqrt(sum(s * s for s in shares))
    shifts = sorted({1, 2, *(max(1, round(f * deviation)) for f in factors)})
    return max(
        delta_of(law, shift, e) - gaussian_delta(shift / deviation, e)
        for shift in shifts
        for e in EPSILONS
    )


@pytest.mark.parametrize("h", range(1, 21))
@pytest.mark.parametrize("s", SHARES)
def test_a_sum_of_rounded_normals_costs_at_most_what_the_normal_does(s, h):
    assert excess([s] * h) <= 1e-15


def test_a_tiny_share_beside_a_large_one_breaks_the_claim():
    """Shares of 2, .2 and .2 steps: the small ones round to 0 and hide nothing, yet are counted."""
    assert 3e-3 < excess([2.0, 0.2, 0.2]) < 6e-3
    assert excess([2.0]) <= 1e-15  # the large one alone is worth what it is
    assert excess([1.0, 0.2, 0.2]) > 1e-3
