"""Whole silos: what leaves is bounded, noised as priced, unbiased, and priced as it is sampled.

Statistical tests are at false-alarm rates below 1e-6 (five standard deviations or more).
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from skdpfl.privacy import mechanisms
from skdpfl.privacy.mechanisms.privunit import split_epsilon
from skdpfl.privacy.randomness.streams import streams_for
from tests.guaranteed import plan_of as made_plan

LEARNT = mechanisms.LearntClip(highest=10.0)
D, C = 7, 0.75


def plan_of(mechanism, n_silos=6, n_rounds=3, z=2.0, **kw):
    trust = "server" if isinstance(mechanism, mechanisms.ServerMessages) else "silo"
    options = {
        "silo_sizes": None,
        "silo_ids": pd.RangeIndex(n_silos),
        "steps": (1,) * n_rounds,
        "clip_norm": C,
        "noise_multiplier": z,
        "delta": 1e-5,
        "unit": "silo",
        "trust": trust,
        "neighbours": "add_remove" if trust == "server" else "replace",
        "mechanism": mechanism,
    }
    return made_plan(**(options | kw))


# ---- noise and estimates ---------------------------------------------------------------------


def test_two_silos_have_noises_of_their_own():
    plan = plan_of(mechanisms.SiloMessages(), n_silos=2)
    keys, zeros = streams_for(0), np.zeros((2, 20_000))
    sent = plan.mechanism.send(plan, zeros, mechanisms.Senders(np.arange(2), 0, keys, C))
    assert abs(np.corrcoef(sent)[0, 1]) < 5.5 / math.sqrt(20_000)


# ---- prices ----------------------------------------------------------------------------------


def gaussian_epsilon(mu, delta):
    """Balle and Wang's closed form, inverted."""

    def excess(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 0, 200)


def price(mechanism, **kw):
    return plan_of(mechanism, **kw).spent()


def test_each_silo_pays_for_every_message():
    for z, rounds in ((5.0, 1), (20.0, 50)):
        mu = 2 * math.sqrt(rounds) / z
        spent = price(mechanisms.SiloMessages(True, LEARNT), z=z, n_rounds=rounds)
        assert spent.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)
        assert (spent.unit, spent.trust, spent.neighbours) == ("silo", "silo", "replace")
        assert spent.per_silo is None and spent.noise_multiplier == z


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("cohort", ["uniform", "balanced"])
def test_cohorts_of_a_known_size_are_not_amplified(cohort, neighbours):
    mechanism = mechanisms.ServerMessages(True, LEARNT)
    who = {"cohort": cohort, "silo_fraction": 0.1, "neighbours": neighbours}
    spent = price(mechanism, n_silos=100, z=5.0, n_rounds=60, **who)
    rounds = 60 if cohort == "uniform" else 6  # dealt like cards: 6 rounds each, in any case
    mu = math.sqrt(rounds) / 5.0 * (2 if neighbours == "replace" else 1)
    assert spent.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)


def test_a_balanced_deal_is_never_kinder_than_what_it_is_charged_for():
    for n, l, rounds in ((100, 0.1, 61), (7, 0.4, 25), (5, 0.5, 13)):
        who = {"cohort": "balanced", "silo_fraction": l}
        plan = plan_of(mechanisms.ServerMessages(), n_silos=n, n_rounds=rounds, **who)
        for seed in range(20):
            took = np.zeros(n, int)
            for cohort in plan.cohorts(streams_for(seed)):
                took[cohort] += 1
            assert took.max() <= plan.spent().n_releases


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_poisson_cohorts_are_amplified(neighbours):
    """Against another accountant, where that one is right."""
    from dp_accounting import dp_event, pld
    from dp_accounting.privacy_accountant import NeighboringRelation

    relations = {
        "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace": NeighboringRelation.REPLACE_ONE,
    }
    accountant = pld.PLDAccountant(relations[neighbours], value_discretization_interval=1e-3)
    sampled = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    accountant.compose(sampled, 1000)
    who = {"cohort": "poisson", "silo_fraction": 0.01, "neighbours": neighbours}
    spent = price(mechanisms.ServerMessages(True, LEARNT), n_silos=100, z=1.0, n_rounds=1000, **who)
    assert spent.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)
    golden = {"add_remove": 1.83, "replace": 2.84}[neighbours]
    assert spent.epsilon == pytest.approx(golden, abs=0.01)


def pure_epsilon(each, n, delta):
    """Optimal composition of n pure mechanisms (Kairouz, Oh and Viswanath), written out."""
    k = np.arange(n + 1)
    log_p = math.log1p(math.exp(-each))
    logs = np.array([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k])
    likely = np.exp(logs - (n - k) * each - n * log_p)  # k of n answers say "this one"
    losses = (2 * k - n) * each

    def excess(e):
        return float(np.maximum(0, likely * -np.expm1(e - losses)).sum()) - delta

    return brentq(excess, 0, n * each)


@pytest.mark.parametrize("each,n", [(2.0, 1), (0.3, 20), (1.0, 10)])
def test_pure_messages_compose_as_they_should(each, n):
    plan = plan_of(mechanisms.PrivUnitMessages(True, LEARNT), z=1 / each, n_rounds=n)
    spent = plan.spent()
    assert spent.epsilon == pytest.approx(pure_epsilon(each, n, 1e-5), rel=1e-3)
    assert spent.epsilon >= pure_epsilon(each, n, 1e-5) * (1 - 1e-9)
    assert spent.epsilon_at(0.0) == pytest.approx(n * each)
    assert spent.noise_multiplier is None and spent.accountant == "pld"


def test_a_budget_beyond_what_privunit_is_built_for_is_not_used_up():
    plan = plan_of(mechanisms.PrivUnitMessages(), n_rounds=1).calibrated(50.0)
    assert plan.spent().epsilon == pytest.approx(20.0, rel=1e-3)
    used = plan.mechanism.randomiser(plan, D, C)
    assert used.epsilon_direction + used.epsilon_norm == pytest.approx(20.0)


# ---- PrivUnit on the path that fits take -----------------------------------------------------


def test_privunits_epsilon_is_exact_where_fits_use_it():
    """The likelihood ratio of what is sent, between two inputs, is exp(epsilon) at most, and is."""
    for epsilon in (1.0, 5.0):
        plan = plan_of(mechanisms.PrivUnitMessages(), z=1 / epsilon)
        (event, _), *_ = plan.groups().compositions[0]
        assert event.epsilon == pytest.approx(epsilon, rel=1e-12)
        randomiser = plan.mechanism.randomiser(plan, D, C)
        u = randomiser.direction_randomiser(D)
        inside, outside = u.probability / u.mass, (1 - u.probability) / (1 - u.mass)
        levels = randomiser.norm_randomiser.transition
        ratio = inside / outside * (levels.max(axis=0) / levels.min(axis=0)).max()
        assert math.log(ratio) == pytest.approx(epsilon, rel=1e-9)
        assert sum(split_epsilon(epsilon, D)) == pytest.approx(epsilon, rel=1e-12)


# ---- the clip norm ---------------------------------------------------------------------------


def test_a_learnt_clip_norm_stops_at_its_ceiling_and_ignores_noise():
    learnt = mechanisms.LearntClip(highest=2.0)
    assert learnt.update(1.9, 0.0, 0.0, 0) == 2.0
    assert learnt.update(1.0, 1.0, 100.0, 0) == pytest.approx(1.0, abs=1e-4)
    assert learnt.update(1.0, 1.0, 0.0, 50) == pytest.approx(math.exp(-0.1))
    assert learnt.update(1.0, 1e9, 0.0, 50) == learnt.update(1.0, 1.0, 0.0, 50)
    assert learnt.update(1.0, -1e9, 0.0, 50) == learnt.update(1.0, 0.0, 0.0, 50)


@pytest.mark.parametrize(
    ("round", "noise", "rate"),
    [(0, 0.0, 2.0), (2, 0.0, 1.0), (8, 0.0, 0.4), (8, 0.3, 0.2), (0, 0.6, 0.4)],
)
def test_the_clip_norm_moves_by_the_rate_of_its_round_and_noise(round, noise, rate):
    """2 / (1 + r / 2), over 1 + (s / 0.3)^2, by hand."""
    learnt = mechanisms.LearntClip(highest=10.0, quantile=0.3)
    assert learnt.update(1.0, 0.5, noise, round) == pytest.approx(math.exp(-0.2 * rate))
    assert learnt.update(3.0, 0.1, noise, round) == pytest.approx(3 * math.exp(0.2 * rate))


# ---- no privacy ------------------------------------------------------------------------------


def test_a_plan_for_whole_silos_knows_no_sizes():
    plan = plan_of(mechanisms.ServerMessages())
    assert plan.silo_sizes is None and plan.schedule is None
    with pytest.raises(ValueError, match='unit="silo" protects silo_sizes'):
        _ = plan.expected_sizes


def test_schedules_of_noise_on_records_are_refused():
    with pytest.raises(ValueError, match=r"noise_schedule=\('round', 0.5, 0\).*must be None"):
        plan_of(mechanisms.SiloMessages(), noise_schedule=("round", 0.5, 0))


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_noise_and_budget_are_one_for_all_silos(trust):
    """All messages are noised alike: by the most noise, for the least budget."""
    plan = made_plan(
        silo_sizes=None,
        steps=(1,) * 3,
        clip_norm=1.0,
        noise_multiplier=20.0,
        delta=1e-5,
        unit="silo",
        trust=trust,
        silo_ids=range(4),
    )
    for z in ([0.5, 50.0, 50.0, 50.0], [50.0, 50.0, 50.0, 0.5]):
        noised = plan.with_noise(np.array(z))
        assert noised.noise_multiplier.tolist() == [50.0] * 4
        assert noised.spent().noise_multiplier == 50.0
    least = plan.calibrated(np.array([1.0, 2.0, 0.1, 1.0])).spent().epsilon
    assert 0.099 <= least <= 0.1
