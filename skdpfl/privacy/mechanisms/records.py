"""Record unit: clipped gradient sums are noised by each silo, by the server or behind a shuffler.

    unit     trust     class              noised                              released by
    record   silo      SiloGradients      each silo's clipped gradient sums   each silo
    record   server    ServerGradients    the cohort's weighted sum of those  the server
    record   shuffler  ShuffledGradients  each record's clipped gradient      the shuffler
    record   shuffler  ShuffledSums       each silo's sum, bit by bit         the shuffler

The guarantees of the first two are in :mod:`skdpfl.privacy.mechanisms`. A shuffler permutes a
round's messages before the server sees them, so that nobody knows who sent which. With a shuffler,
batches need a fixed size, because the server sees the number of messages; and all records have
equal weight, because a factor on its messages would identify a silo.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from skdpfl.privacy.calibration import Search
from skdpfl.privacy.events import Composition, compose
from skdpfl.privacy.mechanisms import binomial
from skdpfl.privacy.mechanisms.base import Aggregate, GradientTerms, Mechanism, Senders
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import (
    DOUBLE,
    SINGLE,
    GradientSums,
    NoisedSum,
    PrecisionError,
    choose_precision,
    grid_for,
    relative_error,
)
from skdpfl.privacy.sampling import Disjoint, Halving, Levels, PoissonSampling, WithReplacement
from skdpfl.privacy.shuffling import shuffled_levels


@dataclass(frozen=True)
class _RecordGradients(Mechanism):
    """Base class: sums of records' clipped gradients, with noise from the silos or added later."""

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return plan.sampling.composition(n, levels)

    def noise_on_sums(self, plan: PublicNumbers) -> np.ndarray:
        """Return the standard deviation of the noise for which each silo's sum is clipped."""
        return plan.noise_multiplier * plan.clip_norm

    def errors_apart(self, plan: PublicNumbers) -> np.ndarray:
        """Return a bound on the errors after each silo's sum, in the units of that sum."""
        return np.zeros(plan.n_silos)

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        sums = GradientSums(
            plan.known_sizes,
            plan.largest_batches,
            self.noise_on_sums(plan),
            *plan.factor_range,
            plan.clip_norm,
            size,
            plan.neighbours,
            self.errors_apart(plan),
        )
        coarsest = SINGLE if self.fresh_noise and not self.noised_later else DOUBLE
        precision, noised = choose_precision(sums, dtype, coarsest)
        by_silos = None if self.noised_later else noised
        return GradientTerms(noised.clip, plan.expected_sizes, by_silos, precision)


@dataclass(frozen=True)
class SiloGradients(_RecordGradients):
    """Record unit, server not trusted: each silo noises its own gradients."""

    serves = ("record", "silo")

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        each = plan.record_shares * plan.noise_multiplier * plan.clip_norm
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))


@dataclass(frozen=True)
class ServerGradients(_RecordGradients):
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

    def exposure(self, plan: PublicNumbers) -> np.ndarray | None:
        return plan.record_shares

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        return self._std(plan) / plan.silo_fraction * plan.excess_of_shares

    def noise_on_sums(self, plan: PublicNumbers) -> np.ndarray:
        # its share of the noise, in units in which its records have the clip norm
        return self._std(plan) / plan.record_shares

    def errors_apart(self, plan: PublicNumbers) -> np.ndarray:
        # a silo's sum is divided by the normaliser, multiplied by the weight, added to the others
        # and divided by the grid: n_silos + 4 operations, the rounding of its share included
        error = relative_error((plan.n_silos + 4, DOUBLE)) * _largest_sum(plan)
        return error / plan.record_shares

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


def _largest_sum(plan: PublicNumbers) -> float:
    """Bound the norm of a cohort's weighted sum of clipped gradients."""
    return float(plan.record_shares @ plan.largest_batches) * plan.clip_norm


def n_sums(plan: PublicNumbers) -> int:
    """Return the number of sums that a server, or a shuffler, releases."""
    none = 0 if plan.schedule is None else sum(len(c) == 0 for c in plan.schedule)
    return plan.n_rounds - none + plan.spare_rounds


@dataclass(frozen=True)
class _Shuffled(_RecordGradients):
    """Base class: shuffled messages, with the same noise for all silos."""

    serves = ("record", "shuffler")

    def check(self, plan: PublicNumbers) -> None:
        super().check(plan)
        _check_shuffled(plan)

    def exposure(self, plan: PublicNumbers) -> np.ndarray | None:
        return np.ones(plan.n_silos)


@dataclass(frozen=True)
class ShuffledGradients(_Shuffled):
    """Each record's clipped gradient is a separate message with its own noise; they are shuffled.

    The plan's noise multiplier z is that of one message: N(0, (z C)^2) in each coordinate, the same
    in all silos. The server adds the messages up, so a silo of batch size K is simulated as one sum
    with noise of standard deviation z C sqrt(K).

    Notes
    -----
    **Formal guarantee.** The messages of all rounds, each round's in random order, are
    (epsilon, delta)-DP under replacement of a record, against everyone who sees them: the proof is
    in :mod:`skdpfl.privacy.shuffling`. Rounds of different noise are priced separately. The
    number of messages among which a record's is hidden is that of the smallest round. The guarantee
    assumes that all silos add their noise and do not tell the server which messages they sent.
    """

    gradients_only = True
    #: computing a price takes tenths of a second, and the bounds are not continuous
    search: ClassVar[Search] = Search(start=3.0, share=0.99, narrow=1e-3)

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        met, rate = _releases_of_record(plan, n, levels)
        return shuffled_levels(met, smallest_round(plan), rate, float(plan.delta.min()))

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        each = plan.record_shares * self.noise_on_sums(plan)
        return float(np.sqrt(np.square(each).sum() / plan.silo_fraction))

    def noise_on_sums(self, plan: PublicNumbers) -> np.ndarray:
        return _shared_noise(plan) * plan.clip_norm * np.sqrt(plan.expected_sizes)


@dataclass(frozen=True)
class ShuffledSums(_Shuffled):
    """The vector-sum protocol: silos send bits, and the shuffler reveals only their sums.

    The plan's noise multiplier z is that on the sum over all silos: the protocol's binomial noise
    is at least as private as a Gaussian of z C (:mod:`skdpfl.privacy.mechanisms.binomial`). A silo
    rounds its sum of clipped gradients at random to the protocol's grid and adds its share of the
    noise bits. The noise is about that of a trusted server; the price is communication
    (:meth:`message_bits`).

    Notes
    -----
    **Formal guarantee.** The numbers of ones of each coordinate, of all rounds, are
    (epsilon, delta)-DP under replacement of a record, against everyone who sees the shuffled bits:
    a round is dominated by a Gaussian release of multiplier ``protocol(plan, z).noise_multiplier``
    and a procedure that fails with probability ``failure``; both are priced, at the z of each round
    and with the bits of the smallest round. If a share s of the silos omits its noise bits, the
    multiplier is smaller by sqrt(1 - s). The penalty's gradient is public and not part of the sums.
    :mod:`skdpfl.privacy.mechanisms.binomial` bounds the error of simulating the bits.
    """

    gradients_only = True
    noised_later = True
    least_noise = binomial.LEAST_NOISE
    #: prices are not continuous, because the number of bits is an integer
    search: ClassVar[Search] = Search(share=0.99, narrow=1e-4)

    def check(self, plan: PublicNumbers) -> None:
        super().check(plan)
        if plan.size is None:
            raise ValueError(
                "The price of a sum in bits depends on its number of coordinates: give size."
            )

    def n_releases(self, plan: PublicNumbers) -> int:
        return n_sums(plan)

    def protocol(self, plan: PublicNumbers, z: float) -> binomial.BinomialSum:
        """Return the protocol of the smallest round at noise multiplier z."""
        assert plan.size is not None  # checked with the plan
        return _protocol(
            max(z, binomial.LEAST_NOISE),
            plan.size,
            plan.clip_norm,
            smallest_cohort(plan),
            int(plan.expected_sizes.max()),
        )

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        met, rate = _releases_of_record(plan, n, levels)
        rounds = [self.protocol(plan, level).composition(count, rate) for level, count in met]
        return compose(part for parts in rounds for part in parts)

    def message_bits(self, plan: PublicNumbers) -> int:
        """Return the largest number of bits that a silo sends in a round."""
        return max(self._run(plan, r).bits_per_contributor for r in range(plan.n_rounds))

    def noise_on_mean(self, plan: PublicNumbers) -> float:
        protocol = self.protocol(plan, _shared_noise(plan))
        n_silos = plan.n_silos * plan.silo_fraction
        p = protocol.probability
        each = protocol.noise_bits * p * (1 - p) + 1 / 4  # the rounding's variance at most
        noise = protocol.unit * math.sqrt(n_silos * each)
        return noise / (float(plan.expected_sizes.sum()) * plan.silo_fraction)

    def gradient_terms(self, plan: PublicNumbers, size: int, dtype: np.dtype) -> GradientTerms:
        most = self.protocol(plan, _shared_noise(plan) * plan.factor_range[1])
        if most.noise_bits * plan.n_silos > binomial.MOST_BITS:
            raise PrecisionError(f"{most.noise_bits} bits of each silo are too many to simulate.")
        return super().gradient_terms(plan, size, dtype)

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        unit, sizes = self._run(plan, by.round).unit, plan.expected_sizes[by.silos, None]
        uniforms = by.keys.uniform_block("rounding", by.silos, by.round, kept.shape[-1:])
        return np.floor(kept * (sizes / unit) + uniforms) * (unit / sizes)

    def release(
        self, plan: PublicNumbers, aggregate: Aggregate, round: int, keys: Streams
    ) -> np.ndarray:
        protocol, scale = self._run(plan, round), float(plan.expected_sizes.sum())
        bits = protocol.noise_bits * int(np.rint(aggregate.divisor * plan.n_silos))
        stream = keys.stream("aggregate", round=round)
        ones = np.rint(aggregate.total * (scale / protocol.unit))  # the weights are sizes / scale
        ones += binomial.binomial_draws(bits, protocol.probability, stream, aggregate.total.shape)
        ones -= bits * protocol.probability
        return ones * (protocol.unit / scale) / aggregate.divisor

    def _run(self, plan: PublicNumbers, round: int) -> binomial.BinomialSum:
        """Return the protocol that runs in a round."""
        return self.protocol(plan, _shared_noise(plan) * float(plan.factors[round][0]))


def _shared_noise(plan: PublicNumbers) -> float:
    """Return the noise multiplier of all silos: the largest of their priced ones."""
    return float(plan.noise_multiplier.max())


def _check_shuffled(plan: PublicNumbers) -> None:
    """Raise for plans that the guarantees do not cover."""
    if plan.neighbours != "replace":
        raise ValueError(
            f'trust="shuffler" is priced under neighbours="replace" only; got {plan.neighbours!r}.'
        )
    if isinstance(plan.sampling, PoissonSampling | WithReplacement | Halving):
        raise ValueError(
            'trust="shuffler" needs batches of a fixed size, since the number of messages is '
            f"visible; got {plan.sampling!r}. Use WithoutReplacement, Disjoint or Everyone."
        )
    sizes = plan.expected_sizes
    if not np.allclose(plan.weights * sizes.sum(), sizes * plan.weights.sum(), rtol=1e-9, atol=0.0):
        raise ValueError(
            'trust="shuffler" gives every record the same weight, since the sender of a message is '
            "unknown: weights must be proportional to the silos' batch sizes (plan.expected_sizes)."
        )


@lru_cache(maxsize=256)
def _protocol(
    z: float, dimension: int, clip_norm: float, n_silos: int, records: int
) -> binomial.BinomialSum:
    return binomial.binomial_sum(
        z, dimension=dimension, clip_norm=clip_norm, n_contributors=n_silos, records=records
    )


def _releases_of_record(plan: PublicNumbers, n: int, levels: Levels) -> tuple[Levels, float]:
    """Return the noise multipliers of a record's releases, and the sampling rate of a batch."""
    present = [(z, count) for z, count in levels if count and math.isfinite(z)]  # inf: pure noise
    if isinstance(plan.sampling, Disjoint):  # one round only, perhaps that of the least noise
        return ([(min(present)[0], 1)] if present else []), 1.0
    return present, plan.sampling.expected_size(n) / n


def smallest_cohort(plan: PublicNumbers) -> int:
    """Return the smallest number of silos in a round, empty rounds excluded."""
    if plan.schedule is None:
        return plan.n_silos
    return min((len(silos) for silos in plan.schedule if len(silos)), default=1)


def smallest_round(plan: PublicNumbers) -> int:
    """Return the smallest number of messages in a round, empty rounds excluded."""
    sizes = plan.expected_sizes
    if plan.schedule is None:
        return int(sizes.sum())
    return int(min((sizes[silos].sum() for silos in plan.schedule if len(silos)), default=1))
