"""More of tests/privacy/test_spent.py: what only private names show."""

import dataclasses
import math

import pytest

from skdpfl.privacy import epsilon_per_record
from skdpfl.privacy.events import Approximate, Exact, Gaussian, PoissonGaussian
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.spending.cost import Cost
from skdpfl.privacy.spending.report import EVENTS
from skdpfl.privacy.spending.spent import chosen_by_outputs, total
from tests.privacy.test_report_schema import SCHEMA
from tests.privacy.test_spent import DELTA, A, B, C, spent, two_silos


@pytest.mark.parametrize(("mu", "k", "above"), [(0.05, 2, 1.01), (0.05, 30, 1.02), (0.3, 3, 1.02),
                                                (1.0, 2, 1.02), (1.0, 10, 1.05), (2.0, 5, 1.06),
                                                (2e-5, 2, 1.1), (2e-5, 10, 1.1)])  # fmt: skip
def test_groups_of_almost_plain_releases_cost_little_more_than_plain(mu, k, above):
    """(k mu)-GDP, by points of one record's profile; and four such groups, by the group's."""
    group = spent(((PoissonGaussian(2 / mu, 1 - 1e-9), 1),)).group(k)
    exact = gaussian_epsilon(k * mu, DELTA)
    assert exact * (1 - 1e-6) <= group.epsilon <= above * exact
    four, exact = group + group + group + group, gaussian_epsilon(2 * k * mu, DELTA)
    assert exact * (1 - 1e-6) <= four.epsilon <= (above + 0.07) * exact


@pytest.mark.parametrize(("epsilon", "k"), [(2.0, 3), (0.3, 50), (8.0, 2)])
def test_the_epsilon_of_one_record_is_what_a_group_may_cost(epsilon, k):
    one = epsilon_per_record(epsilon, k=k, delta=DELTA)
    cost = spent(((Gaussian(2 / gaussian_mu(one, DELTA)), 1),))
    assert cost.epsilon <= one * (1 + 1e-9)
    assert 0.9999 * epsilon <= cost.group(k).epsilon <= epsilon


def test_releases_chosen_by_an_output_cost_their_budget():
    cost = chosen_by_outputs(spent(A, (), ((Exact(), 1),), ids=[*"abc"], groups=[0, 1, 2]))
    price = price_epsilon(A, DELTA, "replace")
    assert [c.composition for c in cost.costs] == [
        ((Approximate(price, DELTA), 1),),
        (),
        ((Exact(), 1),),
    ]
    assert [c.epsilon for c in cost.costs] == [price, 0.0, math.inf]
    assert {c.delta for c in cost.costs} == {DELTA}


def some_fits(kind, n=4):
    """Fits to add up: in the same silos, in other silos, of one cost each, of many each."""
    fits = [two_silos(A, B), two_silos(B, C), two_silos(C, A), two_silos(A, A)]
    if kind == "aligned":
        return [dataclasses.replace(fit, assignment="same") for fit in fits]
    if kind == "one cost":
        return [spent(c) for c in (A, B, C, A)]
    if kind == "many ways":
        return [two_silos(((Gaussian(9.0 + i), 3),), C) for i in range(6)]
    return [*fits[:2], spent(C)]


@pytest.mark.parametrize("kind", ["aligned", "one cost", "many ways", "mixed"])
def test_all_at_once_is_one_after_the_other(kind):
    fits = some_fits(kind)
    at_once, in_turn = total(fits), sum(fits)
    for name in ("delta", "unit", "trust", "silo_ids", "assignment", "n_releases"):
        assert getattr(at_once, name) == getattr(in_turn, name)
    assert at_once.noise_multiplier == in_turn.noise_multiplier
    assert at_once.epsilon == pytest.approx(in_turn.epsilon, rel=1e-6)
    if kind == "aligned":
        assert at_once.per_silo.to_dict() == pytest.approx(in_turn.per_silo.to_dict())
        assert at_once.per_silo["x"] != at_once.per_silo["y"]


@pytest.mark.parametrize(
    ("epsilon", "delta", "shown"),
    [
        (1.004, 1e-5, "ε=1.01, δ=1e-05,"),
        (2.9996, 1.231e-5, "ε=3.00, δ=1.24e-05,"),
        (0.1 + 0.2, 1e-4, "ε=0.30, δ=0.0001,"),
        (0.0121, 1e-6, "ε=0.013, δ=1e-06,"),
        (0.0, 1e-6, "ε=0, "),
        (1e200, 1e-6, "ε="),
    ],
)
def test_text_never_shows_less_than_was_spent(epsilon, delta, shown):
    cost = dataclasses.replace(spent(A), costs=(Cost(A, delta, epsilon),))
    assert shown in repr(cost)
    assert float(repr(cost).split("ε=")[1].split(",")[0]) >= epsilon * (1 - 1e-11)


def test_every_event_is_described():
    kinds = SCHEMA["$defs"]["event"]["anyOf"]
    assert {name for kind in kinds for name in kind["properties"]["event"]["enum"]} == {*EVENTS}
