r"""Noised sums at a released piecewise exponential model: score, curvature, outer products.

::

    x, b            features, one of B intervals; z_b = (x, sqrt(B) times the unit vector of b)
    e_b, d_b        the time in interval b, and whether the event was there     (public cuts)
    mu_b            = e_b exp(x w + a_b),  r_b = d_b - mu_b
    L               = sum_b |b| exp(x w + a_b), the hazard over the whole horizon: of x only
    n               = sqrt(|x|^2 max(1, L)^2 + 1 + L^2)
    W               = min(1, C / n, K / (L (|x|^2 + B)))                of x only

    score           sum W ((sum_b r_b) x, r)            radius C      diameter 2 C
    curvature       sum W sum_b mu_b z_b z_b'           radius K      diameter sqrt(2) K
    meat            sum of the scores' outer products   radius C^2    diameter sqrt(2) C^2

Formal guarantee
----------------
As for :mod:`skdpfl.inference._sums`. ``sum_b mu_b <= L`` and at most one d_b is 1, so
``-L <= sum_b r_b <= 1`` and ``sum_b r_b^2 <= 1 + L^2``: a score has norm at most W n <= C. A
curvature term is positive semidefinite with trace ``W sum_b mu_b (|x|^2 + B) <= K``, and for two of
them ``|A - B|^2 = |A|^2 + |B|^2 - 2 tr(A B) <= 2 K^2``. Both are clipped by what was computed, too;
a record whose numbers are not finite counts as zero. The mean over a person's records is in the
convex hull of scores, and of curvature terms, which have the same bounds; the outer product of a
person's mean score is in the set of outer products (`skdpfl.inference._sums`).

The residual sum_b r_b is the martingale residual, whose mean given x is 0 at the true model, for
any censoring that depends on x only, so that of a person's mean is 0, too, however the records are
correlated; the curvature's mean is the score's variance. An interval has
a B-th of the events, so z_b is longer there: else the noise hides the curvature of log hazards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl.algorithms import is_vector
from skdpfl.federation import PIECE, SiloData
from skdpfl.inference._fieller import Array, packed
from skdpfl.inference._sums import FAR, OfMeans, PilotSum
from skdpfl.losses import PiecewiseExponential


@dataclass(frozen=True, eq=False)
class HazardScores(PilotSum):
    """The score; ``pilot`` (d + k,) has the slope, then the log hazards of k intervals.

    ``cuts`` are the inner ends of the intervals, in shares of the horizon; ``cut_score`` and
    ``cut_curvature`` are C and K.
    """

    cuts: tuple[float, ...] = ()
    cut_score: float = 1.0
    cut_curvature: float = 1.0

    @property
    def limit(self) -> float:
        return self.cut_score

    @property
    def d(self) -> int:
        """The number of features."""
        return len(self.pilot) - len(self.cuts) - 1

    @property
    def n_intervals(self) -> int:
        """The number B of intervals."""
        return len(self.cuts) + 1

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        PiecewiseExponential(self.cuts)  # raises unless they increase
        numbers = 0 < self.cut_score < np.inf and 0 < self.cut_curvature < np.inf
        if not (numbers and is_vector(self.pilot, n_features + len(self.cuts) + 1)) or work is None:
            raise ValueError("Sums for intervals need the fit's model, which fits the columns.")

    def _target(self, work: Any) -> Any:
        return None  # times are in horizons

    def _records(self, data: SiloData, rows: Any) -> tuple[Array, Array, Array, Array]:
        """Return x (n, d), events and mu (n, k), and W (n,)."""
        given, y = data.at(rows)
        x = np.array(given, np.float64)  # an array of its own, whatever is beside it
        hazard = np.einsum("nd,d->n", x, self.pilot[: self.d])[:, None] + self.pilot[self.d :]
        hazard = np.exp(np.clip(hazard, -FAR, FAR))
        spent, event = PiecewiseExponential(self.cuts).exposures(np.asarray(y, np.float64))
        whole = np.einsum("nb,b->n", hazard, np.diff([0.0, *self.cuts, 1.0]))
        squares = np.einsum("nd,nd->n", x, x)
        norm = np.sqrt(squares * np.maximum(1.0, whole) ** 2 + 1 + whole**2)
        by_curvature = self.cut_curvature / (whole * (squares + self.n_intervals))
        weights = np.minimum(1.0, np.minimum(self.cut_score / norm, by_curvature))
        return x, event, spent * hazard, weights

    def _vectors(self, data: SiloData, rows: Any) -> Array:
        x, event, mu, weights = self._records(data, rows)
        left = event - mu
        return weights[:, None] * np.column_stack([left.sum(axis=1)[:, None] * x, left])


@dataclass(frozen=True, eq=False)
class HazardMeat(HazardScores):
    """The outer products of the scores."""

    squared = True


@dataclass(frozen=True, eq=False)
class PersonHazardMeat(OfMeans, HazardScores):
    """The outer products of persons' mean scores."""


@dataclass(frozen=True, eq=False)
class HazardCurvature(HazardScores):
    """The curvature."""

    squared = True

    @property
    def radius(self) -> float:
        return self.cut_curvature

    @property
    def diameter(self) -> float:
        return math.sqrt(2) * self.cut_curvature

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        return super().operations(records, n_added) + PIECE * self.n_intervals

    @np.errstate(all="ignore")
    def _weighted(self, data: SiloData, rows: Any) -> tuple[Array, Array]:
        """Return x (n, d) and W mu (n, k), zeros where anything is not finite."""
        x, _, mu, weights = self._records(data, rows)
        trace = mu.sum(axis=1) * (np.einsum("nd,nd->n", x, x) + self.n_intervals)
        weights = np.minimum(weights, self.cut_curvature * (1 - 1e-12) / trace)
        fine = np.isfinite(weights * trace)
        x[~fine], mu[~fine], weights[~fine] = 0.0, 0.0, 0.0
        return x, weights[:, None] * mu

    def _terms_of(self, data: SiloData, rows: Any) -> Array:
        x, weighted = self._weighted(data, rows)
        d, n = x.shape[1], self.n_intervals
        z = np.column_stack([x, np.full((len(x), n), math.sqrt(n))])
        whole = np.broadcast_to(weighted.sum(axis=1)[:, None], x.shape)
        i, j = np.triu_indices(d + n)
        # two intervals have nothing in common
        factors = np.where(i == j, 1.0, np.where(i < d, math.sqrt(2), 0.0))
        return np.asarray(z[:, i] * z[:, j] * np.column_stack([whole, weighted])[:, j] * factors)

    def _of(self, data: SiloData, rows: Any) -> Array:
        x, weighted = self._weighted(data, rows)
        rows_of = np.sqrt(weighted.sum(axis=1))[:, None] * x
        upper, across = rows_of.T @ rows_of, math.sqrt(self.n_intervals) * (x.T @ weighted)
        alone = self.n_intervals * np.diag(weighted.sum(axis=0))
        return packed(np.block([[upper, across], [across.T, alone]]))
