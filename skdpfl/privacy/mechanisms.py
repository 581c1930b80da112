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
Every noised sum S is snapped: what leaves is ``rint(S / g) g + rint(N / g) g``, added exactly, with
g a power of two. That is a function of ``snap(S) + N``, an ideal Gaussian mechanism on a query of
L2 sensitivity at most ``sensitivity(S) + g sqrt(size)``; the clip norm is reduced by as much
(:func:`skdpfl.privacy.grid.reduced_clip`), so the priced multiplier is met exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpfl.privacy.events import Composition, Exact, Gaussian, PoissonGaussian, compose
from skdpfl.privacy.random import Streams
from skdpfl.privacy.sampling import Levels
from skdpfl.privacy.snapping import Snapping, snapping

if TYPE_CHECKING:
    from skdpfl.privacy.plan import PrivacyPlan


class GradientTerms(NamedTuple):
    """What a silo needs to release a gradient, each of shape (n_silos,).

    ``clip``: the norm each record is clipped to; ``std``: the noise on the sum (0: none);
    ``grid``: the grid it is snapped to (0: none); ``divisor``: the public normaliser.
    """

    clip: np.ndarray
    std: np.ndarray
    grid: np.ndarray
    divisor: np.ndarray


class Aggregate(NamedTuple):
    """What the server has summed: weighted messages and their weights."""

    total: np.ndarray
    weight: float


@dataclass(frozen=True)
class Mechanism:
    """One row of the table. The defaults add no noise anywhere."""

    #: the server may only be given sums of fresh gradients
    gradients_only = False

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        """Name what one silo of n records releases at multiplier z over all its steps."""
        raise NotImplementedError

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        """Return the silos' terms; by default gradients are exact means."""
        nothing = np.zeros(plan.n_silos)
        return GradientTerms(nothing + np.inf, nothing, nothing, plan.expected_sizes)

    def send(
        self, plan: PrivacyPlan, messages: np.ndarray, silos: np.ndarray, round: int, keys: Streams
    ) -> np.ndarray:
        """Return the messages (n, size) as they leave their silos."""
        return messages

    def release(
        self, plan: PrivacyPlan, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        """Return the mean message of the cohort as it leaves the aggregate."""
        return aggregate.total / aggregate.weight


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

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        std = plan.noise_multiplier * plan.clip_norm
        terms = _snap_each(plan, std * plan.smallest_factor, size, dtype)
        clip = np.array([s.clip_norm for s in terms])
        grid = np.array([s.grid for s in terms])
        return GradientTerms(clip, std, grid, plan.expected_sizes)


@dataclass(frozen=True)
class ServerGradients(Mechanism):
    """Record unit, server trusted: noise once, on the cohort's weighted sum of gradients.

    One record of silo i moves that sum by at most D C w_i / (q_i n_i), D = 2 or 1. The noise has
    one standard deviation s for all, so silo i has the multiplier s / (C w_i / (q_i n_i)).
    """

    gradients_only = True

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        clip = np.full(plan.n_silos, self._snapping(plan, size).clip_norm)
        nothing = np.zeros(plan.n_silos)
        return GradientTerms(clip, nothing, nothing, plan.expected_sizes)

    def release(
        self, plan: PrivacyPlan, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        total = np.asarray(aggregate.total, dtype=np.float64)
        scale = float(plan.record_shares.max())
        snap = self._snapping(plan, total.size)
        std = self._std(plan) / scale * plan.factors[round][0]
        noise = keys.stream("aggregate", round=round).normal(total.shape) * std
        return snap.release(total / scale, noise) * scale / aggregate.weight

    def _std(self, plan: PrivacyPlan) -> float:
        return float((plan.noise_multiplier * plan.record_shares).max()) * plan.clip_norm

    def _snapping(self, plan: PrivacyPlan, size: int) -> Snapping:
        # in units in which the most exposed record moves the sum by the clip norm
        std = self._std(plan) / float(plan.record_shares.max()) * plan.smallest_factor
        return snapping(plan.clip_norm, std, size, plan.neighbours, np.dtype(np.float64))


@dataclass(frozen=True)
class SiloMessages(Mechanism):
    """Silo unit, server not trusted: each silo clips and noises its whole message."""

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        return compose((Gaussian(level), count) for level, count in levels)

    def send(
        self, plan: PrivacyPlan, messages: np.ndarray, silos: np.ndarray, round: int, keys: Streams
    ) -> np.ndarray:
        std = float(plan.noise_multiplier[0]) * plan.clip_norm
        snap = snapping(plan.clip_norm, std, messages.shape[-1], plan.neighbours)
        noise = keys.normal_block("message", silos, round, messages.shape[-1:], np.float64) * std
        clipped = clip_rows(messages.astype(np.float64), snap.clip_norm)
        return snap.release(clipped, noise).astype(messages.dtype)


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

    def send(
        self, plan: PrivacyPlan, messages: np.ndarray, silos: np.ndarray, round: int, keys: Streams
    ) -> np.ndarray:
        return clip_rows(messages, self._snapping(plan, messages.shape[-1]).clip_norm)

    def release(
        self, plan: PrivacyPlan, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        total = np.asarray(aggregate.total, dtype=np.float64)
        largest = float(plan.weights.max())
        std = float(plan.noise_multiplier[0]) * plan.clip_norm
        noise = keys.stream("aggregate", round=round).normal(total.shape) * std
        snap = self._snapping(plan, total.size)
        return snap.release(total / largest, noise) * (largest / plan.silo_fraction)

    def _snapping(self, plan: PrivacyPlan, size: int) -> Snapping:
        std = float(plan.noise_multiplier[0]) * plan.clip_norm
        return snapping(plan.clip_norm, std, size, plan.neighbours, np.dtype(np.float64))


def clip_rows(messages: np.ndarray, clip_norm: float) -> np.ndarray:
    """Scale each row down to ``clip_norm``; a row that is not finite counts as zero."""
    norms = np.linalg.norm(messages, axis=-1, keepdims=True)
    finite = np.isfinite(norms)
    if not finite.all():
        messages = np.where(finite, messages, 0)
        norms = np.where(finite, norms, 0)
    factor = np.minimum(1.0, clip_norm / np.maximum(norms, np.finfo(messages.dtype).tiny))
    return messages * factor.astype(messages.dtype)


def _snap_each(plan: PrivacyPlan, std: np.ndarray, size: int, dtype: np.dtype) -> list[Snapping]:
    """Return the snapping of each silo, computing it once for each distinct noise."""
    made: dict[float, Snapping] = {}
    for value in std.tolist():
        if value not in made:
            made[value] = snapping(plan.clip_norm, value, size, plan.neighbours, dtype)
    return [made[value] for value in std.tolist()]


#: the rows of the table that exist without further machinery
MECHANISMS: dict[tuple[str, str], Mechanism] = {
    ("record", "silo"): SiloGradients(),
    ("record", "server"): ServerGradients(),
    ("silo", "silo"): SiloMessages(),
    ("silo", "server"): ServerMessages(),
}
