"""The sum of many independent privacy losses, and its (epsilon, delta).

With K(t) = sum_k n_k log E e^{t L_k} (n_k releases of loss L_k, finite part) the *tilted* laws

    p_k(l) e^{t l} / E e^{t L_k}

are convolved by one discrete Fourier transform, and the tilt is undone afterwards::

    P(L = l) = T(l) e^{K(t) - t l},         T: the convolution of the tilted laws
    delta(eps) = P(L = inf) + sum_{l > eps} P(L = l) (1 - e^{eps - l})

At the saddle point most of T lies near eps, and rounding errors are then relative to delta, however
small it is. The smallest tilt that makes them negligible is used, since tilted heavy-tailed losses
need a longer window.

Formal guarantee
----------------
For grid losses that dominate the true ones the result bounds the true delta (or epsilon) from
above. By Chernoff's inequality the window of the transform misses a tilted probability of at most
``outside`` on each side. Missing mass above is at most ``outside e^{K - t eps}`` untilted, and so
is what the cyclic transform moves from one end to where it is not counted; both are added to delta.
The rounding of the transform, amplified n-fold by taking powers, is added as ``n _ROUND`` in the
same way. Every tilt and every window give a bound; they decide how sharp it is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy import fft

from skdpfl.privacy.pricing.loss_pairs import GridLoss, TooFine

#: Larger exponents (of natural numbers) are not computed: they stand for infinity.
_LARGEST_EXPONENT = 600.0


class Bound(NamedTuple):
    """An upper bound, and estimates of its relative error in epsilon.

    ``missing`` is due to rounding and to losses outside the window, ``spread`` to the grid. They
    decide whether the price is computed again; the bound holds without them.
    """

    value: float
    missing: float = 0.0
    spread: float = 0.0

    @property
    def excess(self) -> float:
        """The estimated relative error of epsilon."""
        return self.missing + self.spread


@dataclass(frozen=True, eq=False)
class Window:
    """Tilted probabilities ``masses`` at ``losses``; sums are taken relative to ``centre``.

    Attributes
    ----------
    tilt, k : float
        ``masses`` are P's probabilities times e^(tilt loss - k).
    error : float
        The probability that may be missing from all masses; ``relative``: the share of each.
    n_releases : int
        The number of losses that were rounded to the grid and added.
    """

    h: float
    losses: np.ndarray
    masses: np.ndarray
    tilt: float
    centre: float
    k: float
    error: float
    n_releases: int
    relative: float = 0.0

    @property
    def scale(self) -> float:
        """The factor from sums relative to the centre to probabilities."""
        return math.exp(min(700.0, self.k - self.tilt * self.centre))

    def epsilon(self, room: float, rounded: float) -> Bound:
        """Return the smallest epsilon >= 0 at which the finite part of delta is at most ``room``.

        ``rounded`` is the probability of losses that were rounded up to infinity. The last quarter
        of the losses is tried first. A delta that is not a number exceeds it.
        """
        if not 0.0 < self.scale < math.inf:
            return Bound(math.inf, math.inf)
        size = self.losses.size
        for first in (size - 1 - size // 4, size // 2, 0):
            deltas, margins, above, above_q = self._tail_sums(first)
            if not deltas[0] <= room:
                break
        losses = self.losses[first:]
        j = int(np.flatnonzero(np.append(True, ~(deltas <= room)))[-1])
        if j == 0:  # the bound already holds at the first point
            return Bound(float(max(0.0, losses[0])))
        if j == deltas.size:
            return Bound(math.inf, math.inf)
        # between two points delta + e^epsilon * const is constant, with the left point's margin
        upper = above[j] + margins[j - 1] - room / self.scale
        step = -math.inf
        if upper > 0.0:
            step = math.log(upper / above_q[j]) if above_q[j] > 0.0 else math.inf
        between = max(losses[j - 1], self.centre + step)
        value = float(max(0.0, min(losses[j], between)))
        further = float(above_q[min(j + 1, above_q.size - 1)])
        slope = float(above_q[j]) * math.exp(min(600.0, losses[j] - self.centre))
        thinning = further / float(above_q[j]) if above_q[j] > 0.0 else 0.0
        missing = float(margins[j]) + rounded / self.scale
        return Bound(value, *self._excess(value, missing, slope, thinning))

    def delta(self, epsilon: float) -> Bound:
        """Return the finite part of delta at one epsilon."""
        distance = self.losses[self.losses > epsilon] - epsilon
        decay = np.exp(np.maximum(-self.tilt * distance, -_LARGEST_EXPONENT))
        above = self.masses[self.losses.size - distance.size :] * decay
        terms = above * -np.expm1(-distance)
        log_scale = self.k - self.tilt * epsilon
        if log_scale > _LARGEST_EXPONENT:
            return Bound(1.0, math.inf)
        missing = self.error + self.relative * float(above.sum())
        value = min(1.0, math.exp(log_scale) * (float(terms.sum()) + missing))
        of_q = above - terms
        slope = float(of_q.sum())
        thinning = float(of_q[1:].sum()) / slope if slope > 0.0 else 0.0
        return Bound(value, *self._excess(epsilon, missing, slope, thinning))

    def _excess(
        self, epsilon: float, missing: float, slope: float, thinning: float
    ) -> tuple[float, float]:
        """Estimate the relative errors of epsilon, from missing probability and from the grid.

        Missing probability changes epsilon by its share of the slope of delta (Q's probability
        above epsilon, times e^epsilon). The grid adds up to h^2/4 to the variance of each loss,
        which changes epsilon by half of that times Q's density over its probability above.
        """
        if epsilon == 0.0:
            return 0.0, 0.0
        if slope <= 0.0:
            return math.inf, math.inf
        spread = self.n_releases * self.h / 8 * (1.0 - thinning)
        return missing / slope / epsilon, spread / epsilon

    def _tail_sums(self, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Delta from each loss on, the part that may be missing, and P and Q from there on.

        All but the first are relative to the scale. P's probabilities are never rounded down, nor
        Q's up, however far from the centre.
        """
        from_centre, masses = self.losses[first:] - self.centre, self.masses[first:]
        exponent = np.maximum(-self.tilt * from_centre, -_LARGEST_EXPONENT)
        decay = np.exp(np.where(exponent < _LARGEST_EXPONENT, exponent, math.inf))
        with np.errstate(invalid="ignore"):
            above = _from_the_right(masses * decay)
        above_q = _from_the_right(
            masses * np.exp(np.minimum(600.0, -(self.tilt + 1.0) * from_centre))
        )
        with np.errstate(over="ignore", invalid="ignore"):
            deltas = above - np.exp(np.minimum(from_centre, 600.0)) * above_q
            deltas = np.maximum(np.nan_to_num(deltas, nan=math.inf, posinf=math.inf), 0.0)
            margins = self.error * decay
            if self.relative:  # else 0 times infinity, far from the centre
                margins = margins + self.relative * above
            return self.scale * (deltas + margins), margins, above, above_q


def _from_the_right(values: np.ndarray) -> np.ndarray:
    """Cumulative sums from the end."""
    return np.cumsum(values[::-1])[::-1]


#: Rounding error of the transform per release; a thousand times it for the sums over its points.
_ROUND = 1e-15

#: Share of delta that rounding, and mass outside the window, may add to it.
_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class LossSum:
    """Independent losses on one grid: ``parts`` are (loss, how many times)."""

    parts: tuple[tuple[GridLoss, int], ...]
    max_points: int

    @property
    def h(self) -> float:
        """The grid's step."""
        return self.parts[0][0].h

    @property
    def n_releases(self) -> int:
        """The number of losses."""
        return sum(n for _, n in self.parts)

    @property
    def infinite(self) -> float:
        """The probability that some loss is infinite."""
        return -math.expm1(sum(n * _log1m(grid.infinite) for grid, n in self.parts))

    @property
    def _top(self) -> float:
        """The largest finite loss."""
        return self.h * sum(n * (grid.low + grid.probs.size - 1) for grid, n in self.parts)

    @cached_property
    def _cumulants(self) -> Callable[[float], tuple[float, float, float]]:
        """K and its first two derivatives at a tilt; some tilts are asked for twice."""
        laws = tuple(((grid.losses, grid.probs), n) for grid, n in self.parts)
        return cache(partial(_cumulants, laws))

    def epsilon(self, delta: float) -> Bound:
        """Return the smallest epsilon >= 0 with delta(epsilon) <= delta."""
        room = delta - self.infinite
        if room <= 0.0:
            return Bound(math.inf, math.inf)
        saddle = self._solve(_minus_log_delta, -math.log(room))
        window = self._window(saddle, self._cumulants(saddle)[1], math.log(room))
        bound = window.epsilon(room, min(self.infinite, _SHARE * delta))
        return min(bound, Bound(max(0.0, self._top), math.inf))

    def finite_delta(self, epsilon: float, size: float) -> Bound:
        """Return the part of delta(epsilon) from finite losses, sharp if at least ``size``."""
        if epsilon >= self._top or self.infinite == 1.0:
            return Bound(0.0)
        saddle = self._solve(lambda t, k, mean, variance: mean, epsilon)
        chernoff = math.exp(min(0.0, self._cumulants(saddle)[0] - saddle * epsilon))
        bound = self._window(saddle, epsilon, math.log(size)).delta(epsilon)
        return bound._replace(value=min(chernoff, bound.value))

    def _solve(
        self, function: Callable[[float, float, float, float], float], target: float
    ) -> float:
        """Solve roughly for the tilt t >= 0 at which a function of (t, K, K', K'') is the target.

        Any tilt gives a valid bound; a good one a sharp bound.
        """
        longest = self.h * max(grid.probs.size - 1 for grid, _ in self.parts)

        def short(t: float) -> bool:
            return function(t, *self._cumulants(t)) < target

        if not short(0.0):
            return 0.0
        low = high = 1.0 / math.sqrt(max(self._cumulants(0.0)[2], 1e-300))
        while short(high):
            low, high = high, 4.0 * high
            if high * longest > 1e4 or high * self.h > 100.0:
                return high  # out of reach: the tilted loss is at its maximum
        while low == high or not short(low):
            low, high = low / 4.0, low
        for _ in range(7):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if short(middle) else (low, middle)
        return math.sqrt(low * high)

    def _window(self, saddle: float, epsilon: float, log_size: float) -> Window:
        """Convolve the tilted losses, to compute deltas of about e^log_size near ``epsilon``."""
        rounding = _ROUND * (1000 + self.n_releases)
        allowed = log_size + math.log(_SHARE)
        tilt = self._least_tilt(saddle, epsilon, allowed - math.log(rounding))
        k, mean, variance = self._cumulants(tilt)
        outside = min(-7.0, allowed - (k - tilt * epsilon))
        first, last = self._ends(tilt, k, variance, outside)
        losses = self.h * np.arange(first, last + 1)
        centre = float(losses[min(losses.size - 1, max(0, round(mean / self.h) - first))])
        masses = _convolve(self.parts, tilt, first, losses.size)
        error = 2 * math.exp(outside) + rounding
        return Window(self.h, losses, masses, tilt, centre, k, error, self.n_releases)

    def _least_tilt(self, saddle: float, epsilon: float, allowed: float) -> float:
        """The least tilt t with K(t) - t epsilon <= allowed, roughly; else the saddle."""

        def enough(t: float) -> bool:
            return self._cumulants(t)[0] - t * epsilon <= allowed

        if enough(0.0):
            return 0.0
        low, high = 0.0, saddle
        for _ in range(5):
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _ends(self, tilt: float, k: float, variance: float, outside: float) -> tuple[int, int]:
        """Grid indices beyond which lies a tilted probability of at most e^outside each."""
        first = sum(n * grid.low for grid, n in self.parts)
        last = first + sum(n * (grid.probs.size - 1) for grid, n in self.parts)
        if variance > 0.0:
            ends = []
            for sign in (1.0, -1.0):
                s, best, worse = sign * 8.0 / math.sqrt(variance), math.inf, False
                while not worse:
                    reach = (self._cumulants(tilt + s)[0] - k - outside) / (s * self.h)
                    worse = not sign * reach < best
                    best = min(best, sign * reach)
                    s /= 1.6
                ends.append(sign * best)
            last, first = min(last, math.ceil(ends[0])), max(first, math.floor(ends[1]))
        if last - first >= self.max_points:
            raise TooFine((last - first + 1) / self.max_points, of_sum=True)
        return first, last


#: Losses and probabilities of one release, and how many there are.
_Laws = tuple[tuple[tuple[np.ndarray, np.ndarray], int], ...]


def _cumulants(laws: _Laws, tilt: float) -> tuple[float, float, float]:
    """K and its first two derivatives at a tilt."""
    k = mean = variance = 0.0
    for (losses, probs), n in laws:
        top = max(tilt * float(losses[0]), tilt * float(losses[-1]))
        # bounded below, as denormal numbers are slow; no BLAS, which would start threads
        weights = probs * np.exp(np.maximum(tilt * losses - top, -600.0))
        total = float(weights.sum())
        weights *= losses
        first = float(weights.sum()) / total
        second = float(np.einsum("i,i->", weights, losses)) / total
        k += n * (top + math.log(total))
        mean += n * first
        variance += n * max(0.0, second - first**2)
    return k, mean, variance


def _minus_log_delta(t: float, k: float, mean: float, variance: float) -> float:
    """-log delta at epsilon = K'(t), by the saddle point approximation."""
    return t * mean - k + math.log1p(t * (1.0 + t) * math.sqrt(2 * math.pi * variance))


def _convolve(
    parts: tuple[tuple[GridLoss, int], ...], tilt: float, first: int, size: int
) -> np.ndarray:
    """The tilted distribution of the sum at ``size`` grid points from ``first``."""
    n_points = fft.next_fast_len(size, real=True)
    spectrum: np.ndarray | None = None
    offset = 0
    for grid, n in parts:
        exponents = tilt * grid.losses
        # points with probability 0 may lie far above the others
        weights = np.where(grid.probs > 0.0, grid.probs, 0.0)
        exponents -= exponents[weights > 0.0].max()
        weights *= np.exp(np.minimum(exponents, 0.0))
        weights /= weights.sum()
        # centred at the mean, so that powers multiply small angles
        middle = round(float((weights * np.arange(weights.size)).sum()))
        places = (np.arange(weights.size) - middle) % n_points
        power = fft.rfft(np.bincount(places, weights, n_points))
        alive = np.abs(power) > math.exp(-80.0 / n)
        powers = power[alive] ** n
        power[...] = 0.0
        power[alive] = powers
        spectrum = power if spectrum is None else np.multiply(spectrum, power, out=spectrum)
        offset += n * (grid.low + middle)
    assert spectrum is not None
    around = fft.irfft(spectrum, n_points)
    start, masses = (first - offset) % n_points, np.empty(size)
    before = min(size, n_points - start)  # the sums are cyclic
    np.maximum(around[start : start + before], 0.0, out=masses[:before])
    np.maximum(around[: size - before], 0.0, out=masses[before:])
    return masses


def _log1m(x: float) -> float:
    return math.log1p(-x) if x < 1.0 else -math.inf
