"""Vector sums through a shuffler, bit by bit: the protocol of Cheu et al. [1]_.

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
2. *One coordinate* (proved below). There are a number D,
   near the inverse standard deviation of Bin(N, p), and a law within total variation tau of Bin(N,
   p), whose shift by any k is dominated by the pair ``N(0, 1)``, ``N(k D, 1)``.
3. *All coordinates.* Domination holds coordinate by coordinate, so the shifted sums are dominated
   by the pair ``N(0, 1)``, ``N(K D, 1)``: a Gaussian release with **z = 2 / (K D)**, up to a total
   variation distance of d tau.
4. *Together* ``delta <= delta_G(eps; K D) + (1 + exp(eps)) d tau``. For every eps this is at most
   the delta of the Gaussian composed with a procedure that fails with probability ``failure``. So
   the bound composes.

Formal guarantee: one coordinate
--------------------------------
Let ``l = log pmf`` of Bin(N, p), and consider a range of values around N p.

1. *Tails.* Let X have the pmf of Bin(N, p) in the range, and outside it geometric tails that
   continue the last ratios of neighbouring probabilities, normalised. Its total variation distance
   from Bin(N, p) is at most ``tau``, the mass of the geometric tails: they lie above the true ones.
2. *Curvature.* In the range ``2 l(m) - l(m-1) - l(m+1) = log(1 + 1/(N-m)) + log(1 + 1/m)`` lies
   between 0 and a constant c (largest at the ends of the range); in the tails it is 0. So X is
   log-concave, the likelihood ratio of X + k and X is monotone, and tests of one against the other
   are thresholds.
3. *One step is at most D.* Let ``y(m) = Phi^-1(P(X >= m))`` and D the largest ``y(m) - y(m+1)``. It
   is attained, as steps tend to 0 in geometric tails. Where it is, with ``B(y) = Phi(y + D) -
   Phi(y)``, m has probability ``B(y(m+1))``, and m + 1 and m - 1 have at most
   ``B(y(m+1) - D)`` and ``B(y(m+1) + D)``. As ``(log B)'' <= -1 + D^2/4`` (a normal variable
   confined to an interval of length D has a variance of at most D^2/4), the second difference of l
   at m is at most ``-D^2 (1 - D^2/4)``, and it is at least -c. If neighbouring probabilities are
   within a factor of exp(1/2), so are neighbouring P(X >= m) and P(X < m), and D is at most
   ``sqrt(pi/2)`` (the normal's Mills ratio) ``< 1.26``. So D is on the lower branch:
   ``D^2 <= 2 (1 - sqrt(1 - c))``.
4. *A Gaussian dominates.* A threshold test of X against X + k has a power of at most
   ``Phi(Phi^-1(size) + k D)``, that of N(0, 1) against N(k D, 1). The largest power of a test of X
   is, as a function of the size, linear between thresholds; the Gaussian's is concave, so it is at
   least that for every size. By Blackwell's theorem (X, X + k) is a garbling of the Gaussian pair.
5. *d coordinates*, shifted by k of norm K: garblings of N(0, 1) against N(mu, 1), mu = K D, up to
   d tau in total variation, so ``delta <= delta_G(eps) + (1 + exp(eps)) d tau``. A failure
   probability f with ``(1 + exp(E)) d tau <= f (1 - delta_G(0))`` and ``delta_G(E) + (1 + exp(E)) d
   tau <= f`` for some E makes that at most ``f + (1 - f) delta_G(eps)``: by the first inequality up
   to E, by the second beyond, as delta falls. This is the profile of the Gaussian beside a release
   that fails with probability f.

*Simulation.* The above is about bits that silos send. :func:`binomial_draws` draws their number in
double precision. Its probabilities are p(m) (1 + e(m)), with |e| below 2e-8 for N up to 1e8 (the
distribution function's error; compared with exact ratios) and, for p = 1/2, below 1e-14 s up to
2^52 (the normal quantiles' error), s the standard deviation in bits. So the loss of a simulated
release changes by e(m - k) - e(m) in each coordinate that is shifted, independently over
coordinates and rounds: over n of them by at most ``2 e sqrt(2 n log(1 / b))`` except with
probability b (Hoeffding), 3e-4 for a million, N = 1e8 and b = 1e-12. Uniforms are multiples of
2^-53, and of 2^-73 or less where a tail is below 2^-20, so the tails have all numbers of ones up to
2^-106. None of this is priced: a fit in one process simulates the protocol, and a deployment that
sends bits has none of these errors.

References
----------
.. [1] Cheu, Joseph, Mao & Peng, "Shuffle private stochastic convex optimization", ICLR 2022.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.special import betainc, ndtr, ndtri

from skdpfl._arguments import check_count, check_number, check_positive, check_share
from skdpfl.privacy.events import Approximate, Composition, FixedSizeGaussian, Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.randomness.streams import Stream

#: The tails of all coordinates together have about this mass, and much less for large shifts.
_TAIL = 1e-26

#: More bits are not simulated: doubles would not hold all numbers of ones.
MOST_BITS = 2**52

#: Standard deviations above which the expansion is more exact than the distribution function.
_WIDE_DEVIATIONS = 5000.0

#: Uniforms this close to 0 or 1 get more digits.
_EDGE = 2.0**-20


class TooFewBits(ValueError):
    """Too few bits: no Gaussian dominates, as neighbouring counts differ too much."""


def largest_step(n: int, p: float, depth: float) -> tuple[float, float]:
    """Return D and tau for n bits that are one with probability p.

    They are for a range that contains all but about exp(-depth) of the mass.
    """
    deviation = math.sqrt(n * p * (1.0 - p))
    reach = deviation * math.sqrt(2.0 * depth) + depth  # Bernstein's inequality, rounded up
    low, high = math.floor(n * p - reach), math.ceil(n * p + reach)
    left = (low + 1.0) * (1.0 - p) / ((n - low) * p) if low > 1 else 0.0
    right = (n - high + 1.0) * p / (high * (1.0 - p)) if high < n - 1 else 0.0
    if min(left, right) < math.exp(-0.5):
        raise TooFewBits(
            f"noise_bits: {n} bits in total are too few for a Gaussian price; use more levels."
        )
    # one per cent allows for cancellation in the logarithms
    tau = 1.01 * sum(
        math.exp(_log_pmf(end, n, p)) * ratio / (1.0 - ratio)
        for end, ratio in ((low, left), (high, right))
    )
    curvature = max(math.log1p(1.0 / (n - m)) + math.log1p(1.0 / m) for m in (low, high))
    return math.sqrt(-2.0 * math.expm1(0.5 * math.log1p(-curvature))), tau


def dominating_gaussian(n: int, p: float, shift: float, dimension: int) -> tuple[float, float]:
    """Return mu and f of the module's guarantee, for n bits a coordinate, one with probability p.

    The Gaussian of mu dominates all integer shifts of a norm of at most K = ``shift``, in
    ``dimension`` coordinates.
    """
    about = shift / math.sqrt(n * p * (1.0 - p))
    if about > 20.0:
        raise TooFewBits(f"noise_bits: {n} bits in total protect nothing; use more.")
    step, tau = largest_step(n, p, about**2 + 12.0 * about + math.log(dimension / _TAIL))
    mu, distance = shift * step, dimension * tau
    ends = [(e, (1.0 + math.exp(e)) * distance) for e in mu**2 / 2 + mu * np.linspace(4, 14, 21)]
    overlap = 2.0 * float(ndtr(-mu / 2))  # 1 - delta_G(0)
    least = min(max(tv / overlap, gaussian_delta(mu, float(e)) + tv) for e, tv in ends)
    return mu, min(1.0, least)


def _log_pmf(k: int, n: int, p: float) -> float:
    """Return an upper bound on log P[Bin(n, p) = k], 0 < k < n, too large by at most 1 / (12 k).

    By Stirling: log of ``sqrt(n / (2 pi k (n - k))) exp(-n KL(k / n | p))``. Differences of
    logarithms of factorials would be lost in rounding from n = 1e13 on.
    """
    above = float(k - Fraction(p) * n)
    divergence = k * math.log1p(above / (n * p)) + (n - k) * math.log1p(-above / (n * (1.0 - p)))
    return min(0.0, 0.5 * math.log(n / (2.0 * math.pi * k * (n - k))) - divergence)


def binomial_draws(n: int, p: float, stream: Stream, shape: int | tuple[int, ...]) -> np.ndarray:
    """Draw numbers of ones from Bin(n, p): integers of a shape.

    Uniforms near 0 and 1 get 53 more binary digits, so that no probability of a tail is rounded.
    """
    u = stream.random(shape)
    k = binomial_quantiles(n, p, u)
    low, high = u < _EDGE, u > 1.0 - _EDGE
    if low.any():
        more = stream.random(int(low.sum())) * 2.0**-53
        k[low] = binomial_quantiles(n, p, u[low] + more)
    if high.any():  # from the other end, where doubles are dense
        more = stream.random(int(high.sum())) * 2.0**-53
        k[high] = n - binomial_quantiles(n, 1.0 - p, 1.0 - u[high] - more)
    return k


def binomial_quantiles(n: int, p: float, uniforms: np.ndarray) -> np.ndarray:
    """Return the quantiles of Bin(n, p) at ``uniforms``: integers of the same shape.

    From 5,000 standard deviations on they are those of a Cornish-Fisher expansion. From 500 on its
    first terms, whose error is then below 0.03, decide all but those within 0.05 of an integer. The
    distribution function decides these, and all for smaller n. The module says how close the result
    is to a binomial variable.
    """
    if n > MOST_BITS:
        raise ValueError(
            f"n={n!r} is too large: counts of ones among more than 2^52 bits cannot be simulated."
        )
    u = np.asarray(uniforms, dtype=float)
    u = np.where(u > 0.0, np.minimum(u, 1.0 - 2.0**-53), 2.0**-54)
    x, s = ndtri(u), math.sqrt(n * p * (1.0 - p))
    if s > _WIDE_DEVIATIONS:
        return _expanded(n, p, x)
    skew = (1.0 - 2.0 * p) / s
    bend = skew * (x**2 - 1) / 6  # the next terms are at most 11 / s up to 8 deviations
    # continuity correction: P(count <= k) is that of a continuous value up to k + 1/2
    place = n * p + s * (x + bend) - 0.5
    k = np.clip(np.ceil(place), 0, n)
    near = (np.abs(place - np.rint(place)) < 0.05) | (np.abs(x) > 8.0)
    todo = np.flatnonzero(near if s > 500.0 else np.ones_like(near))
    while todo.size:
        here, level = k.flat[todo], u.flat[todo]
        up = _is_below(here, n, p, level)
        down = ~up & (here > 0) & ~_is_below(here - 1, n, p, level)
        k.flat[todo] = here + up - 1.0 * down
        todo = todo[up | down]
    return k.astype(np.int64)


def _expanded(n: int, p: float, x: np.ndarray) -> np.ndarray:
    """Return the quantiles of Bin(n, p) at Phi(x), by an expansion of order 3.

    With f a smooth density that is the law at integers, of its moments, the midpoint rule makes
    P(count <= k) the integral of f up to k + 1/2 less f'(k + 1/2) / 24: as if the variance were
    smaller by 1/12.
    """
    variance = n * p * (1.0 - p)
    s = math.sqrt(variance - 1.0 / 12.0)
    skew, peak = (1.0 - 2.0 * p) / s, (1.0 - 6.0 * p * (1.0 - p)) / variance
    terms = skew * (x**2 - 1.0) / 6.0
    terms += peak * (x**3 - 3.0 * x) / 24.0 - skew**2 * (2.0 * x**3 - 5.0 * x) / 36.0
    middle = math.floor(n * p)
    place = s * (x + terms) + (n * p - middle - 0.5)
    return np.clip(middle + np.ceil(place).astype(np.int64), 0, n)


def _is_below(k: np.ndarray, n: int, p: float, level: np.ndarray) -> np.ndarray:
    """Whether P[Bin(n, p) <= k] < level, computed from the smaller of the two tails."""
    k = np.minimum(np.maximum(k, 0.0), n)
    some, rest = np.maximum(n - k, 1e-300), k + 1.0
    below = betainc(some, rest, 1.0 - p) < level
    above = betainc(rest, some, p) > 1.0 - level
    return np.where(level <= 0.5, below, above) & (k < n)


#: Levels over the root of the number of coordinates.
_FINENESS = 32.0

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
            check_count(name, getattr(self, name))
        check_positive("clip_norm", self.clip_norm)
        check_share("probability", self.probability)

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
        """The amount that a release adds to the delta of the Gaussian: about 1e-20 or less."""
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
        """Return the number of ones that each contributor sends, without noise: integers (n, d).

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
) -> BinomialSum:
    """Choose levels and noise bits that match a Gaussian of the given noise multiplier z.

    z, the noise over C, is at least 0.12 (where epsilon is far above 100). With at least 32 sqrt(d)
    levels the noise is 1 / 64 above z C; bits grow with their square. The result's
    ``noise_multiplier`` is at least z, its noise a few per cent above z C.
    """
    check_number("noise_multiplier", noise_multiplier, low=LEAST_NOISE, open_high=True)
    levels = max(_FINENESS * math.sqrt(dimension), 64.0 / noise_multiplier, 8.0)
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
        release = replace(draft, noise_bits=math.ceil(bits / draft.n_contributors))
        reached = release.noise_multiplier
        if reached >= noise_multiplier:
            return release
        bits = max(release.total_bits + 1, bits * (noise_multiplier / reached) ** 2)
