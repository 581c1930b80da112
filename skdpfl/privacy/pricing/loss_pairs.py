"""The dominating pair (P, Q) of each release, and its privacy loss on a grid.

**The pairs.** With noise of standard deviation 1, a clipped sum moves by m = C / (noise std) = 1/z
per clip norm, and ``phi_c`` the density of N(c, 1)::

    pair                     P                        Q
    Poisson, replace         (1-q) phi_0 + q phi_m    (1-q) phi_0 + q phi_-m
    Poisson, add_remove      (1-q) phi_0 + q phi_m    phi_0,  and the same two exchanged
    fixed size, replace      (1-g) phi_0 + g phi_2m   phi_0   where L >= 0, mirrored below
    with replacement         the same at 2 k m with probability p_k / g, k = 1, 2, ...
    Gaussian, mu             phi_mu/2                 phi_-mu/2

Each loss L(x) = log P/Q increases with x, so intervals of L are intervals of x, whose
probabilities are differences of normal distribution functions.

Formal guarantee: the pairs
---------------------------
*Poisson.* Fix the other records' sample, which both neighbours share (divergences are jointly
convex); the record in question is in it with probability q and moves the sum by a vector u, its
replacement by v, both of norm at most m. For alpha >= 1, with ``c = (alpha - 1)(1 - q) / q``,

    H_alpha = q F,    F(u, v) = int (phi_u - alpha phi_v - c phi_0)_+

is largest at v = -u, |u| = m, where rotation leaves one dimension; the pair is attained, and is its
own mirror image, which covers alpha < 1. For let u and v move, S be the set where the integrand is
positive, ``a = alpha phi_v`` and ``b = c phi_0``. Since ``d phi_u / dt = -u' . grad phi_u`` and
``phi_u = a + b`` on the boundary of S, whose outward normal is ``-(a (u - v) + b u)`` up to a
positive factor, the divergence theorem gives dF/dt as an integral over that boundary, with positive
weights, of ::

    (a (u' - v') + b u') . (a (u - v) + b u)
        =  [ (a^2 + a b) d|u - v|^2/dt + (b^2 + a b) d|u|^2/dt - a b d|v|^2/dt ] / 2

First turn v away from u, at fixed norms: F grows, up to v = -s u. On the line, u = r and v = -s,
growing r makes all that counts grow, and growing s adds ``2 a^2 (r + s) + 2 a b r`` in all: so r =
s = m. Zeroed out (v = 0, or u = 0 for the other direction) F grows with the norm alone: a linear
contraction that keeps 0 is a garbling.

*Fixed size* (batch of size b out of n, g = b/n, replace). Couple the two samples record by record:
with probability 1 - g they are equal, with probability g they differ in one element. Advanced
joint convexity (Balle, Barthe & Gaboardi 2018, theorem 2 and their replace coupling) gives for
alpha = e^eps >= 1 ::

    delta(eps) <= g H_{1 + (alpha - 1)/g}(N(2m, 1) || N(0, 1))
                = H_alpha(g N(2m, 1) + (1-g) N(0, 1) || N(0, 1))

and by the symmetry of the relation delta(-eps) = 1 - e^-eps + e^-eps delta(eps). A function with
these values is the profile of exactly one pair: that of the table, with the remaining probability
at L = 0. Composing the two one-sided pairs and taking the larger price would not be a bound.

*With replacement* (b draws, each of n records, replace). The record is drawn k times with
probability p_k = C(b, k) n^-k (1 - 1/n)^(b-k), at all with probability g = 1 - p_0. Couple the
samples of the neighbours draw by draw: given k they differ in k places, and so does a sample
without the record from one with it; the sum moves by at most 2 k m. Advanced joint convexity
(Balle, Barthe & Gaboardi 2018, theorems 2 and 10) gives for alpha >= 1 ::

    delta(eps) <= sum_k p_k H_{1 + (alpha - 1)/g}(N(2 k m, 1) || N(0, 1))
               =  sum_k (p_k / g) H_alpha(g N(2 k m, 1) + (1-g) N(0, 1) || N(0, 1))

the profile of the fixed-size pair at rate g and k times the shift, where k is public and has
probability p_k / g, k >= 1; symmetry as above. So the loss is the mixture of these losses. That k
counts as public is not attained: the bound is loose where many copies are likely.

**The grid.** For neighbours with output distributions P and Q the privacy loss is L = log dP/dQ
under P. On the grid ``l_i = i h`` each interval keeps both its probabilities, p_i = P(l_i < L <=
l_{i+1}) and q_i = Q(...), as two atoms at its ends ("connect the dots", [1]_)::

    a + b = p_i,   a e^{-l_i} + b e^{-l_{i+1}} = q_i
    =>  b = (p_i - q_i e^{l_i}) / (1 - e^{-h}),   a = p_i - b

Losses below the grid are rounded up to its first point, losses above it to infinity. If the grid
ends at a chosen loss (``Grid.largest``), the probability of losses above is split between its last
point l and infinity in the same way: ``q e^l`` stays at l, and both p and q are kept.

Formal guarantee: the grid
--------------------------
The discrete pair dominates the continuous one: within an interval the map from (P, Q) to the pair
at the two ends can be undone by a random function of the end point (with probability given by
where the loss lies between the ends, in Q e^L), so hockey-stick divergences only grow, for one
release and under composition [1]_. Rounding a loss up, and moving mass from a lower to an upper
end, increase them too; ``b`` is moved up by the rounding error of the probabilities.

References
----------
.. [1] Doroshenko, Ghazi, Kamath, Kumar & Manurangsi, "Connect the dots", PoPETs 2022.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

#: Rounding error of a probability at x standard deviations, a difference of two tails, relative to
#: the tail and in units of eps: A + B x^2. Each tail has an error of at most 4 + 1.1 x^2 (compared
#: with 50 digits, for |x| < 37), and x^2 / 2 from the rounding of x - centre.
_ROUND_AT_CENTRE, _ROUND_FAR_OUT = 8.0, 4.0

#: Above this loss Q's probabilities underflow: losses are rounded up.
_NO_Q = 600.0

#: The share of Q's tail that is counted; the margin is far above the rounding of ndtr and losses.
COUNTED_TAIL = 1.0 - 1e-9

#: Probabilities of consecutive intervals, and bounds on their rounding error.
Masses = tuple[np.ndarray, np.ndarray]


class TooFine(Exception):
    """The grid would need ``ratio`` times more points than allowed, for a loss or for the sum."""

    def __init__(self, ratio: float, of_sum: bool = False) -> None:
        super().__init__(ratio)
        self.ratio, self.of_sum = ratio, of_sum


@dataclass(frozen=True)
class Grid:
    """Step ``h``, at most ``max_points`` points, and the probabilities beyond either end.

    Losses beyond ``largest``, of either sign, have no points of their own.
    """

    h: float
    below: float
    above: float
    max_points: int
    largest: float = math.inf

    def indices(self, low: float, high: float) -> tuple[int, int]:
        """The grid indices that enclose losses between ``low`` and ``high``."""
        low, high = max(low, -self.largest), min(high, self.largest)
        if (high - low) / self.h > self.max_points:
            raise TooFine((high - low) / self.h / self.max_points)
        first = math.floor(low / self.h)
        return first, max(math.ceil(high / self.h), first + 1)

    def counted(self, above_q: float) -> float:
        """The part of Q's tail above the grid that counts: 0 unless ``largest`` is finite."""
        return above_q if self.largest < math.inf else 0.0


@dataclass(frozen=True, eq=False)
class GridLoss:
    """A privacy loss on the grid: ``probs[j]`` at ``(low + j) h``, and ``infinite`` at infinity."""

    h: float
    low: int
    probs: np.ndarray
    infinite: float

    @property
    def losses(self) -> np.ndarray:
        """The support, shape (n,)."""
        return self.h * np.arange(self.low, self.low + self.probs.size)


def connect_dots(
    h: float, low: int, p: Masses, q: Masses, below: float, above: float, above_q: float = 0.0
) -> GridLoss:
    """Make a :class:`GridLoss` of interval probabilities p and q, from ``low h`` upwards.

    p and q are each (probabilities, bounds on their rounding error), shape (n,); ``below`` and
    ``above`` are P's tails outside, and ``above_q`` is the part of Q's upper tail that counts.
    """
    left = h * np.arange(low, low + p[0].size)
    grow = np.exp(np.minimum(left, _NO_Q))
    upper = (p[0] - q[0] * grow + p[1] + q[1] * grow) / -np.expm1(-h)
    upper = np.where(left < _NO_Q, np.clip(upper, 0.0, p[0]), p[0])
    probs = np.zeros(p[0].size + 1)
    probs[:-1] = p[0] - upper
    probs[1:] += upper
    probs[0] += below
    last = h * (low + p[0].size)
    finite = min(above, COUNTED_TAIL * above_q * math.exp(last)) if last < _NO_Q else 0.0
    probs[-1] += finite
    return GridLoss(h, low, probs, above - finite)


def normal_masses(x: np.ndarray, centre: float) -> Masses:
    """Probabilities of N(centre, 1) between consecutive ``x``, and bounds on their error.

    Differences are taken in the nearer tail, where there is no cancellation.
    """
    lower, upper = ndtr(x - centre), ndtr(centre - x)
    in_upper = lower[:-1] > 0.5
    mass = np.where(in_upper, upper[:-1] - upper[1:], lower[1:] - lower[:-1])
    tail = np.where(in_upper, upper[:-1], lower[1:])
    far = np.maximum(np.abs(x[:-1] - centre), np.abs(x[1:] - centre))
    far = np.minimum(far, 40.0)  # the probability beyond is 0
    return np.maximum(mass, 0.0), (_ROUND_AT_CENTRE + _ROUND_FAR_OUT * far**2) * np.finfo(
        float
    ).eps * tail


@dataclass(frozen=True)
class _Mixture:
    """P is a mixture at ``rate``, of normals ``shift`` = m apart, and the loss increases in x."""

    rate: float
    shift: float

    def loss(self, x: np.ndarray) -> np.ndarray:
        """L(x), shape of x."""
        raise NotImplementedError

    def variance(self, largest: float = np.inf) -> float:
        """Variance of the loss, cut off at ``largest``."""
        return _variance(self, largest)

    def largest(self, tail: float) -> float:
        """A loss that is exceeded with a probability of at most ``tail``."""
        return float(self.loss(np.array([self.shift - ndtri(tail)]))[0])


class ReplacePair(_Mixture):
    """Poisson sampling at ``rate``, one record replaced; ``shift`` is m. Its own mirror image."""

    def loss(self, x: np.ndarray) -> np.ndarray:
        """L(x), shape of x."""
        return _log_mixture(self.rate, self.shift, x) - _log_mixture(self.rate, self.shift, -x)

    def inverse(self, loss: np.ndarray) -> np.ndarray:
        """The x with a given loss: m x = loss/2 + arsinh(sinh(loss/2) e^{m^2/2} (1-q)/q)."""
        half = np.abs(loss) / 2
        if self.rate == 1.0:
            return loss / (2 * self.shift)
        with np.errstate(divide="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half) / 2)
        t = log_sinh + self.shift**2 / 2 + np.log1p(-self.rate) - np.log(self.rate)
        arsinh = np.where(t > 20, t + np.log(2.0), np.arcsinh(np.exp(np.minimum(t, 20))))
        return np.sign(loss) * (half + arsinh) / self.shift

    def grids(self, grid: Grid) -> tuple[GridLoss, GridLoss]:
        """The loss on the grid in both directions (the same one twice)."""
        low, high = _range(self, grid, ndtri(grid.below), self.shift - ndtri(grid.above))
        x = self.inverse(grid.h * np.arange(low, high + 1))
        still = normal_masses(x, 0.0)
        p = _mixture(self.rate, still, normal_masses(x, self.shift))
        q = _mixture(self.rate, still, normal_masses(x, -self.shift))
        above_q = grid.counted(_tails(self.rate, -self.shift, x)[1])
        loss = connect_dots(grid.h, low, p, q, *_tails(self.rate, self.shift, x), above_q)
        return loss, loss


class ZeroOutPair(_Mixture):
    """Poisson sampling at ``rate``, one contribution set to zero; ``shift`` is m."""

    def loss(self, x: np.ndarray) -> np.ndarray:
        """L(x), shape of x."""
        return _log_mixture(self.rate, self.shift, x)

    def inverse(self, loss: np.ndarray) -> np.ndarray:
        """The x with a given loss; -inf below log(1-q), the infimum of the loss."""
        inside = np.expm1(np.minimum(loss, 700.0)) + self.rate
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.where(inside > 0, np.log(np.maximum(inside, 0.0)), -np.inf)
        log_ratio = np.where(loss > 40, np.maximum(loss, log_ratio), log_ratio)
        return self.shift / 2 + (log_ratio - np.log(self.rate)) / self.shift

    def grids(self, grid: Grid) -> tuple[GridLoss, GridLoss]:
        """The loss on the grid with the record present under P, and with it absent under P."""
        # each end is the upper one in one of the two directions
        low, high = _range(self, grid, ndtri(grid.above), self.shift - ndtri(grid.above))
        x = self.inverse(grid.h * np.arange(low, high + 1))
        q = normal_masses(x, 0.0)
        p = _mixture(self.rate, q, normal_masses(x, self.shift))
        tails, tails_q = _tails(self.rate, self.shift, x), _tails(0.0, self.shift, x)
        present = connect_dots(grid.h, low, p, q, *tails, grid.counted(tails_q[1]))
        absent = connect_dots(
            grid.h, -high, _mirror(q), _mirror(p), *tails_q[::-1], grid.counted(tails[0])
        )
        return present, absent


class FixedSizePair(ZeroOutPair):
    """A batch drawn without replacement, ``rate`` = b/n, one record replaced; ``shift`` is 2 m.

    Its larger, one-sided half is that of a contribution set to zero.
    """

    def grids(self, grid: Grid) -> tuple[GridLoss, GridLoss]:
        """The loss on the grid in both directions (the same one twice)."""
        _, high = _range(self, grid, self.shift / 2, self.shift - ndtri(grid.above))
        x = self.inverse(grid.h * np.arange(0, high + 1))
        down = normal_masses(x, 0.0)
        up = _mixture(self.rate, down, normal_masses(x, self.shift))
        p, q = _join(_mirror(down), up), _join(_mirror(up), down)
        below, above = _tails(0.0, self.shift, x)[1], _tails(self.rate, self.shift, x)[1]
        above_q = grid.counted(_tails(0.0, self.shift, x)[1])
        loss = connect_dots(grid.h, -high, p, q, below, above, above_q)
        loss.probs[high] += max(0.0, 1.0 - loss.probs.sum() - loss.infinite)
        return loss, loss


#: the probability of so many copies of a record in a batch that they count as an infinite loss
MANY_COPIES = 1e-22


@dataclass(frozen=True)
class WithReplacementPair:
    """``batch`` draws with replacement at ``rate`` = batch / n; ``shift`` is m."""

    rate: float
    shift: float
    batch: int

    @cached_property
    def parts(self) -> tuple[tuple[float, FixedSizePair], ...]:
        """The probability of k copies, given at least one, and the pair of k, for k = 1, 2, ..."""
        each = np.arange(1, self.batch + 1)
        probability = -math.expm1(self.batch * math.log1p(-self.rate / self.batch))
        # logarithms would lose digits with the size of the batch
        weights = binom(self.batch, self.rate / self.batch).pmf(each) / probability
        few = np.cumsum(weights[::-1])[::-1] > MANY_COPIES  # so many copies or more
        return tuple(
            (weight, FixedSizePair(probability, 2 * k * self.shift))
            for k, weight in zip(each[few].tolist(), weights[few].tolist(), strict=True)
        )

    def variance(self, largest: float = np.inf) -> float:
        """Variance of the loss, cut off at ``largest``, given the number of copies."""
        return sum(weight * pair.variance(largest) for weight, pair in self.parts)

    def largest(self, tail: float) -> float:
        """A loss that is exceeded with a probability of at most ``tail``."""
        return max(pair.largest(min(0.5, tail / weight)) for weight, pair in self.parts)

    def grids(self, grid: Grid) -> tuple[GridLoss, GridLoss]:
        """The loss on the grid in both directions (the same one twice)."""
        losses = [(weight, pair.grids(grid)[0]) for weight, pair in self.parts]
        low = min(loss.low for _, loss in losses)
        probs = np.zeros(max(loss.low + loss.probs.size for _, loss in losses) - low)
        for weight, loss in losses:
            probs[loss.low - low :][: loss.probs.size] += weight * loss.probs
        infinite = sum(weight * loss.infinite for weight, loss in losses)
        # rounding of the weights, and what is beyond them
        infinite += MANY_COPIES + max(0.0, 1.0 - float(probs.sum()) - infinite)
        mixture = GridLoss(grid.h, low, probs, infinite)
        return mixture, mixture


def gaussian_pair(mu: float) -> ReplacePair:
    """mu-GDP: no sampling, centres mu/2 and -mu/2."""
    return ReplacePair(1.0, mu / 2)


def _log_mixture(rate: float, shift: float, x: np.ndarray) -> np.ndarray:
    """log((1-q) phi_0 + q phi_m) - log phi_0 at x."""
    exponent = shift * x - shift**2 / 2
    if rate == 1.0:
        return exponent
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 30.0)))
    large = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    return np.where(exponent < 30.0, small, large)


def _mixture(rate: float, still: Masses, moved: Masses) -> Masses:
    """Probabilities of a mixture between consecutive x, and bounds on their error."""
    return (1 - rate) * still[0] + rate * moved[0], (1 - rate) * still[1] + rate * moved[1]


def _mirror(masses: Masses) -> Masses:
    """The same intervals read from the right, for losses of the opposite sign."""
    return masses[0][::-1], masses[1][::-1]


def _join(left: Masses, right: Masses) -> Masses:
    """Intervals side by side."""
    return np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])


def _tails(rate: float, shift: float, x: np.ndarray) -> tuple[float, float]:
    """Probability of the mixture below the first and above the last x."""
    below = (1 - rate) * ndtr(x[0]) + rate * ndtr(x[0] - shift)
    above = (1 - rate) * ndtr(-x[-1]) + rate * ndtr(shift - x[-1])
    return float(below), float(above)


def _range(pair: _Mixture, grid: Grid, x_low: float, x_high: float) -> tuple[int, int]:
    """Grid indices that enclose the losses between two x."""
    low, high = pair.loss(np.array([x_low, x_high]))
    return grid.indices(float(low), float(high))


@lru_cache(maxsize=4096)  # every fit with the same plan searches for its noise from the start
def _variance(pair: _Mixture, largest: float) -> float:
    """Variance of the loss under P by the trapezoidal rule; it only sets the grid."""
    x = np.linspace(-9.0, 9.0, 300)
    density = np.exp(-(x**2) / 2)
    density /= density.sum()
    both = np.concatenate([x, x + pair.shift])
    weights = np.concatenate([(1 - pair.rate) * density, pair.rate * density])
    loss = np.clip(pair.loss(both), -largest, largest)
    return max(0.0, float(weights @ loss**2 - (weights @ loss) ** 2))
