r"""Sums for columns: moments in boxes, counts in bins and of levels, and second moments of rows.

These are for columns with missing values::

    Means       (a o, o u),  o = 1 if there is a value,  u = cut((x - m) / h, -1, 1)
    Spreads     (a o, o u, A o (u^2 - B)),  A and B as in :mod:`skdpfl.scaling._moments`
    Bins        a one in one of K bins between edges, values beyond them in the end bins
    Magnitudes  a one in one bin of MagnitudeGrid: 1, 2, 4, ... of either sign
    Levels      a one at the value, if it is one of those that were declared
    LifeTable   a one in one cell: a group, and an interval with or without the event
    Known       o

Formal guarantee
----------------
Over d columns that are not ignored, one record's terms are a point of the d-fold product of a fixed
set, so squared norms and distances add up over columns.

- *Mean.* The set is (0, 0) and the segment from (a, -1) to (a, 1). Its diameter is
  max(2, sqrt(a^2 + 1)), 2 for a up to sqrt(3), and its radius sqrt(a^2 + 1). Where a record is
  replaced a is sqrt(3), where its terms are set to zero 1. Entries o and u are multiples of 2^-20
  (u is cut off towards 0); a multiplies the sum.
- *Mean and spread.* Points of one curve are at most 2 apart, as A^2 <= 2.77 (proved in
  :mod:`skdpfl.scaling._moments`; there |phi - phi'|^2 is below 3.89 but for u = -u' = +-1, so
  cutting u^2 off to the grid changes nothing). From (0, 0, 0) the squared distance is
  a^2 + v + A^2 (v - B)^2 with v = u^2 in [0, 1]: convex, 1 + A^2 (1 - B)^2 < 1.2579 at v = 1 and
  A^2 B^2 < 1.2482 at v = 0. With a = 13/8 that is below 4, so the diameter is 2 and the second
  moments are free. Radius sqrt(a^2 + 1.2579); where terms are set to zero a is 1.
- *Counts.* A one in one bin or in none: diameter sqrt(2), radius 1.
- *Known.* A one or none: diameter and radius 1.

The middle of means and spreads (for rounding the means of persons) is half of what a value and a
gap give, (a / 2, 0, ...): its squared distance to a gap is a^2 / 4, to values 3 a^2 / 4 less than
the squared radius.

:mod:`skdpfl.federation._sums` proves the cost of a noised sum. Infinite values count as the box's
ends; among magnitudes they are not counted.

Second moments of rows in a ball, as in "Analyze Gauss" [1]_, together with the mean::

    x = c(row - center),  |x| <= R         c: rows that are longer than R are cut to it
    z = (x, b),   b = R / 2 where the mean is to be learnt, else 0
    Phi(row) = z z^T without the corner b^2: each square once, each product once, times sqrt(2)
    M = mean of x x^T,  m = mean of x,  covariance = M - m m^T         (m = 0 without the mean)

Formal guarantee: second moments
--------------------------------
Products are multiplied by sqrt(2), so distances of Phi are Frobenius distances of ``z z^T`` (the
corner is the same for all records). With t = <x, y>, for two rows of norms p, q ::

    |Phi(x) - Phi(y)|^2 = p^4 + q^4 - 2 t^2 + 2 b^2 (p^2 + q^2 - 2 t)

which grows with p and q for a given t; at p = q = R it is largest at t = -b^2 (allowed, as b <= R),
where it is ``2 (R^2 + b^2)^2``. So the diameter of the set of terms is ``sqrt(2) (R^2 + b^2)``, and
its radius ``R sqrt(R^2 + 2 b^2)``. Both are attained. :mod:`skdpfl.federation._sums` proves the
cost of a noised sum, including the rounding of the sum, in pieces of 2^14 records.

In the matrix, noise of standard deviation s on the sum is s on the diagonal and s / sqrt(2) off the
diagonal: less than independent noise of s in each entry of the upper triangle, which would have the
same price.

A row is clipped by a norm computed in floating point, slightly increased; rows whose norm is not
finite count as zero.

References
----------
.. [1] C. Dwork, K. Talwar, A. Thakurta, L. Zhang, "Analyze Gauss: optimal bounds for
       privacy-preserving principal component analysis", STOC 2014.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.encoding import canonical, kind_of_labels, places_of, read_values
from skdpfl.federation import PIECE, BoundedSum, CellCounts, Middle, SiloBudgets, SiloData
from skdpfl.privacy.release import DOUBLE, relative_error
from skdpfl.scaling._magnitudes import LOWEST, MagnitudeGrid
from skdpfl.scaling._maps import Array, Bounds
from skdpfl.scaling._moments import STEP, A, B

#: the most bins of a column
MOST_BINS = 128
#: the most declared values of a column
MOST_LEVELS = 2**16
#: rows, and numbers in their sums, that are read together
NUMBERS_AT_ONCE = 2**20
#: a bin counts if it exceeds this many deviations of its noise
_CLEAR_DEVIATIONS = 4.0


def _groups(sizes: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Yield the silos with records, a large one alone and small ones (or persons) together."""
    silos = np.flatnonzero(sizes)
    cost = np.cumsum(sizes[silos] + width) // NUMBERS_AT_ONCE
    if len(silos):
        yield from np.split(silos, np.flatnonzero(np.diff(cost)) + 1)


def _added(terms: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return sums (n, d) of terms on the grid, which are exact, between edges (n + 1,)."""
    return np.add.reduceat(terms, edges[:-1], axis=0, dtype=np.float64)


def as_numbers(X: np.ndarray) -> np.ndarray:
    """Return a table as numbers; entries that are not numbers become missing."""
    if X.dtype != object:
        return X.astype(np.float64)
    return read_values(X, ("number",) * X.shape[1])


@dataclass(frozen=True, eq=False)
class CentreSum(BoundedSum):
    """Base class: a sum over the columns in ``used`` (n_features,).

    All silos have the noise of the largest, which has ``largest`` records.
    """

    used: np.ndarray
    largest: int
    on_grid = True
    of_words = True

    @cached_property
    def d(self) -> int:
        """The number of columns."""
        return int(self.used.sum())

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if self.used.shape != (n_features,) or self.used.dtype != bool or not self.d:
            raise ValueError(
                "The requested columns do not fit a table with this number of columns."
            )

    def drift(self, budgets: SiloBudgets) -> np.ndarray:
        most = np.maximum(budgets.summed, float(self.largest))
        return np.asarray(relative_error((2, DOUBLE)) * most * self.radius)

    def read(self, X: np.ndarray) -> np.ndarray:
        """Return the values of some columns."""
        return as_numbers(X)


@dataclass(frozen=True, eq=False)
class TermSum(CentreSum):
    """Base class of sums of terms that are computed from each value."""

    @abstractmethod
    def of_columns(self, X: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Return sums of records' terms, from their used columns (n, d).

        Sum k is over the rows from ``edges[k]`` to ``edges[k + 1]``, of which there are some.
        """

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for silos in _groups(data.sizes, math.prod(self.shape)):
            rows, edges = data.rows_together(silos)
            yield silos, self.of_columns(self.read(data.stored(rows)[:, self.used]), edges)


@dataclass(frozen=True, eq=False)
class Means(TermSum):
    """The number of values, and their sum in the box's units (2, d)."""

    low: np.ndarray
    high: np.ndarray
    replaced: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return 2, self.d

    @property
    def a(self) -> float:
        """The weight of the number of values."""
        return math.sqrt(3) if self.replaced else 1.0

    @property
    def weight(self) -> np.ndarray:
        return np.array([[self.a], [1.0]])

    @property
    def radius(self) -> float:
        return math.sqrt(self.d * (self.a**2 + 1))

    @property
    def diameter(self) -> float:
        return 2 * math.sqrt(self.d)

    @property
    def middle(self) -> Middle:
        point = np.zeros(self.shape)
        point[0] = 0.5  # of the zeros of a gap and the (a, ...) of a value
        shorter = 0.75 * self.d * self.a**2
        return Middle(point, self.a / 2 * math.sqrt(self.d), math.sqrt(self.radius**2 - shorter))

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        for ends in (self.low, self.high):
            if ends.shape != (self.d,) or ends.dtype != np.float64 or not np.isfinite(ends).all():
                raise ValueError("There must be one box for each requested column.")
        if not (self.high / 2 > self.low / 2).all():
            raise ValueError("Boxes must have low < high.")

    def of_columns(self, X: np.ndarray, edges: np.ndarray) -> np.ndarray:
        return np.stack([_added(each, edges) for each in self.within(X)], axis=1)

    def within(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which entries are not missing, and u of each."""
        # halves first: a width that overflows would make an infinite value NaN, and the sum with it
        centre, half = self.low / 2 + self.high / 2, self.high / 2 - self.low / 2
        seen = ~np.isnan(X)
        u = np.where(seen, np.clip((X - centre) / half, -1.0, 1.0), 0.0)
        return seen, np.trunc(u / STEP) * STEP


@dataclass(frozen=True, eq=False)
class Spreads(Means):
    """The number of values, their sum and sum of squares in the box's units (3, d)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return 3, self.d

    @property
    def a(self) -> float:
        return 13 / 8 if self.replaced else 1.0

    @property
    def weight(self) -> np.ndarray:
        return np.array([[self.a], [1.0], [A]])

    @property
    def radius(self) -> float:
        return math.sqrt(self.d * (self.a**2 + 1 + (A * (1 - B)) ** 2))

    def of_columns(self, X: np.ndarray, edges: np.ndarray) -> np.ndarray:
        seen, u = self.within(X)
        squares = np.trunc(u * u / STEP) * STEP - B * seen
        return np.stack([_added(each, edges) for each in (seen, u, squares)], axis=1)

    def means(self, sums: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers, means and mean squares from noisy sums (..., 3, d), in the box's units.

        Numbers below two standard deviations of their noise are raised to that.
        """
        n, first, second = np.moveaxis(sums / self.weight, -2, 0)
        least = np.maximum(n, 2 * std / self.a)
        return n, first / least, second / least + B


@dataclass(frozen=True, eq=False)
class BinCounts(CellCounts, CentreSum):
    """Base class of counts (d, n_bins) of values in bins."""

    @property
    def radius(self) -> float:
        return math.sqrt(self.d)

    @property
    def diameter(self) -> float:
        return math.sqrt(2 * self.d)

    @abstractmethod
    def places(self, X: np.ndarray) -> np.ndarray:
        """Return the bin of each value (n, d), -1 if missing."""

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            bins = self.places(self.read(data.stored(rows)[:, self.used]))
        d, n_bins = self.shape
        return np.where(bins < 0, -1, bins + n_bins * np.arange(d))


@dataclass(frozen=True, eq=False)
class Bins(BinCounts):
    """Histograms: counts of values between edges (d, n_bins + 1)."""

    edges: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.d, self.edges.shape[1] - 1

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        one = self.edges.ndim == 2 and self.edges.dtype == np.float64
        fine = one and len(self.edges) == self.d and 1 <= self.shape[1] <= MOST_BINS
        # in others a search continues where that of the record before has ended
        if not fine or not (self.edges[:, 1:] >= self.edges[:, :-1]).all():
            raise ValueError("There must be increasing bin edges for each requested column.")

    def places(self, X: np.ndarray) -> np.ndarray:
        inner = self.edges[:, 1:-1]
        bins = [e.searchsorted(x, "right") for e, x in zip(inner, X.T, strict=True)]
        return np.where(np.isnan(X), -1, np.stack(bins, axis=1))


@dataclass(frozen=True, eq=False)
class Magnitudes(BinCounts):
    """The number of finite values in each bin of magnitudes, (d, n_bins)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.d, MagnitudeGrid.n_bins

    def places(self, X: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(X), MagnitudeGrid().bins(X), -1)


@dataclass(frozen=True, eq=False)
class Levels(BinCounts):
    """The number of records with each of the declared ``values`` in a column, (1, n_values)."""

    values: tuple[str | int | float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, len(self.values)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        if self.d != 1 or not 1 <= len(set(self.values)) == len(self.values) <= MOST_LEVELS:
            raise ValueError("Declared values must be of one column, without duplicates.")

    def read(self, X: np.ndarray) -> np.ndarray:
        return X

    def places(self, X: np.ndarray) -> np.ndarray:
        kind = kind_of_labels(self.values)
        return places_of(canonical(X[:, 0], kind), self.values, kind)[:, None]


@dataclass(frozen=True, eq=False)
class LifeTable(Levels):
    """The number of records in each cell of groups' life tables, (1, n_groups (2 k + 1)).

    Targets are times in shares of the ``horizon``, negative without an event
    (:func:`skdpfl.losses.signed_times`); ``cuts`` are the inner ends of k intervals. A group's
    cells are: censored in interval b, or with an event in it, for each b; and beyond the horizon.
    Groups are the declared ``values`` of a column; without any there is one group.
    """

    cuts: tuple[float, ...]
    horizon: float

    @property
    def n_cells(self) -> int:
        """The number of a group's cells."""
        return 2 * len(self.cuts) + 3

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, max(1, len(self.values)) * self.n_cells

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        values = self.values or ("all",)
        Levels(self.used, self.largest, values).check(n_features, n_classes, work)
        rising = bool((np.diff([0.0, *self.cuts, 1.0]) > 0).all())
        if not rising or self.shape[1] > MOST_LEVELS or not 0 < self.horizon < np.inf:
            raise ValueError("A life table needs increasing intervals, and not too many.")

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        y = data.y[rows]
        event, time = ~np.signbit(y), np.abs(y)
        within = 2 * np.searchsorted(self.cuts, time, side="left") + event
        cell = np.where((time >= 1) & ~event, self.n_cells - 1, within)
        group = self.places(data.stored(rows)[:, self.used])[:, 0] if self.values else 0
        return np.where(group < 0, -1, group * self.n_cells + cell)[:, None]


@dataclass(frozen=True, eq=False)
class Known(TermSum):
    """The number of records whose value is not missing, (d,)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.d,)

    @property
    def radius(self) -> float:
        return math.sqrt(self.d)

    @property
    def diameter(self) -> float:
        return math.sqrt(self.d)

    @property
    def middle(self) -> Middle:
        return Middle(0.5, self.diameter / 2, self.diameter / 2)

    def read(self, X: np.ndarray) -> np.ndarray:
        return X

    def of_columns(self, X: np.ndarray, edges: np.ndarray) -> np.ndarray:
        return _added(~np.asarray(pd.isna(X), bool), edges)


def boxes_of(counts: np.ndarray, noise: float) -> tuple[Bounds, np.ndarray]:
    """Return boxes of columns from noisy counts, and which have values beyond the grid.

    They reach from the lowest to the highest bin with a noisy count above 4 times its noise; they
    are NaN if there is none.
    """
    grid = MagnitudeGrid
    edges, zero = grid.edges, grid.n_positive
    lows, highs = np.append(edges[:-1], 1.0), np.append(edges[1:], 1.0)
    lows[zero] = highs[zero] = 0.0
    clear = counts > _CLEAR_DEVIATIONS * noise
    far = np.any(clear[:, [0, 2 * zero]], axis=1)  # the two open bins
    low = np.where(clear, lows, np.inf).min(axis=1)
    high = np.where(clear, highs, -np.inf).max(axis=1)
    none = ~clear.any(axis=1)
    low[none] = high[none] = np.nan
    return Bounds(low, high), far


def edges_by(counts: np.ndarray, noise: float, box: Bounds, n_bins: int) -> np.ndarray:
    """Return edges (d, n_bins + 1) inside boxes, denser where noisy magnitudes have more values.

    They are a compromise between bins of equal width and bins with equal counts, half of each.
    """
    grid, levels = MagnitudeGrid(), np.linspace(0.0, 1.0, n_bins + 1)
    clear = np.where(counts > _CLEAR_DEVIATIONS * noise, counts, 0.0)
    within = clear[:, :-1].copy()
    within[:, grid.n_positive + 1 - LOWEST] += clear[:, -1]  # a one is in the bin from 1 to 2
    edges = np.empty((len(counts), n_bins + 1))
    for j, (low, high) in enumerate(zip(*box, strict=True)):
        upto = np.append(0.0, within[j].cumsum())
        at = np.unique(np.clip(grid.edges, low, high))
        filled = np.interp(at, grid.edges, upto / max(upto[-1], 1.0))
        edges[j] = np.interp(levels, (filled + (at - low) / (high - low)) / 2, at)
    return edges


def quantiles(counts: np.ndarray, edges: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return quantiles (..., d, n_shares) from noisy counts (..., d, n_bins) between edges.

    Cumulative sums are made non-decreasing: the mean of their running maximum and minimum.
    """
    below = np.concatenate([np.zeros((*counts.shape[:-1], 1)), counts.cumsum(axis=-1)], axis=-1)
    rising = np.maximum.accumulate(below, axis=-1)
    falling = np.minimum.accumulate(below[..., ::-1], axis=-1)[..., ::-1]
    below, edges = (rising + falling) / 2, np.broadcast_to(edges, below.shape)
    wanted = np.maximum(below[..., -1:], 0.0) * shares
    at = (below[..., None, :] < wanted[..., None]).sum(axis=-1).clip(1, counts.shape[-1])
    upto, before = (np.take_along_axis(below, k, -1) for k in (at, at - 1))
    step = upto - before
    part = np.where(step > 0, (wanted - before) / np.where(step > 0, step, 1.0), 0.5).clip(0, 1)
    right, left = (np.take_along_axis(edges, k, -1) for k in (at, at - 1))
    return left + part * (right - left)


@dataclass(frozen=True, eq=False)
class SecondMoments(BoundedSum):
    """The sum of ``Phi``, packed: the upper triangle, then the row's mean if it is learnt.

    ``center`` (n_features,) is declared; adding ``n_silos`` sums counts in the rounding error.
    """

    center: Array
    length: float
    with_mean: bool
    n_silos: int = 1

    @property
    def lift(self) -> float:
        """The entry b that is appended to rows."""
        return self.length / 2 if self.with_mean else 0.0

    @property
    def d(self) -> int:
        """The number of columns."""
        return len(self.center)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.d * (self.d + 1) // 2 + self.d * self.with_mean,)

    @property
    def radius(self) -> float:
        return self.length * float(np.sqrt(self.length**2 + 2 * self.lift**2))

    @property
    def diameter(self) -> float:
        return float(np.sqrt(2)) * (self.length**2 + self.lift**2)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        numbers = self.center.dtype == np.float64 and bool(np.isfinite(self.center).all())
        fine = numbers and 0 < self.length < np.inf and self.n_silos >= 1
        if self.center.shape != (n_features,) or not fine:
            raise ValueError("The center does not fit a table with this number of columns.")

    def operations(self, records: np.ndarray, n_added: int) -> np.ndarray:
        return PIECE + np.ceil(records / PIECE) + max(self.n_silos, n_added) + 8

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        for silo in np.flatnonzero(data.sizes).tolist():
            yield np.array([silo]), self._sum(data, silo)[None]

    def _sum(self, data: SiloData, silo: int) -> Array:
        d, n = self.d, int(data.sizes[silo])
        second, mean = np.zeros((d, d)), np.zeros(d)
        for start in range(0, n, PIECE):
            rows = data.rows_of(silo, slice(start, min(start + PIECE, n)))
            x = self._cut(data.stored(rows))
            second += x.T @ x
            mean += x.sum(axis=0)
        second *= np.sqrt(2)
        np.fill_diagonal(second, second.diagonal() / np.sqrt(2))
        parts = [second[np.triu_indices(d)]]
        if self.with_mean:
            parts.append(np.sqrt(2) * self.lift * mean)
        return np.concatenate(parts)

    def _cut(self, X: np.ndarray) -> Array:
        """Return rows clipped to the ball."""
        return cut(np.asarray(X), self.center, self.length)

    def unpacked(self, means: Array) -> tuple[Array, Array]:
        """Return the mean (d,), zeros if it is not learnt, and the second moments (d, d)."""
        d = self.d
        upper = np.zeros((d, d))
        upper[np.triu_indices(d)] = means[: d * (d + 1) // 2]
        second = (upper + upper.T) / np.sqrt(2)
        np.fill_diagonal(second, upper.diagonal())
        if not self.with_mean:
            return np.zeros(d), second
        return means[d * (d + 1) // 2 :] / (np.sqrt(2) * self.lift), second


@dataclass(frozen=True, eq=False)
class ScaledMoments(SecondMoments):
    """Second moments of scaled columns; a column with scale 0 is not read.

    A row with a missing value or text in a column that is read counts as zero.
    """

    scale: Array = field(kw_only=True)
    of_words = True

    @property
    def used(self) -> np.ndarray:
        """The columns that are read."""
        return self.scale > 0

    @property
    def d(self) -> int:
        return int(self.used.sum())

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        same = self.scale.shape == self.center.shape and self.scale.dtype == np.float64
        if not same or not np.isfinite(self.scale).all() or not self.used.any():
            raise ValueError("The scales do not fit a table with this number of columns.")

    def _cut(self, X: np.ndarray) -> Array:
        with np.errstate(all="ignore"):
            rows = (as_numbers(X[:, self.used]) - self.center[self.used]) / self.scale[self.used]
        return cut(rows, np.zeros(rows.shape[1]), self.length)


def cut(rows: Array, center: Array, radius: float) -> Array:
    """Return rows - center, clipped to the norm, float64; rows that are not finite give zeros."""
    with np.errstate(all="ignore"):
        x = np.subtract(rows, center, dtype=np.float64)
        norms = np.sqrt(np.einsum("nd,nd->n", x, x))
        below = radius * (1 - relative_error((x.shape[1] + 16, DOUBLE)))
        finite = np.isfinite(norms)
        x *= np.where(finite, np.minimum(1.0, below / norms), 0.0)[:, None]
    x[~finite] = 0.0
    return x
