"""Curves of additive models: additional columns, from one noisy histogram of all columns.

::

    cells of a column      between 64 even pieces of its public bounds and 30 geometric ones from
                           their lower end or from 0, and one on either side of them, which say
                           whether bounds miss the values
    counts                 one vector of the cells of all d columns      norm sqrt(d) a record
    rank of x              of the middle of its cell: piecewise linear through quantiles of the
                           noisy counts, onto [-1, 1]
    bins of x              of the middle, too, between quantiles; each a column of 0 and 1
    product of a pair      of values mapped to [-1, 1] by their bounds

An :class:`Expansion` adds these columns to the values, which it clips to their bounds. The number
of columns follows from public numbers: unused bins are columns of 0. A cell's middle stands for all
its values, whole numbers at its lower end too, so that means and scales by the counts are those of
the columns. The linear model of the columns is then a sum of curves, one per feature, and of
products. The noisy counts are smoothed first (:func:`denoise_histogram`): cells that do not stand
out from the noise are pooled.

A value and its cell determine all columns of its curve: so a table for training has values and
cells, and its columns are made when they are read (:class:`skdpfl.models.ExpandedTable`)::

    scaled column k of a curve     (x - mean) B_0k + T_ck     of a value x in cell c
    T_ck                           sum over rank and bins i of (column i of cell c - mean_i) B_ik

**Formal guarantee.** That of the counts follows. Expansions are
functions of noisy shares and public numbers, and map each record by itself: a row's numbers follow
from its values and cells, by the same operations whatever the other rows are.

**Cells and noisy counts.** Public bounds fix the cells. The counts (:class:`Histogram`) are one
vector of the cells of all columns.

**Formal guarantee.** Any record (with NaN and infinities too) adds a one to exactly one cell of
each of d columns. So replacing it changes the counts by at most sqrt(2 d) in L2, zeroing it by
sqrt(d): :mod:`skdpfl.federation` covers these sums like all others. A value's cell depends on
nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdpfl.federation import CellCounts, Federation, SiloBudgets, SiloData, SumPlan
from skdpfl.models import CELLS, CurveColumns, ExpandedTable
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._maps import (
    SURE_DEVIATIONS,
    Array,
    Bounds,
    Scaling,
    as_floats,
    deviations_of_all,
    in_long_rows,
)

#: even pieces of a column, edges of geometric ones, and the nearest of these, in ranges
_EVEN, _LADDER, _SHORTEST = 64, 30, 1e-4
N_CELLS = _EVEN + _LADDER
#: the factor by which a value on an even edge is surely to its right
_ON_EDGE = 1 + 2.0**-21
#: halves that differ by less from the expected division, in deviations of the noise, are divided as
#: expected (counts as they are: score -.049 at worst; 1 deviation: -.011)
_ALIKE = 2.0
#: numbers of a frame's rows that are mapped at once
_NUMBERS_AT_ONCE = 2**18


def _ladder(low: float, high: float) -> tuple[float, int]:
    """Return where geometric edges begin, and how many there are on a side of it."""
    return (0.0, _LADDER // 2) if low < 0 < high else (low, _LADDER)


def edges_of(low: float, high: float) -> Array:
    """Return the edges of a column's cells, with both ends; they do not decrease."""
    (origin, steps), span = _ladder(low, high), high - low
    away = span * _SHORTEST ** (1 - np.arange(steps) / steps)
    sides = [origin + away] if origin == low else [-away, away]
    inner = np.clip(np.concatenate(sides), low, high)
    return np.sort(np.concatenate([np.linspace(low, high, _EVEN + 1), inner]))


@np.errstate(all="ignore")  # a warning could depend on a single record
def cells_of(X: Array, low: Array, high: Array) -> np.ndarray:
    """Return the cell (n, d) of each value: of N_CELLS, then one below, one above or not a number.

    That is the number of even edges up to the value, and of geometric ones; in single precision, so
    that numbers of either precision are in the same cell. If it cannot hold the width of the
    bounds, all values within them are in the first cell.
    """
    out, kind = np.empty(X.shape, np.uint8), np.float32
    for j, (least, most) in enumerate(zip(low, high, strict=True)):
        (origin, steps), span, x = _ladder(least, most), most - least, X[:, j].astype(kind)
        even = (x - kind(least)) * kind(_EVEN * _ON_EDGE / span)
        away = x - kind(origin)
        steep = kind(-steps / math.log(_SHORTEST))
        number = np.log(np.abs(away) * kind(1 / (_SHORTEST * span))) * steep
        ladder = np.copysign(np.floor(np.clip(number + 1, 0, steps)), away)
        place = np.floor(np.clip(even, 0, _EVEN - 1)) + ladder + (_LADDER - steps)
        place[x < kind(least)] = N_CELLS
        place[~(x <= kind(most))] = N_CELLS + 1
        out[:, j] = np.fmax(place, 0)
    return out


@dataclass(frozen=True, eq=False)
class Histogram(CellCounts):
    """Counts of the values of some columns in cells: each record is in one cell of each column.

    Cells are those within (``low``, ``high``), and one on either side.
    """

    columns: np.ndarray
    low: np.ndarray
    high: np.ndarray
    on_grid: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.columns), N_CELLS + 2

    @property
    def radius(self) -> float:
        return math.sqrt(len(self.columns))

    @property
    def diameter(self) -> float:
        return math.sqrt(2 * len(self.columns))

    @property
    def entry(self) -> float:
        return 1.0

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        """See `CellCounts.cells`."""
        cells = cells_of(data.stored(rows)[:, self.columns], self.low, self.high)
        return cells + np.arange(len(self.columns)) * (N_CELLS + 2)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        columns, ends = self.columns, (self.low, self.high)
        fine: Any = columns.dtype.kind == "i" and columns.ndim == 1 and columns.size
        fine = fine and columns.min() >= 0 and columns.max() < n_features
        fine = fine and len(np.unique(columns)) == columns.size
        fine = fine and all(e.shape == columns.shape and e.dtype == np.float64 for e in ends)
        fine = fine and np.isfinite(ends).all() and (self.low < self.high).all()
        if not fine:
            raise ValueError("The cells do not fit the requested columns.")


def denoise_histogram(
    shares: Array, prior: Array, noise: float, total: Array | float = 1.0
) -> Array:
    """Return non-negative shares (..., n) of totals (...,), from noisy ones.

    The total is divided between both halves of the cells, then each half recursively: by the noisy
    shares, or by the prior if the difference is within their noise. So a range of cells keeps its
    total mass even if no single cell stands out.
    """
    n, half = shares.shape[-1], shares.shape[-1] // 2
    total = np.broadcast_to(total, shares.shape[:-1])
    if n == 1:
        return total[..., None]
    left, right = shares[..., :half].sum(axis=-1), shares[..., half:].sum(axis=-1)
    denoised = left + (total - left - right) * half / n
    expected = total * prior[..., :half].sum(axis=-1) / prior.sum(axis=-1)
    error = noise * math.sqrt(half * (1 - half / n))
    denoised = np.where(np.abs(denoised - expected) <= _ALIKE * error, expected, denoised)
    denoised = np.minimum(np.maximum(denoised, 0.0), total)
    ends = (slice(half), denoised), (slice(half, None), total - denoised)
    each = [denoise_histogram(shares[..., i], prior[..., i], noise, part) for i, part in ends]
    return np.concatenate(each, axis=-1)


def is_rising(values: Array) -> bool:
    """Whether these are finite numbers that increase."""
    if values.ndim != 1 or values.dtype != np.float64 or not np.isfinite(values).all():
        return False
    return bool((np.diff(values) > 0).all())


#: products are of values within so many deviations
PRODUCT_DEVIATIONS = 3.0
#: drop a column if earlier ones leave a smaller share of its variance unexplained (none: score
#: -.0006, -.013 at worst)
_DISTINCT = 0.02


@dataclass(frozen=True, eq=False)
class Curve:
    """A column's rank and bins.

    The rank of a cell's middle is piecewise linear through ``knots`` and ``heights``. ``bins`` has
    the numbers of the bins between ``cuts`` and beyond their ends, -1 for none. ``shares`` are the
    estimated shares of the records between ``edges``.
    """

    column: int
    edges: np.ndarray
    shares: np.ndarray
    knots: np.ndarray
    heights: np.ndarray
    cuts: np.ndarray
    bins: np.ndarray

    def of_cells(self, n_bins: int) -> Array:
        """Return the rank, in [-1, 1], and the bins of each cell (cells, 1 + n_bins)."""
        middles = self.edges[:-1] / 2 + self.edges[1:] / 2
        bins = self.bins[np.searchsorted(self.cuts, middles, side="right")]
        ranks = np.interp(middles, self.knots, self.heights)
        return np.column_stack([ranks, bins[:, None] == np.arange(n_bins)])

    @cached_property
    def points(self) -> tuple[Array, Array]:
        """Some values of each cell, and their shares of the records."""
        inside = np.array([1, 3, 5]) / 6
        values = self.edges[:-1, None] + np.diff(self.edges)[:, None] * inside
        return values.ravel(), np.repeat(self.shares / 3, 3)

    def whitened(self, n_bins: int) -> Array:
        """Return the triangular map that makes the columns uncorrelated.

        Value, rank and bins are replaced in turn by their residuals from the columns before; a
        column with almost no residual becomes 0. The value has variance 1, rank and bins together:
        a curve weighs as much as a line, and does not take most of a row's norm where effects are
        straight.
        """
        values, shares = self.points
        columns = self.columns(values, n_bins)
        columns = (columns - shares @ columns) * np.sqrt(shares)[:, None]
        basis = np.zeros((columns.shape[1],) * 2)
        whole = np.square(columns).sum(axis=0)
        for k in range(len(basis)):
            row = np.eye(len(basis))[k]
            for _ in range(2):  # the second time for what rounding left
                row = row - basis @ (basis.T @ (columns.T @ (columns @ row)))
            left = float(np.square(columns @ row).sum())
            if left > _DISTINCT * whole[k]:
                basis[:, k] = row / math.sqrt(left)
        basis[:, 1:] /= math.sqrt(max(1, int(basis[:, 1:].any(axis=0).sum())))
        return basis

    def columns(self, x: Array, n_bins: int) -> Array:
        """Return value, rank and bins of values (n, 2 + n_bins)."""
        cells = cells_of(x[:, None], self.edges[:1], self.edges[-1:])[:, 0]
        table = np.column_stack([x, self.of_cells(n_bins).take(cells, axis=0, mode="clip")])
        table[np.isnan(x)] = np.nan
        return table


@dataclass(frozen=True, eq=False)
class Expansion:
    """The public map from features to the columns of an additive model.

    The columns are: the values in their order; for each curve its rank and ``n_bins`` columns of
    bins; and the products of the pairs (n_pairs, 2), of values minus ``center``, divided by
    ``scale``.
    """

    low: np.ndarray
    high: np.ndarray
    curves: tuple[Curve, ...]
    n_bins: int
    pairs: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    def transform(self, X: Array) -> Array:
        """Return the columns (n, width) of rows (n, d)."""
        X = as_floats(X)
        values = self.clipped(X)
        columns = self.added(X, self.codes(values), self.table.astype(X.dtype))
        columns[:, : self.low.size] = values
        gaps = np.repeat(np.isnan(self.own(values)), 1 + self.n_bins, axis=1)
        if gaps.any():
            columns[:, self.low.size :][:, : gaps.shape[1]][gaps] = np.nan
        return columns

    def clipped(self, X: Array) -> Array:
        """Return the rows with the features that have curves clipped to their bounds."""
        low, high = np.full((2, self.low.size), np.inf)
        low[self.columns], high[self.columns] = self.low[self.columns], self.high[self.columns]
        low[np.isinf(low)] = -np.inf
        out = np.empty(X.shape, X.dtype)
        flat, wide, least, most = in_long_rows(X, out, low, high)
        np.minimum(np.maximum(flat, least, out=wide), most, out=wide)
        return out

    def codes(self, values: Array) -> np.ndarray:
        """Return the cells (n, curves) of clipped rows."""
        ends = self.low[self.columns], self.high[self.columns]
        return cells_of(self.own(values), *ends)

    def added(self, X: Array, codes: np.ndarray, table: Array) -> Array:
        """Return rows (n, width) of all columns except the features' own, which stay empty.

        These are the rows of ``table`` for their cells, and the products of values.
        """
        d = self.low.size
        out = np.empty((len(X), self.width), X.dtype)
        if self.curves:
            blocks = table.take(codes + self.starts, axis=0, mode="clip")
            n_added = codes.shape[1] * table.shape[1]
            out[:, d : d + n_added] = blocks.reshape(len(X), n_added)
        out[:, self.width - len(self.pairs) :] = self.products(X)
        return out

    def products(self, X: Array) -> Array:
        """Return the products (n, pairs) of rows of features."""
        u = self.coded(X) if len(self.pairs) else X
        a, b = (u.take(each, axis=1) for each in self.pairs.T)
        return a * b

    @cached_property
    def columns(self) -> np.ndarray:
        """The features that have curves."""
        return np.array([curve.column for curve in self.curves], np.intp)

    @cached_property
    def _where(self) -> Any:
        """The same as an index; a slice where all features have curves, which copies nothing."""
        columns = self.columns
        return slice(None) if np.array_equal(columns, np.arange(self.low.size)) else columns

    def own(self, values: Array) -> Array:
        """Return the values that have curves, of rows of features."""
        return values[:, self._where]

    def put(self, columns: Array, own: Array) -> None:
        """Write the values that have curves into rows of all columns."""
        columns[:, : self.low.size][:, self._where] = own

    @property
    def starts(self) -> np.ndarray:
        """The index of each curve's first cell."""
        return np.arange(len(self.curves)) * N_CELLS

    @property
    def table(self) -> Array:
        """The rank and bins of all cells, one column after the other (cells, 1 + n_bins)."""
        return self._table

    @cached_property
    def _table(self) -> Array:
        none = np.zeros((0, 1 + self.n_bins))
        return np.concatenate([none, *(curve.of_cells(self.n_bins) for curve in self.curves)])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def coded(self, X: Array) -> Array:
        """Return standardised values, clipped at three deviations, for products."""
        return np.clip((X - self.center) / self.scale, -PRODUCT_DEVIATIONS, PRODUCT_DEVIATIONS)

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.low.size + len(self.curves) * (1 + self.n_bins) + len(self.pairs)

    @cached_property
    def offset(self) -> Array:
        """The mean of each column (width,) by the histogram; 0 for columns without one."""
        total = np.zeros(self.width)
        for number, curve in enumerate(self.curves):
            values, weights = curve.points
            total[self.places(number)] = weights @ curve.columns(values, self.n_bins)
        return total

    def places(self, number: int) -> np.ndarray:
        """Return the indices of the value, rank and bins of a curve."""
        first = self.low.size + number * (1 + self.n_bins)
        return np.array([self.curves[number].column, *range(first, first + 1 + self.n_bins)])

    def check(self, n_features: int) -> None:
        """Raise unless the expansion fits tables with this number of features."""
        fine = self.n_bins >= 0
        numbers = self.low, self.high, self.center, self.scale
        fine = fine and all(each.shape == (n_features,) for each in numbers)
        fine = fine and bool(np.isfinite(numbers).all() and (self.scale > 0).all())
        for curve in self.curves:
            fine = fine and 0 <= curve.column < n_features and is_rising(curve.knots)
            fine = fine and is_rising(curve.cuts) and curve.knots.size > 0
            ends = self.low[curve.column], self.high[curve.column]
            fine = fine and ends[0] < ends[1] and curve.shares.shape == (N_CELLS,)
            fine = fine and np.array_equal(curve.edges, edges_of(*ends))
            fine = fine and curve.heights.shape == curve.knots.shape
            fine = fine and curve.heights.dtype == np.float64
            fine = fine and bool(np.isfinite(curve.heights).all())
            fine = fine and curve.bins.shape == (curve.cuts.size + 1,)
            fine = fine and curve.bins.dtype.kind == "i" and curve.bins.max() < self.n_bins
        fine = fine and self.pairs.ndim == 2 and self.pairs.shape[1] == 2
        fine = fine and self.pairs.dtype.kind == "i"
        fine = fine and bool(((self.pairs >= 0) & (self.pairs < n_features)).all())
        if not fine:
            raise ValueError("The curves are for other columns, or of another version: fit again.")


@dataclass(frozen=True, eq=False)
class CurveScaling(Scaling):
    """The map from features to scaled columns of an expansion; ``names`` are the columns' names.

    ``inner`` scales columns outside curves. The columns of a curve are scaled by the histogram:
    ``blocks`` make them uncorrelated (:meth:`Curve.whitened`), and ``squared`` is the expected
    square of all of them. Coefficients refer to columns centred by the histogram, so that curves
    are 0 on average.
    """

    curves: Expansion
    inner: Scaling
    blocks: tuple[np.ndarray, ...]
    squared: float
    names: tuple[str, ...]
    affine: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"CurveScaling({len(self.names)} columns)"

    @property
    def row_norm(self) -> float | None:
        """Root mean square norm of a row of scaled columns, if known."""
        others = self.inner.row_norm
        return None if others is None else math.hypot(others, math.sqrt(self.squared))

    @property
    def largest_square(self) -> float | None:
        """That of a row without rank and bins.

        The mean of z z^T has one block per feature on its diagonal, which is itself diagonal: the
        value has 1, and rank and bins have 1 together. The largest eigenvalue of a positive matrix
        is at most the sum of those of its diagonal blocks, which is 1 for each feature.
        """
        n_bent = sum(bool(block[:, 1:].any()) for block in self.blocks)
        return None if self.row_norm is None else self.row_norm**2 - n_bent

    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Return the scaled columns (n, width) of rows (n, d)."""
        return self.expanded(X).dense()

    def expanded(self, X: Array, cells: np.ndarray | None = None) -> ExpandedTable:
        """Return the scaled columns, made when they are read; the rows' cells may be known."""
        X, curves = as_floats(X), self.curves
        clipped = curves.clipped(X)
        cells = curves.codes(clipped) if cells is None else cells
        values = np.empty((len(X), X.shape[1] + len(curves.pairs)), X.dtype)
        values[:, : X.shape[1]] = clipped
        curves.put(values, curves.own(clipped) - self._means.astype(X.dtype))
        if len(self._others):
            values[:, self._others] = self._outside.transform(X[:, self._others])
        values[:, X.shape[1] :] = curves.products(X)
        return ExpandedTable(values, cells, self._scaled.astype(X.dtype))

    def mapped(self, table: ExpandedTable) -> ExpandedTable:
        """Return the scaled columns of a frame's rows, with cells of levels and of curves."""
        (n, d), frame, own, first = table.shape, table.columns, table.numbers, table.values.shape[1]
        if not np.isin(self.curves.columns, own).all():  # another server's, of columns of 0 and 1
            return self.expanded(table.dense())
        values = np.zeros((n, first + len(self.curves.pairs)))
        cells = np.empty((n, len(frame.where) + len(self.blocks)), np.uint8)
        cells[:, : len(frame.where)] = table.cells
        for i in range(0, n, most := max(1, _NUMBERS_AT_ONCE // d)):
            rows = slice(i, i + most)
            part = self.expanded(table[rows].dense())
            values[rows, : own.size], values[rows, first:] = part.values[:, own], part.values[:, d:]
            cells[rows, len(frame.where) :] = part.cells
        mapped = frame.mapped(lambda rows: self.expanded(rows).values[:, :d])
        scaled = self._scaled
        slopes = np.concatenate([mapped.slopes[: mapped.added], scaled.slopes[: scaled.added]])
        slopes[own] = scaled.factors[own]
        levels = [*mapped.tables(), *scaled.tables()]
        where = [*frame.where, *np.searchsorted(own, self.curves.columns)]
        return ExpandedTable(
            values, cells, CurveColumns.of(np.zeros(0), slopes, levels, where, first)
        )

    def within(self, X: Array) -> Array:
        """Return the columns to which coefficients refer."""
        X, curves = as_floats(X), self.curves
        values = curves.clipped(X)
        table = curves.table.astype(X.dtype) - self._offsets.astype(X.dtype)
        rows = curves.added(X, curves.codes(values), table)
        curves.put(rows, curves.own(values) - self._means.astype(X.dtype))
        if len(self._others):
            rows[:, self._others] = self._outside.within(X[:, self._others])
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    @cached_property
    def _means(self) -> Array:
        """The means of the values that have curves."""
        return self.curves.offset[self.curves.columns]

    @cached_property
    def _offsets(self) -> Array:
        """The means of the rank and bins of each cell's curve (cells, 1 + n_bins)."""
        curves, means = self.curves, self.curves.offset
        each = [means[curves.places(number)[1:]] for number in range(len(curves.curves))]
        return np.repeat(np.reshape(each, (-1, 1 + curves.n_bins)), N_CELLS, axis=0)

    @cached_property
    def _scaled(self) -> CurveColumns:
        """How scaled columns follow from centred values and cells."""
        curves, blocks = self.curves, self.blocks
        factors, m = np.ones(curves.low.size), 1 + curves.n_bins
        levels = np.zeros((len(blocks), CELLS, m))
        if blocks:
            factors[curves.columns] = [block[0, 0] for block in blocks]
            centred = np.split(curves.table - self._offsets, curves.starts[1:])
            for own, cells, block in zip(levels, centred, blocks, strict=True):
                own[: len(cells)] = (cells @ block[1:])[:, 1:]
        slopes = np.array([block[0, 1:] for block in blocks]).ravel()
        return CurveColumns.of(factors, slopes, levels, curves.columns)

    @cached_property
    def _others(self) -> np.ndarray:
        """The features without curves."""
        return np.setdiff1d(np.arange(self.curves.low.size), self.curves.columns)

    @cached_property
    def _outside(self) -> Scaling:
        return self.inner.of_columns(self._others)

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients (k, width) and intercepts (k,) of the centred columns."""
        return self._with_curves(self.inner.unscale(coef, intercept), coef, np.asarray)

    def rescale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Undo :meth:`unscale`."""
        return self._with_curves(self.inner.rescale(coef, intercept), coef, np.linalg.pinv)

    def _with_curves(
        self, inner: tuple[Array, Array], coef: Array, map_of: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        weights, coef = inner[0], np.asarray(coef)
        for number, block in enumerate(self.blocks):
            places = self.curves.places(number)
            weights[:, places] = coef[:, places] @ map_of(block).T
        products = slice(coef.shape[1] - len(self.curves.pairs), None)
        weights[:, products] = coef[:, products]
        return weights, inner[1]


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
        sure = deviations_of_all(SURE_DEVIATIONS, len(shares)) * noise * math.sqrt(2)
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
