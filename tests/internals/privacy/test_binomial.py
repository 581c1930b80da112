"""More of tests/privacy/test_binomial.py: what only private names show."""

import math

import numpy as np
import pytest

from skdpfl.privacy.mechanisms import binomial
from skdpfl.privacy.mechanisms.binomial import binomial_sum, largest_step
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from tests.privacy.test_binomial import LAWS, hockey_stick, shifted


@pytest.mark.parametrize(("n", "p"), LAWS[:3])
@pytest.mark.parametrize("shift", [1, 20, 100])
def test_shift_costs_at_most_the_gaussian(n, p, shift):
    """Guarantee 4 by enumeration, both directions; and the Gaussian is not much too large."""
    step, tau = largest_step(n, p, 40.0)
    mu = shift * step
    for a, b in (shifted(n, p, shift), shifted(n, p, shift)[::-1]):
        for epsilon in (0.0, 0.3 * mu, mu, 3 * mu):
            exact = hockey_stick(a, b, epsilon)
            bound = gaussian_delta(mu, epsilon) + (1 + math.exp(epsilon)) * tau
            assert exact <= bound * (1 + 1e-9)
            if epsilon <= mu:
                assert bound <= exact * (1.06 if p == 0.5 else 1.4)


@pytest.mark.parametrize(("z", "d"), [(0.25, 1000), (0.5, 1), (1.0, 1000), (4.0, 1), (100.0, 50)])
def test_the_failure_is_the_least_of_guarantee_5(z, d, monkeypatch):
    """Both inequalities hold at some E, of all; and little is wasted by trying a few of them."""
    seen = []

    def step(*args):
        seen.append(largest_step(*args))
        return seen[-1]

    monkeypatch.setattr(binomial, "largest_step", step)
    release = binomial_sum(z, dimension=d, clip_norm=1.0, n_contributors=10)
    mu, failure = release._priced
    large = np.linspace(0, mu**2 / 2 + 30 * mu, 3001)
    tv = (1 + np.exp(large)) * d * seen[-1][1]
    outside = np.array([gaussian_delta(mu, e) for e in large])
    least = np.maximum(tv / (1 - outside[0]), outside + tv).min()
    assert least <= failure <= 4 * least
