"""The rules of "auto" of linear models, by numbers worked out on paper."""

import math

import pytest

from skdpfl.models._rules import NetworkRules, Rules, RuleTask

RULES = Rules()
#: rows of norm 2, nine parameters, 3 multiplications a record, 10,000 records in 5 silos
LABELS = RuleTask(0.25, 4.0, 9, 3, 10_000, 5, True)
NUMBERS = RuleTask(1.0, 4.0, 9, 3, 10_000, 5, False)
LARGE = LABELS._replace(n_records=10**6, work_per_record=100, n_silos=1000)


@pytest.mark.parametrize(
    ("typical", "mu", "task", "rate"),
    [
        (4_000, math.inf, LABELS, 1.0),  # twice a batch
        (8_000, math.inf, LABELS, 0.25),  # a batch of 2,000
        (8_000, 8.0, LABELS, 0.4),  # 8 / (2 * 10)
        (8_000, 10.0, LABELS, 1.0),  # a half is all
        (1, math.inf, LARGE._replace(n_records=10**7), 0.2),  # 2e8 of 1e9 multiplications
        (1, 8.0, LARGE._replace(n_records=10**7), 0.2),  # no more, or 100 rounds are too long
        (20_000, 8.0, LARGE._replace(n_records=10**7), 0.17),  # (2e10 / 100 - 3e7) / 1e9
    ],
)
def test_share_of_the_records_that_a_step_reads(typical, mu, task, rate):
    assert RULES.sampling_rate(typical, mu, task) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("rules", [Rules(), NetworkRules()], ids=["linear", "network"])
def test_a_larger_budget_costs_no_rounds(rules):
    """Whatever a round of all records costs."""
    for size in (10**4, 10**6, 10**8):
        for work in (100, 10**6):
            task = LABELS._replace(n_records=size, work_per_record=work)
            rates = [rules.sampling_rate(size / 5, mu, task) for mu in (0.1, 0.3, 1.0, 3.0, 9.0)]
            rounds = [rules.n_rounds(1, rate, task, exact=False, plain=False) for rate in rates]
            assert rates == sorted(rates)
            assert min(rounds) == max(rounds), (size, work, rates, rounds)


@pytest.mark.parametrize(
    ("local_steps", "rate", "task", "how", "rounds"),
    [
        (1, 1.0, LABELS, (False, False), 100),
        (3, 1.0, LABELS, (False, True), 34),
        (1, 1.0, LABELS, (True, False), 400),
        (7, 1.0, LABELS, (True, True), 172),  # 1200 / 7
        (1, 0.5, LARGE, (True, True), 250),  # 2e10 / (5e7 + 3e7)
        (1, 1.0, LARGE._replace(n_silos=10**6), (True, True), 30),
    ],
)
def test_number_of_rounds(local_steps, rate, task, how, rounds):
    exact, plain = how
    assert RULES.n_rounds(local_steps, rate, task, exact=exact, plain=plain) == rounds


def test_fewer_steps_are_enough_where_noise_limits_two_classes():
    """From s = 0.003 h on, where the stable path of c / s is up to 16 of the longest steps."""
    binary = LABELS._replace(is_binary=True)
    assert [RULES.enough_steps(s, binary) for s in (0.0, 7e-4, 8e-4, 0.1)] == [math.inf] * 2 + [
        40
    ] * 2
    assert RULES.enough_steps(0.1, LABELS) == RULES.enough_steps(0.1, NUMBERS) == math.inf
    assert NetworkRules().enough_steps(0.1, binary) == math.inf


LABEL_FREE = LABELS._replace(label_free=True)


def test_a_gradient_is_felt_for_the_root_of_the_steps():
    assert [RULES.momentum(n) for n in (1, 4, 100, 400)] == pytest.approx([0.0, 0.5, 0.9, 0.95])


@pytest.mark.parametrize(
    ("task", "noise", "needed"),
    [
        (NUMBERS, 1e-3, 1.75 / 3.25),  # 0.5 / (1e-3 100 2) = 2.5, and 3 / 4 are stable
        (NUMBERS, 1e-4, 24.25 / 25.75),
        (LABEL_FREE, 0.1, 0.0),  # stable steps go further
        (LABEL_FREE, 1e-4, 56.09 / 60.09),  # 1.5 (0.3 / 0.5)^0.5 / (1e-4 100 2), and 4 2 / 4
        (LABELS, 0.1, 0.8),  # clipped slopes saturate: momentum does not lengthen the path
        (NUMBERS, 0.0, 1.0),
    ],
)
def test_momentum_is_what_stable_steps_need_for_the_path(task, noise, needed):
    """The step (1 - m) a that goes it is then (1 + m) b, the longest one."""
    assert RULES.needed_momentum(1.0, 100, noise, task) == pytest.approx(needed, abs=1e-4)


@pytest.mark.parametrize(("steepest", "rate"), [(None, 3.6), (4.0, 3.6), (2.5, 5.76)])
def test_steps_are_as_long_as_the_curvature_of_clipped_gradients_allows(steepest, rate):
    """Of C / (2 |a|) times a a^T: 2 (1 + m) is 3.6, by C l / (2 rho) with C = 1 and rho = 2."""
    task = LABELS._replace(label_free=True, steepest=steepest)
    assert RULES.learning_rate(1.0, 100, 0.8, 1e-9, task) == pytest.approx(rate)


def test_the_penalty_shortens_steps():
    assert RULES.with_penalty(1.0, 2.0, 0.5, 0.5) == pytest.approx(1 / (1 + 1.1 / 1.5))


@pytest.mark.parametrize(
    ("task", "noise", "alpha", "clip"),
    [
        (LABELS, 0.0, 0.0, math.inf),
        (LABELS, 0.01, 0.0, 0.8),  # 0.012 / 0.03 of the norm 2
        (LABELS, 0.01, 0.25, 1.6),  # a penalty as large as the curvature: twice as much
        (LABELS, 0.01, 1.0, 2.0),  # the norm itself
        (NUMBERS, 0.01, 0.0, 1.2),  # 0.012 / 0.02
        (NUMBERS, 0.01, 1.0, 2.4),
        (NUMBERS, 1.0, 0.0, 0.2),  # a tenth at least
    ],
)
def test_clip_norms(task, noise, alpha, clip):
    assert RULES.clip_norm(noise, task, alpha) == pytest.approx(clip)
