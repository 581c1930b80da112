"""The plan of an additive model's curves, and the curves of its noisy histogram.

The module :mod:`skdpfl.scaling._curves` says what the columns are.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdpfl.federation import Federation, SiloBudgets, SumPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._curves import (
    N_CELLS,
    Curve,
    CurveScaling,
    Expansion,
    Histogram,
    denoise_histogram,
    edges_of,
)
from skdpfl.scaling._maps import SURE, Array, Bounds, Scaling, deviations_of_all


@dataclass(frozen=True, eq=False)
class CurvePlan:
    """The public part of a fit's expansion, and the histogram that determines the rest.

    Parameters
    ----------
    budgets : SiloBudgets
        The whole fit's budgets; the histogram spends ``share`` of mu.
    features : tuple of str
        The names of the features.
    bounds : Bounds
        The bounds of the features.
    columns : ndarray of shape (n_curves,)
        The features that have curves.
    n_knots, n_bins : int
        The numbers of pieces of a rank, and of bins, which are columns; 0: no bins.
    pairs : ndarray of shape (n_pairs, 2)
        The pairs of features that are multiplied.
    """

    budgets: SiloBudgets
    features: tuple[str, ...]
    bounds: Bounds
    columns: np.ndarray
    n_knots: int
    n_bins: int
    pairs: np.ndarray
    share: float

    @cached_property
    def histogram(self) -> Histogram:
        """The sum for the histogram."""
        columns = self.columns
        return Histogram(columns, self.bounds.low[columns], self.bounds.high[columns])

    @cached_property
    def sums(self) -> tuple[SumPlan, ...]:
        """The plan of the sums; empty if there are products only."""
        if not self.columns.size:
            return ()
        return (SumPlan(self.budgets, "curves", (self.share * self.budgets.spends,)),)

    @cached_property
    def expanded(self) -> Bounds:
        """The public bounds of all columns; (0, 0) for those scaled by the histogram."""
        no_curve = np.ones(self.bounds.low.size)
        no_curve[self.columns] = 0.0
        zeros = np.zeros(self.columns.size * (1 + self.n_bins) + len(self.pairs))
        low = np.concatenate([self.bounds.low * no_curve, zeros])
        return Bounds(low, np.concatenate([self.bounds.high * no_curve, zeros]))

    @property
    def squared(self) -> float:
        """The expected square of all scaled columns of curves."""
        return float(2 * self.columns.size + len(self.pairs))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        own = self.features
        bins = [f"bin {number}" for number in range(self.n_bins)]
        of_curves = [f"{own[j]}: {part}" for j in self.columns for part in ("rank", *bins)]
        return (*own, *of_curves, *(f"{own[a]} * {own[b]}" for a, b in self.pairs))

    def even(self) -> Expansion:
        """Return the expansion with equally spaced knots, which depends on no data."""
        return self._expansion(np.zeros(self.histogram.shape), 0.0)

    def find(self, federation: Federation, streams: Streams) -> tuple[Expansion, tuple[int, ...]]:
        """Compute the histogram; return the expansion, and features mostly beyond their bounds."""
        if not self.sums:
            return self.even(), ()
        (plan,) = self.sums
        shares = plan.question(0, self.histogram).mean(federation, streams)
        noise = plan.noise(0, self.histogram)
        sure = deviations_of_all(SURE, len(shares)) * noise * math.sqrt(2)
        missed = self.columns[shares[:, N_CELLS:].sum(axis=1) > 1 / 2 + sure]
        return self._expansion(shares, noise), tuple(missed.tolist())

    def _expansion(self, shares: Array, noise: float) -> Expansion:
        low, high, columns = self.bounds.low, self.bounds.high, self.columns.tolist()
        counted = shares[:, :N_CELLS].copy()
        counted[:, [0, -1]] += shares[:, N_CELLS:]
        edges = np.reshape([edges_of(low[j], high[j]) for j in columns], (-1, N_CELLS + 1))
        widths = np.diff(edges) / (edges[:, -1:] - edges[:, :1])
        smooth = denoise_histogram(counted, widths + 1 / N_CELLS, noise)
        pieces = self.n_knots, self.n_bins
        curves = [curve_of(*each, *pieces) for each in zip(columns, edges, smooth, strict=True)]
        center, scale = low / 2 + high / 2, high / 2 - low / 2
        for curve in curves:
            values, weights = curve.points
            center[curve.column] = mean = weights @ values
            scale[curve.column] = math.sqrt(weights @ (values - mean) ** 2)
        scale = np.where(scale > 0, scale, 1.0)
        return Expansion(low, high, tuple(curves), self.n_bins, self.pairs, center, scale)

    def scaling_of(self, curves: Expansion, inner: Scaling) -> CurveScaling:
        """Return the map to the columns of an expansion, scaled."""
        blocks = tuple(curve.whitened(self.n_bins) for curve in curves.curves)
        parts = [part for block in blocks for part in (block[:, :1], block[:, 1:])]
        squared = float(sum(part.any() for part in parts) + len(self.pairs))
        return CurveScaling(curves, inner, blocks, squared, self.names)


def curve_of(column: int, edges: Array, shares: Array, n_knots: int, n_bins: int) -> Curve:
    """Return a column's curve from the smoothed shares of its cells, with both ends in ``edges``.

    Shares contain what is beyond the ends.
    """
    knots, first = np.unique(_quantiles(edges, shares, n_knots), return_index=True)
    heights = np.linspace(-1, 1, n_knots + 1)[first]
    cuts = np.unique(_quantiles(edges, shares, n_bins)[1:-1]) if n_bins else np.zeros(0)
    cuts = cuts[(cuts > edges[0]) & (cuts < edges[-1])]
    bins = np.arange(cuts.size + 1) if n_bins else np.array([-1])
    return Curve(column, edges, shares / shares.sum(), knots, heights, cuts, bins)


def _quantiles(edges: Array, shares: Array, n: int) -> Array:
    """Return n + 1 quantiles, from the lower to the upper end of the mass."""
    used = np.flatnonzero(shares)
    first, last = used[0], used[-1] + 1
    below = np.concatenate([[0.0], np.cumsum(shares[first:last])])
    return np.interp(np.linspace(0, below[-1], n + 1), below, edges[first : last + 1])
