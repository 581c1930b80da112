"""More of tests/privacy/test_ledger.py: what only private names show."""

import math

import pytest
from scipy.optimize import minimize_scalar

from skdpfl.exceptions import BudgetExceeded
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.events import Approximate, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.spending import filters
from skdpfl.privacy.spending.filters import RenyiFilter, failure_share, filter_order, renyi_budget
from tests.privacy.test_ledger import cost, gaussian


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.02, 1e-5), (0.3, 1e-9), (1.0, 1e-5), (8.0, 0.1), (300.0, 1e-2)]
)
def test_the_order_admits_most_and_its_budget_is_the_conversion(epsilon, delta):
    """exp((a - 1) (D - epsilon)) (1 - 1/a)^(a - 1) / a = delta (Canonne, Kamath and Steinke)."""

    def least_noise(log_above):  # mu^2 / 2 of the Gaussian that uses the budget of order a
        a = 1 + math.exp(log_above)
        return -renyi_budget(epsilon, delta, a) / a

    a = filter_order(epsilon, delta)
    best = minimize_scalar(least_noise, bounds=(-4, 9), method="bounded", options={"xatol": 1e-6})
    assert least_noise(math.log(a - 1)) <= best.fun * (1 - 1e-5)
    budget = renyi_budget(epsilon, delta, a)
    back = (a - 1) * (budget - epsilon) + (a - 1) * math.log1p(-1 / a) - math.log(a)
    assert back == pytest.approx(math.log(delta), rel=1e-9)
    assert renyi_budget(epsilon, 0.0, a) == -math.inf


@pytest.mark.parametrize("first", [0.0, 0.05, 0.2])
def test_the_share_of_delta_for_failures_does_not_depend_on_later_fits(first):
    """Paths that fail much and paths that fail little have the same Renyi budget."""
    delta = 1e-5
    share = failure_share(delta, first * delta)
    assert share == (delta / 10 if first <= 0.1 else delta / 2)
    start = (Approximate(0.0, first * delta), 1)

    def left(*failures):
        with PrivacyLedger(3.0, delta) as ledger:
            ledger.charge("first", cost(start))
            for f in failures:
                ledger.charge("later", cost((Gaussian(100.0), 1), (Approximate(0.0, f), 1)))
            costs = [entry.spent for entry in ledger.entries]
        rule = RenyiFilter(3.0, delta)
        return rule._filling(rule.taken(costs)).budget

    room = share - first * delta
    order = filter_order(3.0, delta)
    for failures in [(), (0.0,), (room / 3, room / 3), (0.99 * room,)]:
        assert left(*failures) == renyi_budget(3.0, delta - share, order)
    with pytest.raises(BudgetExceeded, match="failure probabilities"):
        left(0.9 * room, 0.2 * room)


def test_what_is_not_a_number_is_not_within_the_budget(monkeypatch):
    rule = RenyiFilter(1.0, 1e-5)
    monkeypatch.setattr(filters, "renyi", lambda *args: (math.nan, 0.0))
    with pytest.raises(BudgetExceeded):
        rule.admit(rule.taken([gaussian(0.01)]), gaussian(0.01))
    monkeypatch.setattr(filters, "renyi", lambda *args: (0.0, math.nan))
    with pytest.raises(BudgetExceeded):
        rule.admit(rule.taken([gaussian(0.01)]), gaussian(0.01))


def test_the_gaussian_filter_wastes_nothing_and_refuses_other_fits():
    """Squares of mu add up to that of the budget; what is no Gaussian mechanism is refused."""
    quarter = gaussian(gaussian_mu(2.0, 1e-5) / 2 * 0.9999)
    with PrivacyLedger(2.0, method="gaussian") as ledger:
        ledger.charge("quarter", quarter)
        with pytest.raises(BudgetExceeded):
            ledger.charge("sampled", cost((PoissonGaussian(50.0, 0.01), 1)))
        for _ in range(3):
            ledger.charge("quarter", quarter)
        with pytest.raises(BudgetExceeded):
            ledger.charge("more", gaussian(gaussian_mu(2.0, 1e-5) / 20))
