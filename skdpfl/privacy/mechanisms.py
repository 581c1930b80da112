"""Where the noise is: one class per row of what goes together.

    unit     trust    class            noised                              released by
    any      any      NoPrivacy        nothing (epsilon = inf)             -
    record   silo     SiloGradients    each silo's clipped gradient sums   each silo
    record   server   ServerGradients  the cohort's weighted sum of those  the server
    silo     silo     SiloMessages     each silo's clipped message         each silo
    silo     server   ServerMessages   the sum of clipped messages         the server

A mechanism has no numbers of its own: clip norm, noise multiplier, weights and rates are read from
the one frozen plan, by the code that runs it and by the code that prices it.

Formal guarantee
----------------
Every noised sum S is released as ``gamma (rint(S / gamma) + N)`` with integer noise N
(:mod:`skdpfl.privacy.grid`), a Gaussian mechanism on a query of L2 sensitivity at most
``sensitivity(S) + gamma sqrt(size)``, rounding errors of S included. Records (messages) are clipped
to a norm that much smaller, so the priced multiplier is met exactly: by
:mod:`skdpfl.privacy.precision` for sums of gradients, and here for sums of messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpfl.privacy.events import Composition, Exact, Gaussian, PoissonGaussian, compose
from skdpfl.privacy.grid import grid_for, reduced_clip, snapped_release
from skdpfl.privacy.precision import DOUBLE, Precision, Sums, choose_precision
from skdpfl.privacy.random import Streams
from skdpfl.privacy.sampling import Levels

if TYPE_CHECKING:
    from skdpfl.privacy.plan import PrivacyPlan


class GradientTerms(NamedTuple):
    """What a silo needs to release a gradient, each of shape (n_silos,).

    ``clip``: the norm each record is clipped to; ``std``: the noise on the sum (0: none), None if
    no silo adds any; ``divisor``: the public normaliser; ``precision``: how sums are computed, None
    if it does not matter.
    """

    clip: np.ndarray
    std: np.ndarray | None
    divisor: np.ndarray
    precision: Precision | None = None


class Aggregate(NamedTuple):
    """What the server has summed: weighted messages, and what to divide by for their mean."""

    total: np.ndarray
    divisor: float


@dataclass(frozen=True)
class Mechanism:
    """One row of the table. The defaults add no noise anywhere."""

    #: the server may only be given sums of fresh gradients
    gradients_only = False

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        """Name what one silo of n records releases at multiplier z over all its steps."""
        raise NotImplementedError

    def exposure(self, plan: PrivacyPlan) -> np.ndarray | None:
        """Return e (n_silos,) where one noise s serves all, z_i = s / e_i; None: each its own."""
        return None

    def noise_on_mean(self, plan: PrivacyPlan) -> float:
        """Return the noise's standard deviation on each coordinate of a round's released mean.

        Before the schedule's factors; the root mean square over cohorts.
        """
        return 0.0

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        """Return the silos' terms; by default gradients are exact means."""
        return GradientTerms(np.full(plan.n_silos, np.inf), None, plan.expected_sizes)

    def send(
        self, plan: PrivacyPlan, messages: np.ndarray, silos: np.ndarray, round: int, keys: Streams
    ) -> np.ndarray:
        """Return the messages (n, size) as they leave their silos."""
        return messages

    def release(
        self, plan: PrivacyPlan, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        """Return the mean message of the cohort as it leaves the aggregate."""
        return aggregate.total / aggregate.divisor


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Everything is exact; an explicit class, so that no infinity is ever multiplied by zero."""

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        return ((Exact(), 1),)


@dataclass(frozen=True)
class SiloGradients(Mechanism):
    """Record unit, nobody outside the silo trusted: every gradient is noised where it is made."""

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def noise_on_mean(self, plan: PrivacyPlan) -> float:
        each = plan.record_shares * plan.noise_multiplier * plan.clip_norm
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        std = plan.noise_multiplier * plan.clip_norm
        precision, clip = choose_precision(gradient_sums(plan, std, size), dtype)
        return GradientTerms(clip, std, plan.expected_sizes, precision)


@dataclass(frozen=True)
class ServerGradients(Mechanism):
    """Record unit, server trusted: noise once, on the cohort's weighted sum of gradients.

    One record of silo i moves that sum by at most D C w_i / (q_i n_i), D = 2 or 1. The noise has
    one standard deviation s for all, so silo i has the multiplier s / (C w_i / (q_i n_i)).
    """

    gradients_only = True

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def exposure(self, plan: PrivacyPlan) -> np.ndarray | None:
        return plan.record_shares

    def noise_on_mean(self, plan: PrivacyPlan) -> float:
        return self._std(plan) / plan.silo_fraction

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        # each silo's own share of the noise, in which its records count by the clip norm
        std = self._std(plan) / plan.record_shares
        precision, clip = choose_precision(gradient_sums(plan, std, size), dtype, DOUBLE)
        return GradientTerms(clip * self._kept(plan), None, plan.expected_sizes, precision)

    def release(
        self, plan: PrivacyPlan, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        std = self._std(plan) * float(plan.factors[round][0])
        units = keys.stream("aggregate", round=round).units(aggregate.total.shape, DOUBLE)
        gamma = grid_for(std, float(plan.record_shares @ plan.largest_batches) * plan.clip_norm)
        return snapped_release(aggregate.total, units, gamma) / aggregate.divisor

    def _std(self, plan: PrivacyPlan) -> float:
        return float((plan.noise_multiplier * plan.record_shares).max()) * plan.clip_norm

    def _kept(self, plan: PrivacyPlan) -> np.ndarray:
        """Return what the rounding of the messages' sum leaves of the clip norms.

        It is off by less than n_silos + 8 roundings of all that it adds, which count by as much as
        the silo's own share of the sum is small.
        """
        shares = plan.record_shares
        unit = float(np.finfo(DOUBLE).eps)
        return 1 / (1 + (plan.n_silos + 8) * unit * (shares @ plan.largest_batches) / shares)


@dataclass(frozen=True)
class SiloMessages(Mechanism):
    """Silo unit, server not trusted: each silo clips and noises its whole message."""

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        return compose((Gaussian(level), count) for level, count in levels)

    def noise_on_mean(self, plan: PrivacyPlan) -> float:
        each = plan.weights * plan.noise_multiplier * plan.clip_norm
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def send(
        self, plan: PrivacyPlan, messages: np.ndarray, silos: np.ndarray, round: int, keys: Streams
    ) -> np.ndarray:
        std, size = float(plan.noise_multiplier[0]) * plan.clip_norm, messages.shape[-1]
        gamma = grid_for(std, plan.clip_norm)
        rounding = (size + 8) * float(np.finfo(DOUBLE).eps)
        clip = reduced_clip(plan.clip_norm, gamma, size, plan.neighbours, rounding=rounding)
        clipped = clip_rows(messages.astype(DOUBLE), clip)
        units = keys.units_block("message", silos, round, (size,), DOUBLE)
        return snapped_release(clipped, units, gamma).astype(messages.dtype)


@dataclass(frozen=True)
class ServerMessages(Mechanism):
    """Silo unit, server trusted: noise once, on the sum of the clipped messages.

    The sum is divided by the expected weight of a cohort, never by the realised one: who took part
    is secret, and so is how many. With public weights w_i the sum moves by at most D C max w_i.
    """

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        if plan.cohort != "poisson" or plan.silo_fraction >= 1:
            return compose((Gaussian(level), count) for level, count in levels)
        rate = plan.silo_fraction
        return compose((PoissonGaussian(level, rate), count) for level, count in levels)

    def noise_on_mean(self, plan: PrivacyPlan) -> float:
        std = float(plan.noise_multiplier[0] * plan.weights.max()) * plan.clip_norm
        return std / plan.silo_fraction

    def send(
        self, plan: PrivacyPlan, messages: np.ndarray, silos: np.ndarray, round: int, keys: Streams
    ) -> np.ndarray:
        size = messages.shape[-1]
        rounding = (plan.n_silos + size + 8) * self._bound(plan) * float(np.finfo(DOUBLE).eps)
        gamma = self._grid(plan)
        clip = reduced_clip(plan.clip_norm, gamma, size, plan.neighbours, rounding=rounding)
        return clip_rows(messages.astype(DOUBLE), clip)

    def release(
        self, plan: PrivacyPlan, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        largest = float(plan.weights.max())
        units = keys.stream("aggregate", round=round).units(aggregate.total.shape, DOUBLE)
        total = snapped_release(aggregate.total / largest, units, self._grid(plan))
        return total * (largest / plan.silo_fraction)

    def _grid(self, plan: PrivacyPlan) -> float:
        std = float(plan.noise_multiplier[0]) * plan.clip_norm
        return grid_for(std, self._bound(plan) * plan.clip_norm)

    def _bound(self, plan: PrivacyPlan) -> float:
        """Return how many messages of the largest weight all silos are worth."""
        return float(plan.weights.sum() / plan.weights.max())


def gradient_sums(plan: PrivacyPlan, std: np.ndarray, size: int) -> Sums:
    """Return the plan's noisy sums of gradients as numbers that decide the precision."""
    return Sums(
        plan.silo_sizes,
        plan.largest_batches,
        std * plan.smallest_factor,
        std * plan.largest_factor,
        plan.clip_norm,
        size,
        plan.neighbours,
    )


def clip_rows(messages: np.ndarray, clip_norm: float) -> np.ndarray:
    """Scale each row down to ``clip_norm``; a row that is not finite counts as zero."""
    norms = np.linalg.norm(messages, axis=-1, keepdims=True)
    finite = np.isfinite(norms)
    if not finite.all():
        messages = np.where(finite, messages, 0)
        norms = np.where(finite, norms, 0)
    factor = np.minimum(1.0, clip_norm / np.maximum(norms, np.finfo(messages.dtype).tiny))
    return messages * factor.astype(messages.dtype)


#: the rows of the table that exist without further machinery
MECHANISMS: dict[tuple[str, str], Mechanism] = {
    ("record", "silo"): SiloGradients(),
    ("record", "server"): ServerGradients(),
    ("silo", "silo"): SiloMessages(),
    ("silo", "server"): ServerMessages(),
}
