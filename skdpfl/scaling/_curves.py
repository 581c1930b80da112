"""Curves of additive models: additional columns, from one noisy histogram of all columns.

::

    cells of a column      fixed by its public bounds: even ones, and geometric ones from its ends,
                           and one on either side of them, which say whether bounds miss the values
    counts                 one vector of the cells of all d columns      norm sqrt(d) a record
    rank of x              of the middle of its cell: piecewise linear through quantiles of the
                           noisy counts, onto [-1, 1]
    bins of x              of the middle, too: cells with more than 3/8 of the mass are bins of
                           their own, the rest is cut at quantiles; each a column of 0 and 1
    product of a pair      of values mapped to [-1, 1] by their bounds
    two values             a column with nearly all records in its end cells has its value alone

An :class:`Expansion` adds these columns to the values, which it clips to their bounds. The number
of columns follows from public numbers: unused bins are columns of 0. A cell's middle stands for all
its values, whole numbers at its lower end too, so that means and scales by the counts are those of
the columns. The linear model of the columns is then a sum of curves, one per feature, and of
products. The noisy counts are smoothed first (:func:`denoise_histogram`): the mass of cells of
which none stands out from the noise is pooled.

**Formal guarantee.** Any record (with NaN and infinities too) adds a one to exactly one cell of
each of d columns. So replacing it changes the counts by at most sqrt(2 d) in L2, zeroing it by
sqrt(d): :mod:`skdpfl.federation` covers these sums like all others. Expansions are functions of
noisy shares and public numbers, and map each record by itself.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdpfl.federation import PIECE, BoundedSum, Federation, SiloBudgets, SiloData, SumPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._bounds import Bounds
from skdpfl.scaling._maps import Array, Scaling, as_floats

#: products are of values within so many deviations
FAR = 3.0
#: even cells of a column, geometric ones from an end, and the shortest of these
_EVEN, _GEOMETRIC, _SHORTEST = 64, 32, 1e-4
#: twice the precision of single numbers, in which cells are found
_PRECISE = 2.0**-22
#: counts that are held at once
_COUNTED = 2**22
#: edges nearer to each other, in ranges, are one; the most edges that may be asked for
_APART, _MOST_EDGES = 1e-9, 1024
#: a cell with this share of a column is a bin of its own, so there are at most two
_HEAVY, _ALONE = 0.375, 2
#: drop a column of which those before it leave a smaller share
_DISTINCT = 0.02
#: in deviations of their noise: halves of a stretch that differ by less from what is expected are
#: divided as expected; the least of either half; the rest is cut where its sum is this
_ALIKE, _LEAST, _SURE = 2.0, 0.5, 3.0


def cells(low: float, high: float) -> Array:
    """Return the inner edges of the cells of a column within (low, high), increasing."""
    with np.errstate(all="ignore"):
        a, span = np.geomspace(_SHORTEST, 1.0, _GEOMETRIC), high - low
        edges = [np.linspace(low, high, _EVEN + 1), low + span * a]
        if low < 0 < high:
            edges += [low * a, high * a]
        found = np.unique(np.concatenate(edges))
        found = found[(found > low) & (found < high)]
        return found[np.diff(found, prepend=low) > _APART * span]


def cell_of(inner: Array, x: Array) -> np.ndarray:
    """Return the cell of each value, for the inner edges; one on an edge is to its right.

    In single precision, so that numbers of either precision are in the same cell.
    """
    with np.errstate(over="ignore"):
        return np.searchsorted(inner.astype(np.float32), x.astype(np.float32), side="right")


@dataclass(frozen=True, eq=False)
class Histogram(BoundedSum):
    """Counts of the values of some columns in cells: each record is in one cell of each column.

    ``edges`` are the inner edges of each column's cells.
    """

    columns: np.ndarray
    edges: tuple[np.ndarray, ...]
    on_grid: ClassVar[bool] = True

    @cached_property
    def starts(self) -> np.ndarray:
        """The index of each column's first cell, and of the end."""
        return np.cumsum([0, *(each.size + 1 for each in self.edges)])

    @property
    def shape(self) -> tuple[int]:
        return (int(self.starts[-1]),)

    @property
    def radius(self) -> float:
        return math.sqrt(len(self.edges))

    @property
    def diameter(self) -> float:
        return math.sqrt(2 * len(self.edges))

    @property
    def entry(self) -> float:
        return 1.0

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        width, here = int(self.starts[-1]), np.flatnonzero(data.sizes)
        per_block = max(1, _COUNTED // width)
        for first in range(0, len(here), per_block):
            silos = here[first : first + per_block]
            counts = np.zeros(len(silos) * width)
            for rows, owner in _pieces(data, silos):
                X = np.asarray(data.X[rows])
                columns = zip(self.columns, self.edges, self.starts[:-1], strict=True)
                for column, inner, start in columns:
                    cells = owner * width + start + cell_of(inner, X[:, column])
                    counts += np.bincount(cells, minlength=counts.size)
            yield silos, counts.reshape(len(silos), width)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        given = self.columns
        fine = given.dtype.kind == "i" and given.shape == (len(self.edges),) and given.size
        fine = fine and given.min() >= 0 and given.max() < n_features
        fine = fine and len(np.unique(given)) == given.size
        fine = fine and all(_is_rising(e) and e.size <= _MOST_EDGES for e in self.edges)
        if not fine:
            raise ValueError("The cells do not fit the requested columns.")


def _pieces(data: SiloData, silos: np.ndarray) -> Iterator[tuple[np.ndarray | slice, np.ndarray]]:
    """Yield some rows of the silos, and the position of each row's silo among them."""
    rows, edges = data.rows_together(silos)
    owner = np.repeat(np.arange(len(silos)), np.diff(edges))
    for i in range(0, len(owner), PIECE):
        some = slice(i, min(i + PIECE, len(owner)))
        if isinstance(rows, slice):
            yield slice(rows.start + some.start, rows.start + some.stop), owner[some]
        else:
            yield rows[some], owner[some]


@dataclass(frozen=True, eq=False)
class Curve:
    """A column's rank and bins.

    The rank of a cell's middle is piecewise linear through ``knots`` and ``heights``. ``bins`` has
    the numbers of the bins between ``cuts`` and beyond their ends, -1 for none. ``shares`` are the
    estimated shares of the records between ``edges``. ``bends``: whether there are other values
    than two.
    """

    column: int
    edges: np.ndarray
    shares: np.ndarray
    knots: np.ndarray
    heights: np.ndarray
    cuts: np.ndarray
    bins: np.ndarray
    bends: bool = True

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
        column with almost no residual becomes 0, and so do rank and bins beside two values. The
        value has variance 1, rank and bins together: a curve weighs as much as a line, and does not
        take most of a row's norm where effects are straight.
        """
        values, shares = self.points
        columns = self.columns(values, n_bins)
        columns = (columns - shares @ columns) * np.sqrt(shares)[:, None]
        found = np.zeros((columns.shape[1],) * 2)
        whole = np.square(columns).sum(axis=0)
        for k in range(len(found) if self.bends else 1):
            row = np.eye(len(found))[k]
            for _ in range(2):  # the second time for what rounding left
                row = row - found @ (found.T @ (columns.T @ (columns @ row)))
            left = float(np.square(columns @ row).sum())
            if left > _DISTINCT * whole[k]:
                found[:, k] = row / math.sqrt(left)
        found[:, 1:] /= math.sqrt(max(1, int(found[:, 1:].any(axis=0).sum())))
        return found

    def columns(self, x: Array, n_bins: int) -> Array:
        """Return value, rank and bins of values (n, 2 + n_bins)."""
        found = np.column_stack([x, self.of_cells(n_bins)[cell_of(self.edges[1:-1], x)]])
        found[np.isnan(x)] = np.nan
        return found


def curve_of(
    column: int, edges: Array, shares: Array, noise: float, n_knots: int, n_bins: int
) -> Curve:
    """Return a column's curve from the noisy shares of its cells.

    ``edges`` are those of the cells with both ends, whose shares contain what is beyond;
    ``noise`` is the deviation of a share. A record is in one cell, so the shares between the end
    cells are 1 less those of both.
    """
    between = 1 - float(shares[0] + shares[-1])
    bends = between > _ALIKE * noise * 2 + _APART  # of two cells and two beyond them
    widths = np.diff(edges) / (edges[-1] - edges[0])
    shares = denoise_histogram(shares, widths + 1 / widths.size, noise)
    heavy = shares > _HEAVY
    knots, first = np.unique(_quantiles(edges, shares, n_knots), return_index=True)
    heights = np.linspace(-1, 1, n_knots + 1)[first]
    rest = np.where(heavy, 0.0, shares)
    cut = bool(n_bins) and rest.sum() > _SURE * noise * math.sqrt(shares.size + 1)
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


def denoise_histogram(shares: Array, prior: Array, noise: float, total: float = 1.0) -> Array:
    """Return non-negative shares of a total, from noisy ones.

    The total is divided between both halves of the cells, then each half recursively: by the noisy
    shares, or by the prior if the difference is within their noise. So a range of cells keeps its
    total mass even if no single cell stands out.
    """
    if shares.size == 1:
        return np.array([total])
    half = shares.size // 2
    left, right = shares[:half].sum(), shares[half:].sum()
    found = left + (total - left - right) * half / shares.size
    expected = total * prior[:half].sum() / prior.sum()
    error = noise * math.sqrt(half * (1 - half / shares.size))
    if abs(found - expected) <= _ALIKE * error:
        found = expected
    least, most = min(expected, _LEAST * error), max(expected, total - _LEAST * error)
    found = min(max(found, least), most)
    parts = (shares[:half], prior[:half], found), (shares[half:], prior[half:], total - found)
    return np.concatenate(
        [denoise_histogram(own, before, noise, part) for own, before, part in parts]
    )


def _is_rising(values: Array) -> bool:
    """Whether these are finite numbers that increase."""
    if values.ndim != 1 or values.dtype != np.float64 or not np.isfinite(values).all():
        return False
    return bool((np.diff(values) > 0).all())


def _quantiles(edges: Array, shares: Array, n: int) -> Array:
    """Return n + 1 quantiles, from the lower to the upper end of the mass."""
    used = np.flatnonzero(shares)
    first, last = used[0], used[-1] + 1
    below = np.concatenate([[0.0], np.cumsum(shares[first:last])])
    return np.interp(np.linspace(0, below[-1], n + 1), below, edges[first : last + 1])


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
        parts = [X.copy()]
        for curve in self.curves:
            j = curve.column
            x = np.clip(X[:, j].astype(np.float64), self.low[j], self.high[j])
            own = curve.columns(x, self.n_bins).astype(X.dtype)
            parts[0][:, j] = own[:, 0]
            parts.append(own[:, 1:])
        if len(self.pairs):
            u = self.coded(X)
            parts.append((u[:, self.pairs[:, 0]] * u[:, self.pairs[:, 1]]).astype(X.dtype))
        return np.concatenate(parts, axis=1)

    def coded(self, X: Array) -> Array:
        """Return standardised values, clipped at three deviations, for products."""
        return np.clip((X - self.center) / self.scale, -FAR, FAR)

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
            fine = fine and 0 <= curve.column < n_features and _is_rising(curve.knots)
            fine = fine and _is_rising(curve.cuts) and curve.knots.size > 0
            fine = fine and _is_rising(curve.edges) and curve.edges.size == curve.shares.size + 1
            fine = fine and curve.heights.shape == curve.knots.shape
            fine = fine and curve.heights.dtype == np.float64
            fine = fine and bool(np.isfinite(curve.heights).all())
            fine = fine and curve.bins.shape == (curve.cuts.size + 1,)
            fine = fine and curve.bins.dtype.kind == "i" and curve.bins.max() < self.n_bins
            fine = fine and isinstance(curve.bends, bool)
        fine = fine and self.pairs.ndim == 2 and self.pairs.shape[1] == 2
        fine = fine and self.pairs.dtype.kind == "i"
        fine = fine and bool(((self.pairs >= 0) & (self.pairs < n_features)).all())
        if not fine:
            raise ValueError("The curves do not fit a table with this number of columns.")


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

    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Return the scaled columns (n, width) of rows (n, d)."""
        columns = self.curves.transform(X)
        found = self.inner.transform(columns)
        found = found.copy() if found is columns else found
        n_pairs = len(self.curves.pairs)
        if n_pairs:
            found[:, -n_pairs:] = columns[:, -n_pairs:]
        for places, block, own in self._each(columns):
            found[:, places] = 0.0
            for row, column in zip(block.astype(X.dtype), own.T, strict=True):
                # one product after the other: a matrix product's last bits depend on other rows
                found[:, places] += column[:, None] * row
        return found

    def within(self, X: Array) -> Array:
        """Return the columns to which coefficients refer."""
        columns = self.curves.transform(X)
        found = self.inner.within(columns).copy()
        if len(self.curves.pairs):
            found[:, -len(self.curves.pairs) :] = columns[:, -len(self.curves.pairs) :]
        for places, _, own in self._each(columns):
            found[:, places] = own
        return found

    def _each(self, columns: Array) -> Iterator[tuple[np.ndarray, Array, Array]]:
        """Yield each curve's column indices, its block, and its centred columns."""
        offset = self.curves.offset.astype(columns.dtype)
        for number, block in enumerate(self.blocks):
            places = self.curves.places(number)
            yield places, block, columns[:, places] - offset[places]

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients (k, width) and intercepts (k,) of the centred columns."""
        found, intercept = self.inner.unscale(coef, intercept)
        for number, block in enumerate(self.blocks):
            places = self.curves.places(number)
            found[:, places] = np.asarray(coef)[:, places] @ block.T
        if len(self.curves.pairs):
            found[:, -len(self.curves.pairs) :] = coef[:, -len(self.curves.pairs) :]
        return found, intercept

    def rescale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Undo :meth:`unscale`."""
        found, intercept = self.inner.rescale(coef, intercept)
        for number, block in enumerate(self.blocks):
            places = self.curves.places(number)
            found[:, places] = np.asarray(coef)[:, places] @ np.linalg.pinv(block).T
        if len(self.curves.pairs):
            found[:, -len(self.curves.pairs) :] = coef[:, -len(self.curves.pairs) :]
        return found, intercept


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
        missed = self.columns[beyond > 1 / 2 + _SURE * noise * math.sqrt(2)]
        return self._expansion(own, noise), tuple(missed.tolist())

    def _expansion(self, own: list[Array], noise: float) -> Expansion:
        low, high = self.bounds.low, self.bounds.high
        curves = []
        for j, inner, counted in zip(self.columns, self.histogram.edges, own, strict=True):
            edges, shares = np.append(inner[:-1], high[j]), counted[1:-1].copy()
            shares[0] += counted[0]
            shares[-1] += counted[-1]
            pieces = self.n_knots, self.n_quantiles
            curves.append(curve_of(int(j), edges, shares, noise, *pieces))
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
