"""The distribution of a sum of losses on a part of the grid, and its (epsilon, delta)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: Larger exponents (of natural numbers) are not computed: they stand for infinity.
_LARGEST = 600.0


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
        decay = np.exp(np.maximum(-self.tilt * distance, -_LARGEST))
        above = self.masses[self.losses.size - distance.size :] * decay
        terms = above * -np.expm1(-distance)
        log_scale = self.k - self.tilt * epsilon
        if log_scale > _LARGEST:
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
        exponent = np.maximum(-self.tilt * from_centre, -_LARGEST)
        decay = np.exp(np.where(exponent < _LARGEST, exponent, math.inf))
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
