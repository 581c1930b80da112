"""Renyi divergences from profiles: upper bounds, close to what quadrature and other code give."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from skdpfl.privacy.events import (
    Approximate,
    Event,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    PoissonGaussian,
    Profile,
)
from skdpfl.privacy.pricing.renyi import _integrate, log_gaussian_delta, renyi, renyi_of_event

ORDERS = [1.5, 4.0, 30.0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_the_profile_integral_is_a_tight_upper_bound_for_the_gaussian(order, mu):
    eps = np.linspace(0, mu * mu / 2 + mu * (40 + order * mu), 20_000)
    value = _integrate(eps, log_gaussian_delta(mu, eps), order)
    assert order * mu**2 / 2 <= value <= 1.01 * order * mu**2 / 2


@pytest.mark.parametrize("order", [2.0, 10.0])
@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_poisson_add_remove_agrees_with_dp_accounting(rate, order):
    accountant = RdpAccountant([order])
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(2.0))
    )
    ours, _ = renyi_of_event(PoissonGaussian(2.0, rate), order, "add_remove")
    assert ours == pytest.approx(accountant._rdp[0], rel=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_limits_and_order_of_samplings(order):
    plain, _ = renyi_of_event(Gaussian(3.0), order, "replace")
    for event in (PoissonGaussian(3.0, 1.0), FixedSizeGaussian(3.0, 1.0)):
        assert plain <= renyi_of_event(event, order, "replace")[0] <= 1.01 * plain
    poisson, _ = renyi_of_event(PoissonGaussian(3.0, 0.1), order, "replace")
    fixed, _ = renyi_of_event(FixedSizeGaussian(3.0, 0.1), order, "replace")
    assert 0 < poisson <= fixed < plain


def test_replace_one_costs_twice_the_distance():
    # the accountant of dp-accounting 0.6.0 prices REPLACE_ONE by the pair of add-or-remove
    assert renyi_of_event(Gaussian(1.0), 4.0, "replace")[0] == 8.0
    assert renyi_of_event(Gaussian(1.0), 4.0, "add_remove")[0] == 2.0


@pytest.mark.parametrize("order", ORDERS)
def test_randomised_response_by_hand(order):
    p = math.e / (1 + math.e)
    q = 1 - p
    by_hand = math.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
    value, delta = renyi_of_event(Approximate(1.0, 1e-6), order, "replace")
    assert (value, delta) == (pytest.approx(by_hand), 1e-6)
    # the same release as a step profile is only a coarser bound
    step = Profile((0.5, 1.0), ((math.e - math.exp(0.5)) / (1 + math.e), 0.0))
    assert renyi_of_event(step, order, "replace")[0] >= value


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("failure", [1e-6, 0.3, 0.9])
def test_what_is_left_of_a_profile_without_its_failures_is_a_law(order, failure):
    """The profile of an (epsilon, delta) release, in fine steps, costs what the release costs."""
    eps = np.linspace(0, 1, 4000)
    pure = np.maximum((math.e - np.exp(eps)) / (1 + math.e), 0.0)
    # each step at its left end: the profile itself
    event = Profile(tuple(eps), tuple(failure + (1 - failure) * pure))
    value, delta = renyi_of_event(event, order, "replace")
    true = renyi_of_event(Approximate(1.0, failure), order, "replace")[0]
    assert delta == pytest.approx(failure, rel=1e-12)
    assert true <= value <= 1.01 * true


def test_a_profile_that_says_nothing_may_always_fail():
    assert renyi_of_event(Profile((0.0, 1.0), (1.0, 1.0)), 2.0, "replace") == (0.0, 1.0)


def test_compositions_add_up_and_unknown_events_are_refused():
    parts = ((Gaussian(2.0), 3), (Approximate(0.1, 1e-7), 5))
    value, delta = renyi(parts, 3.0, "replace")
    assert value == pytest.approx(3 * 1.5 + 5 * renyi_of_event(Approximate(0.1), 3.0, "replace")[0])
    assert delta == pytest.approx(5e-7)
    assert renyi(((Exact(), 1),), 2.0, "replace")[0] == math.inf
    with pytest.raises(TypeError, match="refused"):
        renyi(((Event(), 1),), 2.0, "replace")
    with pytest.raises(ValueError, match="replace"):
        renyi(((FixedSizeGaussian(1.0, 0.1), 1),), 2.0, "add_remove")
