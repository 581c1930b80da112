"""Single records: each silo's clipped gradient sums are noised, by the silo or by the server.

What is promised stands in :mod:`skdpfl.privacy.mechanisms`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.events import Composition
from skdpfl.privacy.mechanisms.base import Aggregate, GradientTerms, Mechanism
from skdpfl.privacy.mechanisms.precision import DOUBLE, Sums, choose_precision
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.grid import grid_for, snapped_release
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.sampling import Levels


@dataclass(frozen=True)
class SiloGradients(Mechanism):
    """Record unit, nobody outside the silo trusted: every gradient is noised where it is made."""

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        each = plan.record_shares * plan.noise_multiplier * plan.clip_norm
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        std = plan.noise_multiplier * plan.clip_norm
        precision, clip = choose_precision(gradient_sums(plan, std, size), dtype)
        return GradientTerms(clip, std, plan.expected_sizes, precision)


@dataclass(frozen=True)
class ServerGradients(Mechanism):
    """Record unit, server trusted: noise once, on the cohort's weighted sum of gradients.

    One record of silo i moves that sum by at most D C w_i / (q_i n_i), D = 2 or 1. The noise has
    one standard deviation s for all, so silo i has the multiplier s / (C w_i / (q_i n_i)).

    The sum is of nothing else, whatever the model: the penalty's gradient, which is public and
    without bound where a fit diverges, is added to what was released.
    """

    gradients_only = True
    noised_later = True

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def exposure(self, plan: PublicNumbers) -> np.ndarray | None:
        return plan.record_shares

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        return self._std(plan) / plan.silo_fraction

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        # each silo's own share of the noise, in which its records count by the clip norm
        std = self._std(plan) / plan.record_shares
        precision, clip = choose_precision(gradient_sums(plan, std, size), dtype, DOUBLE)
        return GradientTerms(clip * self._kept(plan), None, plan.expected_sizes, precision)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        std = self._std(plan) * float(plan.factors[round][0])
        units = keys.stream("aggregate", round=round).units(aggregate.total.shape, DOUBLE)
        gamma = grid_for(std, float(plan.record_shares @ plan.largest_batches) * plan.clip_norm)
        return snapped_release(aggregate.total, units, gamma) / aggregate.divisor

    def _std(self, plan: PublicNumbers) -> float:
        return float((plan.noise_multiplier * plan.record_shares).max()) * plan.clip_norm

    def _kept(self, plan: PublicNumbers) -> np.ndarray:
        """Return what the rounding of the messages' sum leaves of the clip norms.

        It is off by less than n_silos + 8 roundings of all that it adds, which count by as much as
        the silo's own share of the sum is small.
        """
        shares = plan.record_shares
        unit = float(np.finfo(DOUBLE).eps)
        return 1 / (1 + (plan.n_silos + 8) * unit * (shares @ plan.largest_batches) / shares)


def gradient_sums(plan: PublicNumbers, std: np.ndarray, size: int) -> Sums:
    """Return the plan's noisy sums of gradients as numbers that decide the precision."""
    return Sums(
        plan.known_sizes,
        plan.largest_batches,
        std * plan.smallest_factor,
        std * plan.largest_factor,
        plan.clip_norm,
        size,
        plan.neighbours,
    )
