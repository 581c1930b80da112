"""Limits of numbers: what lies on one is taken, what lies just beyond is refused by its name."""

import math

import pytest
from scipy.stats import binom

from skdpfl.privacy.events import Gaussian
from skdpfl.privacy.mechanisms.binomial import TooFewBits, dominating_gaussian
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.sampling import Disjoint, PoissonSampling


def stream():
    return streams_for(0).stream("limits")


def test_bits_that_hide_nothing_are_refused_from_twenty_deviations_on():
    """N p (1 - p) = 10^6: deviations of 1000."""
    assert dominating_gaussian(4 * 10**6, 0.5, 19_999.0, 1)[0] == pytest.approx(20.0, rel=1e-3)
    with pytest.raises(TooFewBits, match="protect nothing"):
        dominating_gaussian(4 * 10**6, 0.5, 20_001.0, 1)


def test_one_pass_deals_each_record_once():
    parts = Disjoint(3).deal(stream(), 11)
    assert parts.shape == (3, 3)
    assert len(set(parts.ravel().tolist())) == 9 and parts.max() < 11


def test_one_pass_is_one_release_at_the_least_noise_that_was_met():
    assert Disjoint(3).composition(9, [(2.0, 3), (1.5, 1), (0.5, 0)]) == ((Gaussian(1.5), 1),)
    assert Disjoint(3).composition(9, [(2.0, 0)]) == ()


@pytest.mark.parametrize("rate", [1e-4, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("n", [10, 1000, 10**6])
def test_batches_are_cut_where_2_to_the_minus_100_is_left(rate, n):
    """Exactly, by the binomial's tail; and Bernstein's inequality wastes little."""
    most = PoissonSampling(rate).largest_batch(n)
    assert binom.logsf(most, n, rate) <= -100 * math.log(2)
    least = int(binom.isf(2.0**-100, n, rate))
    assert most <= n and most - n * rate <= 1.7 * (least - n * rate) + 25

    def exponent(above):
        return above**2 / (2 * n * rate * (1 - rate) + 2 * above / 3)

    assert most == n or exponent(most - n * rate) >= 100 * math.log(2)
    assert exponent(most - 1 - n * rate) < 100 * math.log(2)
