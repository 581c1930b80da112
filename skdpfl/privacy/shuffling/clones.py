r"""Shuffling reports of local randomisers known by their epsilon only: hiding among clones.

n reports of one randomiser, which is eps0-DP for any two inputs, lose their senders' names. With
``p = exp(eps0)``, ``c = 1 / (p + 1)`` and ::

    C ~ Bin(n - 1, 2 c),   A ~ Bin(C, 1/2),   B ~ Bernoulli(p / (p + 1))

two neighbouring inputs are at most as far apart as ``(A + B, C - A + 1 - B)`` and
``(A + 1 - B, C - A + B)``, the shuffled reports of randomised response among clones. The profile of
this pair is summed here exactly; the closed forms of [1]_ and [2]_ are for comparison.

Formal guarantee
----------------
Let the differing report have the laws P or Q and another the law R. As R is within ``exp(eps0)`` of
both, ``R >= omega = max(P, Q) / p``, the same omega for all others. Hence (see
:mod:`skdpfl.privacy.shuffling.blanket`, 2.) ``H_alpha <= (1/n) E (X_1 + ... + X_n)_+`` with
``X = (P - alpha Q) / omega`` under omega and 0 otherwise, and it remains to show that X is below
``X*``, which is ``p - alpha`` and ``1 - alpha p`` with probability c each and 0 otherwise, in the
convex order, for ``1 <= alpha <= p`` (beyond, the local guarantee says that delta is 0).

1. Where P >= Q let ``u = (P - Q) / (p - 1)`` and ``w = Q - u >= 0``, so that
   ``(P, Q) = u (p, 1) + w (1, 1)``. For f convex, ``omega f(X)``, jointly convex and homogeneous
   in P and Q, is at most ``u f(p - alpha) + (w / p) f(p (1 - alpha))``. Where P < Q the same holds
   with 1 - alpha p for p - alpha. As P and Q have mass 1, both u have the same mass U <= c, and
   all w together ``W = 1 - U (p + 1)``.
2. So X is below a mixture of X* (weight U / c) and X0, which is ``p (1 - alpha)`` with
   probability 1/p and 0 otherwise. Both have the mean 1 - alpha, and
   ``E (X0 - k)_+ <= E (X* - k)_+`` for all k: for k >= 0 the left is 0; for
   ``p (1 - alpha) <= k < 0`` it is ``(1 - 1/p) |k|``, the right at least
   ``c (p - alpha + |k|) + (1 - 2c) |k|``; below, the left is ``1 - alpha - k``. Equal means and
   these inequalities are the convex order.

The first published proof of this bound ("stronger clones", [2]_) has a gap, which its authors
announce in an erratum; the above is for one randomiser common to all and reports shuffled after it.

*Randomisers that are (eps0, delta0)-DP only.* P and Q share a part: ``P = delta0 E + (1 - delta0)
P'``, likewise Q, with P', Q' within exp(eps0) of each other. And ``omega - R`` has a positive part
of mass at most ``2 delta0 / p``, so R can be replaced at that total variation distance by a law
above ``(1 - delta0) max(P', Q') / p``. Hence, with 2 (1 - delta0) c for 2 c ::

    delta <= delta0 + (1 - delta0) delta_clones(eps) + (1 + exp(eps)) (n - 1) 2 delta0 / p

References
----------
.. [1] Feldman, McMillan & Talwar, "Hiding among the clones", FOCS 2021.
.. [2] Feldman, McMillan & Talwar, "Stronger privacy amplification by shuffling for Renyi and
   approximate differential privacy", SODA 2023, and its erratum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtrc, gammaln, xlog1py, xlogy


def clones_delta(
    epsilon: float, *, local_epsilon: float, n_reports: int, clone_probability: float | None = None
) -> float:
    """Return delta of the shuffled reports of a pure local randomiser, an upper bound.

    Parameters
    ----------
    epsilon : float
        At least 0.
    local_epsilon : float
        eps0 of the randomiser.
    n_reports : int
        Number of reports, the differing one included.
    clone_probability : float, optional
        Probability that another report hides the differing one; ``2 / (exp(eps0) + 1)`` by default.
    """
    p = math.exp(local_epsilon)
    share = 2.0 / (p + 1.0) if clone_probability is None else clone_probability
    if epsilon >= local_epsilon:
        return 0.0
    alpha, others = math.exp(epsilon), n_reports - 1
    # beyond 40 deviations and 1,000 counts the probability is below 1e-250 (Bernstein)
    deviation = 40.0 * math.sqrt(others * share * (1.0 - share)) + 1e3
    low = max(0, math.floor(others * share - deviation))
    clones = np.arange(low, min(others, math.ceil(others * share + deviation)) + 1)
    # P > alpha Q where the count exceeds a threshold
    threshold = (clones + 1) * (alpha * p - 1.0) / ((p - 1.0) * (1.0 + alpha))
    at_least = _tail(np.floor(threshold) + 1.0, clones)
    one_less = _tail(np.floor(threshold), clones)
    likely = (p * one_less + at_least) / (p + 1.0)
    unlikely = (one_less + p * at_least) / (p + 1.0)
    parts = np.maximum(likely - alpha * unlikely, 0.0)
    return float(np.exp(_log_binomial(clones, others, share)) @ parts) * (1.0 + 1e-9)


def approximate_clones_delta(
    epsilon: float, *, local_epsilon: float, local_delta: float, n_reports: int
) -> float:
    """Return delta of the shuffled reports of an (eps0, delta0)-DP randomiser, an upper bound.

    Parameters
    ----------
    epsilon : float
        At least 0.
    local_epsilon, local_delta : float
        eps0 and delta0 of the randomiser, for any two inputs.
    n_reports : int
        Number of reports, the differing one included.
    """
    p = math.exp(local_epsilon)
    pure = clones_delta(
        epsilon,
        local_epsilon=local_epsilon,
        n_reports=n_reports,
        clone_probability=2.0 * (1.0 - local_delta) / (p + 1.0),
    )
    distance = (n_reports - 1) * 2.0 * local_delta / p
    return min(1.0, local_delta + (1 - local_delta) * pure + (1 + math.exp(epsilon)) * distance)


def clones_epsilon(delta: float, *, local_epsilon: float, n_reports: int) -> float:
    """Return the epsilon at which shuffled reports of an eps0-DP randomiser have this delta."""

    def profile(epsilon: float) -> float:
        return clones_delta(epsilon, local_epsilon=local_epsilon, n_reports=n_reports)

    return smallest_epsilon(profile, delta, local_epsilon)


def smallest_epsilon(profile: Callable[[float], float], delta: float, largest: float) -> float:
    """Return the smallest epsilon in [0, largest] with profile(epsilon) <= delta, rounded up."""
    low, high = 0.0, largest
    if profile(low) <= delta:
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high


def closed_form_clones(*, local_epsilon: float, n_reports: int, delta: float) -> float:
    """Return the closed form of [1]_; for eps0 up to log(n / (16 log(2 / delta)))."""
    p = math.exp(local_epsilon)
    _refuse_beyond(local_epsilon, math.log(n_reports / (16.0 * math.log(2.0 / delta))))
    hidden = 8.0 * math.sqrt(p * math.log(4.0 / delta) / n_reports) + 8.0 * p / n_reports
    return math.log1p((p - 1.0) / (p + 1.0) * hidden)


def closed_form_stronger_clones(*, local_epsilon: float, n_reports: int, delta: float) -> float:
    """Return the closed form of [2]_; for eps0 up to log(n / (8 log(2 / delta)) - 1)."""
    p = math.exp(local_epsilon)
    _refuse_beyond(local_epsilon, math.log(n_reports / (8.0 * math.log(2.0 / delta)) - 1.0))
    hidden = 4.0 * math.sqrt(2.0 * math.log(4.0 / delta) / ((p + 1.0) * n_reports))
    return math.log1p((p - 1.0) * (hidden + 4.0 / n_reports))


def _refuse_beyond(local_epsilon: float, largest: float) -> None:
    if not local_epsilon <= largest:
        raise ValueError(f"local_epsilon must be at most {largest:.4g}, got {local_epsilon!r}.")


def _log_binomial(k: np.ndarray, n: int, p: float) -> np.ndarray:
    """Log-probabilities of Bin(n, p)."""
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return ways + xlogy(k, p) + xlog1py(n - k, -p)


def _tail(k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """P[Bin(n, 1/2) >= k] for integers in floating point, elementwise."""
    inside = np.clip(k - 1.0, 0.0, n)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, bdtrc(inside, n, 0.5)))
