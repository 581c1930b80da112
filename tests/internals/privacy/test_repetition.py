"""The best of a random number of runs: the law of that number, and the price."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import geom

from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.spending.cost import Repetition

K = np.arange(1, 30_000)


class Uniform:
    """A stream whose next number is known."""

    def __init__(self, number):
        self.number = number

    def random(self, shape):
        return np.full(shape, self.number)


@pytest.mark.parametrize("mean", [1.5, 10.0, 100.0])
def test_the_number_of_runs_has_the_law_it_is_priced_for(mean):
    law, mass = Repetition(mean), geom.pmf(K, 1 / mean)
    assert mass @ K == pytest.approx(mean, rel=1e-6)
    upto = np.cumsum(mass)
    for uniform in (0.0, 0.3, 0.7, 0.99, 0.99999):
        drawn = law.draw(Uniform(uniform))
        assert drawn == 1 + np.searchsorted(upto, uniform)


def test_price_of_a_gaussian_is_the_theorems():
    """D_a = a r: best at b^2 = log E[K] / r, and a is minimised without a grid."""
    z, mean = 5.0, 10.0
    law, r = Repetition(mean), 1 / (2 * z**2)
    for_count = 2 * (2 * math.sqrt(math.log(mean) * r) - r)
    profile = law.profile((((Gaussian(z), 1),),), "add_remove")

    def log_delta(log_a, epsilon):  # with 1 + e^x for a
        above = math.exp(log_a)
        total = (1 + above) * r + for_count + math.log(mean) / above
        return above * (total - epsilon + math.log1p(-1 / (1 + above))) - math.log1p(above)

    for i in range(1800, 2800, 20):
        epsilon = profile.epsilons[i]
        best = minimize_scalar(log_delta, bounds=(-2, 7), args=(epsilon,), method="bounded").fun
        if -25 < best < -1:
            assert 0.999 * math.exp(best) <= profile.deltas[i] <= 1.2 * math.exp(best)
    seen = [-25 < math.log(d) < -1 for d in profile.deltas[1800:2800:20] if d > 0]
    assert sum(seen) >= 8


def test_the_costliest_candidate_and_the_likeliest_failure_count():
    """A failure of one run is met E[K] times."""
    law = Repetition(10.0)
    quiet, loud = (Gaussian(5.0), 1), (Gaussian(4.0), 1)
    fails = law.profile(((quiet, (Approximate(0.0, 1e-7), 1)), (loud,)), "replace")
    alone = law.profile(((loud,),), "replace")
    extra = np.subtract(fails.deltas, alone.deltas)
    assert fails.deltas[0] == 1.0
    assert extra[-1000:] == pytest.approx(10 * 1e-7, rel=1e-6)


def test_repetition_costs_less_than_paying_for_each_run_and_more_than_one():
    run = (((Gaussian(10.0), 1),),)
    one = price_epsilon(run[0], 1e-5, "replace")
    for mean in (2.0, 10.0, 50.0):
        kept = price_epsilon(((Repetition(mean).profile(run, "replace"), 1),), 1e-5, "replace")
        assert one < kept
    assert kept < price_epsilon(((Gaussian(10.0), 50),), 1e-5, "replace")
