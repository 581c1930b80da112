"""More of tests/privacy/test_accounting_independent.py: what only private names show."""

import math

import pytest

from skdpfl.privacy.events import FixedSizeGaussian, PoissonGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon
from skdpfl.privacy.pricing.price import price_delta, price_epsilon

KINDS = [
    (PoissonGaussian, "replace"),
    (PoissonGaussian, "add_remove"),
    (FixedSizeGaussian, "replace"),
]


@pytest.mark.parametrize(("kind", "neighbours"), KINDS)
@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("steps", [1, 3, 40, 3000, 10**6])
def test_almost_all_records_sampled_is_within_a_ten_thousandth_of_plain(
    kind, neighbours, mu, steps
):
    """Each kind's own pair, grid and transform; a million are priced on the coarsest grid."""
    coarse = 1 if steps < 10**6 else 5.5
    z = (2 if neighbours == "replace" else 1) * math.sqrt(steps) / mu
    composition = ((kind(z, 1 - 1e-13), steps),)
    for delta, above in ((1e-2, 4e-4), (1e-5, 8e-4), (1e-14, 2e-3), (1e-60, 9e-3)):
        exact = gaussian_epsilon(mu, delta)
        if exact == 0.0 or (steps == 1 and mu > 1 and delta < 1e-20):
            continue
        assert exact * (1 - 1e-6) <= price_epsilon(composition, delta, neighbours)
        assert price_epsilon(composition, delta, neighbours) <= exact * (1 + 1e-4 * coarse)
        found = price_delta(composition, exact, neighbours)
        assert delta * (1 - 1e-5) <= found <= delta * (1 + above * coarse**1.6)
