"""PrivacySpent: what it says, that it cannot change, and how it adds up."""

import json
import math
import pickle

import numpy as np
import pytest

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy import PrivacySpent, events
from skdpfl.privacy.pricing.price import price_delta, price_epsilon
from tests.guaranteed import cost_of

DELTA = 1e-5
A, B, C = (
    ((events.PoissonGaussian(20.0, 0.1), 200),),
    ((events.PoissonGaussian(15.0, 0.1), 200), (events.Gaussian(9.0), 1)),
    ((events.FixedSizeGaussian(8.0, 0.2), 30),),
)


def spent(*compositions, ids=None, groups=None, **kwargs):
    words = dict(unit="record", trust="silo", neighbours="replace", delta=DELTA, n_releases=200)
    return cost_of(**words | kwargs, compositions=compositions, silo_ids=ids, group_of_silo=groups)


def two_silos(first=A, second=B, **kwargs):
    return spent(first, second, ids=["x", "y"], groups=[0, 1], **kwargs)


# ---- one cost -------------------------------------------------------------------------------


def test_what_it_says():
    cost = two_silos(noise_multiplier=15.0)
    epsilon, delta = cost
    prices = [price_epsilon(c, DELTA, "replace") for c in (A, B)]
    assert (epsilon, delta) == (cost.epsilon, cost.delta) == (max(prices), DELTA)
    assert cost.per_silo.to_dict() == dict(zip("xy", prices, strict=True))
    assert (cost.unit, cost.trust, cost.neighbours) == ("record", "silo", "replace")
    assert (cost.noise_multiplier, cost.n_releases, cost.accountant) == (15.0, 200, "pld")
    assert spent(((events.Gaussian(2.0), 4),)).accountant == "gdp"


def test_each_silo_may_have_its_own_delta():
    cost = two_silos(A, A, group_deltas=[1e-5, 1e-7])
    assert cost.delta == 1e-5
    assert cost.per_silo["x"] == price_epsilon(A, 1e-5, "replace")
    assert cost.per_silo["y"] == price_epsilon(A, 1e-7, "replace") == cost.epsilon


def test_without_privacy():
    cost = spent(((events.Exact(), 1),), ids=["x", "y"], groups=[0, 0])
    assert cost.epsilon == math.inf
    assert cost.per_silo.to_dict() == {"x": math.inf, "y": math.inf}
    assert cost.epsilon_at(0.5) == math.inf and cost.delta_at(100.0) == 1
    assert cost.accountant == "none"
    assert (cost + spent(A)).epsilon == (cost.group(2)).epsilon == math.inf


def test_the_outsider_is_kept_where_smaller():
    outside = ((events.PoissonGaussian(60.0, 0.1), 200),)
    cost = spent(A, outsider_compositions=[outside])
    assert cost.outsider.epsilon == price_epsilon(outside, DELTA, "replace") < cost.epsilon
    assert cost.outsider.trust == "server"
    assert spent(A, outsider_compositions=[B]).outsider is None


# ---- reports --------------------------------------------------------------------------------


OUTSIDE = ((events.PoissonGaussian(60.0, 0.1), 200),)
REPORTED = {
    "two silos": two_silos(),
    "outsider": two_silos(noise_multiplier=15.0, outsider_compositions=[OUTSIDE], assignment="map"),
    "no privacy": two_silos(B, ((events.Exact(), 1),)),
    "batches of fixed size": spent(C),
    "batches with replacement": spent(((events.WithReplacementGaussian(9.0, 0.1, 20), 50),)),
    "profile": spent(
        ((events.Profile((0.0, 1.0), (0.1, 1e-6)), 1), (events.Approximate(0.1, 1e-7), 2))
    ),
    "whole silos": spent(A, unit="silo", trust="server", neighbours="add_remove"),
    "group": spent(((events.Gaussian(9.0), 4),)).group(3),
    "nothing": spent(()),
}


def as_json(cost):
    return json.loads(json.dumps(cost.to_dict(), allow_nan=False))


@pytest.mark.parametrize("cost", REPORTED.values(), ids=REPORTED)
def test_a_report_tells_the_whole_cost(cost):
    report = as_json(cost)
    again = PrivacySpent.from_dict(report)
    assert again == cost
    assert again.to_dict() == cost.to_dict() and as_json(again) == report
    assert (report["schema"], report["version"]) == ("skdpfl.PrivacySpent", 1)
    assert float(report["epsilon"]) == cost.epsilon
    for row in report["epsilon_at"]:
        assert float(row["epsilon"]) == cost.epsilon_at(row["delta"])


def test_a_report_does_not_tell_seeds():
    cost = two_silos(simulation_seeds=frozenset({12345}))
    report = as_json(cost)
    assert report["simulation"] is True
    assert "12345" not in json.dumps(report)  # the seed is the noise
    again = PrivacySpent.from_dict(report)
    assert again.simulation and again.unknown_seeds and not again.simulation_seeds
    assert as_json(again) == report
    assert again.epsilon == cost.epsilon
    with pytest.warns(PrivacyLeakWarning, match="same integer seed"):
        both = again + cost  # for all that is known
    assert both.unknown_seeds
    assert not (again + two_silos()).epsilon < again.epsilon  # without a warning


HALF_A_DRAW = {"event": "WithReplacementGaussian", "count": 1, "batch": 1.5}
HALF_A_DRAW |= {"noise_multiplier": 9.0, "sampling_rate": 0.1}
HUGE = 10**400
PROFILE = {"event": "Profile", "count": HUGE, "epsilons": [0.0], "deltas": [0.1]}
EDITS = {
    "less than it costs": lambda r: r["compositions"][0].update(epsilon=0.01),
    "less for a silo": lambda r: r["per_silo"]["epsilon"].__setitem__(0, 0.01),
    "less in all": lambda r: r.update(epsilon=0.01),
    "less at another delta": lambda r: r["epsilon_at"][0].update(epsilon=0.01),
    "less for an outsider": lambda r: r["outsider"]["compositions"][0].update(epsilon=0.001),
    "more than its releases cost": lambda r: r["compositions"][1].update(events=[]),
    "more noise": lambda r: r["compositions"][1]["events"][0].update(noise_multiplier=5.0),
    "an unknown event": lambda r: r["compositions"][0]["events"][0].update(event="Magic"),
    "an event with more": lambda r: r["compositions"][0]["events"][0].update(noise=5.0),
    "no event": lambda r: r["compositions"][0]["events"].append("Gaussian"),
    "a rate above one": lambda r: r["compositions"][0]["events"][0].update(sampling_rate=1.5),
    "a negative count": lambda r: r["compositions"][0]["events"][0].update(count=-3),
    "a count that no float holds": lambda r: r["compositions"][0]["events"][0].update(count=HUGE),
    "a profile's count, too": lambda r: r["compositions"][0].update(events=[PROFILE]),
    "an epsilon that no float holds": lambda r: r["epsilon_at"][0].update(epsilon=HUGE),
    "half a count": lambda r: r["compositions"][0]["events"][0].update(count=1.5),
    "half a draw": lambda r: r["compositions"][0].update(events=[HALF_A_DRAW]),
    "not a number": lambda r: r["compositions"][0].update(delta=math.nan),
    "a yes": lambda r: r["compositions"][0].update(delta=True),
    "another relation": lambda r: r.update(neighbours="near"),
    "another unit": lambda r: r.update(unit=["record"]),
    "an unknown unit": lambda r: r.update(unit="row"),
    "an unknown trust": lambda r: r.update(trust="nobody"),
    "no composition": lambda r: r.update(compositions=[]),
    "a silo without a cost": lambda r: r["per_silo"]["composition"].__setitem__(0, 7),
    "a silo too many": lambda r: r["per_silo"]["silo"].append("z"),
    "no silos": lambda r: r.update(per_silo={}),
    "silos as one text": lambda r: r["per_silo"].update(silo="ab"),
    "another version": lambda r: r.update(version=2),
    "a yes for a version": lambda r: r.update(version=True),
    "another schema": lambda r: r.update(schema="x"),
    "something missing": lambda r: r.pop("trust"),
    "something added": lambda r: r.update(epsilom=0.1),
    "a group of none": lambda r: r.update(group_size=0),
    "an outsider of words": lambda r: r.update(outsider="none"),
    "an assignment of numbers": lambda r: r.update(assignment=3),
    "no library": lambda r: r.update(library=None),
}


@pytest.mark.every
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_report_is_refused(edit):
    report = as_json(REPORTED["outsider"])
    edit(report)
    with pytest.raises(ValueError, match=r"is |are |has |lacks|does not|must be"):
        PrivacySpent.from_dict(report)


def test_a_report_of_whole_silos_does_not_cost_less_than_its_releases():
    report = as_json(REPORTED["whole silos"])
    for part in (report, report["compositions"][0]):
        part["epsilon"] *= 0.9
    with pytest.raises(ValueError, match=r"compositions\[0\].epsilon is below"):
        PrivacySpent.from_dict(report)


@pytest.mark.parametrize("report", [None, [], "report", {}, 3])
def test_what_is_no_report_is_refused(report):
    with pytest.raises(ValueError, match="The report"):
        PrivacySpent.from_dict(report)


@pytest.mark.parametrize("name, value", [("unit", "row"), ("trust", "nobody"), ("neighbours", "x")])
def test_words_are_checked(name, value):
    with pytest.raises(ValueError, match=f"{name}.*{value!r}"):
        spent(A, **{name: value})


# ---- sums -----------------------------------------------------------------------------------


def test_releases_compose():
    both = spent(A) + spent(C)
    assert both.epsilon == price_epsilon(events.compose((*A, *C)), DELTA, "replace")
    assert both.epsilon < spent(A).epsilon + spent(C).epsilon
    assert both.n_releases == 400
    thrice = sum([spent(A)] * 3)
    assert thrice == spent(A) + spent(A) + spent(A)
    assert thrice.epsilon == price_epsilon(
        ((events.PoissonGaussian(20.0, 0.1), 600),), DELTA, "replace"
    )
    with pytest.raises(TypeError):
        spent(A) + 1.0


def test_the_weaker_trust_holds():
    cases = [("silo", "server", "server"), ("shuffler", "silo", "shuffler")]
    cases += [("silo", "secagg", "secagg"), ("secagg", "server", "server")]
    cases += [("secagg", "shuffler", "server")]  # neither holds with the other's alone
    for one, other, both in cases:
        parts = [spent(A, trust=t, colluding=int(t == "secagg")) for t in (one, other)]
        assert (parts[0] + parts[1]).trust == both
        assert (parts[1] + parts[0]).colluding == (1 if both == "secagg" else None)
    fewer = spent(A, trust="secagg", colluding=2) + spent(A, trust="secagg", colluding=3)
    assert (fewer.trust, fewer.colluding) == ("secagg", 2)


@pytest.mark.parametrize(
    "name, values", [("unit", ("record", "silo")), ("neighbours", ("replace", "add_remove"))]
)
def test_unlike_units_and_neighbours_do_not_add_up(name, values):
    one, other = (spent(A, **{name: value}) for value in values)
    with pytest.raises(ValueError, match=f"{name}='{values[0]}' and {name}='{values[1]}'"):
        one + other
    with pytest.raises(ValueError, match="group_size=2"):
        one + one.group(2)


def test_releases_can_be_priced_under_replacement():
    zeroed = spent(B, neighbours="add_remove")
    replaced = zeroed.under("replace")
    assert replaced == spent(B)
    assert (replaced + spent(A)).epsilon > replaced.epsilon > zeroed.epsilon
    assert replaced.under("replace") is replaced
    with pytest.raises(ValueError, match="neighbours='add_remove'"):
        replaced.under("add_remove")
    # A promise under one relation says nothing about the other.
    for event in (events.Approximate(0.1), events.Profile((0.1,), (0.0,))):
        with pytest.raises(ValueError, match="neighbours='replace'"):
            spent(((event, 1),), neighbours="add_remove").under("replace")


def test_same_silos_add_up_one_by_one():
    x, y = two_silos(A, B, assignment="map"), two_silos(B, A, assignment="map")
    both = x + y
    crossed = events.compose((*A, *B))
    assert both.per_silo.to_dict() == pytest.approx(
        dict.fromkeys("xy", price_epsilon(crossed, DELTA, "replace"))
    )
    assert (both + x).per_silo["y"] > (both + x).per_silo["x"]


@pytest.mark.parametrize("maps", [("map", "other"), (None, None), ("map", None)])
def test_other_silos_add_up_to_the_worst(maps):
    # A record may have been in y first (paying B) and in x later (paying B again).
    x, y = two_silos(A, B, assignment=maps[0]), two_silos(B, A, assignment=maps[1])
    both = x + y
    worst = price_epsilon(events.compose((*B, *B)), DELTA, "replace")
    assert both.epsilon == worst > price_epsilon(events.compose((*A, *B)), DELTA, "replace")
    assert both.per_silo.to_dict() == {"x": worst, "y": worst}
    assert (both + both).epsilon > both.epsilon  # and is still a cost that adds up
    renamed = spent(A, ids=["z"], groups=[0])
    assert (x + renamed).per_silo is None


def test_many_unlike_silos_add_up_quickly_and_soundly():
    many = [((events.PoissonGaussian(20.0 + k, 0.05 + 0.003 * k), 100 + k),) for k in range(40)]
    one = spent(*many, ids=range(40), groups=range(40))
    both = one + spent(A)
    for composition in many[::13]:
        assert both.epsilon >= price_epsilon(events.compose((*composition, *A)), DELTA, "replace")
    assert both.epsilon < 1.5 * one.epsilon + spent(A).epsilon


def test_outsiders_add_up_only_where_both_are_known():
    outside = ((events.PoissonGaussian(60.0, 0.1), 200),)
    x, y = spent(A, outsider_compositions=[outside]), spent(A)
    assert (x + x).outsider.epsilon == price_epsilon(
        events.compose((*outside, *outside)), DELTA, "replace"
    )
    assert (x + y).outsider is None


def test_the_outsider_of_a_group_is_priced_when_it_is_asked_for():
    """Which takes as long as the group's own price does."""
    whole, outside = ((events.PoissonGaussian(z, 0.1), 9) for z in (2.0, 3.0))
    cost = spent((whole,), outsider_compositions=[(outside,)])
    group = pickle.loads(pickle.dumps(cost.group(2)))
    assert "outsider" not in vars(cost)
    assert group.outsider == cost.outsider.group(2)
    assert 0 < group.outsider.epsilon < group.epsilon
    assert spent((whole,)).group(2).outsider is None


def test_equal_seeds_repeat_the_noise():
    seeded = [spent(A, simulation_seeds=frozenset({seed})) for seed in (0, 0, 1)]
    with pytest.warns(PrivacyLeakWarning, match="same integer seed"):
        both = seeded[0] + seeded[1]
    assert both.epsilon > seeded[0].epsilon
    fresh = seeded[0] + seeded[2] + spent(A)  # warnings are errors here
    with pytest.warns(PrivacyLeakWarning):
        fresh + seeded[0]


# ---- groups ---------------------------------------------------------------------------------


def test_groups_of_plain_releases_are_exact():
    # k records move the sum k times as far.
    cost = spent(((events.Gaussian(6.0), 10),))
    for k in (1, 2, 7):
        exact = price_epsilon(((events.Gaussian(6.0 / k), 10),), DELTA, "replace")
        assert cost.group(k).epsilon == exact
        assert cost.group(k).delta == DELTA
    assert cost.group(2).group(3) == cost.group(6)
    assert cost.group(1) is cost


@pytest.mark.slow
@pytest.mark.parametrize("k", [pytest.param(2, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("composition", [A, B, C], ids=["poisson", "mixed", "fixed"])
def test_groups_follow_the_chain_of_neighbours(composition, k):
    cost = spent(composition)
    group = cost.group(k)

    def delta(epsilon):
        return price_delta(composition, epsilon, "replace")

    # P_0(A) <= e^a P_1(A) + delta(a) <= e^{a + b} P_2(A) + e^a delta(b) + delta(a), for every a
    shares = np.linspace(0.1, 0.65, 45) * group.epsilon
    if k == 2:
        chained = min(math.exp(a) * delta(group.epsilon - a) + delta(a) for a in shares)
        assert chained == pytest.approx(DELTA, rel=0.1)
    else:  # equal steps are one chain of many
        equal = min(a for a in shares if delta(a) * math.expm1(k * a) / math.expm1(a) <= DELTA)
        assert group.epsilon < k * equal
    assert group.epsilon > k * cost.epsilon
    assert group.per_silo is None and group.group_size == k


def test_a_group_pays_at_least_what_its_records_can_be_told_by():
    # Two equal records under Poisson sampling of one release, both replaced: the sum moves by 0, 2
    # or 4 clip norms in either direction. Its exact delta is below the group's.
    z, q, k = 2.0, 0.3, 2
    group = spent(((events.PoissonGaussian(z, q), 1),), delta=1e-3).group(k)
    weights = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
    x = np.linspace(-15, 15, 100_001)

    def density(sign):
        return sum(w * np.exp(-((x - sign * j / z) ** 2) / 2) for j, w in enumerate(weights))

    excess = np.maximum(0, density(1) - math.exp(group.epsilon) * density(-1)) / math.sqrt(
        2 * math.pi
    )
    assert np.trapezoid(excess, x) < 1e-3


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_bad_groups(k):
    with pytest.raises(ValueError, match=f"k must be .*; got {k!r}"):
        spent(A).group(k)
