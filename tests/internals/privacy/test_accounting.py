"""More of tests/privacy/test_accounting.py: what only private names show."""

import math
from decimal import Decimal

import pytest
from scipy.stats import norm

from skdpfl.privacy.events import FixedSizeGaussian, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from skdpfl.privacy.pricing.releases import undominated
from skdpfl.privacy.pricing.renyi import renyi
from tests.privacy._reference import exact_gaussian_delta


def test_a_dominated_composition_costs_less_at_every_delta():
    dear = ((PoissonGaussian(3.0, 0.1), 50), (Gaussian(9.0), 2))
    cheaper = [
        ((PoissonGaussian(3.5, 0.1), 50), (Gaussian(9.0), 2)),
        ((PoissonGaussian(3.0, 0.09), 50), (Gaussian(9.0), 2)),
        ((PoissonGaussian(3.0, 0.1), 49), (Gaussian(9.0), 2)),
        ((PoissonGaussian(3.0, 0.1), 50), (Gaussian(9.5), 2)),
    ]
    unlike = [((FixedSizeGaussian(3.0, 0.1), 50), (Gaussian(9.0), 2)), dear[:1], dear[::-1]]
    for cheap in cheaper:
        assert undominated([dear, cheap]) == [0] and undominated([cheap, dear]) == [1]
        for delta in (1e-2, 1e-5, 1e-9):
            assert price_epsilon(cheap, delta, "replace") < price_epsilon(dear, delta, "replace")
    assert undominated([dear, *unlike]) == [0, 1, 2, 3]
    assert undominated([dear, dear]) == [0]
    assert undominated([cheaper[0], cheaper[1]]) == [0, 1]


def test_budgets_next_to_a_delta_of_one():
    for epsilon in (0.0, 1e-6, 1e-3, 1.0, 1e3):
        for delta in (0.999, 1 - 1e-12, 1 - 2**-52, 1 - 2**-53):
            assert 0.0 < gaussian_delta(gaussian_mu(epsilon, delta), epsilon) <= delta * (1 + 1e-11)


@pytest.mark.parametrize("z", [1e-8, 1e-30, 1e-70, 1e-150, 1e-155, 1e-200, 5e-324])
def test_next_to_no_noise_costs_next_to_infinity(z):
    for distance, neighbours in ((2, "replace"), (1, "add_remove")):
        priced = price_epsilon(((Gaussian(z), 3),), 1e-5, neighbours)
        mu = math.sqrt(3) * distance / z
        assert priced >= mu * (mu / 2)  # the loss's mean alone
        assert priced <= 1.001 * mu * (mu / 2)
        assert price_delta(((Gaussian(z), 3),), 0.99 * mu * (mu / 2), neighbours) == 1.0
        for order in (2.0, 30.0):
            least = order * 2 * distance / z
            assert renyi(((Gaussian(z), 1),), order, neighbours)[0] >= least
        assert price_epsilon(((PoissonGaussian(z, 0.5), 1),), 1e-5, neighbours) >= 1 / z
        assert renyi(((PoissonGaussian(z, 0.5), 1),), 2.0, neighbours)[0] >= 1 / z
    assert price_epsilon(((FixedSizeGaussian(z, 0.5), 1),), 1e-5, "replace") >= 1 / z


@pytest.mark.parametrize("mu", [0.99e4, 1.01e4, 3e5])
@pytest.mark.parametrize("x", [-3.0, 0.0, 2.0, 20.0])
def test_large_gaussian_deltas_are_those_of_one_tail(mu, x):
    """epsilon = mu^2 / 2 + x mu; the other tail is phi(x) / mu, next to nothing."""
    epsilon = mu * mu / 2 + x * mu
    found = gaussian_delta(mu, epsilon)
    tail = norm.sf(x)
    assert tail - 1.01 * norm.pdf(x) / mu <= found <= tail * (1 + 1e-6)
    back = gaussian_epsilon(mu, found) if found < 1 else epsilon
    assert epsilon * (1 - 1e-9) <= back <= epsilon * (1 + 3e-3 / mu)


@pytest.mark.parametrize("mu", [1e-200, 1e-20, 1e-16, 2.5e-16, 1e-15, 1e-14])
def test_hardly_any_distance_is_priced(mu):
    for times in (0.0, 1.0, 4.0):
        delta = Decimal(gaussian_delta(mu, times * mu))
        true = exact_gaussian_delta(mu, times * mu) if mu > 1e-50 else Decimal(0)
        assert true <= delta <= Decimal(mu)
        assert delta > 0
    assert mu / 3 < gaussian_delta(mu, -mu / 1000) < 2 * mu
    delta = 0.2 * mu
    assert mu / 4 < gaussian_mu(mu / 10, delta) < mu  # 0.2 = 0.37 of 0.54, and 0.4 at epsilon 0


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-10, 1e-30])
@pytest.mark.parametrize("mu", [1e-7, 1e-5, 1e-3, 0.02, 1.0, 5.0])
def test_gaussian_numbers_are_never_below_the_truth(mu, delta):
    """Also where the difference of the two tails loses its digits: compared with 40 digits."""
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 0:
        exact = exact_gaussian_delta(mu, epsilon)
        assert exact <= Decimal(delta)
        assert exact <= Decimal(gaussian_delta(mu, epsilon))
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-4)
    largest = gaussian_mu(0.5, delta)
    assert exact_gaussian_delta(largest, 0.5) <= Decimal(delta)
