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
    ALIKE,
    APART,
    Curve,
    CurveScaling,
    Expansion,
    Histogram,
    cells,
    denoise_histogram,
)
from skdpfl.scaling._maps import SURE, Array, Bounds, Scaling, deviations_of_all

#: twice the relative precision of float32, in which cells are computed
_PRECISE = 2.0**-22
#: a cell with this share of a column is a bin of its own, so there are at most two
_HEAVY, _ALONE = 0.375, 2


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
    n_knots, n_quantiles : int
        The numbers of pieces of a rank, and of quantile bins; 0: no bins.
    pairs : ndarray of shape (n_pairs, 2)
        The pairs of features that are multiplied.
    """

    budgets: SiloBudgets
    features: tuple[str, ...]
    bounds: Bounds
    columns: np.ndarray
    n_knots: int
    n_quantiles: int
    pairs: np.ndarray
    share: float

    @cached_property
    def histogram(self) -> Histogram:
        """The sum for the histogram."""
        low, high = self.bounds.low, self.bounds.high
        each = []
        for j in self.columns:
            above = high[j] + max(abs(high[j]) * _PRECISE, _PRECISE**5)  # in single precision, too
            each.append(np.array([low[j], *cells(float(low[j]), float(high[j])), above]))
        return Histogram(self.columns, tuple(each))

    @cached_property
    def sums(self) -> tuple[SumPlan, ...]:
        """The plan of the sums; empty if there are products only."""
        if not self.columns.size:
            return ()
        return (SumPlan(self.budgets, "curves", (self.share * self.budgets.spends,)),)

    @property
    def n_bins(self) -> int:
        """The number of columns of bins per curve."""
        return _ALONE + self.n_quantiles if self.n_quantiles else 0

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
        return self._expansion([np.zeros(each.size + 1) for each in self.histogram.edges], 0.0)

    def find(self, federation: Federation, streams: Streams) -> tuple[Expansion, tuple[int, ...]]:
        """Compute the histogram; return the expansion, and features mostly beyond their bounds."""
        if not self.sums:
            return self.even(), ()
        (plan,) = self.sums
        shares = plan.question(0, self.histogram).mean(federation, streams)
        noise = plan.noise(0, self.histogram)
        own = np.split(shares, self.histogram.starts[1:-1])
        beyond = np.array([counted[0] + counted[-1] for counted in own])
        sure = deviations_of_all(SURE, len(own)) * noise * math.sqrt(2)
        missed = self.columns[beyond > 1 / 2 + sure]
        return self._expansion(own, noise), tuple(missed.tolist())

    def _expansion(self, own: list[Array], noise: float) -> Expansion:
        low, high = self.bounds.low, self.bounds.high
        edges, counted = [], []
        for j, inner, found in zip(self.columns, self.histogram.edges, own, strict=True):
            edges.append(np.append(inner[:-1], high[j]))
            counted.append(found[1:-1].copy())
            counted[-1][0] += found[0]
            counted[-1][-1] += found[-1]
        each = zip(self.columns, edges, counted, _smoothed(edges, counted, noise), strict=True)
        pieces = noise, self.n_knots, self.n_quantiles
        curves = [curve_of(int(j), e, raw, smooth, *pieces) for j, e, raw, smooth in each]
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


def curve_of(
    column: int,
    edges: Array,
    counted: Array,
    shares: Array,
    noise: float,
    n_knots: int,
    n_bins: int,
) -> Curve:
    """Return a column's curve from the shares of its cells, ``counted`` and smoothed.

    ``edges`` are those of the cells with both ends, whose shares contain what is beyond;
    ``noise`` is the deviation of a counted share. A record is in one cell, so the shares between
    the end cells are 1 less those of both.
    """
    between = 1 - float(counted[0] + counted[-1])
    bends = between > ALIKE * noise * 2 + APART  # of two cells and two beyond them
    heavy = shares > _HEAVY
    knots, first = np.unique(_quantiles(edges, shares, n_knots), return_index=True)
    heights = np.linspace(-1, 1, n_knots + 1)[first]
    rest = np.where(heavy, 0.0, shares)
    cut = bool(n_bins) and rest.sum() > SURE * noise * math.sqrt(shares.size + 1)
    inner = _quantiles(edges, rest, n_bins)[1:-1] if cut else np.zeros(0)
    alone = np.flatnonzero(heavy)[: _ALONE if n_bins else 0]
    borders = np.concatenate([edges[alone], edges[alone + 1]])
    cuts = np.unique(np.concatenate([inner, borders]))
    cuts = cuts[(cuts > edges[0]) & (cuts < edges[-1])]
    ends = np.concatenate([edges[:1], cuts, edges[-1:]])
    middles = ends[:-1] / 2 + ends[1:] / 2
    bins = np.full(middles.size, -1)
    if cut:
        bins = _ALONE + np.searchsorted(np.unique(inner), middles)
    for number, cell in enumerate(alone.tolist()):
        bins[(middles > edges[cell]) & (middles < edges[cell + 1])] = number
    return Curve(column, edges, shares / shares.sum(), knots, heights, cuts, bins, bends)


def _smoothed(edges: list[Array], counted: list[Array], noise: float) -> list[Array]:
    """Return the smoothed shares of all columns, one call for columns with equally many cells."""
    found = list(counted)
    sizes = np.array([shares.size for shares in counted])
    for size in np.unique(sizes):
        alike = np.flatnonzero(sizes == size)
        ends = np.array([edges[i] for i in alike])
        widths = np.diff(ends) / (ends[:, -1:] - ends[:, :1])
        shares = np.array([counted[i] for i in alike])
        smooth = denoise_histogram(shares, widths + 1 / size, noise)
        for i, own in zip(alike, smooth, strict=True):
            found[i] = own
    return found


def _quantiles(edges: Array, shares: Array, n: int) -> Array:
    """Return n + 1 quantiles, from the lower to the upper end of the mass."""
    used = np.flatnonzero(shares)
    first, last = used[0], used[-1] + 1
    below = np.concatenate([[0.0], np.cumsum(shares[first:last])])
    return np.interp(np.linspace(0, below[-1], n + 1), below, edges[first : last + 1])
