"""The step schedule for strongly convex losses (Stich 2019, lemma 3).

Modulus mu, largest step 1/g, R rounds; for a recursion
r_{t+1} <= (1 - mu eta_t) r_t - eta_t s_t + c eta_t^2 (r: squared distance, s: excess loss)::

    R <= g/mu    eta_t = 1/g, weights (1 - mu/g)^-(t+1)
    otherwise    t0 = ceil(R/2), kappa = 2 g / mu
                 t < t0: eta_t = 1/g, weight 0
                 t >= t0: eta_t = 2 / (mu (kappa + t - t0)), weight (kappa + t - t0)^2
    mean_w s + mu r_R <= 32 g r_0 exp(-mu R / (2 g)) + 36 c / (mu R)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import check_count, check_not_negative, check_positive


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
