r"""Privacy losses on a grid: discrete pairs of distributions that dominate continuous ones.

For neighbours with output distributions P and Q the privacy loss is L = log dP/dQ under P. On the
grid ``l_i = i h`` each interval keeps both its probabilities, p_i = P(l_i < L <= l_{i+1}) and
q_i = Q(...), as two atoms at its ends ("connect the dots", [1]_)::

    a + b = p_i,   a e^{-l_i} + b e^{-l_{i+1}} = q_i
    =>  b = (p_i - q_i e^{l_i}) / (1 - e^{-h}),   a = p_i - b

Losses below the grid are rounded up to its first point, losses above it to infinity. If the grid
ends at a chosen loss (``Grid.largest``), the probability of losses above is split between its last
point l and infinity in the same way: ``q e^l`` stays at l, and both p and q are kept.

Formal guarantee
----------------
The discrete pair dominates the continuous one: within an interval the map from (P, Q) to the pair
at the two ends can be undone by a random function of the end point (with probability given by
where the loss lies between the ends, in Q e^L), so hockey-stick divergences only grow, for one
release and under composition [1]_. Rounding a loss up, and moving mass from a lower to an upper
end, increase them too; ``b`` is moved up by the rounding error of the probabilities.

References
----------
.. [1] Doroshenko, Ghazi, Kamath, Kumar & Manurangsi, "Connect the dots", PoPETs 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

#: Rounding error of a probability at x standard deviations, a difference of two tails, relative to
#: the tail and in units of eps: A + B x^2. Each tail has an error of at most 4 + 1.1 x^2 (compared
#: with 50 digits, for |x| < 37), and x^2 / 2 from the rounding of x - centre.
_ROUND, _FAR = 8.0, 4.0

#: Above this loss Q's probabilities underflow: losses are rounded up.
_NO_Q = 600.0

#: The share of Q's tail that is counted; the margin is far above the rounding of ndtr and losses.
SURE = 1.0 - 1e-9

#: Probabilities of consecutive intervals, and bounds on their rounding error.
Masses = tuple[np.ndarray, np.ndarray]


class TooFine(Exception):
    """The grid needs ``ratio`` times more points than allowed, for one loss or for their sum."""

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
    finite = min(above, SURE * above_q * math.exp(last)) if last < _NO_Q else 0.0
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
    return np.maximum(mass, 0.0), (_ROUND + _FAR * far**2) * np.finfo(float).eps * tail
