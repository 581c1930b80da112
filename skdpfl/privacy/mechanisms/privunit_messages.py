"""Silo unit under pure local privacy: PrivUnit for directions and ScalarDP for norms of messages.

The base class is in ``whole_silos``, the randomisers and their guarantees in ``privunit`` and
``scalardp``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.events import Approximate, Composition, compose
from skdpfl.privacy.mechanisms.base import Senders, Statistics
from skdpfl.privacy.mechanisms.privunit import (
    N_UNIFORMS,
    PrivUnitMechanism,
    largest_error,
    split_epsilon,
)
from skdpfl.privacy.mechanisms.scalardp import ScalarDP
from skdpfl.privacy.mechanisms.whole_silos import WholeMessages, within
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.release import DOUBLE, NoisedSum
from skdpfl.privacy.sampling import Levels

#: the largest epsilon per message that PrivUnit and ScalarDP support
MOST_EPSILON = 20.0


@dataclass(frozen=True)
class PrivUnitMessages(WholeMessages):
    """Server not trusted, pure local privacy: direction by PrivUnit, norm by ScalarDP.

    The noise multiplier is the reciprocal of a message's epsilon. In addition to the message, a
    silo sends two functions of the private level of its norm: unbiased estimates of its square, and
    of whether it is at the highest level. From these the clip norm is learnt at no privacy cost.
    """

    gaussian = False
    serves = ("silo", "silo")
    least_noise = 1 / MOST_EPSILON

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return compose((Approximate(1 / level), count) for level, count in levels)

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        return NoisedSum(0.0, 0.0, clip_norm)

    def randomiser(self, plan: PublicNumbers, size: int, clip_norm: float) -> PrivUnitMechanism:
        """Return the randomiser of a round's messages."""
        return PrivUnitMechanism(*split_epsilon(self._epsilon(plan), size), clip_norm)

    def _epsilon(self, plan: PublicNumbers) -> float:
        return min(MOST_EPSILON, 1 / float(plan.noise_multiplier[0]))

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        randomiser = self.randomiser(plan, kept.shape[-1], by.clip_norm)
        uniforms = by.keys.uniform_block("message level", by.silos, by.round, (N_UNIFORMS,))
        normals = by.keys.normal_block("message", by.silos, by.round, kept.shape[1:], DOUBLE)
        sent = randomiser.randomise(kept, uniforms, normals)
        extra = [sent.squared_norms] if self.squared_norms else []
        if self.clipping is not None:
            extra.append(1 - _at_top(sent.squared_norms, randomiser.norm_randomiser))
        return np.column_stack([sent.messages, *extra])

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        norm = within(float(extra[0]), clip_norm) if self.squared_norms else float("nan")
        return Statistics(norm, float("nan") if self.clipping is None else float(extra[-1]))

    def noise_norm(self, plan: PublicNumbers, size: int) -> float:
        each = largest_error(*split_epsilon(self._epsilon(plan), size), size)
        each *= float(np.square(plan.weights).sum()) / plan.silo_fraction
        return plan.clip_norm * float(np.sqrt(each))

    def noise_on_share(self, plan: PublicNumbers) -> float:
        # the level is wrong with probability k / (e^eps + k); the split of epsilon hardly
        # depends on the number of coordinates
        norms = self.randomiser(plan, 100, 1.0).norm_randomiser
        variance = norms.other * (1 - norms.other) / norms.contrast**2
        return float(np.sqrt(variance * np.square(plan.weights).sum() / plan.silo_fraction))


def _at_top(squares: np.ndarray, norms: ScalarDP) -> np.ndarray:
    """Return unbiased estimates of whether norms were rounded to the highest level."""
    top = squares == norms.squares[-1]
    return (top - norms.other) / norms.contrast
