"""The expected noise of a fit, before it is planned: from budgets, sizes and weights.

::

    mu_i   what silo i may spend, as Gaussian DP (N(0, 1) against N(mu, 1))
    s      noise of the whole fit on each coordinate of the mean gradient, in clip norms

    unit "record"   trust "silo"     s = D sqrt( sum_i (w_i / (n_i mu_i))^2 )
                    else             s = D max_i w_i / (n_i mu)
    unit "silo"                      the same with n_i = 1

D = 2 where a record (silo) is replaced, 1 where its contribution is set to zero. One number is
enough: T noisy gradients with noise multiplier z = D sqrt(T) / mu each have noise
z / n = D sqrt(T) / (mu n), and their average has D / (mu n), for any T. Sampled batches (rate q)
have z about q D sqrt(T) / mu on sums of q n records: the same again, unless z is far below one.
Noise that decays, z f_t in step t, has the budget's price for z^2 = D^2 sum_t f_t^-2 / mu^2, and
its average gradient sqrt( mean f_t^2 mean f_t^-2 ) times the noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skdpfl._distinct import distinct
from skdpfl.choosing._request import Request
from skdpfl.privacy.calibration import shared_budgets
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.schedules import NoiseSchedule, noise_factors

#: a larger (D / z)^2 is no privacy, and exp((D / z)^2) is to be computed
_MOST = 50.0
#: decay that costs more leaves nothing either
_MOST_DECAY = 1e6


class Level(NamedTuple):
    """The silos' budgets mu, or one for all (1,), and the noise of the mean gradient."""

    mu: np.ndarray
    noise: float


def noise_level(request: Request, rate: float, steps: tuple[int, ...]) -> Level:
    """Return the noise level of a fit with these steps per round, at a sampling rate.

    Each step over disjoint batches averages fewer records.
    """
    n_noised = len(steps) if request.guarantee.hides_silos else sum(steps)
    decay = cost_of_decay(request.noise_schedule, steps)
    if request.sampling != "disjoint":
        level = _level(request, rate, n_noised)
        return level._replace(noise=level.noise * decay)
    level = _level(request, 1.0, 1)
    return level._replace(noise=level.noise * decay * math.sqrt(n_noised))


def cost_of_decay(schedule: NoiseSchedule, steps: tuple[int, ...]) -> float:
    """Return how much more noise a fit has for noise that decays: 1 for constant noise."""
    if schedule is None:
        return 1.0
    factors = np.concatenate(noise_factors(schedule, steps))
    with np.errstate(over="ignore", divide="ignore"):
        cost = math.sqrt(np.square(factors).mean() * np.square(1 / factors).mean())
    return min(cost, _MOST_DECAY)


def budgets(request: Request, rate: float, n_steps: int) -> np.ndarray:
    """Return mu of each silo, or one for all (1,)."""
    promise, change = request.guarantee, _change(request)
    if promise.epsilon is None:
        z = promise.noise_multiplier
        if rate >= 1:
            return np.array([change * math.sqrt(n_steps) / z])
        growth = math.expm1(min((change / z) ** 2, _MOST))
        hits = rate * n_steps  # the expected number of steps that use a record
        often = min(n_steps, hits + 4 * math.sqrt(hits) + 3)
        return np.array([min(rate * math.sqrt(n_steps * growth), change * math.sqrt(often) / z)])
    epsilon = shared_budgets(np.asarray(promise.epsilon, dtype=float))
    epsilons, deltas = np.broadcast_arrays(epsilon, promise.delta)
    first, code = distinct(epsilons, deltas)
    pairs = zip(epsilons[first].tolist(), deltas[first].tolist(), strict=True)
    return np.array([_mu(e, d) for e, d in pairs])[code]


def _level(request: Request, rate: float, n_noised: int) -> Level:
    mu, sizes = budgets(request, rate, n_noised), request.facts.public_sizes
    exposed = request.weights / (1.0 if sizes is None else sizes)
    least, change = float(mu.min()), _change(request)
    if request.guarantee.trust == "silo":
        return Level(mu, change * float(np.sqrt(np.square(exposed / mu).sum())))
    return Level(mu, change * float(exposed.max()) / least)


def _change(request: Request) -> float:
    """Return D: the change of a sum by one record, in clip norms."""
    return 2.0 if request.guarantee.neighbours == "replace" else 1.0


def noise_of_plan(plan: PrivacyPlan) -> float:
    """Return the noise of the whole fit on each coordinate of the mean, in clip norms."""
    if not plan.private:
        return 0.0
    n_noised = plan.n_rounds if plan.unit == "silo" else sum(plan.steps)
    scheduled = math.sqrt(np.square(np.concatenate(plan.factors)).mean())
    noise = plan.mechanism.noise_on_mean(plan) / plan.clip_norm
    return noise * scheduled / math.sqrt(n_noised)


@lru_cache(maxsize=4096)
def _mu(epsilon: float, delta: float) -> float:
    return gaussian_mu(epsilon, delta)
