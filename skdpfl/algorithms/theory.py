"""Schedules that solvers follow: AC-SA's scale and stages, steps, rounds and smoothing of theorems.

Constants like the smoothness, the distance to the optimum or the variance of gradients are
properties of the records: compute them from public or synthetic data, or from public bounds (a
clipping norm is a Lipschitz constant, ``radius`` bounds a distance). What the papers state beyond
that is in :mod:`skdpfl.papers`.

AC-SA (Ghadimi and Lan 2012) for r = 1, ..., R, scale v >= 2 beta, V = |w_0 - w*|^2 / 2 and
s^2 the variance of the averaged noisy gradient (all coordinates)::

    alpha_r = 2 / (r + 1),   eta_r = 4 v / (r (r + 1))
    excess <= 4 v V / (R (R + 1)) + 4 s^2 (R + 2) / (3 v)
    best    v = max{2 beta, sqrt(s^2 R (R + 1) (R + 2) / (3 V))}

    s^2 = L^2 / (M K) + (1 - (M - 1) / (N - 1)) upsilon^2 / M + d sigma^2 / M

for batches of K, M of N silos a round. Multi-stage (Ghadimi and Lan 2013), modulus mu, excess at
most Delta at the start, stage k = 1, 2, ... from the previous stage's result::

    R_k = ceil max{4 sqrt(2 beta / mu), 128 s^2 / (3 mu Delta 2^-(k+1))}
    v_k = max{2 beta, sqrt(mu s^2 R_k (R_k + 1) (R_k + 2) / (3 Delta 2^-(k-1)))}
    excess after stage k <= Delta 2^-k

*Why the stages halve the excess*: for smooth losses Ghadimi and Lan's proof gives
4 v V / (R (R+1)) + s^2 (2 R + 1) / (6 v). With V <= Delta_k / mu, Delta_k = Delta 2^-(k-1): the
part of v = 2 beta is at most 8 beta / (mu R^2) <= 1/4 of Delta_k; R >= 512 s^2 / (3 mu Delta_k)
makes s^2 <= 3 mu Delta_k R / 512, hence the other part of v at most 4 sqrt(s^2 (R+2) / (3 mu
Delta_k R (R+1))) Delta_k <= .19 Delta_k and the last term at most a quarter of that: .49 in all.

Plain steps for strongly convex losses (Stich 2019, lemma 3), modulus mu, largest step 1/g, R
rounds; for a recursion r_{t+1} <= (1 - mu eta_t) r_t - eta_t s_t + c eta_t^2 (r: squared distance,
s: excess loss)::

    R <= g/mu    eta_t = 1/g, weights (1 - mu/g)^-(t+1)
    otherwise    t0 = ceil(R/2), kappa = 2 g / mu
                 t < t0: eta_t = 1/g, weight 0
                 t >= t0: eta_t = 2 / (mu (kappa + t - t0)), weight (kappa + t - t0)^2
    mean_w s + mu r_R <= 32 g r_0 exp(-mu R / (2 g)) + 36 c / (mu R)

**Lowy and Razaviyayn (2023)**, for M silos of n records, d parameters, losses L-Lipschitz,
beta-smooth, mu-strongly convex or on a domain of diameter D, and e = epsilon n / sqrt(d
ln(1/delta))::

    one pass    R = (beta D sqrt M e / L)^(2/5), batches of floor(n / R)
    smoothing   b = (L/D) sqrt(M) min{sqrt n, e},   strongly convex  mu M min{n, e^2}

**Gao, Lowy, Zhou and Wright (2024)**: phases i = 1, ..., t on batches of n / 2^i records of each
silo, noise of total variance v on the mean gradient of the first one, p >= 1::

    lam_i = lam 2^(p (i-1)),   D_i = 2 L / lam_i,   lam = (1/D) sqrt(L^2 / (n M) + v)

References
----------
S. Ghadimi and G. Lan, "Optimal Stochastic Approximation Algorithms for Strongly Convex Stochastic
Composite Optimization" I and II, SIAM J. Optim. 2012 and 2013.
A. Lowy and M. Razaviyayn, "Private Federated Learning Without a Trusted Server: Optimal Algorithms
for Convex Losses", ICLR 2023 (orders of magnitude; constants are 1 here).
S. U. Stich, "Unified Optimal Analysis of the (Stochastic) Gradient Method", 2019, lemma 3.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import (
    check_count,
    check_not_negative,
    check_positive,
    check_share,
    naming_no_values,
)


@dataclass(frozen=True)
class Stage:
    """One run of AC-SA.

    Attributes
    ----------
    n_rounds : int
        Its rounds R_k.
    scale : float
        Its v_k.
    """

    n_rounds: int
    scale: float


@dataclass(frozen=True)
class Phase:
    """One phase of localized SGD.

    Attributes
    ----------
    n_rounds : int
        Its rounds.
    stages : tuple of Stage
        The runs of AC-SA in it; the last one takes what remains of the rounds.
    penalty, radius : float
        lam_i and D_i.
    """

    n_rounds: int
    stages: tuple[Stage, ...]
    penalty: float
    radius: float


def acsa_scale(
    *, n_rounds: int, smoothness: float, variance: float, squared_distance: float
) -> float:
    """Return the v that minimises AC-SA's bound.

    Parameters
    ----------
    n_rounds : int
        R.
    smoothness : float
        beta.
    variance : float
        s^2, see :func:`gradient_variance`.
    squared_distance : float
        |w_0 - w*|^2, twice the V of the formula.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import acsa_scale
    >>> acsa_scale(n_rounds=2, smoothness=0.1, variance=4.0, squared_distance=1.0)
    8.0
    """
    R, V = (
        check_count("n_rounds", n_rounds),
        check_positive("squared_distance", squared_distance) / 2,
    )
    noisy = math.sqrt(check_not_negative("variance", variance) * R * (R + 1) * (R + 2) / (3 * V))
    return max(2 * check_positive("smoothness", smoothness), noisy)


def multistage(
    *, n_rounds: int, smoothness: float, strong_convexity: float, variance: float, excess: float
) -> tuple[Stage, ...]:
    """Return the stages that fit into ``n_rounds`` (lengths depend on public numbers only).

    Parameters
    ----------
    n_rounds : int
        Rounds of all stages together, at most.
    smoothness, strong_convexity, variance : float
        beta, mu and s^2.
    excess : float
        Delta: an upper bound of the excess loss at the start.

    Returns
    -------
    tuple of Stage
        The complete stages; if the first does not fit, that one alone, truncated to ``n_rounds``.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import multistage
    >>> stages = multistage(n_rounds=100, smoothness=2, strong_convexity=1, variance=0.03,
    ...                     excess=1)
    >>> [stage.n_rounds for stage in stages]
    [8, 11, 21, 41]
    """
    total = check_count("n_rounds", n_rounds)
    beta = check_positive("smoothness", smoothness)
    mu = check_positive("strong_convexity", strong_convexity)
    noise = check_not_negative("variance", variance)
    gap = check_positive("excess", excess)
    stages: list[Stage] = []
    left = total
    while True:
        length = max(4 * math.sqrt(2 * beta / mu), 512 * noise / (3 * mu * gap))
        if length > left and stages:
            return tuple(stages)
        R = math.ceil(min(length, left))
        scale = math.sqrt(mu * noise * R * (R + 1) * (R + 2) / (3 * gap))
        stages.append(Stage(R, max(2 * beta, scale)))
        left -= R
        gap /= 2


def gao2024_penalties(
    *,
    n_phases: int,
    lipschitz: float,
    diameter: float,
    n_records: int,
    variance: float,
    power: float = 1.0,
) -> list[float]:
    """Return the penalties lam_i of localized SGD; the radius of a phase is 2 L / lam_i.

    Parameters
    ----------
    n_phases : int
        t.
    lipschitz, diameter : float
        L and D.
    n_records : int
        Records n M of all silos.
    variance : float
        v: the squared norm of the noise on the mean gradient of the whole first phase.
    power : float, default=1
        p, by which penalties grow.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import gao2024_penalties
    >>> gao2024_penalties(n_phases=3, lipschitz=1, diameter=2, n_records=400, variance=0.0375)
    [0.1, 0.2, 0.4]
    """
    L = check_positive("lipschitz", lipschitz)
    total = L**2 / check_count("n_records", n_records) + check_not_negative("variance", variance)
    first = math.sqrt(total) / check_positive("diameter", diameter)
    return [first * 2 ** (power * i) for i in range(check_count("n_phases", n_phases))]


def stich2019_schedule(
    *, n_rounds: int, strong_convexity: float, largest_step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the step sizes and weights of R rounds, for strongly convex losses.

    The weights, summing to 1, are those of the parameters *before* each round in the average.

    Parameters
    ----------
    n_rounds : int
        R.
    strong_convexity : float
        mu.
    largest_step : float
        1/g: 1 / (2 smoothness) for noisy gradients.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import stich2019_schedule
    >>> steps, weights = stich2019_schedule(n_rounds=4, strong_convexity=1.0, largest_step=0.5)
    >>> steps.round(2).tolist(), (41 * weights).round(2).tolist()
    ([0.5, 0.5, 0.5, 0.4], [0.0, 0.0, 16.0, 25.0])
    """
    rounds = check_count("n_rounds", n_rounds)
    mu, largest = check_steps(strong_convexity, largest_step)
    t = np.arange(rounds)
    if rounds * mu * largest <= 1:
        # in the log domain up to the last weight, which is 1
        weights = np.exp((t - t[-1]) * -math.log1p(-mu * largest)) if rounds > 1 else np.ones(1)
        return np.full(rounds, largest), weights / weights.sum()
    kappa, late = 2 / (mu * largest), t - math.ceil(rounds / 2)
    after = kappa + np.maximum(late, 0)
    weights = np.where(late < 0, 0.0, after**2)
    return 2 / (mu * after), weights / weights.sum()


def check_steps(strong_convexity: float, largest_step: float) -> tuple[float, float]:
    """Check mu and the largest step; no step may overshoot by itself."""
    mu = check_positive("strong_convexity", strong_convexity)
    largest = check_positive("largest_step", largest_step)
    if mu * largest >= 1:
        raise ValueError(
            f"largest_step={largest_step!r} is not valid; it must be below"
            f" 1 / strong_convexity = {1 / mu:.4g}."
        )
    return mu, largest


def effective_silos(counts: np.ndarray) -> tuple[float, float]:
    """Return the effective numbers of silos M and M' if a random number is available.

    Parameters
    ----------
    counts : array-like of shape (n_draws,)
        Equally likely numbers of silos of a round, each at least 1.

    Returns
    -------
    M, M_prime : float
        1 / E[1/M_r], which replaces M in convex bounds, and 1 / sqrt(E[1/M_r^2]).

    Examples
    --------
    >>> from skdpfl.algorithms.theory import effective_silos
    >>> M, M_prime = effective_silos([2, 6])
    >>> M, round(M_prime, 4)
    (3.0, 2.6833)
    """
    with naming_no_values(counts, "counts"):
        silos = np.asarray(counts, dtype=np.float64)
    if silos.size == 0 or not np.all(silos >= 1):
        raise ValueError(f"counts={counts!r} is not valid; give numbers of at least 1.")
    inverse = 1 / silos
    return float(1 / inverse.mean()), float(1 / np.sqrt(np.square(inverse).mean()))


def lowy2023_one_pass_rounds(
    *,
    lipschitz: float,
    smoothness: float,
    diameter: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    epsilon: float,
    delta: float,
) -> int:
    """Return the rounds of the one-pass accelerated solver; batches are floor(n / R).

    (beta D epsilon n sqrt M / (L sqrt(d ln(1/delta))))^(2/5), within [1, n].

    Parameters
    ----------
    lipschitz, smoothness, diameter : float
        L, beta and D.
    n_records, n_parameters : int
        n records a silo, d.
    n_silos : float
        Silos M of a round.
    epsilon, delta : float
        A silo's budget.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_one_pass_rounds
    >>> lowy2023_one_pass_rounds(lipschitz=1, smoothness=1, diameter=2, n_records=1000,
    ...                          n_silos=25, n_parameters=10, epsilon=1, delta=1e-6)
    15
    """
    private = private_records(n_records, n_parameters, epsilon, delta)
    silos = math.sqrt(check_positive("n_silos", n_silos))
    best = (condition(lipschitz, smoothness, diameter) * silos * private) ** 0.4
    return min(n_records, max(1, round(best)))


def lowy2023_smoothing(
    *,
    lipschitz: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    epsilon: float,
    delta: float,
    diameter: float | None = None,
    strong_convexity: float | None = None,
) -> float:
    """Return the smoothness b to which non-smooth losses are smoothed (Moreau envelope).

    Convex: (L/D) min{sqrt(n M), epsilon n sqrt M / sqrt(d ln(1/delta))}. Strongly convex:
    mu min{n M, epsilon^2 n^2 M / (d ln(1/delta))}. The envelope is L-Lipschitz, b-smooth and at
    most L^2 / (2 b) below the loss.

    Parameters
    ----------
    lipschitz : float
        L; not used by the strongly convex form.
    n_records, n_parameters : int
        n records a silo, d.
    n_silos : float
        Silos M of a round.
    epsilon, delta : float
        A silo's budget.
    diameter : float, optional
        D, for convex losses.
    strong_convexity : float, optional
        mu, for strongly convex ones. Give exactly one of the two.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_smoothing
    >>> lowy2023_smoothing(lipschitz=1, n_records=100, n_silos=4, n_parameters=10, epsilon=10,
    ...                    delta=1e-4, diameter=2)
    10.0
    """
    L = check_positive("lipschitz", lipschitz)
    scale, power = loss_scale(L, diameter, strong_convexity)
    private = private_records(n_records, n_parameters, epsilon, delta)
    useful = check_positive("n_silos", n_silos) * min(n_records, private**2)
    return L**2 / scale * math.sqrt(useful) ** power


def loss_scale(
    L: float, diameter: float | None, strong_convexity: float | None
) -> tuple[float, int]:
    """Return L D and 1, or L^2 / mu and 2."""
    if (diameter is None) == (strong_convexity is None):
        raise ValueError(
            f"diameter={diameter!r} and strong_convexity={strong_convexity!r} are not valid"
            " together; give exactly one."
        )
    if diameter is not None:
        return L * check_positive("diameter", diameter), 1
    return L**2 / check_positive("strong_convexity", strong_convexity), 2


def condition(lipschitz: float, smoothness: float, diameter: float) -> float:
    """Return beta D / L."""
    scale = check_positive("smoothness", smoothness) * check_positive("diameter", diameter)
    return scale / check_positive("lipschitz", lipschitz)


def private_records(n_records: int, n_parameters: int, epsilon: float, delta: float) -> float:
    """Return epsilon n / sqrt(d ln(1/delta)), an effective number of records under privacy."""
    spend = check_count("n_parameters", n_parameters)
    log_inverse = math.log(1 / check_share("delta", delta))
    n = check_count("n_records", n_records)
    return check_positive("epsilon", epsilon) * n / math.sqrt(spend * log_inverse)
