r"""Shuffled minibatch SGD: what a round of nameless noisy gradients costs each record.

In a round every one of M silos draws K of its n records (uniformly, without replacement) and sends,
for each of them, its clipped gradient plus noise ``N(0, (z C)^2 I)``, as a message of its own. A
shuffler mixes all ``n_reports = M K`` messages; the server averages what it gets::

    noise on the mean gradient     z C / sqrt(M K)                  (trust="shuffler")
    against silos that add theirs  z_silo C / (K sqrt(M))           (trust="silo")

so shuffling helps where ``z < z_silo / sqrt(K)``: many silos, few records of each per round.
:func:`shuffle_gain` says how much; below 1 the silos' own noise is the better use of the budget.
Both are far from what the sum alone would need (``z C / (M K)``): that is what the vector-sum
protocol in :mod:`skdpfl.privacy.mechanisms.binomial` comes near to, for the same trust.

Formal guarantee
----------------
Unit: one record of one silo is replaced. Against: everybody who sees the shuffled messages of all
rounds; the shuffler and the other silos are trusted to take part, with noise.

1. *One round, batches fixed.* Proved in :mod:`skdpfl.privacy.shuffling.blanket` for Gaussian
   messages, which are no pure local randomisers: for every alpha >= 1 and all inputs the
   hockey-stick divergence is at most the number computed there, a total variation distance
   included. The local guarantee of the record's own message holds besides; the smaller of the two
   is taken, for each distance of the two inputs. (:mod:`skdpfl.privacy.shuffling.clones` has bounds
   for pure randomisers and for any that are (eps, delta)-DP; for Gaussian messages they are far
   larger.)
2. *Sampling of records.* Let g = K / n. With the record drawn the round compares
   neighbours; without it the round is the same for both; and a batch with the record is coupled
   with one in which another record stands in its place, again a neighbour. Hence by advanced joint
   convexity [1]_ ::

       delta'(log(1 + g (e^eps - 1))) <= g delta(eps),       eps >= 0, in both directions

   Batches must have a fixed size: the number of messages is seen. That a silo takes part in a
   round is public and earns nothing at record level.
3. *Rounds* compose, adaptively, with fresh noise (each its own amount) and batches, as any
   releases with known profiles do (:class:`~skdpfl.privacy.events.Profile`,
   :mod:`skdpfl.privacy.accounting`).

Profiles are convex in e^eps, so that bounds at a few points bound everything in between.

References
----------
.. [1] Balle, Barthe & Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from skdpfl.privacy.accounting import noise_multiplier_for
from skdpfl.privacy.events import Composition, compose
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.sampling import Levels
from skdpfl.privacy.shuffling.one_round import shuffled_deltas, shuffled_profile

__all__ = [
    "shuffle_gain",
    "shuffled_deltas",
    "shuffled_levels",
    "shuffled_noise_multiplier",
    "shuffled_profile",
    "shuffled_rounds",
]

#: Share of delta given to tails and total variation distances, all rounds together.
_SLACK_SHARE = 0.05


@lru_cache(maxsize=256)
def shuffled_noise_multiplier(
    *, epsilon: float, delta: float, n_reports: int, sampling_rate: float, n_rounds: int
) -> float:
    """Return the least noise per message with which all rounds meet a budget, on the safe side.

    Takes a few seconds, once: results are kept.

    Parameters
    ----------
    epsilon, delta : float
        The budget of one record, under replacement.
    n_reports : int
        Number of messages of a round, of all silos together.
    sampling_rate : float
        Share of its records that a silo draws; of the silo that draws the largest.
    n_rounds : int
        Number of rounds.

    Returns
    -------
    float
        z. The price of :func:`shuffled_rounds` with it is at most epsilon, and within 1 % of it
        but where the bounds jump.
    """
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}.")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}.")
    if n_rounds < 1:
        raise ValueError(f"n_rounds must be at least 1, got {n_rounds!r}.")

    def price(z: float) -> float:
        rounds = shuffled_rounds(z, n_reports, sampling_rate, n_rounds, delta)
        return price_epsilon(rounds, delta, "replace")

    low = high = 2.0
    while price(high) > epsilon:
        low, high = high, high * 1.5
    while price(low) <= epsilon:
        low, high = low / 1.25, low
    return _root(price, epsilon, low, high)


def _root(price: Callable[[float], float], epsilon: float, low: float, high: float) -> float:
    """Narrow ``price(low) > epsilon >= price(high)`` until high is good enough."""
    above, below = price(low), price(high)
    while below < 0.99 * epsilon and high > 1.0005 * low:
        # log price is nearly linear in log z: aim inside the tolerance, but never crawl
        middle = math.sqrt(low * high)
        if math.isfinite(above) and below > 0.0:
            share = math.log(above / (0.995 * epsilon)) / math.log(above / below)
            middle = low * (high / low) ** min(0.95, max(0.05, share))
        value = price(middle)
        if value > epsilon:
            low, above = middle, value
        else:
            high, below = middle, value
    return high


def shuffled_rounds(
    noise_multiplier: float, n_reports: int, sampling_rate: float, n_rounds: int, delta: float
) -> Composition:
    """Return what ``n_rounds`` rounds release, with tails cut to fit a budget's delta."""
    return shuffled_levels([(noise_multiplier, n_rounds)], n_reports, sampling_rate, delta)


def shuffled_levels(
    levels: Levels, n_reports: int, sampling_rate: float, delta: float
) -> Composition:
    """Return what rounds of several noise multipliers release: pairs (z, how many rounds)."""
    n_rounds = sum(count for _, count in levels)
    slack = min(1e-3, _SLACK_SHARE * delta / (max(1, n_rounds) * sampling_rate))
    return compose(
        (shuffled_profile(z, n_reports, sampling_rate, slack=slack), count)
        for z, count in levels
        if count
    )


def shuffle_gain(
    *,
    epsilon: float,
    delta: float,
    n_silos: int,
    batch_size: int,
    sampling_rate: float,
    n_rounds: int,
) -> float:
    """Return how many times less noise the mean gradient has than with trust="silo".

    Parameters
    ----------
    epsilon, delta : float
        The budget of one record.
    n_silos, batch_size : int
        M silos in a round, K records of each.
    sampling_rate : float
        Share of its records that a silo draws.
    n_rounds : int
        Number of rounds.

    Returns
    -------
    float
        Ratio of the two noises' standard deviations at equal privacy, sampling and rounds. At most
        1: the shuffler gains nothing, and ``trust="silo"`` needs no shuffler.
    """
    shuffled = shuffled_noise_multiplier(
        epsilon=epsilon,
        delta=delta,
        n_reports=n_silos * batch_size,
        sampling_rate=sampling_rate,
        n_rounds=n_rounds,
    )
    alone = noise_multiplier_for(
        epsilon=epsilon,
        delta=delta,
        sampling_rate=sampling_rate,
        n_steps=n_rounds,
        neighbours="replace",
        sampling="without_replacement",
    )
    return alone / (shuffled * math.sqrt(batch_size))
