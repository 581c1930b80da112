"""Record unit: clipped gradient sums are noised, by each silo or by the server.

The guarantees are in :mod:`skdpfl.privacy.mechanisms`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.events import Composition
from skdpfl.privacy.mechanisms.base import Aggregate, GradientTerms, Mechanism
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import (
    DOUBLE,
    SINGLE,
    GradientSums,
    NoisedSum,
    choose_precision,
    grid_for,
    relative_error,
)
from skdpfl.privacy.sampling import Levels


@dataclass(frozen=True)
class SiloGradients(Mechanism):
    """Record unit, server not trusted: each silo noises its own gradients."""

    serves = ("record", "silo")

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        each = plan.record_shares * plan.noise_multiplier * plan.clip_norm
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        sums = gradient_sums(plan, plan.noise_multiplier * plan.clip_norm, size)
        release = SINGLE if self.fresh_noise else DOUBLE
        precision, noised = choose_precision(sums, dtype, release)
        return GradientTerms(noised.clip, plan.expected_sizes, noised, precision)


@dataclass(frozen=True)
class ServerGradients(Mechanism):
    """Record unit, server trusted: noise once, on the cohort's weighted sum of gradients.

    One record of silo i changes that sum by at most D C w_i / (q_i n_i), D = 2 or 1. The noise has
    the same standard deviation s for all silos, so the multiplier of silo i is
    s / (C w_i / (q_i n_i)).

    The sum contains clipped gradients only. The penalty's gradient, which is public and unbounded
    if a fit diverges, is added after the release.
    """

    gradients_only = True
    noised_later = True
    serves = ("record", "server")

    def n_releases(self, plan: PublicNumbers) -> int:
        return n_sums(plan)

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def exposure(self, plan: PublicNumbers) -> np.ndarray | None:
        return plan.record_shares

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        return self._std(plan) / plan.silo_fraction

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        # each silo's share of the noise, in units in which its records have the clip norm
        std = self._std(plan) / plan.record_shares
        sums = gradient_sums(plan, std, size)._replace(apart=self._apart(plan))
        precision, noised = choose_precision(sums, dtype, DOUBLE)
        return GradientTerms(noised.clip, plan.expected_sizes, precision=precision)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        std = self._std(plan) * float(plan.factors[round][0])
        noised = NoisedSum(std, grid_for(std, _largest_sum(plan)))
        left = range(round, plan.n_rounds)
        units = keys.units_ahead("aggregate", left, aggregate.total.size, DOUBLE)
        return noised.added(aggregate.total, units) / aggregate.divisor

    def _std(self, plan: PublicNumbers) -> float:
        return float((plan.noise_multiplier * plan.record_shares).max()) * plan.clip_norm

    def _apart(self, plan: PublicNumbers) -> np.ndarray:
        """Bound the rounding errors of the sum of messages, in the units of each silo's sum.

        A silo's sum is divided by the normaliser, multiplied by the weight, added to the others
        and divided by the grid: n_silos + 4 operations, the rounding of its public share included.
        """
        error = relative_error((plan.n_silos + 4, DOUBLE)) * _largest_sum(plan)
        return error / plan.record_shares


def _largest_sum(plan: PublicNumbers) -> float:
    """Bound the norm of a cohort's weighted sum of clipped gradients."""
    return float(plan.record_shares @ plan.largest_batches) * plan.clip_norm


def n_sums(plan: PublicNumbers) -> int:
    """Return how many sums of cohorts a server, or a shuffler, releases."""
    return plan.n_rounds if plan.schedule is None else sum(len(c) > 0 for c in plan.schedule)


def gradient_sums(plan: PublicNumbers, std: np.ndarray, size: int) -> GradientSums:
    """Return the numbers about the plan's noisy sums of gradients that decide the precision."""
    return GradientSums(
        plan.known_sizes,
        plan.largest_batches,
        std,
        plan.smallest_factor,
        plan.largest_factor,
        plan.clip_norm,
        size,
        plan.neighbours,
        np.zeros(plan.n_silos),
    )
