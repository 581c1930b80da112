r"""Shuffled minibatch SGD: the privacy cost of a round of shuffled noisy gradients.

In a round every one of M silos draws K of its n records (uniformly, without replacement) and sends,
for each of them, its clipped gradient plus noise ``N(0, (z C)^2 I)``, as a separate message. A
shuffler mixes all ``n_reports = M K`` messages; the server averages them::

    noise on the mean gradient     z C / sqrt(M K)                  (trust="shuffler")
    against silos that add theirs  z_silo C / (K sqrt(M))           (trust="silo")

so shuffling helps where ``z < z_silo / sqrt(K)``: many silos, few records of each per round. Both
have far more noise than a release of the sum alone (``z C / (M K)``). The vector-sum protocol in
:mod:`skdpfl.privacy.mechanisms.binomial` is close to that, for the same trust.

Formal guarantee
----------------
Unit: one record of one silo is replaced. Adversary: everyone who sees the shuffled messages of all
rounds; the shuffler and the other silos are trusted to take part, with noise.

1. *One round, batches fixed.* Proved in :mod:`skdpfl.privacy.shuffling.blanket` for Gaussian
   messages, which are no pure local randomisers: for every alpha >= 1 and all inputs the
   hockey-stick divergence is at most the number computed there, a total variation distance
   included. The local guarantee of the record's own message holds as well; the smaller of the two
   is used, for each distance of the two inputs.
2. *Sampling of records.* Let g = K / n. With the record drawn the round compares
   neighbours; without it the round is the same for both; and a batch with the record is coupled
   with one in which another record stands in its place, again a neighbour. Hence by advanced joint
   convexity [1]_ ::

       delta'(log(1 + g (e^eps - 1))) <= g delta(eps),       eps >= 0, in both directions

   Batches must have a fixed size, because the number of messages is visible. The participation of
   a silo in a round is public and gives no amplification at record level.
3. *Rounds* compose, adaptively, with fresh noise (each its own amount) and batches, as any
   releases with known profiles do (:class:`~skdpfl.privacy.events.Profile`,
   :mod:`skdpfl.privacy.accounting`).

Profiles are convex in e^eps, so bounds at a few points imply bounds in between.

References
----------
.. [1] Balle, Barthe & Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018.
"""

from __future__ import annotations

from skdpfl.privacy.events import Composition, compose
from skdpfl.privacy.sampling import Levels
from skdpfl.privacy.shuffling.one_round import shuffled_profile

__all__ = ["shuffled_levels", "shuffled_profile"]

#: Share of delta used for tails and total variation distances, all rounds together.
_SLACK_SHARE = 0.05


def shuffled_levels(
    levels: Levels, n_reports: int, sampling_rate: float, delta: float
) -> Composition:
    """Return the releases of rounds with several noise multipliers: pairs (z, n_rounds)."""
    n_rounds = sum(count for _, count in levels)
    slack = min(1e-3, _SLACK_SHARE * delta / (max(1, n_rounds) * sampling_rate))
    return compose(
        (shuffled_profile(z, n_reports, sampling_rate, slack=slack), count)
        for z, count in levels
        if count
    )
