"""Noise shared by silos: each silo's share in a masked sum, and the price.

    unit     trust    class            noised                              released by
    record   secagg   SharedGradients  the cohort's weighted sum of those  the masks' sum
    silo     secagg   SharedMessages   the sum of clipped messages         the masks' sum

With s the noise of the sum over C (:attr:`PublicNumbers.noise_of_sum`), of c silos in a round each
adds noise of ``s C / sqrt(c - t)`` to its weighted message, in whole numbers on a common grid
(:mod:`skdpfl.privacy.release.sharing`). ::

    record   s = max_i z_i w_i / (q_i n_i)         whole silos, with R as there   s = z max_i w_i

Formal guarantee
----------------
Against the server together with any t silos, a round is the Gaussian mechanism with the multiplier
z of :class:`ServerGradients` or :class:`ServerMessages`, for every other silo in the round: at
least c - t shares are unknown to them, including that silo's own. They see the cohorts, so sampling
of silos gives no amplification; sampled records are as secret as with any other trust. A failed
attempt is a release as well: ``spare_rounds`` of them are priced in addition to the rounds, for
every silo.

**Whole silos: the relation.** Under zero-out a silo's e_i becomes 0 and its noise stays: the sum
changes by w_i e_i, at most max w R, as with a trusted server. Under replacement it changes by up to
twice as much. The server and colluding silos see which silos answer, so participation is not
hidden; the guarantee is that a silo's answer could have come from other data. That is replacement,
the meaning of ``neighbours="auto"`` here, as with ``trust="silo"``. (``neighbours="add_remove"``
guarantees that the answer could have been zeros, at half the sensitivity.)
"""

from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.mechanisms.base import Aggregate, GradientTerms, Senders
from skdpfl.privacy.mechanisms.records import ServerGradients, n_sums
from skdpfl.privacy.mechanisms.whole_silos import ServerMessages
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import (
    DOUBLE,
    MOST_NORMALS,
    NoisedSum,
    SharedNoise,
    check_honest,
    relative_error,
    shared_noise,
)

#: operations on a silo's sum: normaliser, weight, the grid's step, and one to spare
_OPERATIONS = 4


@dataclass(frozen=True)
class SharedGradients(ServerGradients):
    """Record unit: silos add weighted gradients and shares of the noise to a masked sum."""

    serves = ("record", "secagg")
    shared = True

    def check(self, plan: PublicNumbers) -> None:
        super().check(plan)
        _check_shares(plan, float((plan.noise_multiplier * plan.record_shares).max()))

    def errors_apart(self, plan: PublicNumbers) -> np.ndarray:
        return relative_error((_OPERATIONS, DOUBLE)) * plan.largest_batches * plan.clip_norm

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        if plan.noise_of_sum is None:  # raise before the first round where a total does not fit
            self._shared(plan, plan.factor_range[0], int(plan.cohort_sizes.max()))
        return super().gradient_terms(plan, size, dtype)

    def noise_in(self, plan: PublicNumbers, round: int, among: int) -> SharedNoise:
        """Return each silo's share of the noise in a round with a given number of silos."""
        return self._shared(plan, float(plan.factors[round][0]), among)

    def _shared(self, plan: PublicNumbers, factor: float, among: int) -> SharedNoise:
        bound = float(plan.record_shares @ plan.largest_batches) * plan.clip_norm
        return shared_noise(self._std(plan) * factor, among, plan.colluding, bound)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        noise = self.noise_in(plan, by.round, by.among)
        units = by.keys.units_block("share", by.silos, by.round, kept.shape[1:], DOUBLE)
        return noise.steps(kept * plan.weights[by.silos, None], units)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        noise = self.noise_in(plan, round, aggregate.among)
        return noise.total(aggregate.total) / aggregate.divisor

    def _std(self, plan: PublicNumbers) -> float:
        if plan.noise_of_sum is None:
            return super()._std(plan)
        return plan.noise_of_sum * plan.clip_norm


@dataclass(frozen=True)
class SharedMessages(ServerMessages):
    """Whole silos: each adds its clipped message and a share of the noise to a masked sum."""

    serves = ("silo", "secagg")
    shared = True

    def check(self, plan: PublicNumbers) -> None:
        super().check(plan)
        _check_shares(plan, float(plan.noise_multiplier[0]) * plan.largest_weight)

    def n_releases(self, plan: PublicNumbers) -> int:
        return n_sums(plan)

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        """Return a silo's noised sum, which has its clip norm, in units of the largest weight."""
        return self._noised(plan, clip_norm, size, _OPERATIONS, 1.0)

    def noise_in(self, plan: PublicNumbers, clip_norm: float, among: int) -> SharedNoise:
        """Return each silo's share of the noise in a round, in units of the largest weight."""
        std = float(plan.noise_multiplier[0]) * clip_norm * self._radius
        return shared_noise(std, among, plan.colluding, among * clip_norm * self._radius)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        exact = super().send(plan, kept, by)
        noise = self.noise_in(plan, by.clip_norm, by.among)
        units = by.keys.units_block("share", by.silos, by.round, exact.shape[1:], DOUBLE)
        return noise.steps(exact * (plan.weights[by.silos, None] / _heaviest(plan)), units)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        noise = self.noise_in(plan, aggregate.clip_norm, aggregate.among)
        return noise.total(aggregate.total) * (_heaviest(plan) / aggregate.divisor)


def _heaviest(plan: PublicNumbers) -> float:
    """Return the largest weight of all silos; a plan of some silos infers it from the noise."""
    if plan.noise_of_sum is None:
        return plan.largest_weight
    return plan.noise_of_sum / float(plan.noise_multiplier[0])


def _check_shares(plan: PublicNumbers, asked: float) -> None:
    """Raise unless the noise of the sum is as priced, even without the colluding silos' shares."""
    if plan.colluding < 0 or plan.spare_rounds < 0:
        raise ValueError("colluding and spare_rounds must be 0 or more.")
    if plan.silo_fraction < 1 and plan.schedule is None:
        raise ValueError(
            'trust="secagg" reveals to the server which silos take part in a round, so a plan with '
            "silo_fraction below 1 needs a schedule."
        )
    if plan.noise_of_sum is None:  # a plan of all silos, with their cohorts
        check_honest(int(plan.cohort_sizes.min()), plan.colluding)
    elif plan.noise_of_sum < asked * (1 - 1e-12):
        raise ValueError(
            f"The silos share noise of {plan.noise_of_sum:.6g} clip norms, but this noise "
            f"multiplier needs {asked:.6g}."
        )
    normals = float(plan.n_silos) * (plan.size or 1) * (plan.n_rounds + plan.spare_rounds)
    if normals > MOST_NORMALS:
        raise ValueError(
            f"The fit draws {normals:.2g} noise values, more than the {MOST_NORMALS:.0g} that "
            "prices cover: use fewer rounds, or a smaller model."
        )
