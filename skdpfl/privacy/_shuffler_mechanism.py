"""A shuffler between the silos and the server: messages without a sender.

    unit     trust     class              noised                        released by
    record   shuffler  ShuffledGradients  each record's clipped gradient  the shuffler

A round's messages, one for each record of each silo's batch, are permuted before the server sees
them; it averages them all. Batches have a fixed size: a random number of messages would show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from skdpfl.privacy.calibration import Search
from skdpfl.privacy.events import Composition
from skdpfl.privacy.mechanisms import GradientTerms, Mechanism, gradient_sums
from skdpfl.privacy.precision import choose_precision
from skdpfl.privacy.sampling import Disjoint, Levels
from skdpfl.privacy.shuffling import shuffled_rounds

if TYPE_CHECKING:
    from skdpfl.privacy.plan import PrivacyPlan


@dataclass(frozen=True)
class ShuffledGradients(Mechanism):
    """Each record's clipped gradient is a message of its own with noise of its own, shuffled.

    The plan's noise multiplier z is that of one message: N(0, (z C)^2) in each coordinate, the same
    in all silos. What the server does with the messages is to add them up, so a silo of batch size
    K is simulated as one sum with noise of standard deviation z C sqrt(K).

    Notes
    -----
    **Formal guarantee.** The messages of all rounds, each round's in random order, are
    (epsilon, delta)-DP under replacement of a record, against everybody who sees them:
    :mod:`skdpfl.privacy.shuffling`, which says what is proved there. The number of messages that
    hide a record's is taken to be that of the smallest round. A silo that leaves out its noise, or
    tells the server which messages are its own, makes the others' records less hidden: the
    guarantee counts on all of them.
    """

    gradients_only = True
    #: a price takes tenths of a second, and bounds jump
    search: ClassVar[Search] = Search(start=3.0, share=0.99, narrow=1e-3)

    def composition(self, plan: PrivacyPlan, z: float, n: int, levels: Levels) -> Composition:
        if math.isinf(z):  # pure noise
            return ()
        n_rounds, rate = sum(count for _, count in levels), plan.sampling.expected_size(n) / n
        if isinstance(plan.sampling, Disjoint):  # a record is in one of the rounds only
            n_rounds, rate = 1, 1.0
        return shuffled_rounds(z, smallest_round(plan), rate, n_rounds, float(plan.delta.min()))

    def exposure(self, plan: PrivacyPlan) -> np.ndarray | None:
        return np.ones(plan.n_silos)

    def noise_on_mean(self, plan: PrivacyPlan) -> float:
        each = plan.record_shares * self._std(plan)
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def gradient_terms(self, plan: PrivacyPlan, size: int, dtype: np.dtype) -> GradientTerms:
        std = self._std(plan)
        precision, clip = choose_precision(gradient_sums(plan, std, size), dtype)
        return GradientTerms(clip, std, plan.expected_sizes, precision)

    def _std(self, plan: PrivacyPlan) -> np.ndarray:
        """Return the noise on the sum of a silo's messages."""
        return plan.noise_multiplier * plan.clip_norm * np.sqrt(plan.expected_sizes)


def smallest_round(plan: PrivacyPlan) -> int:
    """Return the number of messages of the round that has the fewest, empty rounds left out."""
    sizes = plan.expected_sizes
    if plan.schedule is None:
        return int(sizes.sum())
    return int(min((sizes[silos].sum() for silos in plan.schedule if len(silos)), default=1))
