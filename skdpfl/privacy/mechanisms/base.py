"""What a mechanism is: where messages are clipped and noised, and what that is called.

One round::

    silo     kept_i   = keep(message_i)         what the silo may remember of it: clipped
             sent_i   = send(kept_i)            what leaves it, (size + n_extra,)
    server   total    = sum_i w_i sent_i
             released = release(total)          what leaves the aggregate, (size + n_extra,)
             squared norm, unclipped share = statistics(the last n_extra numbers)

A mechanism has no numbers of its own but switches: clip norm, noise multiplier, weights and rates
are read from the one frozen plan, by the code that runs it and by the code that prices it. The clip
norm of messages may change from round to round by what was released before: the engine hands it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skdpfl.privacy.calibration import THOROUGH, Search
from skdpfl.privacy.events import Composition, Exact
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import FreshNoise, NoisedSum, Precision, StepNoise
from skdpfl.privacy.sampling import Levels


class GradientTerms(NamedTuple):
    """What silos need to release gradients.

    ``clip`` (n_silos,): the norm each record is clipped to; ``divisor`` (n_silos,): the normaliser;
    ``noised``: the silos' noised sums, None if no silo adds noise; ``precision``: how sums are
    computed, None if it does not matter.
    """

    clip: np.ndarray
    divisor: np.ndarray
    noised: NoisedSum | None = None
    precision: Precision | None = None


class Aggregate(NamedTuple):
    """What the server has summed: weighted messages, and what to divide by for their mean.

    ``clip_norm`` is the norm that messages were clipped to (unit "silo" only).
    """

    total: np.ndarray
    divisor: float
    clip_norm: float = float("inf")


class Statistics(NamedTuple):
    """What was released of the messages beside their mean; NaN: nothing.

    ``squared_norm``: an estimate of the mean squared norm of the clipped messages before noise;
    ``unclipped``: of the share of the silos whose messages were within the clip norm.
    """

    squared_norm: float = float("nan")
    unclipped: float = float("nan")


@dataclass(frozen=True)
class Mechanism:
    """One row of the table. The defaults add no noise anywhere."""

    #: the server may only be given sums of fresh gradients
    gradients_only = False
    #: sums are noised after they left the silos: what is public is added to the released mean, for
    #: the noise, its grid and the rounding are made for sums of clipped gradients and nothing else
    noised_later = False
    #: how to look for the noise that meets a budget
    search: ClassVar[Search] = THOROUGH
    #: releases have a noise multiplier
    gaussian = True
    #: no smaller noise multiplier can be run
    least_noise = 0.0
    #: the unit and the trust that it is for; None: any
    serves: ClassVar[tuple[str, str] | None] = None

    def __init_subclass__(cls) -> None:
        if "noise" in vars(cls) and "composition" not in vars(cls):
            raise TypeError(
                f"{cls.__name__} brings noise of its own, so it has to say what that costs: define "
                "composition() as well."
            )

    @property
    def n_extra(self) -> int:
        """How many numbers are sent beside the message."""
        return 0

    def check(self, plan: PublicNumbers) -> None:
        """Raise where the mechanism is not for this plan."""
        if self.serves is not None and self.serves != (plan.unit, plan.trust):
            unit, trust = self.serves
            raise ValueError(
                f"{type(self).__name__} is for unit={unit!r} with trust={trust!r}; got "
                f"unit={plan.unit!r} with trust={plan.trust!r}."
            )
        if self.fresh_noise:
            return
        if (plan.unit, plan.trust) != ("record", "silo"):
            raise ValueError(
                f"{type(self).__name__}.noise is about the noise on silos' gradients, that is "
                'unit="record" with trust="silo"; elsewhere a mechanism overrides send or release.'
            )
        if plan.noise_schedule is not None:
            raise ValueError(
                f"{type(self).__name__} correlates the noise of steps, which takes one grid for "
                f"all of them: noise_schedule must be None, got {plan.noise_schedule!r}."
            )

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        """Name what one silo of n records releases at multiplier z over all its steps."""
        raise NotImplementedError

    def noise(self, plan: PublicNumbers, streams: Streams, size: int, dtype: np.dtype) -> StepNoise:
        """Return the noise of silos' gradients (``size`` numbers), in units of the grid.

        A subclass may bring noise that is correlated over steps, and then says in ``composition``
        what that costs (:mod:`skdpfl.privacy.release.rounding`, part 4). It is released in float64.
        """
        return FreshNoise(streams, "noise", size, dtype)

    @property
    def fresh_noise(self) -> bool:
        """Whether every step's noise is drawn anew."""
        return type(self).noise is Mechanism.noise

    def n_releases(self, plan: PublicNumbers) -> int:
        """Return how many noisy values left the silo, or the server, that released most."""
        return int(plan.levels[1].sum(axis=1).max())

    def exposure(self, plan: PublicNumbers) -> np.ndarray | None:
        """Return e (n_silos,) where one noise s serves all, z_i = s / e_i; None: each its own."""
        return None

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        """Return the noise's standard deviation on each coordinate of a round's released mean.

        Before the schedule's factors; the root mean square over cohorts.
        """
        return 0.0

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        """Return the silos' terms; by default gradients are exact means."""
        return GradientTerms(np.full(plan.n_silos, np.inf), plan.expected_sizes)

    def keep(self, plan: PublicNumbers, messages: np.ndarray, clip_norm: float) -> np.ndarray:
        """Return the messages (n, size) as their silos remember them."""
        return messages

    def send(
        self,
        plan: PublicNumbers,
        kept: np.ndarray,
        silos: np.ndarray,
        round: int,
        keys: Streams,
        clip_norm: float,
    ) -> np.ndarray:
        """Return the messages (n, size + n_extra) as they leave their silos."""
        return kept

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        """Return the mean message (size + n_extra,) of the cohort as it leaves the aggregate."""
        return aggregate.total / aggregate.divisor

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        """Read the means (n_extra,) of what was sent beside the messages."""
        return Statistics()

    def next_clip_norm(
        self, plan: PublicNumbers, clip_norm: float, unclipped: float, round: int
    ) -> float:
        """Return the clip norm of the messages of the round after ``round``."""
        return clip_norm


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Everything is exact; an explicit class, so that no infinity is ever multiplied by zero.

    Parameters
    ----------
    squared_norms : bool, default=False
        Whether the algorithm reads the mean squared norm of the messages.
    """

    squared_norms: bool = False

    @property
    def n_extra(self) -> int:
        return int(self.squared_norms)

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return ((Exact(), 1),)

    def send(
        self,
        plan: PublicNumbers,
        kept: np.ndarray,
        silos: np.ndarray,
        round: int,
        keys: Streams,
        clip_norm: float,
    ) -> np.ndarray:
        return np.column_stack([kept, squared_norms(kept)]) if self.squared_norms else kept

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        return Statistics(float(extra[0])) if self.squared_norms else Statistics()


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """Return each row's squared norm, added up in double precision."""
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
