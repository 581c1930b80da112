r"""Vector sums through a shuffler, in bits: the protocol of Cheu et al. [1]_, priced as a Gaussian.

n contributors hold vectors of norm at most C (one record's clipped gradient) or sums of these. For
every coordinate j, contributor i sends ``v_ij`` ones, padded with zeros to a fixed number of bits,
then b noise bits, each a one with probability p. A shuffler mixes all bits of a coordinate, so that
only the number of ones is visible. With g levels per C, the unit ``h = C / g`` and an offset that
makes all values non-negative ::

    v_ij   = floor(x_ij / h + offset + Uniform[0, 1))             E v_ij = x_ij / h + offset
    ones_j = sum_i v_ij + Bin(N, p),   N = n b                    E Bin(N, p) = N p
    sum_j  = h (ones_j - N p - n offset)                          E sum_j = sum_i x_ij
    Var sum_j = h^2 (N p (1 - p) + sum_i f_ij (1 - f_ij)),         f the fractional parts

The paper rounds to g levels of [0, 2C], with p = 1/4 and a closed form for b that is orders of
magnitude larger than necessary. Here p = 1/2, which has no skew, and N is chosen to match a
Gaussian release with noise of standard deviation z C: see below. Each contributor sends ``d`` times
its levels plus b bits.

Formal guarantee
----------------
Unit: one record of norm at most C is replaced, in one contributor's sum. Adversary: everyone who
sees the shuffled bits of any number of rounds. The other contributors add their noise bits; if a
share s of them does not, N is (1 - s) N.

1. *Shifts.* Round both neighbours' vectors with the same uniforms: their values then differ by
   integers k_j with ``|k_j - (x_j - x'_j) / h| < 1``, hence ``|k| <= K = 2 g + sqrt(d)``.
   Divergences are jointly convex, so the worst such shift bounds them.
2. *One coordinate* (proved in :mod:`skdpfl.privacy.mechanisms.binomial_law`). There are a number D,
   near the inverse standard deviation of Bin(N, p), and a law within total variation tau of Bin(N,
   p), whose shift by any k is dominated by the pair ``N(0, 1)``, ``N(k D, 1)``.
3. *All coordinates.* Domination holds coordinate by coordinate, so the shifted sums are dominated
   by the pair ``N(0, 1)``, ``N(K D, 1)``: a Gaussian release with **z = 2 / (K D)**, up to a total
   variation distance of d tau.
4. *Together* ``delta <= delta_G(eps; K D) + (1 + exp(eps)) d tau``. For every eps this is at most
   the delta of the Gaussian composed with a procedure that fails with probability ``failure``. So
   the bound composes.

References
----------
.. [1] Cheu, Joseph, Mao & Peng, "Shuffle private stochastic convex optimization", ICLR 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdpfl.privacy.events import Approximate, Composition, FixedSizeGaussian, Gaussian
from skdpfl.privacy.mechanisms.binomial_law import (
    TooFewBits,
    binomial_draws,
    dominating_gaussian,
)
from skdpfl.privacy.randomness.streams import Stream

#: The least noise multiplier of a sum of bits.
LEAST_NOISE = 0.12


@dataclass(frozen=True)
class BinomialSum:
    """One vector sum through a shuffler; :func:`binomial_sum` chooses levels and bits.

    Parameters
    ----------
    dimension : int
        d, the number of coordinates.
    clip_norm : float
        C, the largest norm of one record's vector.
    n_contributors : int
        n, each sending its own vector; silos, or single records.
    levels : int
        g, grid steps per C.
    noise_bits : int
        b, noise bits per contributor and coordinate.
    records : int, default=1
        The most records in one contributor's vector: its norm is at most ``records * C``.
    probability : float, default=0.5
        p, the probability that a noise bit is a one.
    """

    dimension: int
    clip_norm: float
    n_contributors: int
    levels: int
    noise_bits: int
    records: int = 1
    probability: float = 0.5

    def __post_init__(self) -> None:
        for name in ("dimension", "n_contributors", "levels", "noise_bits", "records"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        if not 0.0 < self.clip_norm < math.inf:
            raise ValueError(f"clip_norm must be positive and finite, got {self.clip_norm!r}.")
        if not 0.0 < self.probability < 1.0:
            raise ValueError(f"probability must be in (0, 1), got {self.probability!r}.")

    # ---- privacy ------------------------------------------------------------------------------

    @property
    def total_bits(self) -> int:
        """N, the noise bits of all contributors in one coordinate."""
        return self.n_contributors * self.noise_bits

    @property
    def largest_shift(self) -> float:
        """K, the largest norm of the integer shift when a record is replaced."""
        # the last factor allows for the rounding of x / h in floating point
        return (2.0 * self.levels + math.sqrt(self.dimension)) * (1.0 + 1e-9)

    @cached_property
    def _priced(self) -> tuple[float, float]:
        """mu = K D of the dominating Gaussian, and the probability of failure."""
        return dominating_gaussian(
            self.total_bits, self.probability, self.largest_shift, self.dimension
        )

    @property
    def noise_multiplier(self) -> float:
        """z of the Gaussian release that dominates this one (replace: N(0, z^2), N(2, z^2))."""
        return 2.0 / self._priced[0]

    @property
    def failure(self) -> float:
        """What a release adds to the delta of the Gaussian: about 1e-20 or less."""
        return self._priced[1]

    def composition(self, n_rounds: int = 1, sampling_rate: float = 1.0) -> Composition:
        """Return the privacy cost of a record for the rounds it takes part in.

        There are ``n_rounds`` over all records, or with ``sampling_rate < 1`` over fresh batches of
        that share, drawn without replacement; 1 round if each record is in one batch only.
        """
        sampled = sampling_rate < 1.0
        z = self.noise_multiplier
        event = FixedSizeGaussian(z, sampling_rate) if sampled else Gaussian(z)
        return ((event, n_rounds), (Approximate(0.0, self.failure), n_rounds))

    @property
    def bits_per_contributor(self) -> int:
        """Number of bits that one contributor sends in a round."""
        return self.dimension * (2 * self.records * self.levels + self.noise_bits)

    # ---- computation --------------------------------------------------------------------------

    @property
    def unit(self) -> float:
        """h = C / g, the value of one bit."""
        return self.clip_norm / self.levels

    def encode(self, sums: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Return how many ones each contributor sends, without its noise: integers (n, d).

        ``sums`` (n, d) add up at most ``records`` vectors each, clipped to norm C; ``uniforms``
        (n, d) lie in [0, 1).
        """
        offset = self.records * self.levels
        values = np.floor(sums / self.unit + offset + uniforms)
        return np.clip(values, 0, 2 * offset).astype(np.int64)

    def decode(self, ones: np.ndarray) -> np.ndarray:
        """Return the estimated sums (d,) from the shuffler's numbers of ones (d,)."""
        offset = self.n_contributors * self.records * self.levels
        return self.unit * (ones - self.total_bits * self.probability - offset)

    def release(self, sums: np.ndarray, stream: Stream) -> np.ndarray:
        """Simulate a round: return the noisy sum (d,) of the contributors' vectors (n, d).

        The number of noise ones is drawn directly.
        """
        if sums.shape != (self.n_contributors, self.dimension):
            raise ValueError(
                f"sums must have shape {(self.n_contributors, self.dimension)}, got {sums.shape}."
            )
        values = self.encode(sums, stream.random(sums.shape)).sum(axis=0)
        noise = binomial_draws(self.total_bits, self.probability, stream, self.dimension)
        return self.decode(values + noise)

    def variance(self, sums: np.ndarray | None = None) -> np.ndarray | float:
        """Return the variance of each coordinate of the noisy sum.

        Exact (d,) for given vectors (n, d); without them an upper bound for any.
        """
        bits = self.total_bits * self.probability * (1.0 - self.probability)
        if sums is None:
            return self.unit**2 * (bits + self.n_contributors / 4)
        rest = sums / self.unit - np.floor(sums / self.unit)
        return self.unit**2 * (bits + (rest * (1.0 - rest)).sum(axis=0))


def binomial_sum(
    noise_multiplier: float,
    *,
    dimension: int,
    clip_norm: float,
    n_contributors: int,
    records: int = 1,
    fineness: float = 32.0,
) -> BinomialSum:
    """Choose levels and noise bits that match a Gaussian of the given noise multiplier z.

    z, the noise over C, is at least 0.12 (where epsilon is far above 100). ``fineness`` is the
    number of levels over sqrt(d): the noise is 1 / (2 fineness) above z C, bits grow with its
    square. The result's ``noise_multiplier`` is at least z, its noise a few per cent above z C.
    """
    if not LEAST_NOISE <= noise_multiplier < math.inf:
        raise ValueError(
            f"noise_multiplier must be at least {LEAST_NOISE}, got {noise_multiplier!r}."
        )
    levels = max(fineness * math.sqrt(dimension), 64.0 / noise_multiplier, 8.0)
    # the rounding of n values stays well below the noise
    levels = math.ceil(max(levels, 4.0 * math.sqrt(n_contributors) / noise_multiplier))
    while True:
        try:
            return _enough_bits(
                BinomialSum(dimension, clip_norm, n_contributors, levels, 1, records),
                noise_multiplier,
            )
        except TooFewBits:  # a finer grid needs more of them
            levels *= 2


def _enough_bits(draft: BinomialSum, noise_multiplier: float) -> BinomialSum:
    """Return the draft with the noise bits that reach the noise multiplier."""
    bits = (noise_multiplier * draft.largest_shift) ** 2
    while True:
        found = replace(draft, noise_bits=math.ceil(bits / draft.n_contributors))
        reached = found.noise_multiplier
        if reached >= noise_multiplier:
            return found
        bits = max(found.total_bits + 1, bits * (noise_multiplier / reached) ** 2)
