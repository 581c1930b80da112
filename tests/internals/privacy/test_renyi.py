"""Renyi divergences from profiles: upper bounds, close to what quadrature and other code give."""

import math
from decimal import Decimal, localcontext

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.special import logsumexp

from skdpfl.privacy.events import (
    Approximate,
    Event,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    PoissonGaussian,
    Profile,
)
from skdpfl.privacy.pricing import renyi as pricing_renyi
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


# ---- rounding -------------------------------------------------------------------------------


def exact_zero_out(z, q, order):
    """(order - 1) D of the Poisson pair, zeroed out, at a whole order, to 50 digits.

    E_Q (P/Q)^a = sum_k binom(a, k) (1-q)^(a-k) q^k e^(k (k-1) / (2 z^2))
    """
    with localcontext() as context:
        context.prec = 60
        rate, square = Decimal(q), 1 / (2 * Decimal(z) ** 2)
        return sum(
            math.comb(order, k) * (1 - rate) ** (order - k) * rate**k * (k * (k - 1) * square).exp()
            for k in range(order + 1)
        ).ln()


@pytest.mark.parametrize("order", [2, 3, 8, 33])
@pytest.mark.parametrize("z", [0.05, 0.7, 3.0, 200.0, 1e4])
@pytest.mark.parametrize("q", [1e-8, 1e-4, 0.03, 0.9])
def test_poisson_is_never_below_the_truth_to_50_digits(q, z, order):
    exact = exact_zero_out(z, q, order)
    ours = Decimal(renyi_of_event(PoissonGaussian(z, q), float(order), "add_remove")[0])
    assert exact <= ours * (order - 1)
    assert ours * (order - 1) <= exact * (1 + Decimal("2e-12")) + Decimal("5e-13")


@pytest.mark.parametrize("order", [1.01, 2.0, 33.0, 1000.0, 1e7])  # 1e7: rounding alone
@pytest.mark.parametrize("z", [0.02, 0.7, 200.0, 1e5])
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_whatever_is_sampled_costs_at_most_the_unsampled_release(neighbours, z, order):
    plain = renyi_of_event(Gaussian(z), order, neighbours)[0]
    kinds = [PoissonGaussian, FixedSizeGaussian] if neighbours == "replace" else [PoissonGaussian]
    for kind in kinds:
        before = 0.0
        for rate in (1e-6, 0.01, 0.5, 1 - 1e-9):
            value = renyi_of_event(kind(z, rate), order, neighbours)[0]
            assert before <= value
            before = value
        assert before <= plain * (1.01 if kind is FixedSizeGaussian else 1 + 1e-9) + 1e-9


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize(("z", "order"), [(0.1, 30.0), (3.0, 1.5), (200.0, 1000.0)])
def test_every_term_is_raised_by_its_own_rounding_and_by_little_more(
    neighbours, z, order, monkeypatch
):
    """A term a p + (1 - a) q has at least one rounding of its own size."""
    seen = []

    def sums(terms, errors):
        seen.append((terms, errors))
        return float(logsumexp(terms + errors))

    monkeypatch.setattr(pricing_renyi, "_log_sum", sums)
    renyi_of_event.__wrapped__(PoissonGaussian(z, 0.3), order, neighbours)
    for terms, errors in seen:
        assert (errors >= 2.0**-53 * np.abs(terms)).all() and (errors > 2.0**-52).all()
        top = terms.argmax()
        assert errors[top] <= 2.0**-52 * 40 * (2 * order - 1) * (
            1 + terms[top] + 2 * (order / z) ** 2
        )
    assert len(seen) == 2
