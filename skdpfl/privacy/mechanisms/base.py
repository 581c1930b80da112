"""Base class of mechanisms: where messages are clipped and noised, and the privacy cost.

One round::

    silo     kept_i   = keep(message_i)         clipped; the silo may remember it
             sent_i   = send(kept_i)            sent to the server, (size + n_extra,)
    server   total    = sum_i w_i sent_i
             released = release(total)          released, (size + n_extra,)
             squared norm, unclipped share = statistics(the last n_extra numbers)

A mechanism has options but no numbers: clip norm, noise multiplier, weights and rates are read from
the same frozen plan by the code that runs and by the code that prices. The clip norm of messages
may change between rounds, depending on earlier releases: the engine passes it.
"""

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
    """The numbers that silos use to release gradients.

    ``clip`` (n_silos,): the norm each record is clipped to; ``divisor`` (n_silos,): the normaliser;
    ``noised``: the silos' noised sums, None if no silo adds noise; ``precision``: the arithmetic
    for sums, None if it does not matter.
    """

    clip: np.ndarray
    divisor: np.ndarray
    noised: NoisedSum | None = None
    precision: Precision | None = None


class Aggregate(NamedTuple):
    """The server's sum of weighted messages, and the divisor for their mean.

    ``clip_norm`` is the clip norm of the messages (unit "silo" only), ``among`` the number of silos
    whose messages were added up.
    """

    total: np.ndarray
    divisor: float
    clip_norm: float = float("inf")
    among: int = 1


class Senders(NamedTuple):
    """The silos (n,) that send messages, the round, their random streams and the clip norm.

    ``among`` is the number of silos in the round, these and all others.
    """

    silos: np.ndarray
    round: int
    keys: Streams
    clip_norm: float
    among: int = 1


class Statistics(NamedTuple):
    """Statistics of messages released with their mean; NaN if not released.

    ``squared_norm`` estimates the mean squared norm of the clipped messages before noise,
    ``unclipped`` the share of silos whose messages were within the clip norm.
    """

    squared_norm: float = float("nan")
    unclipped: float = float("nan")


@dataclass(frozen=True)
class Mechanism:
    """Base class of mechanisms. The defaults add no noise."""

    #: whether the server may receive sums of fresh gradients only
    gradients_only = False
    #: whether sums are noised after they leave the silos. The penalty's gradient is then added to
    #: the released mean, as noise, grid and rounding are computed for clipped gradients only
    noised_later = False
    #: whether silos share a sum's noise: messages are then weighted, and whole numbers on one grid
    shared = False
    #: how to search the noise that meets a budget
    search: ClassVar[Search] = THOROUGH
    #: whether releases have a noise multiplier
    gaussian = True
    #: the smallest noise multiplier that can run
    least_noise = 0.0
    #: the supported unit and trust; None: any
    serves: ClassVar[tuple[str, str] | None] = None

    def __init_subclass__(cls) -> None:
        if "noise" in vars(cls) and "composition" not in vars(cls):
            raise TypeError(
                f"{cls.__name__} defines its own noise, so it must also define composition(), the "
                "cost of that noise."
            )

    @property
    def n_extra(self) -> int:
        """The number of values sent in addition to the message."""
        return 0

    def check(self, plan: PublicNumbers) -> None:
        """Raise if the mechanism does not support this plan."""
        if self.serves is not None and self.serves != plan.guarantee.row:
            unit, trust = self.serves
            raise ValueError(
                f"{type(self).__name__} is for unit={unit!r} with trust={trust!r}; got "
                f"unit={plan.unit!r} with trust={plan.trust!r}."
            )
        if self.fresh_noise:
            return
        if plan.guarantee.row != ("record", "silo"):
            raise ValueError(
                f"{type(self).__name__}.noise is the noise on silos' gradients, which exists only "
                'for unit="record" with trust="silo"; for other units and trusts override send or '
                "release."
            )
        if plan.noise_schedule is not None:
            raise ValueError(
                f"{type(self).__name__} correlates the noise of steps, which needs one grid for "
                f"all of them, so noise_schedule must be None; got {plan.noise_schedule!r}."
            )

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        """Return the privacy events of a silo of n records at multiplier z, over all its steps.

        If the price depends on the number of coordinates of a message, use ``plan.size``.
        """
        raise NotImplementedError

    def noise(self, plan: PublicNumbers, streams: Streams, size: int, dtype: np.dtype) -> StepNoise:
        """Return the noise of silos' gradients (``size`` numbers), in units of the grid.

        A subclass may use noise that is correlated over steps. Its ``composition`` must then return
        its cost (:mod:`skdpfl.privacy.release`, part 4). It is released in float64.
        """
        return FreshNoise(streams, "noise", size, dtype)

    @property
    def fresh_noise(self) -> bool:
        """Whether the noise of every step is independent."""
        return type(self).noise is Mechanism.noise

    def n_releases(self, plan: PublicNumbers) -> int:
        """Return the number of noisy releases of the silo, or server, with the most."""
        return int(plan.levels[1].sum(axis=1).max())

    def exposure(self, plan: PublicNumbers) -> np.ndarray | None:
        """Return e (n_silos,) if all silos share noise s, z_i = s / e_i; None: separate noise."""
        return None

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        """Return the noise's standard deviation on each coordinate of a round's released mean.

        Before the schedule's factors; the root mean square over cohorts.
        """
        return 0.0

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        """Return the numbers for silos' gradients; by default gradients are exact means."""
        return GradientTerms(np.full(plan.n_silos, np.inf), plan.expected_sizes)

    def keep(self, plan: PublicNumbers, messages: np.ndarray, clip_norm: float) -> np.ndarray:
        """Return the messages (n, size) that the silos may remember."""
        return messages

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        """Return the messages (n, size + n_extra) that the silos send."""
        return kept

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        """Return the released mean message (size + n_extra,) of the cohort."""
        return aggregate.total / aggregate.divisor

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        """Return the statistics from the means (n_extra,) of the additional numbers."""
        return Statistics()

    def next_clip_norm(
        self, plan: PublicNumbers, clip_norm: float, unclipped: float, round: int
    ) -> float:
        """Return the clip norm of the messages of the round after ``round``."""
        return clip_norm


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """No noise: messages are exact.

    A finite clip norm clips a record's gradient, or a silo's message, as it does with noise. A
    separate class avoids products of infinity and zero.

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

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        clip = plan.clip_norm if plan.unit != "silo" else np.inf
        return GradientTerms(np.full(plan.n_silos, clip), plan.expected_sizes)

    def keep(self, plan: PublicNumbers, messages: np.ndarray, clip_norm: float) -> np.ndarray:
        clips = plan.unit == "silo" and np.isfinite(clip_norm)
        return clip_rows(messages, clip_norm) if clips else messages

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        return np.column_stack([kept, squared_norms(kept)]) if self.squared_norms else kept

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        return Statistics(float(extra[0])) if self.squared_norms else Statistics()


def squared_norms(rows: np.ndarray) -> np.ndarray:
    """Return each row's squared norm, computed in float64."""
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)


@np.errstate(over="ignore", invalid="ignore")
def clip_rows(messages: np.ndarray, clip_norm: float) -> np.ndarray:
    """Scale each row down to ``clip_norm``; rows whose norm is not finite become zero."""
    squares = np.add.reduce(messages * messages, axis=-1, keepdims=True)
    # entries whose squares underflow count with the largest such value
    norms = np.sqrt(squares + 2 * messages.shape[-1] * np.finfo(messages.dtype).tiny)
    factor = np.minimum(1.0, clip_norm / norms)
    finite = np.isfinite(norms)
    if not np.logical_and.reduce(finite, axis=None):
        messages = np.where(finite, messages, 0)
        factor = np.where(finite, factor, 0)
    return messages * factor.astype(messages.dtype)
