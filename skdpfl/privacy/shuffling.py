"""Shuffled minibatch SGD: what rounds of shuffled noisy gradients cost, with proofs.

In a round every one of M silos draws K of its n records (uniformly, without replacement) and sends,
for each of them, its clipped gradient plus noise ``N(0, (z C)^2 I)``, as a separate message. A
shuffler mixes all ``n_reports = M K`` messages; the server averages them::

    noise on the mean gradient     z C / sqrt(M K)                  (trust="shuffler")
    against silos that add theirs  z_silo C / (K sqrt(M))           (trust="silo")

so shuffling helps where ``z < z_silo / sqrt(K)``: many silos, few records of each per round. Both
have far more noise than a release of the sum alone (``z C / (M K)``). The vector-sum protocol in
:mod:`skdpfl.privacy.mechanisms.binomial` is close to that, for the same trust.

Formal guarantee
----------------
Unit: one record of one silo is replaced. Adversary: everyone who sees the shuffled messages of all
rounds; the shuffler and the other silos are trusted to take part, with noise.

1. *One round, batches fixed.* Proved below for Gaussian messages, which are not pure local
randomisers: for every alpha >= 1 and all inputs the hockey-stick divergence is at most the
   number computed there, a total variation distance included. The local guarantee of the record's
   own message holds as well; the smaller of the two is used, for each distance of the two inputs.
2. *Sampling of records.* Let g = K / n. With the record drawn the round compares
   neighbours; without it the round is the same for both; and a batch with the record is coupled
   with one in which another record stands in its place, again a neighbour. Hence by advanced joint
   convexity [1]_ ::

       delta'(log(1 + g (e^eps - 1))) <= g delta(eps),       eps >= 0, in both directions

   Batches must have a fixed size, because the number of messages is visible. The participation of
   a silo in a round is public and gives no amplification at record level.
3. *Rounds* compose, adaptively, with fresh noise (each its own amount) and batches, as any
   releases with known profiles do (:class:`~skdpfl.privacy.events.Profile`).

Profiles are convex in e^eps, so bounds at a few points imply bounds in between.

Formal guarantee: a blanket for Gaussian messages
-------------------------------------------------
n reports ``y_i ~ N(x_i, I)``, ``|x_i| <= 1/z`` (lengths in units of the noise), are shuffled. One
input is a or b; the adversary knows these and all the others. Let mu = |a - b|, t the coordinate
along a - b from the middle of the segment [a, b], phi and Phi the standard normal's density and
distribution, ``P = N(a, I)``, ``Q = N(b, I)``.

1. *A blanket.* For s in the segment ``N(s, I) >= min(P, Q)``, as the density at y falls with
   |y - s|. Let x_i be at distance e from its nearest point s of the segment. Then ::

       int (kappa min(P, Q) - N(x_i, I))_+  <=  kappa delta_G(log 1/kappa; e)

   with delta_G the Gaussian profile. For if s is an end of the segment, ``min(P, Q) <= N(s, I)``,
   and ``kappa delta_G`` is the integral with N(s, I) in its place. If s lies inside, x_i - s is
   perpendicular to the segment: ``min(P, Q) = m(t) phi(rest)``, and ``N(x_i, I) >= m(t)`` times a
   normal density of the rest that is centred e away. So the law of every other report can be
   replaced by one that is at least ``omega = kappa min(P, Q)`` everywhere, at a total variation
   distance of ``(n - 1) kappa delta_G(log 1/kappa; e)`` for all of them.
2. *Hiding.* Each other sender now draws from omega / |omega| with probability |omega|; let all
   other reports be public. The rest is a sample of m reports in random order, m - 1 from omega and
   one from P or Q. Its hockey-stick divergence is, with X = (P - alpha Q) / omega under omega and X
   = 0 otherwise [2]_::

       H_alpha = (1/n) E (X_1 + ... + X_n)_+

   because m is 1 + Bin(n - 1, |omega|), and ``C(n-1, m-1) / m = C(n, m) / n``.
3. *Geometry.* ``|a|^2 + |b|^2 <= 2 / z^2`` bounds the middle o of the segment by
   ``|o|^2 + (mu/2)^2 <= 1/z^2``, so ``z e <= z |x_i - o| <= 1 + sqrt(1 - h^2)``, h = z mu / 2 <= 1.
   H falls as kappa grows; and it grows with mu, since shrinking t and adding noise turns P and Q
   into any nearer pair and their minimum into something below that pair's. So cells of h with mu
   from the upper end and e from the lower end cover all pairs.
4. Reports with |t| > reach are assumed to be revealed, which costs at most P(|t| > reach).

Together ``delta <= H + (1 + alpha) * distance + P(|t| > reach)`` in each cell. Exchanging a and b
mirrors t: both directions have the same bound.

An upper bound on E (X_1 + ... + X_n)_+
---------------------------------------
X takes values on a grid of width h and is 0 otherwise; the distribution of the sum S of n
independent copies is the n-th power of a discrete Fourier transform.

1. :func:`spread` moves mass between two grid points onto them and keeps its mean: a
   mean-preserving spread, hence larger in the convex order. Sums of independent terms preserve this
   order, and ``x -> x_+`` is convex. The variance of X grows by at most h^2 / 4.
2. The transform is periodic. Mass below its range is counted as if it were above, which is too
   large. Mass above it is counted elsewhere; for W the upper end and any theta >= 1/W it is ::

       E (S; S > W)  <=  W exp(-theta W) (E exp(theta X))^n

   since ``x exp(-theta x)`` decreases beyond 1/theta. This is added.
3. A relative error c of each frequency changes the distribution of S by at most ``c |law|_2`` in
   the Euclidean norm, hence the result by ``W sqrt(size) c |law|_2``, with c a few unit roundoffs
   times ``n + 2 log2(size)``. This is added as well, and negative probabilities count as zero.
   (Powers use repeated squaring: each of the ``n - 1`` products contributes at most
   ``sqrt(5) / 2``.)

References
----------
.. [1] Balle, Barthe & Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018.
.. [2] Balle, Bell, Gascon & Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from skdpfl._arguments import check_count, check_number, check_rate, check_share
from skdpfl.privacy.events import Composition, Profile, compose
from skdpfl.privacy.pricing.gaussian import gaussian_delta
from skdpfl.privacy.sampling import Levels

#: Ends of the cells of h; the worst pairs are neither near nor antipodal.
CELLS = (0.0, 0.4, 0.52, 0.6, 0.66, 0.71, 0.76, 0.8, 0.84, 0.88, 0.92, 0.96, 1.0)

#: Grid steps per root mean square of X given that it is not zero.
_STEPS = 8

#: No more grid points than this for one X: beyond, there is no bound.
_MOST_POINTS = 2**15


def largest_kappa(distance: float, deficit: float) -> float:
    """Return kappa <= 1 with ``kappa delta_G(log 1/kappa; distance) <= deficit``."""

    def excess(depth: float) -> float:
        log_delta = math.log(max(gaussian_delta(distance, depth), 1e-300))
        return log_delta - depth - math.log(deficit)

    if excess(0.0) <= 0.0:
        return 1.0
    deepest = 1.0
    while excess(deepest) > 0.0:
        deepest *= 2.0
    return math.exp(-brentq(excess, 0.0, deepest, xtol=1e-12) - 1e-9)


def blanket_delta(mu: float, kappa: float, n: int, alpha: float, slack: float) -> float:
    """Return ``H_alpha + P(|t| > reach)`` for n reports, or 1 where that cannot be computed.

    ``mu`` is the distance of the two inputs in units of the noise; the other reports' laws are at
    least ``kappa`` min(P, Q); ``alpha`` is exp(epsilon), at least 1; tails of a probability of at
    most ``slack`` are revealed.
    """
    reach = mu / 2 - ndtri(slack / 2)
    law = _law_of_ratio(mu, kappa, alpha, reach)
    if law is None:
        return 1.0
    # X is scaled by kappa: so is its sum
    hidden = positive_part_of_sum(law, n, slack * n * kappa / 10) / (n * kappa)
    return hidden + float(ndtr(mu / 2 - reach) + ndtr(-mu / 2 - reach))


def _law_of_ratio(mu: float, kappa: float, alpha: float, reach: float) -> GridLaw | None:
    """Return the distribution of ``kappa X`` on a grid, None if the grid would be too large.

    For t in (0, reach): min(P, Q) = Q, of density phi(t + mu/2), and kappa X = exp(mu t) - alpha;
    for t = -u < 0 it is P, the same density at u, and kappa X = 1 - alpha exp(mu u).
    """
    if mu * reach > 100.0:
        return None
    top, bottom = math.exp(mu * reach) - alpha, 1.0 - alpha * math.exp(mu * reach)
    step = _size_of_ratio(mu, alpha, reach) / _STEPS
    first, last = math.floor(bottom / step), math.ceil(top / step)
    if last - first > _MOST_POINTS:
        return None
    edges = step * np.arange(first, last + 1)
    # t is 0 below the middle and u above it: each is needed on its own side
    middle = min(max(1, int(np.searchsorted(edges, 1.0 - alpha))), len(edges) - 1)
    t = np.clip(np.log(edges[middle:] + alpha) / mu, 0.0, reach)
    u = np.clip(np.log((1.0 - edges[:middle]) / alpha) / mu, 0.0, reach)
    t, u = np.append(0.0, t), np.append(u, 0.0)
    # integrals of phi(t + mu/2) and exp(mu t) phi(t + mu/2) = phi(t - mu/2), increasing in the edge
    masses, moments = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    mass_t, tilted_t = np.diff(-ndtr(-t - mu / 2)), np.diff(-ndtr(mu / 2 - t))
    mass_u, tilted_u = np.diff(ndtr(-u - mu / 2)), np.diff(ndtr(mu / 2 - u))
    masses[middle - 1 :] += mass_t
    masses[:middle] += mass_u
    moments[middle - 1 :] += tilted_t - alpha * mass_t
    moments[:middle] += mass_u - alpha * tilted_u
    return spread(first, step, kappa * masses, kappa * moments)


def _size_of_ratio(mu: float, alpha: float, reach: float) -> float:
    """Root mean square of kappa X given that it is not zero."""

    def half(j: int) -> float:  # int over (0, reach) of exp(j mu t) phi(t + mu/2)
        shift = mu / 2 - j * mu
        tail = float(ndtr(-shift) - ndtr(-reach - shift))
        return math.exp((shift**2 - (mu / 2) ** 2) / 2) * tail

    zero, one, two = half(0), half(1), half(2)
    return math.sqrt(((1.0 + alpha**2) * (two + zero) - 4.0 * alpha * one) / (2.0 * zero))


#: Points at which a round's profile is computed.
_N_NODES = 33

#: Start and upper end of the search for the last of them.
_FIRST, _FURTHEST = 0.02, 300.0

#: More noise is priced as this much, which tells more: near it ratios differ from 1 by roundings.
_MOST_NOISE = 1e7


@lru_cache(maxsize=256)
def shuffled_profile(
    noise_multiplier: float, n_reports: int, sampling_rate: float = 1.0, *, slack: float = 1e-9
) -> Profile:
    """Return the privacy profile of a round of shuffled minibatch SGD, under replacement.

    Its deltas are upper bounds. ``noise_multiplier`` is z, the standard deviation of each message's
    noise over the clip norm; ``n_reports`` the number of messages of the round, of all silos
    together; ``sampling_rate`` g = K / n, the share of its records that the record's silo draws;
    ``slack`` the largest probability of revealed tails per round, which add up over rounds.
    """
    check_number("noise_multiplier", noise_multiplier, low=0, open_low=True)
    check_count("n_reports", n_reports)
    check_rate("sampling_rate", sampling_rate)
    check_share("slack", slack)
    if noise_multiplier == math.inf:
        return Profile((0.0,), (0.0,))

    bound = RoundBound(min(noise_multiplier, _MOST_NOISE), n_reports, slack)
    epsilons = np.linspace(0.0, *_nodes(bound))
    amplified = np.log1p(sampling_rate * np.expm1(epsilons))
    deltas = np.minimum.accumulate([bound.delta(epsilon) for epsilon in epsilons.tolist()])
    return Profile(tuple(amplified.tolist()), tuple((sampling_rate * deltas).tolist()))


def _nodes(bound: RoundBound) -> tuple[float, int]:
    """Return the last point of a profile and the number of points.

    Where the messages' own noise is all that protects, revealed tails do not matter, and the
    profile goes on: a fit that pays for them alone spends a twentieth of its delta on tails, so
    deltas that stay above 20 tails would make its price infinite.
    """
    first = last = _last_epsilon(bound)
    if bound.delta(last) <= 20.0 * bound.slack:
        return last, _N_NODES
    while last < _FURTHEST and bound.delta(last) > 2.0 * bound.slack:
        last *= 1.3
    return last, math.ceil(_N_NODES * last / first)


def _last_epsilon(bound: RoundBound) -> float:
    """Return an epsilon beyond which the bound hardly decreases."""
    slack = bound.slack

    def near(epsilon: float) -> float:  # where the revealed tails begin to matter
        return 0.4 * slack * (3.0 + math.exp(min(epsilon, 10.0)))

    last = _FIRST
    while last < _FURTHEST:
        far = max(50.0 * slack, near(1.3 * last))
        if bound.delta(1.3 * last, enough=far) <= far:
            break
        last *= 1.3
    here = 1.0 if last == _FIRST else bound.delta(last)
    while here > near(last) and last < _FURTHEST:
        before, here = here, bound.delta(1.3 * last)
        if here < 50.0 * slack and here > 0.8 * before:
            break
        last *= 1.3
    return last


class RoundBound:
    """The bound of :mod:`skdpfl.privacy.shuffling`, epsilon by epsilon.

    It is the largest of the cells' bounds. A cell's bound is at most the local guarantee at its mu,
    so cells whose local guarantee is below another cell's bound are skipped.
    """

    def __init__(self, noise_multiplier: float, n_reports: int, slack: float) -> None:
        self.n_reports, self.slack = n_reports, slack
        self._distance = slack / 4  # in total variation, of all other reports together
        self._cells = [self._cell(*ends, noise_multiplier) for ends in itertools.pairwise(CELLS)]
        self._first = len(self._cells) // 2  # the cell that was the worst the last time

    def _cell(self, low: float, high: float, noise_multiplier: float) -> tuple[float, float]:
        """Return mu and kappa of a cell."""
        beside = (1.0 + math.sqrt(1.0 - low**2)) / noise_multiplier
        others = self.n_reports - 1
        kappa = largest_kappa(beside, self._distance / others) if others else 0.0
        return 2.0 * high / noise_multiplier, kappa

    def delta(self, epsilon: float, enough: float = math.inf) -> float:
        """Return the bound; if it exceeds ``enough``, any number between the two."""
        worst, descending = 0.0, range(len(self._cells) - 1, -1, -1)
        for cell in sorted(descending, key=lambda cell: cell != self._first):
            mu, kappa = self._cells[cell]
            alone = gaussian_delta(mu, epsilon)
            if alone <= worst:
                continue
            value = min(alone, self._hidden(mu, kappa, math.exp(epsilon)))
            if value > worst:
                worst, self._first = value, cell
            if worst > enough:
                break
        return min(1.0, worst)

    def _hidden(self, mu: float, kappa: float, alpha: float) -> float:
        """Return a cell's delta, given the other reports."""
        if self.n_reports == 1:
            return 1.0
        blanket = blanket_delta(mu, kappa, self.n_reports, alpha, self.slack / 2)
        return blanket + (1.0 + alpha) * self._distance


#: Share of delta used for tails and total variation distances, all rounds together.
_SLACK_SHARE = 0.05


def shuffled_levels(
    levels: Levels, n_reports: int, sampling_rate: float, delta: float
) -> Composition:
    """Return the releases of rounds with several noise multipliers: pairs (z, n_rounds)."""
    n_rounds = sum(count for _, count in levels)
    slack = min(1e-3, _SLACK_SHARE * delta / (max(1, n_rounds) * sampling_rate))
    return compose(
        (shuffled_profile(z, n_reports, sampling_rate, slack=slack), count)
        for z, count in levels
        if count
    )


class GridLaw(NamedTuple):
    """Probabilities ``masses`` of the values ``step * (first + 0, 1, 2, ...)``; 0 has the rest."""

    first: int
    masses: np.ndarray
    step: float

    @property
    def values(self) -> np.ndarray:
        """The values that ``masses`` belong to."""
        return self.step * (self.first + np.arange(len(self.masses)))

    def mirrored(self) -> GridLaw:
        """Return the law of -X."""
        return GridLaw(1 - self.first - len(self.masses), self.masses[::-1], self.step)


def spread(first: int, step: float, masses: np.ndarray, moments: np.ndarray) -> GridLaw:
    """Distribute the mass of cells to their ends.

    Cell i is the interval ``step * [first + i, first + i + 1]``; ``masses`` (cells,) are the
    probabilities of the cells and ``moments`` (cells,) the integrals of the value over them.
    """
    left = step * (first + np.arange(len(masses)))
    upper = np.clip((moments - left * masses) / step, 0.0, masses)
    return GridLaw(first, np.append(masses - upper, 0.0) + np.append(0.0, upper), step)


def positive_part_of_sum(law: GridLaw, n: int, tolerance: float) -> float:
    """Return an upper bound on ``E (X_1 + ... + X_n)_+``, for n terms of this law.

    It is at most ``tolerance`` too large by the finite range.
    """
    upper, beyond = _range(law, n, tolerance)
    lower, _ = _range(law.mirrored(), n, tolerance)
    below, above = math.ceil(lower / law.step), math.ceil(upper / law.step)
    size = next_fast_len(max(below + above, len(law.masses)) + 1, real=True)
    circle = np.zeros(size)
    np.add.at(circle, (law.first + np.arange(len(law.masses))) % size, law.masses)
    circle[0] += 1.0 - law.masses.sum()
    probabilities = irfft(_power(rfft(circle), n), size)
    above = size - below
    total = law.step * float(np.arange(above) @ np.maximum(probabilities[:above], 0.0))
    rounding = 4.0 * np.finfo(float).eps * (n + 2.0 * math.log2(size))
    rounding *= law.step * above * math.sqrt(size) * float(np.linalg.norm(probabilities))
    return total + beyond + rounding


def _power(frequencies: np.ndarray, n: int) -> np.ndarray:
    """Return the n-th power; values below e^-90 are set to zero."""
    matters = np.abs(frequencies) ** 2 > math.exp(-180.0 / n)
    powers = np.zeros_like(frequencies)
    powers[matters] = _integer_power(frequencies[matters], n)
    return powers


def _integer_power(base: np.ndarray, n: int) -> np.ndarray:
    """Return the n-th power by repeated squaring, which overwrites ``base``."""
    power = np.ones_like(base)
    while True:
        if n & 1:
            power *= base
        n >>= 1
        if not n:
            return power
        np.square(base, out=base)


def _range(law: GridLaw, n: int, tolerance: float) -> tuple[float, float]:
    """Return W and a bound on ``E (S; S > W)``, at most the tolerance."""
    values, masses = law.values, law.masses
    deviation = math.sqrt(n * float(masses @ values**2)) or law.step
    largest = max(float(values[-1]), law.step)
    end = max(n * float(masses @ values) + 7.0 * deviation, largest)
    least, most = min(1.0 / end, 1.0 / deviation), min(600.0 / largest, 60.0 / deviation)
    thetas = least * (most / least) ** np.linspace(0.0, 1.0, 10)
    logs = n * np.log1p(_exponential_moments(law, thetas) - masses.sum())
    while True:
        bounds = np.where(thetas * end >= 1.0, math.log(end) + logs - thetas * end, math.inf)
        if float(bounds.min()) <= math.log(tolerance):
            return end, math.exp(float(bounds.min()))
        end *= 1.2


def _exponential_moments(law: GridLaw, thetas: np.ndarray) -> np.ndarray:
    """Return ``sum_i masses_i exp(theta values_i)`` for each theta, from few exponentials.

    Value i lies i' steps below the last one of its block, of B values; blocks end with the law::

        exp(theta value) = exp(theta end of block) exp(-theta i' step),    the latter at most 1
    """
    size = len(law.masses)
    block = math.isqrt(size) + 1
    n_blocks = -(-size // block)
    padded = np.append(np.zeros(n_blocks * block - size), law.masses).reshape(n_blocks, block)
    last = law.first + size - 1
    ends = np.exp(np.outer(thetas, law.step * (last - block * np.arange(n_blocks)[::-1])))
    within = np.exp(np.outer(thetas, -law.step * np.arange(block)[::-1]))
    return np.einsum("ij,ij->i", ends @ padded, within)
