"""More of tests/privacy/test_spent.py: what only private names show."""

import dataclasses
import math
import warnings

import pytest

import skdpfl.privacy.spending.spent as spending
from skdpfl import DPFedAvgClassifier
from skdpfl.privacy import epsilon_per_record
from skdpfl.privacy.events import Approximate, Exact, Gaussian, PoissonGaussian, Profile
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.shuffling import shuffled_levels
from skdpfl.privacy.spending.cost import Cost
from skdpfl.privacy.spending.spent import chosen_by_outputs, total
from tests.privacy.test_spent import DELTA, A, B, C, spent, two_silos

SHUFFLED = shuffled_levels([(4.0, 10)], 200, 0.1, DELTA)


GROUPS = {
    "shuffled": (SHUFFLED, 2),
    "short profile": (((Profile((0.0, 1.0, 2.0), (0.2, 0.01, 1e-6)), 1),), 2),
    "large epsilon": (((PoissonGaussian(0.3, 0.1), 100),), 50),
    "failures": (((Approximate(0.0, DELTA / 2), 1), (PoissonGaussian(3.0, 0.5), 1)), 3),
    "some failures": (((Approximate(1.0, 1e-7), 1), (PoissonGaussian(1.0, 0.01), 100)), 2),
    "pure": (((Approximate(1.0, 0.0), 3),), 2),
    "nothing": (((PoissonGaussian(1e6, 0.01), 1),), 3),
    "nothing but failures": (((Approximate(0.0, DELTA / 10), 1),), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize(("composition", "k"), GROUPS.values(), ids=GROUPS)
def test_every_cost_has_a_group(composition, k):
    cost = spent(composition)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No epsilon")
        group = cost.group(k)
    assert group.epsilon >= k * cost.epsilon or group.epsilon == 0 == cost.epsilon


@pytest.mark.slow
def test_groups_by_hand():
    # pure privacy: k times as much
    assert spent(*[GROUPS["pure"][0]]).group(2).epsilon == pytest.approx(6.0, rel=2e-3)
    # what fails with delta / 10 and says nothing else fails three times as often for three
    failing = spent(GROUPS["nothing but failures"][0])
    assert (failing.group(3).epsilon, failing.group(9).epsilon) == (0.0, 0.0)
    assert math.isfinite(spent(GROUPS["some failures"][0]).group(2).epsilon)


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


@pytest.mark.parametrize(("k", "above"), [(3, 1.2), (30, 1.35)])
def test_what_is_free_for_a_group_is_not_free_25_times(k, above):
    """Nothing at this delta, alone; what more is priced from lies near the truth."""
    mu = 2e-5 / k
    group = spent(((PoissonGaussian(2 / mu, 1 - 1e-9), 1),)).group(k)
    assert group.epsilon == 0.0
    exact = gaussian_epsilon(5 * k * mu, DELTA)
    assert exact * (1 - 1e-6) <= total([group] * 25).epsilon <= above * exact


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "k"), [("nothing but failures", 11), ("failures", 3), ("large epsilon", 50)]
)
def test_groups_without_an_epsilon_say_what_to_do(what, k):
    """Failures alone exceed delta; or 50 times an epsilon of hundreds."""
    with pytest.warns(UserWarning, match=rf"{k} records together.*epsilon_per_record.*limit_rows"):
        assert spent(GROUPS[what][0]).group(k).epsilon == math.inf


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


def test_totals_of_unlike_costs_are_refused():
    with pytest.raises(ValueError, match="unit='record' and unit='silo'"):
        total([spent(A), spent(A, unit="silo", ids=None)])


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


@pytest.mark.slow
def test_a_group_of_many_unlike_releases_costs_hardly_more_when_they_are_merged(monkeypatch):
    clf = DPFedAvgClassifier(1.0, sampling_rate=0.2, noise_schedule=("round", 0.9, 2), n_rounds=50)
    paid = clf.plan_for(silo_sizes=[60], n_features=4).spent()
    assert len(paid.costs[0].composition) > spending._MOST_DISTINCT
    at_most = {k: paid.group(k).epsilon for k in (2, 12)}
    monkeypatch.setattr(spending, "_MOST_DISTINCT", 1000)
    for k, epsilon in at_most.items():
        assert paid.group(k).epsilon <= epsilon <= 1.04 * paid.group(k).epsilon


def test_a_group_costs_no_epsilon_where_one_record_costs_more_than_any():
    clf = DPFedAvgClassifier(
        None, noise_multiplier=1e-3, sampling_rate=0.2, noise_schedule=("round", 0.9, 2)
    )
    paid = clf.plan_for(silo_sizes=[60], n_features=4).spent()
    assert paid.epsilon > 600.0
    with pytest.warns(UserWarning, match="No epsilon up to 600 holds for 2 records"):
        assert paid.group(2).epsilon == math.inf
