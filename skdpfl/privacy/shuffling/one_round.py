"""The privacy profile of one round of shuffled Gaussian messages: bounds at a few epsilons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from skdpfl.privacy.events import Profile
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.shuffling.blanket import CELLS, blanket_delta, largest_kappa

#: Points at which a round's profile is computed.
_N_NODES = 33


def shuffled_deltas(
    epsilons: np.ndarray, *, noise_multiplier: float, n_reports: int, slack: float
) -> np.ndarray:
    """Bound delta for one round without sampling, at each epsilon.

    Parameters
    ----------
    epsilons : ndarray of shape (n,)
        At least 0, increasing.
    noise_multiplier : float
        z, the standard deviation of each message's noise over the clip norm.
    n_reports : int
        Number of messages that are shuffled together.
    slack : float
        What may be given away in tails: the bound cannot fall below about this.

    Returns
    -------
    deltas : ndarray of shape (n,)
        Non-increasing.
    """
    alphas = np.exp(epsilons)
    distance = slack / 4  # in total variation, of all other reports' laws together
    worst = np.zeros(len(alphas))
    for low, high in itertools.pairwise(CELLS):
        mu = 2.0 * high / noise_multiplier
        bound = np.array([gaussian_delta(mu, e) for e in epsilons.tolist()])
        if n_reports > 1:
            beside = (1.0 + math.sqrt(1.0 - low**2)) / noise_multiplier
            kappa = largest_kappa(beside, distance / (n_reports - 1))
            hidden = [blanket_delta(mu, kappa, n_reports, a, slack / 2) for a in alphas.tolist()]
            bound = np.minimum(bound, np.array(hidden) + (1.0 + alphas) * distance)
        worst = np.maximum(worst, bound)
    return np.minimum(1.0, np.minimum.accumulate(worst))


@lru_cache(maxsize=256)
def shuffled_profile(
    noise_multiplier: float, n_reports: int, sampling_rate: float = 1.0, *, slack: float = 1e-9
) -> Profile:
    """Return what one round of shuffled minibatch SGD costs a record, under replacement.

    Parameters
    ----------
    noise_multiplier : float
        z, the standard deviation of each message's noise over the clip norm; positive.
    n_reports : int
        Number of messages of the round, of all silos together.
    sampling_rate : float
        g = K / n, the share of its records that the record's silo draws.
    slack : float
        What may be given away in tails per round; several of them are lost in a fit.

    Returns
    -------
    Profile
        Upper bounds on delta, see the module's guarantee.
    """
    if not noise_multiplier > 0.0:
        raise ValueError(f"noise_multiplier must be positive, got {noise_multiplier!r}.")
    if n_reports < 1:
        raise ValueError(f"n_reports must be at least 1, got {n_reports!r}.")
    if not 0.0 < sampling_rate <= 1.0:
        raise ValueError(f"sampling_rate must be in (0, 1], got {sampling_rate!r}.")
    if not 0.0 < slack < 1.0:
        raise ValueError(f"slack must be in (0, 1), got {slack!r}.")
    if noise_multiplier == math.inf:
        return Profile((0.0,), (0.0,))

    bound = partial(
        shuffled_deltas, noise_multiplier=noise_multiplier, n_reports=n_reports, slack=slack
    )
    epsilons = np.linspace(0.0, _last_epsilon(bound, slack), _N_NODES)
    amplified = np.log1p(sampling_rate * np.expm1(epsilons))
    bounds = sampling_rate * bound(epsilons)
    return Profile(tuple(amplified.tolist()), tuple(bounds.tolist()))


def _last_epsilon(bound: Callable[[np.ndarray], np.ndarray], slack: float) -> float:
    """Return an epsilon beyond which the bound hardly falls."""
    last, here = 0.02, 1.0
    while here > 0.4 * slack * (3.0 + math.exp(min(last, 10.0))) and last < 300.0:
        before, here = here, float(bound(np.array([1.3 * last]))[0])
        if here < 50.0 * slack and here > 0.8 * before:
            break
        last *= 1.3
    return last
