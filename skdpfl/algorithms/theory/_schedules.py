"""Schedules: AC-SA's scale and its stages, and steps for strongly convex losses.

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
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import check_count, check_not_negative, check_positive


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
    R, V = check_count("n_rounds", n_rounds), _half(squared_distance)
    noisy = math.sqrt(check_not_negative("variance", variance) * R * (R + 1) * (R + 2) / (3 * V))
    return max(2 * check_positive("smoothness", smoothness), noisy)


def acsa_bound(*, n_rounds: int, scale: float, variance: float, squared_distance: float) -> float:
    """Return AC-SA's bound on the mean excess loss.

    Parameters
    ----------
    n_rounds, variance, squared_distance
        As in :func:`acsa_scale`.
    scale : float
        v, at least twice the smoothness.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import acsa_bound
    >>> acsa_bound(n_rounds=3, scale=2.0, variance=0.6, squared_distance=3.0)
    3.0
    """
    R, V = check_count("n_rounds", n_rounds), _half(squared_distance)
    v = check_positive("scale", scale)
    noise = 4 * check_not_negative("variance", variance) * (R + 2) / (3 * v)
    return 4 * v * V / (R * (R + 1)) + noise


def gradient_variance(
    *,
    lipschitz: float,
    batch: int,
    n_silos: int,
    silos_per_round: int,
    noise: float,
    n_parameters: int,
    heterogeneity: float = 0.0,
) -> float:
    """Return (a bound of) the variance s^2 of the averaged noisy gradient.

    Parameters
    ----------
    lipschitz : float
        L: the clipping norm.
    batch : int
        Records K of a silo's minibatch.
    n_silos, silos_per_round : int
        N silos, M of them drawn without replacement each round.
    noise : float
        sigma, the standard deviation per coordinate on a silo's mean gradient.
    n_parameters : int
        d.
    heterogeneity : float, default=0.0
        upsilon^2, see :func:`skdpfl.inspection.heterogeneity`; of no effect if all silos take
        part.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import gradient_variance
    >>> gradient_variance(lipschitz=2, batch=8, n_silos=5, silos_per_round=2, noise=0.5,
    ...                   n_parameters=10, heterogeneity=4.0)
    3.0
    """
    N = check_count("n_silos", n_silos)
    M = check_count("silos_per_round", silos_per_round, high=N)
    missing = 1 - (M - 1) / (N - 1) if N > 1 else 0.0
    drawn = missing * check_not_negative("heterogeneity", heterogeneity)
    L = check_positive("lipschitz", lipschitz)
    sampled = L * L / check_count("batch", batch)
    noise = check_not_negative("noise", noise)
    return (sampled + drawn + check_count("n_parameters", n_parameters) * noise * noise) / M


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


def _half(squared_distance: float) -> float:
    """Return V."""
    return check_positive("squared_distance", squared_distance) / 2


@dataclass(frozen=True)
class StepSchedule:
    """Steps and averaging weights of R rounds.

    Attributes
    ----------
    steps : ndarray of shape (R,)
        The learning rate of each round.
    weights : ndarray of shape (R,)
        The weight, summing to 1, of the parameters *before* each round in the averaged result.
    """

    steps: np.ndarray
    weights: np.ndarray


def stich2019_schedule(
    *, n_rounds: int, strong_convexity: float, largest_step: float
) -> StepSchedule:
    """Return the step sizes and weights for strongly convex losses.

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
    >>> schedule = stich2019_schedule(n_rounds=4, strong_convexity=1.0, largest_step=0.5)
    >>> schedule.steps.round(2).tolist(), (41 * schedule.weights).round(2).tolist()
    ([0.5, 0.5, 0.5, 0.4], [0.0, 0.0, 16.0, 25.0])
    """
    rounds = check_count("n_rounds", n_rounds)
    mu, largest = _curvature(strong_convexity, largest_step)
    t = np.arange(rounds)
    if rounds * mu * largest <= 1:
        # in the log domain up to the last weight, which is 1
        weights = np.exp((t - t[-1]) * -math.log1p(-mu * largest)) if rounds > 1 else np.ones(1)
        return StepSchedule(np.full(rounds, largest), weights / weights.sum())
    kappa, late = 2 / (mu * largest), t - math.ceil(rounds / 2)
    after = kappa + np.maximum(late, 0)
    weights = np.where(late < 0, 0.0, after**2)
    return StepSchedule(2 / (mu * after), weights / weights.sum())


def stich2019_bound(
    *,
    n_rounds: int,
    strong_convexity: float,
    largest_step: float,
    squared_distance: float,
    noise: float,
) -> float:
    """Return the lemma's bound for :func:`stich2019_schedule`.

    Parameters
    ----------
    n_rounds, strong_convexity, largest_step
        As in :func:`stich2019_schedule`.
    squared_distance : float
        r_0 = |w_0 - w*|^2.
    noise : float
        c: the second moment of the noisy gradient at the optimum, for ISRL-DP at most
        L^2 + d sigma^2 / M.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import stich2019_bound
    >>> round(stich2019_bound(n_rounds=100, strong_convexity=1.0, largest_step=0.5,
    ...                       squared_distance=1.0, noise=2.0), 4)
    0.72
    """
    rounds = check_count("n_rounds", n_rounds)
    mu, largest = _curvature(strong_convexity, largest_step)
    start = 32 / largest * check_not_negative("squared_distance", squared_distance)
    decay = math.exp(-mu * largest * rounds / 2)
    return start * decay + 36 * check_not_negative("noise", noise) / (mu * rounds)


def _curvature(strong_convexity: float, largest_step: float) -> tuple[float, float]:
    """Check mu and the largest step; no step may overshoot by itself."""
    mu = check_positive("strong_convexity", strong_convexity)
    largest = check_positive("largest_step", largest_step)
    if mu * largest >= 1:
        raise ValueError(
            f"largest_step={largest_step!r} is not valid; it must be below"
            f" 1 / strong_convexity = {1 / mu:.4g}."
        )
    return mu, largest
