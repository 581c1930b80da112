r"""Lower bounds on epsilon from the outcomes of attacks.

An attack guesses which of two neighbouring data sets was used. With false positive rate ``a`` and
true positive rate ``b``, an (epsilon, delta)-DP mechanism has ::

    b <= e^epsilon a + delta        and        1 - a <= e^epsilon (1 - b) + delta

Rates are bounded by Clopper-Pearson intervals from independent trials. A score without a threshold
gives more information. Let w be the probability that the score of a run on one data set exceeds
that of a run on the other. It is at most the area above the trade-off curve f of the mechanism::

    w <= 1 - int_0^1 f(a) da        ( = Phi(mu / sqrt 2) under mu-GDP )

because the curve of a score lies above f (Dong, Roth & Su 2022). Disjoint pairs of runs are
independent, so the number of wins is binomial, and w is bounded by Clopper-Pearson too.

Under one run with m canaries, whose coins are independent, the number of correct guesses among r is
bounded by Binomial(r, e^epsilon / (1 + e^epsilon)) up to a term in m delta (Steinke, Nasr &
Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, theorem 5.2).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

#: larger bounds are not distinguished
MOST = 60.0


class Rates(NamedTuple):
    """An upper bound of the false positive rate and a lower bound of the true positive rate."""

    false_positive: float
    true_positive: float


def rates_from_counts(
    false_positives: int, negatives: int, true_positives: int, positives: int, error: float
) -> Rates:
    """Return bounds on both rates, which hold with probability at least 1 - ``error``."""
    k, n = false_positives, negatives
    most = float(betaincinv(k + 1, n - k, 1 - error / 2)) if k < n else 1.0
    k, n = true_positives, positives
    least = float(betaincinv(k, n - k + 1, error / 2)) if k else 0.0
    return Rates(most, least)


def epsilon_from_rates(rates: Rates, delta: float) -> float:
    """Return the smallest epsilon at which these rates are possible."""
    a, b = rates
    bounds = [
        math.log((gain - delta) / loss)
        for gain, loss in ((b, a), (1 - a, 1 - b))
        if gain > delta and loss > 0
    ]
    return min(MOST, max([0.0, *bounds]))


def mu_from_rates(rates: Rates) -> float:
    """Return the smallest mu at which a mu-GDP mechanism has these rates."""
    a, b = rates
    if a >= 1 or b <= 0:
        return 0.0
    return max(0.0, float(ndtri(b) - ndtri(a)))


def wins_from_scores(
    scores: np.ndarray, coins: np.ndarray, rng: np.random.Generator, error: float
) -> float:
    """Return a lower bound on the probability that a score with coin 1 exceeds one with coin 0.

    The scores are paired at random; the bound is wrong with probability at most ``error``.
    """
    ones, zeros = rng.permutation(scores[coins]), rng.permutation(scores[~coins])
    n = min(len(ones), len(zeros))
    k = int(np.count_nonzero(ones[:n] > zeros[:n]))
    return float(betaincinv(k, n - k + 1, error)) if k else 0.0


def mu_from_wins(wins: float) -> float:
    """Return the smallest mu for which a mu-GDP mechanism allows this rate of wins."""
    return max(0.0, math.sqrt(2) * float(ndtri(wins)))


def most_wins(curve: Sequence[tuple[float, float]], points: int = 4000) -> float:
    """Return the largest rate of wins that is possible under several (epsilon, delta) guarantees.

    The area is that of steps below the curve, which makes the result too large by 1 / points.
    """
    a = np.arange(1, points + 1) / points
    missed = np.zeros(points)
    for epsilon, delta in curve:
        missed = np.maximum(missed, 1 - delta - np.exp(min(epsilon, 700.0)) * a)
        missed = np.maximum(missed, np.exp(-epsilon) * (1 - delta - a))
    return float(1 - missed.mean())


def one_run_epsilon(
    n_canaries: int, n_guesses: int, n_correct: int, delta: float, error: float
) -> float:
    """Return a lower bound from one run, wrong with probability at most ``error``.

    An independent fair coin decides for each of ``n_canaries`` whether it is included (or which of
    two is). A fixed number of coins, ``n_guesses``, was guessed, ``n_correct`` of them correctly.
    ``delta`` is that of the guarantee.
    """
    if _one_run_p_value(n_canaries, n_guesses, n_correct, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, MOST
    for _ in range(30):
        middle = (low + high) / 2
        if _one_run_p_value(n_canaries, n_guesses, n_correct, middle, delta) > error:
            high = middle
        else:
            low = middle
    return low


def _one_run_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Bound the probability of v correct guesses or more under (epsilon, delta)-DP."""
    right = 1 / (1 + math.exp(-epsilon))
    exact = float(binom.sf(v - 1, r, right))
    if not delta or not v:
        return min(1.0, exact)
    below = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, right))
    worst = float((below / np.arange(1, v + 1)).max())
    return min(1.0, exact + 2 * m * delta * worst)
