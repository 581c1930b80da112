"""Lower bounds from attacks, beside their definitions and closed forms."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from skdpfl.inspection.audits.judging import (
    Rates,
    epsilon_from_rates,
    most_wins,
    mu_from_rates,
    one_run_epsilon,
    rates_from_counts,
    wins_from_scores,
)


def test_rates_are_those_at_which_the_counts_are_just_too_unlikely():
    rates = rates_from_counts(3, 40, 28, 50, 0.02)
    assert binom.cdf(3, 40, rates.false_positive) == pytest.approx(0.01)
    assert binom.sf(27, 50, rates.true_positive) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("rates", "delta", "odds"),
    [
        ((0.1, 0.4), 0.1, 3.0),
        ((0.4, 0.9), 0.2, 4.0),
        ((0.4, 0.3), 0.0, 1.0),
        ((0.0, 1.0), 0.0, 1.0),  # nothing can be said without trials that fail
        ((0.0, 0.5), 0.0, 2.0),
        ((0.001, 0.05), 0.05, 1.0),
    ],
)
def test_epsilon_of_rates(rates, delta, odds):
    assert epsilon_from_rates(Rates(*rates), delta) == pytest.approx(math.log(odds), abs=1e-12)


@pytest.mark.parametrize(
    ("rates", "mu"),
    [
        (norm.cdf([-1.0, 0.5]), 1.5),
        ((0.6, 0.5), 0.0),
        ((0.0, 0.0), 0.0),
    ],
)
def test_mu_of_rates(rates, mu):
    assert mu_from_rates(Rates(*rates)) == pytest.approx(mu)


def test_wins_are_counted_in_pairs_that_share_no_run():
    coins = np.array([True, False] * 20 + [True] * 7)
    rng = np.random.default_rng(0)
    assert wins_from_scores(np.where(coins, 2.0, 1.0), coins, rng, 0.05) == pytest.approx(
        0.05 ** (1 / 20)
    )
    assert wins_from_scores(np.ones(47), coins, rng, 0.05) == 0.0  # equal scores do not win
    scores = np.where(coins, np.arange(47) < 26, 0.5)  # of 27 ones, 13 are above every zero
    least = {wins_from_scores(scores, coins, np.random.default_rng(i), 0.05) for i in range(20)}
    won = [binom.sf(k - 1, 20, w) for w in least for k in range(21)]
    assert len(least) > 1  # the pairs are drawn
    assert sum(abs(p - 0.05) < 1e-9 for p in won) == len(least)


@pytest.mark.parametrize(
    ("curve", "area"),
    [
        ([(0.0, 0.0)], 1 / 2),
        ([(math.log(3), 0.0)], 1 / 4),
        ([(0.0, 0.2)], 0.8**2 / 2),
        # 0.9 - 3 a up to a = 0.225, then (0.9 - a) / 3 up to 0.9
        ([(math.log(3), 0.1), (9.0, 0.09)], 0.225 * (0.9 + 0.225) / 2 + 0.675 * 0.225 / 2),
    ],
)
def test_the_area_over_the_curve_of_epsilons(curve, area):
    wins = most_wins(curve)
    assert 1 - area <= wins <= 1 - area + 1 / 4000
    assert most_wins(curve, 10) - (1 - area) == pytest.approx(400 * (wins - 1 + area), rel=0.2)


@pytest.mark.parametrize("n_correct", [60, 75, 99])
def test_one_run_without_delta(n_correct):
    epsilon = one_run_epsilon(200, 100, n_correct, 0.0, 0.05)
    right = 1 / (1 + math.exp(-epsilon))
    assert binom.sf(n_correct - 1, 100, right) == pytest.approx(0.05, rel=1e-5)


def test_one_run_with_delta():
    """One guess: p + 2 m delta (1 - p). Two guesses: p^2 + 2 m delta max(2 p (1-p), (1-p^2)/2)."""
    extra = 2 * 10 * 0.001
    p = (0.99 - extra) / (1 - extra)
    assert one_run_epsilon(10, 1, 1, 0.001, 0.99) == pytest.approx(math.log(p / (1 - p)), rel=1e-6)
    right = 1 / (1 + math.exp(-one_run_epsilon(10, 2, 2, 0.001, 0.9)))
    below = max(2 * right * (1 - right), (1 - right**2) / 2)
    assert right**2 + extra * below == pytest.approx(0.9, rel=1e-6)
