"""More of tests/privacy/test_silo_unit.py: what only private names show."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from skdpfl import ISRLDPClassifier
from skdpfl.algorithms import Algorithm
from skdpfl.engine import Cohort, Round, _round, run
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.losses import SquaredError
from skdpfl.models import LinearModel
from skdpfl.privacy import plan as plans
from skdpfl.privacy.calibration import shared_budgets
from skdpfl.privacy.events import Approximate, Gaussian
from skdpfl.privacy.mechanisms import (
    Mechanism,
    PrivUnitMessages,
    Senders,
    ServerMessages,
    SiloMessages,
)
from skdpfl.privacy.mechanisms.base import clip_rows
from skdpfl.privacy.mechanisms.whole_silos import BIT
from skdpfl.privacy.plan import cells_of, composition_of
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import dominates
from skdpfl.privacy.randomness.streams import streams_for
from skdpfl.privacy.release import NORMALS
from tests.privacy.test_silo_unit import LEARNT, C, D, plan_of

SWITCHES = [(norms, clip) for norms in (False, True) for clip in (None, LEARNT)]


GAUSSIAN = [kind(*s) for kind in (SiloMessages, ServerMessages) for s in SWITCHES]


def name_of(mechanism):
    extra = ["norms"] * mechanism.squared_norms + ["bit"] * (mechanism.clipping is not None)
    return "-".join([type(mechanism).__name__, *extra])


@dataclass(frozen=True)
class Scripted(Algorithm):
    """Sends messages of the test's: rows of ``messages(round)``, (n_silos, D); keeps all answers.

    A silo knows itself by its one record, (i, 0, ...) with target -1: its gradient at 0.
    """

    messages: Callable
    #: what is sent for a silo follows from its number alone
    stackable: ClassVar[bool] = True

    def n_gradients(self, round):
        return 1

    def init(self, params):
        return ()

    def broadcast(self, state):
        return len(state)

    def local(self, round, memory, gradient):
        rows = self.messages(round)
        number = np.rint(np.asarray(gradient(np.zeros(D)))[..., 0])
        return rows[number.astype(int) % len(rows)]

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
    return _round(work, federation, streams, Round(0, Cohort.of(plan, silos), plan.clip_norm), ())


def wild_messages(n, d=D, seed=0):
    """Messages of all lengths: zero, tiny, at the clip norm, huge, and not finite."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows *= np.geomspace(1e-30, 1e30, n)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0], rows[1, 0], rows[2, 1], rows[3, 2] = 0, np.nan, np.inf, 1e300
    rows[4] *= C / np.linalg.norm(rows[4])
    return rows


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
    quiet = plan_of(mechanism, n_silos=1, z=1e-3)  # each of a billion numbers is rounded twice
    assert mechanism.noised(quiet, C, 10**9).clip < C * (1 - NORMALS - 2e9 * 2.0**-53)
    many = plan_of(ServerMessages(), n_silos=M)  # each message is rounded M times
    assert ServerMessages().noised(many, C, D).clip < C * (1 - NORMALS - M**2 * 2.0**-53)


def test_messages_that_are_not_finite_count_as_zero():
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(clip_rows(rows, 1.0), [[0, 0], [0, 0], [0.6, 0.8], [0.3, 0.4]])


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


SECRET = {"n_silos": 100, "cohort": "poisson"}


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


def test_a_secret_cohort_shows_neither_in_divisors_nor_in_statistics():
    plan = plan_of(ServerMessages(True), z=1e-3, n_rounds=30, silo_fraction=0.25, **SECRET)
    answers, _ = all_released(plan, np.full((100, D), 0.1))
    drawn = plan.cohorts(streams_for(0))
    sizes = [len(next(drawn)) for _ in range(30)]
    assert max(sizes) > min(sizes) + 10
    for n, answer in zip(sizes, answers, strict=True):
        np.testing.assert_allclose(answer.mean, 0.1 * n / 25, atol=1e-3)
        guess = C**2 + n / 25 * (D * 0.01 - C**2)
        assert answer.squared_norm == pytest.approx(min(max(guess, 0), C**2), abs=1e-3)
        assert answer.fraction == answer.sampled == 0.25


# ---- thousands of silos that all differ: few prices, each within its budget, none below the ----

M = 10_000
SERVER = {"trust": "server", "silo_weights": "uniform"}  # one noise: each silo its own multiplier
SAMPLED = dict(scaling=None, n_rounds=20, sampling_rate=0.1)


def plan_for(epsilon, sizes, **settings):
    estimator = ISRLDPClassifier(epsilon, **SAMPLED | settings)
    return estimator.plan_for(silo_sizes=sizes, n_features=4)


@pytest.fixture
def counted(monkeypatch):
    """The compositions that the search for noise asked a price of, each once."""
    asked = set()

    def price(composition, delta, neighbours):
        asked.add(composition)
        return price_epsilon(composition, delta, neighbours)

    monkeypatch.setattr(plans, "price_epsilon", price)
    return asked


def test_budgets_are_rounded_down_by_less_than_a_hundredth_where_there_are_many():
    few = np.array([0.1, np.inf, 3.0])
    assert shared_budgets(few) is few
    many = np.append(np.random.default_rng(0).uniform(0.5, 5, M), np.inf)
    rounded = shared_budgets(many)
    assert rounded[-1] == np.inf
    assert len(np.unique(rounded)) < 300
    assert (rounded <= many).all()
    assert (rounded[:-1] > 0.991 * many[:-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, pytest.param(SERVER, marks=pytest.mark.slow)], ids=str)
def test_ten_thousand_sizes(counted, settings):
    """Batches of round(n / 10) of n records: every silo has a rate of its own."""
    sizes = np.random.default_rng(0).permutation(np.arange(1000, 1000 + M))
    plan = plan_for(1.0, sizes.tolist(), sampling="without_replacement", **settings)
    assert len(np.unique(plan.rates)) > M / 2
    spent, groups = plan.spent(), plan.groups()
    assert len(groups.first) <= 600
    assert len(counted) <= 1200
    assert 0.99 <= spent.epsilon <= 1.0
    for i in range(0, M, 97):  # a group's composition costs at least each member's own
        own = composition_of(plan, plan.mechanism, i, plan.noise_multiplier[i])
        assert dominates(groups.compositions[groups.of_silo[i]], own)
    for i in range(0, M, 2499):
        own = composition_of(plan, plan.mechanism, i, plan.noise_multiplier[i])
        truth = price_epsilon(own, float(plan.delta[i]), plan.neighbours)
        assert truth <= spent.per_silo.iloc[i] <= 1.03 * truth


class Unknown(Mechanism):
    """Nobody knows whether its releases cost more at a higher rate."""

    def composition(self, plan, z, n, levels):
        return ((Approximate(1 / n), 1),)


def test_silos_whose_releases_cannot_be_compared_are_not_merged():
    sizes = np.arange(1000, 2000)
    plan = plan_for(1.0, sizes.tolist(), sampling="without_replacement")
    cell, _ = cells_of(plan, plan.mechanism)
    assert len(np.unique(cell)) < 20
    cell, costliest = cells_of(replace(plan, mechanism=Unknown()), Unknown())
    assert len(np.unique(cell)) == len(costliest) == len(np.unique(plan.rates)) > 500


def test_silos_that_release_something_else_beside_are_not_merged():
    sizes = np.arange(2000, 4000) // 2  # the first two silos are alike
    plan = plan_for(1.0, sizes.tolist(), sampling="without_replacement")
    setup = tuple(((Gaussian(50.0 + i // 2 % 2), 1),) for i in range(len(sizes)))
    plan = replace(plan, setup=setup)
    groups = plan.groups()
    assert len(groups.first) < 20
    for i in range(0, len(sizes), 7):
        own = composition_of(plan, plan.mechanism, i, plan.noise_multiplier[i])
        assert dominates(groups.compositions[groups.of_silo[i]], own)
