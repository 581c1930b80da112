"""Whole silos: what leaves is bounded, noised as priced, unbiased, and priced as it is sampled.

Statistical tests are at false-alarm rates below 1e-6 (five standard deviations or more).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from skdpfl.algorithms import Algorithm
from skdpfl.engine import Round, _round, run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy import PrivacyPlan
from skdpfl.privacy.mechanisms import (
    LearntClip,
    NoPrivacy,
    PrivUnitMessages,
    Senders,
    ServerMessages,
    SiloMessages,
)
from skdpfl.privacy.mechanisms.base import clip_rows
from skdpfl.privacy.mechanisms.privunit import split_epsilon
from skdpfl.privacy.mechanisms.whole_silos import BIT
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import NORMALS

LEARNT = LearntClip(highest=10.0)
SWITCHES = [(norms, clip) for norms in (False, True) for clip in (None, LEARNT)]
GAUSSIAN = [kind(*s) for kind in (SiloMessages, ServerMessages) for s in SWITCHES]
D, C = 7, 0.75


def joint(z1, z2):
    """Two sums over one cohort are one Gaussian release: 1/z^2 = 1/z1^2 + 1/z2^2."""
    return 1 / math.hypot(1 / z1, 1 / z2)


def name_of(mechanism):
    extra = ["norms"] * mechanism.squared_norms + ["bit"] * (mechanism.clipping is not None)
    return "-".join([type(mechanism).__name__, *extra])


def plan_of(mechanism, n_silos=6, n_rounds=3, z=2.0, **kw):
    trust = "server" if isinstance(mechanism, ServerMessages) else "silo"
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
    return PrivacyPlan(**(options | kw))


@dataclass(frozen=True)
class Scripted(Algorithm):
    """Sends messages of the test's: rows of ``messages(round)``, (n_silos, D); keeps all answers.

    A silo knows itself by its one record, (i, 0, ...) with target -1: its gradient at 0.
    """

    messages: Callable

    def n_gradients(self, round):
        return 1

    def init(self, params):
        return ()

    def broadcast(self, state):
        return len(state)

    def local(self, round, memory, gradient):
        return self.messages(round)[int(gradient(np.zeros(D))[0])]

    def aggregate(self, state, released):
        return (*state, released)

    def params(self, state):
        return np.zeros(D)


def fit_of(plan, messages, seed=0):
    """The work of a fit whose silos send ``messages`` (n_silos, D), or those of each round."""
    script = Scripted(messages if callable(messages) else lambda round: messages)
    X, y = np.zeros((plan.n_silos, D)), -np.ones(plan.n_silos)
    X[:, 0] = np.arange(plan.n_silos)
    data, streams = (
        SiloData.from_codes(X, y, np.arange(plan.n_silos), plan.n_silos),
        streams_for(seed),
    )
    model = LinearModel(D, 1, fit_intercept=False)
    work = Work(model, SquaredError(), script, plan, np.dtype(float))
    return work, LocalFederation(data, streams), streams


def all_released(plan, messages, seed=0):
    """What the server is given by all rounds, and the clip norm after the last."""
    outcome = run(*fit_of(plan, messages, seed), average=False)
    return outcome.state, outcome.clip_norm


def released(plan, messages, silos=None, seed=0):
    """What the server is given by one round with some silos."""
    whole = np.zeros((plan.n_silos, D))
    silos = np.arange(len(messages)) if silos is None else silos
    whole[silos] = messages
    work, federation, streams = fit_of(plan, whole, seed)
    federation.start(work)
    return _round(work, federation, streams, Round(0, silos, plan.clip_norm), ())


def wild_messages(n, d=D, seed=0):
    """Messages of all lengths: zero, tiny, at the clip norm, huge, and not finite."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows *= np.geomspace(1e-30, 1e30, n)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0], rows[1, 0], rows[2, 1], rows[3, 2] = 0, np.nan, np.inf, 1e300
    rows[4] *= C / np.linalg.norm(rows[4])
    return rows


# ---- what leaves is bounded ------------------------------------------------------------------


def clipped_vectors(plan, messages):
    """What each silo adds to the round's query: e_i as the module defines it."""
    mechanism = plan.mechanism
    bounds = mechanism.noised(plan, C, D)
    kept = mechanism.keep(plan, messages, C)
    if isinstance(mechanism, ServerMessages):
        by = Senders(np.arange(len(messages)), 0, streams_for(0), C)
        return mechanism.send(plan, kept, by)
    return np.hstack([kept, mechanism._bits(kept, bounds.clip)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("mechanism", GAUSSIAN, ids=name_of)
def test_no_silo_sends_more_than_is_priced(mechanism, dtype):
    plan = plan_of(mechanism, n_silos=400)
    with np.errstate(over="ignore"):
        messages = wild_messages(400).astype(dtype)
    norms = np.linalg.norm(clipped_vectors(plan, messages), axis=1)
    radius = C * (1 if mechanism.clipping is None else math.sqrt(1 + BIT))
    assert np.isfinite(norms).all()
    assert norms.max() <= radius
    assert norms.max() > radius * (1 - NORMALS - 1e-6)  # and nothing more is given away


def test_the_squared_norm_is_free():
    """|D|^2 + (|D|^2/C - C)^2 <= C^2 for every |D| <= C; a centre elsewhere would cost."""
    r = np.linspace(0, 1, 100_001)
    assert (r**2 + (r**2 - 1) ** 2).max() <= 1 + 1e-15
    for centre in (0.0, 0.5, 0.9, 1.1):
        assert (r**2 + (r**2 - centre) ** 2).max() > 1.001


def test_messages_that_are_not_finite_count_as_zero():
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(clip_rows(rows, 1.0), [[0, 0], [0, 0], [0.6, 0.8], [0.3, 0.4]])


@pytest.mark.parametrize("weights", [None, [0.3, 0.05, 0.2, 0.25, 0.1, 0.1]])
@pytest.mark.parametrize("mechanism", GAUSSIAN, ids=name_of)
def test_one_silo_moves_a_release_by_no_more_than_its_noise_is_for(mechanism, weights):
    """The same noise under neighbouring data: the difference is that of the snapped sums."""
    weights = None if weights is None else np.asarray(weights)
    plan = plan_of(mechanism, z=1.5, weights=weights)
    radius = C * (1 if mechanism.clipping is None else math.sqrt(1 + BIT))
    rng = np.random.default_rng(1)
    for trial in range(50):
        messages = rng.normal(size=(6, D)) * rng.choice([1e-3, 0.3, 1e6], size=(6, 1))
        other = messages.copy()
        other[trial % 6] = -messages[trial % 6] if trial % 2 else np.nan
        by = Senders(np.arange(6), 0, streams_for(0), C)
        if isinstance(mechanism, ServerMessages):
            a, b = (released(plan, m).mean for m in (messages, other))
            a, b = a / plan.weights.max(), b / plan.weights.max()
            moved = np.linalg.norm(a - b)
        else:
            width = D + int(mechanism.clipping is not None)
            sent = [mechanism.send(plan, mechanism.keep(plan, m, C), by) for m in (messages, other)]
            own = np.r_[0:D, -1] if mechanism.clipping is not None else np.r_[0:D]
            assert len(own) == width
            moved = np.linalg.norm((sent[0] - sent[1])[:, own], axis=1).max()
        assert moved <= 2 * radius * (1 + 1e-12)


def test_leaving_a_silo_out_moves_the_sum_by_the_radius():
    """Zero-out: the trusted server's sum without silo i, the same noise."""
    for mechanism in [ServerMessages(*s) for s in SWITCHES]:
        plan = plan_of(mechanism, z=1.5)
        radius = C * (1 if mechanism.clipping is None else math.sqrt(1 + BIT))
        messages = wild_messages(6, seed=3)
        whole = released(plan, messages).mean
        for i in range(6):
            rest = np.delete(np.arange(6), i)
            part = released(plan, messages[rest], rest).mean
            assert np.linalg.norm(whole - part) * 6 <= radius * (1 + 1e-12)


# ---- noise and estimates ---------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", GAUSSIAN, ids=name_of)
def test_noise_is_what_the_plan_says(mechanism):
    n, z, rounds = 4, 3.0, 1500
    plan = plan_of(mechanism, n_silos=n, z=z, n_rounds=rounds)
    clip, draws = C, []
    for r, answer in enumerate(all_released(plan, np.zeros((n, D)))[0]):
        draws.append(answer.mean / clip * C)
        clip = mechanism.next_clip_norm(plan, clip, answer.unclipped, r)
    draws = np.array(draws)
    radius = C * (1 if mechanism.clipping is None else math.sqrt(1 + BIT))
    std = z * radius / (math.sqrt(n) if isinstance(mechanism, SiloMessages) else n)
    assert plan.mechanism.noise_on_mean(plan) == pytest.approx(std)
    # 10,500 draws: the standard deviation's own error is 0.69 %
    assert draws.std() == pytest.approx(std, rel=0.04)
    assert abs(draws.mean()) < 5.5 * std / math.sqrt(draws.size)


def test_two_silos_have_noises_of_their_own():
    plan = plan_of(SiloMessages(), n_silos=2)
    keys, zeros = streams_for(0), np.zeros((2, 20_000))
    sent = plan.mechanism.send(plan, zeros, Senders(np.arange(2), 0, keys, C))
    assert abs(np.corrcoef(sent)[0, 1]) < 5.5 / math.sqrt(20_000)


MANY = 40_000


def some_messages(n=MANY, d=D):
    """Half of them longer than C."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(n, d)) + 1.0
    rows *= (C * np.exp(rng.normal(size=n)) / np.linalg.norm(rows, axis=1))[:, None]
    return rows


@pytest.mark.parametrize("trust", ["silo", "server", "privunit"])
def test_statistics_are_unbiased(trust):
    kind = {"silo": SiloMessages, "server": ServerMessages, "privunit": PrivUnitMessages}[trust]
    z = {"silo": 0.5, "server": 40.0, "privunit": 1 / 6}[trust]
    plan = plan_of(kind(True, LEARNT), n_silos=MANY, z=z)
    messages = some_messages()
    clipped = clip_rows(messages, C)
    truth = float((clipped**2).sum(axis=1).mean())
    known = released(plan, messages)
    error = {
        "silo": math.sqrt((2 * D * (z * C) ** 4 + 4 * (z * C) ** 2 * truth) / MANY),
        "server": z * C**2 / MANY,
        "privunit": 3 * C**2 / math.sqrt(MANY),
    }[trust]
    rounding = C**2 / (4 * 8**2) if trust == "privunit" else 0  # ScalarDP rounds norms to levels
    assert -6 * error < known.squared_norm - truth < 6 * error + rounding
    share = float((np.linalg.norm(messages, axis=1) <= C).mean())
    if trust == "privunit":  # norms are rounded up to C at random: a little less
        assert share - 0.15 < known.unclipped < share + 0.02
    else:
        assert abs(known.unclipped - share) < 6 * mechanism_noise(plan)
    np.testing.assert_allclose(
        known.mean, clipped.mean(axis=0), atol=6 * error_of_mean(plan, trust)
    )


def mechanism_noise(plan):
    return plan.mechanism.noise_on_share(plan)


def error_of_mean(plan, trust):
    return 3 * C / math.sqrt(MANY) if trust == "privunit" else plan.mechanism.noise_on_mean(plan)


def test_the_naive_squared_norm_is_far_off():
    """What the correction is for: without it s would be 18 times the truth here."""
    plan = plan_of(SiloMessages(True), n_silos=2000, z=2.0)
    messages = 0.5 * clip_rows(some_messages(2000), C)
    keys = streams_for(0)
    sent = plan.mechanism.send(plan, messages, Senders(np.arange(2000), 0, keys, C))
    truth = float((messages**2).sum(axis=1).mean())
    naive = float((sent[:, :D] ** 2).sum(axis=1).mean())
    assert naive > 15 * truth
    assert abs(sent[:, D].mean() - truth) < 0.05 * naive


def test_statistics_stay_within_what_they_can_be():
    for mechanism in (SiloMessages(True), ServerMessages(True), PrivUnitMessages(True)):
        plan = plan_of(mechanism, n_silos=2, z=10.0)
        values = [released(plan, np.ones((2, D)), seed=s).squared_norm for s in range(60)]
        assert min(values) == 0 and max(values) == C**2


# ---- secret cohorts --------------------------------------------------------------------------


SECRET = {"n_silos": 100, "cohort": "poisson"}


def test_the_sum_is_divided_by_the_expected_cohort():
    plan = plan_of(ServerMessages(True), z=1e-3, n_rounds=30, silo_fraction=0.25, **SECRET)
    answers, _ = all_released(plan, np.full((100, D), 0.1))
    drawn = plan.cohorts(streams_for(0))
    sizes = [len(next(drawn)) for _ in range(30)]
    assert max(sizes) > min(sizes) + 10
    for n, answer in zip(sizes, answers, strict=True):
        np.testing.assert_allclose(answer.mean, 0.1 * n / 25, atol=1e-3)
        guess = C**2 + n / 25 * (D * 0.01 - C**2)
        assert answer.squared_norm == pytest.approx(min(max(guess, 0), C**2), abs=1e-3)


def test_the_server_is_not_told_how_many_took_part():
    plan = plan_of(ServerMessages(), n_rounds=20, silo_fraction=0.3, **SECRET)
    answers, _ = all_released(plan, np.zeros((100, D)))
    assert {(answer.fraction, answer.sampled) for answer in answers} == {(0.3, 0.3)}


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_cohorts_of_a_known_size_are_divided_by_it(fraction):
    """All four silos, or two of them: over cohorts, the mean of the means is that of all silos."""
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    who = {"cohort": "uniform", "silo_fraction": fraction, "weights": weights, "n_rounds": 12}
    plan = plan_of(ServerMessages(), n_silos=4, z=1e-6, **who)
    messages = np.arange(4)[:, None] * np.full(D, 0.02)
    drawn = None if fraction == 1 else plan.cohorts(streams_for(0))
    for answer in all_released(plan, messages)[0]:
        cohort = np.arange(4) if drawn is None else next(drawn)
        total = weights[cohort] @ messages[cohort]
        np.testing.assert_allclose(answer.mean, total / (len(cohort) / 4), atol=1e-5)
        assert answer.fraction == pytest.approx(fraction)  # who took part stays a secret


def test_an_empty_cohort_is_released_with_noise():
    plan = plan_of(ServerMessages(), n_rounds=50, silo_fraction=0.01, **SECRET)
    answers, _ = all_released(plan, np.full((100, D), 0.1))
    assert len(answers) == 50  # a round that is left out would tell that nobody took part
    drawn = plan.cohorts(streams_for(0))
    empty = [answer for answer in answers if not len(next(drawn))]
    assert len(empty) > 5
    assert min(np.abs(answer.mean).min() for answer in empty) > 0


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
        spent = price(SiloMessages(True, LEARNT), z=z, n_rounds=rounds)
        assert spent.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)
        assert (spent.unit, spent.trust, spent.neighbours) == ("silo", "silo", "replace")
        assert spent.per_silo is None and spent.noise_multiplier == z


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("cohort", ["uniform", "balanced"])
def test_cohorts_of_a_known_size_are_not_amplified(cohort, neighbours):
    mechanism = ServerMessages(True, LEARNT)
    who = {"cohort": cohort, "silo_fraction": 0.1, "neighbours": neighbours}
    spent = price(mechanism, n_silos=100, z=5.0, n_rounds=60, **who)
    rounds = 60 if cohort == "uniform" else 6  # dealt like cards: 6 rounds each, in any case
    mu = math.sqrt(rounds) / 5.0 * (2 if neighbours == "replace" else 1)
    assert spent.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-6)


def test_a_balanced_deal_is_never_kinder_than_what_it_is_charged_for():
    for n, l, rounds in ((100, 0.1, 61), (7, 0.4, 25), (5, 0.5, 13)):
        who = {"cohort": "balanced", "silo_fraction": l}
        plan = plan_of(ServerMessages(), n_silos=n, n_rounds=rounds, **who)
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
    spent = price(ServerMessages(True, LEARNT), n_silos=100, z=1.0, n_rounds=1000, **who)
    assert spent.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)
    golden = {"add_remove": 1.83, "replace": 2.84}[neighbours]
    assert spent.epsilon == pytest.approx(golden, abs=0.01)


def test_two_sums_over_one_cohort_are_one_event():
    """z1 = z2 = 1, q = 0.01, T = 1000: 4.48, where two events would claim 2.58."""
    who = {"cohort": "poisson", "silo_fraction": 0.01, "n_silos": 100, "n_rounds": 1000}
    together = price(ServerMessages(), z=joint(1.0, 1.0), **who)
    assert together.epsilon == pytest.approx(4.48, abs=0.01)
    who["n_rounds"] = 2000  # each sum as an event of its own
    assert price(ServerMessages(), z=1.0, **who).epsilon == pytest.approx(2.58, abs=0.01)


@pytest.mark.parametrize("norms", [False, True])
def test_the_bit_is_paid_for_and_the_squared_norm_is_not(norms):
    """At the same multiplier the noise on the mean is sqrt(1 + BIT) larger with the bit."""
    plain, with_bit = (plan_of(ServerMessages(norms, c), z=2.0) for c in (None, LEARNT))
    ratio = with_bit.mechanism.noise_on_mean(with_bit) / plain.mechanism.noise_on_mean(plain)
    # z1 = z R / C on the mean and z2 = z R / (sqrt(BIT) C) on the bit are z together
    z1 = 2.0 * ratio
    assert joint(z1, z1 / math.sqrt(BIT)) == pytest.approx(2.0)
    assert with_bit.spent() == plain.spent()


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
    plan = plan_of(PrivUnitMessages(True, LEARNT), z=1 / each, n_rounds=n)
    spent = plan.spent()
    assert spent.epsilon == pytest.approx(pure_epsilon(each, n, 1e-5), rel=1e-3)
    assert spent.epsilon >= pure_epsilon(each, n, 1e-5) * (1 - 1e-9)
    assert spent.epsilon_at(0.0) == pytest.approx(n * each)
    assert spent.noise_multiplier is None and spent.accountant == "pld"


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 30.0])
@pytest.mark.parametrize(
    "mechanism", [SiloMessages(True), ServerMessages(True, LEARNT), PrivUnitMessages(True)]
)
def test_calibration_meets_the_budget(mechanism, epsilon):
    plan = plan_of(mechanism, n_silos=500, n_rounds=20).calibrated(epsilon)
    assert 0.99 * epsilon <= plan.spent().epsilon <= epsilon


def test_a_budget_beyond_what_privunit_is_built_for_is_not_used_up():
    plan = plan_of(PrivUnitMessages(), n_rounds=1).calibrated(50.0)
    assert plan.spent().epsilon == pytest.approx(20.0, rel=1e-3)
    used = plan.mechanism.randomiser(plan, D, C)
    assert used.epsilon_direction + used.epsilon_norm == pytest.approx(20.0)


# ---- PrivUnit on the path that fits take -----------------------------------------------------


def privunit_sent(message, n, epsilon, clip=C, seed=0):
    plan = plan_of(PrivUnitMessages(True), n_silos=n, z=1 / epsilon)
    kept = plan.mechanism.keep(plan, np.tile(message, (n, 1)), clip)
    by = Senders(np.arange(n), 0, streams_for(seed), clip)
    return plan, plan.mechanism.send(plan, kept, by)


@pytest.mark.slow
@pytest.mark.parametrize("length", [0.0, 0.3 * C, 5 * C])
def test_privunit_messages_are_unbiased_to_a_per_cent(length):
    n = 1_000_000
    direction = np.array([0.6, 0.0, -0.8])
    plan, sent = privunit_sent(length * direction, n, 8.0)
    expected = min(length, C) * direction
    error = sent[:, :3].std(axis=0) / math.sqrt(n)
    assert error.max() < 0.002 * C  # five deviations are one per cent
    assert np.abs(sent[:, :3].mean(axis=0) - expected).max() < 0.01 * C
    levels = plan.mechanism.randomiser(plan, 3, C).norm_randomiser
    excess = levels.step**2 / 4
    assert -0.01 * C**2 < sent[:, 3].mean() - min(length, C) ** 2 < excess + 0.01 * C**2


def test_privunits_epsilon_is_exact_where_fits_use_it():
    """The likelihood ratio of what is sent, between two inputs, is exp(epsilon) at most, and is."""
    for epsilon in (1.0, 5.0):
        plan = plan_of(PrivUnitMessages(), z=1 / epsilon)
        (event, _), *_ = plan.groups().compositions[0]
        assert event.epsilon == pytest.approx(epsilon, rel=1e-12)
        randomiser = plan.mechanism.randomiser(plan, D, C)
        u = randomiser.direction_randomiser(D)
        inside, outside = u.probability / u.mass, (1 - u.probability) / (1 - u.mass)
        levels = randomiser.norm_randomiser.transition
        ratio = inside / outside * (levels.max(axis=0) / levels.min(axis=0)).max()
        assert math.log(ratio) == pytest.approx(epsilon, rel=1e-9)
        assert sum(split_epsilon(epsilon, D)) == pytest.approx(epsilon, rel=1e-12)


def test_privunit_lands_in_its_cap_as_often_as_priced():
    """On the path of a fit: p of the messages are in the cap around the truth, q around another."""
    n, epsilon, d = 200_000, 4.0, 5
    truth, other = np.eye(d)[0] * C, np.eye(d)[1] * C
    plan, sent = privunit_sent(truth, n, epsilon)
    randomiser = plan.mechanism.randomiser(plan, d, C)
    u, levels = randomiser.direction_randomiser(d), randomiser.norm_randomiser
    # a level whose number is negative turns the direction round: undo that
    number = levels.numbers[np.searchsorted(levels.squares, sent[:, d] - 1e-9)]
    points = sent[:, :d] / number[:, None] * u.scale
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-2)
    p = (points @ truth / C >= u.gamma - 2e-3).mean()
    assert abs(p - u.probability) < 6 * math.sqrt(0.25 / n) + 2e-3
    q = (points @ other / C >= u.gamma).mean()
    # the cap around another input: between its mass on the complement and on the cap
    low = u.mass * (1 - u.probability) / (1 - u.mass)
    assert low - 0.01 < q < u.mass + 0.01


# ---- the clip norm ---------------------------------------------------------------------------


def test_a_learnt_clip_norm_settles_at_its_quantile():
    rng = np.random.default_rng(0)

    def rows(round):
        directions = rng.normal(size=(2000, D))
        lengths = 0.2 * np.exp(rng.normal(size=(2000, 1)))
        return directions * lengths / np.linalg.norm(directions, axis=1, keepdims=True)

    for start in (0.01, 1.0, 9.0):
        mechanism = ServerMessages(clipping=LearntClip(highest=10.0, quantile=0.3))
        plan = plan_of(mechanism, n_silos=2000, z=2.0, clip_norm=start, n_rounds=60)
        _, clip = all_released(plan, rows)
        assert clip == pytest.approx(0.2 * math.exp(norm.ppf(0.3)), rel=0.15)


def test_a_learnt_clip_norm_stops_at_its_ceiling_and_ignores_noise():
    learnt = LearntClip(highest=2.0)
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
    learnt = LearntClip(highest=10.0, quantile=0.3)
    assert learnt.update(1.0, 0.5, noise, round) == pytest.approx(math.exp(-0.2 * rate))
    assert learnt.update(3.0, 0.1, noise, round) == pytest.approx(3 * math.exp(0.2 * rate))


@pytest.mark.parametrize("bad", [0.0, 1.5, math.nan])
def test_a_quantile_is_a_share(bad):
    with pytest.raises(ValueError, match=r"quantile must be a number in \(0, 1\)"):
        LearntClip(highest=1.0, quantile=bad)


# ---- no privacy ------------------------------------------------------------------------------


def test_without_privacy_everything_is_exact():
    plan = plan_of(NoPrivacy(squared_norms=True), clip_norm=np.inf)
    messages = np.arange(6 * D, dtype=float).reshape(6, D)
    known = released(plan, messages)
    np.testing.assert_allclose(known.mean, messages.mean(axis=0))
    assert known.squared_norm == pytest.approx((messages**2).sum(axis=1).mean())
    assert math.isnan(known.unclipped)
    assert plan.spent().epsilon == math.inf


def test_a_plan_for_whole_silos_knows_no_sizes():
    plan = plan_of(ServerMessages())
    assert plan.silo_sizes is None and plan.schedule is None
    with pytest.raises(ValueError, match="protected"):
        _ = plan.expected_sizes


def test_schedules_of_noise_on_records_are_refused():
    with pytest.raises(ValueError, match=r"noise_schedule=\('round', 0.5, 0\).*must be None"):
        plan_of(SiloMessages(), noise_schedule=("round", 0.5, 0))


@pytest.mark.parametrize("trust", ["silo", "server"])
def test_noise_and_budget_are_one_for_all_silos(trust):
    """All messages are noised alike: by the most noise, for the least budget."""
    plan = PrivacyPlan(
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
