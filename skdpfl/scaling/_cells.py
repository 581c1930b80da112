"""Cells of a table's columns, the cell of each value, and noisy counts, smoothed.

Public bounds fix the cells: even ones, and geometric ones from both ends. The counts
(:class:`Histogram`) are one vector of the cells of all columns.

**Formal guarantee.** Any record (with NaN and infinities too) adds a one to exactly one cell of
each of d columns. So replacing it changes the counts by at most sqrt(2 d) in L2, zeroing it by
sqrt(d): :mod:`skdpfl.federation` covers these sums like all others. A value's cell depends on
nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpfl.federation import CellCounts, SiloData
from skdpfl.scaling._maps import Array

#: even cells of a column, geometric ones from an end, and the shortest of these
_EVEN, _GEOMETRIC, _SHORTEST = 64, 32, 1e-4
#: closer edges, in ranges, are merged; the most edges in a question
APART, _MOST_EDGES = 1e-9, 1024
#: in deviations of the noise: halves that differ by less from the expected division are divided as
#: expected; the least of either half
ALIKE, _LEAST = 2.0, 0.5
#: parts of a column's range in the lookup table of cells, and the fewest values that are looked up
_PARTS = 2**12
#: the mark of parts with an edge
_DIVIDED = -1


def cells(low: float, high: float) -> Array:
    """Return the inner edges of the cells of a column within (low, high), increasing."""
    with np.errstate(all="ignore"):
        a, span = np.geomspace(_SHORTEST, 1.0, _GEOMETRIC), high - low
        edges = [np.linspace(low, high, _EVEN + 1), low + span * a]
        if low < 0 < high:
            edges += [low * a, high * a]
        found = np.unique(np.concatenate(edges))
        found = found[(found > low) & (found < high)]
        return found[np.diff(found, prepend=low) > APART * span]


def cell_of(inner: Array, x: Array) -> np.ndarray:
    """Return the cell of each value, for the inner edges; one on an edge is to its right.

    In single precision, so that numbers of either precision are in the same cell.
    """
    return Cells((inner,)).of(x[:, None])[:, 0]


class Cells:
    """The cells of some columns, for their inner edges (:func:`cell_of`).

    Values of large blocks are looked up in a table. Let b(x) be the part of the range that has x, a
    non-decreasing function: b(e) < b(x) implies e < x, and b(e) > b(x) implies e > x. So the cell
    of a value in a part without an edge is the number of edges in earlier parts. Other values are
    found by bisection, and so are NaN and values too large for a whole number: these are in the
    first part or the last one, which have edges.
    """

    def __init__(self, edges: tuple[np.ndarray, ...]) -> None:
        with np.errstate(over="ignore"):
            self._edges = [inner.astype(np.float32) for inner in edges]
        if not all((inner[1:] >= inner[:-1]).all() for inner in self._edges):
            # NumPy starts a search where that of the previous value ended
            raise ValueError("The edges of cells must not decrease.")
        self._counts = np.array([inner.size + 1 for inner in edges], np.intp)
        self.dtype = np.min_scalar_type(int(self._counts.max(initial=1)) - 1)
        self._parts: list[_EvenParts | None] | None = None

    @property
    def starts(self) -> np.ndarray:
        """The index of each column's first cell among all cells."""
        return np.cumsum(self._counts) - self._counts

    @np.errstate(over="ignore", invalid="ignore")
    def of(self, X: Array) -> np.ndarray:
        """Return the cells (n, columns) of values (n, columns)."""
        out = np.empty(X.shape, self.dtype)
        if len(X) >= _PARTS and self._parts is None:
            self._parts = [_EvenParts.of(inner) for inner in self._edges]
        for j, inner in enumerate(self._edges):
            x = X[:, j].astype(np.float32)
            parts = None if self._parts is None or len(X) < _PARTS else self._parts[j]
            out[:, j] = inner.searchsorted(x, side="right") if parts is None else parts.cells(x)
        return out


class _EvenParts(NamedTuple):
    """The inner edges, and the number of edges before each of the even parts of their range."""

    inner: np.ndarray
    factor: np.float32
    before: np.ndarray

    @classmethod
    def of(cls, inner: np.ndarray) -> _EvenParts | None:
        """Return the parts of a column; None if its range is too narrow, or has no width."""
        if inner.size < 2 or not np.isfinite(inner).all():
            return None
        factor = np.float32(_PARTS) / (inner[-1] - inner[0])
        if not 0 < factor < np.inf:
            return None
        edges = np.clip(((inner - inner[0]) * factor).astype(np.intp), 0, _PARTS - 1)
        here = np.bincount(edges, minlength=_PARTS)
        before = np.cumsum(here) - here
        before[here > 0] = _DIVIDED
        return cls(inner, factor, before.astype(np.int16))

    def cells(self, x: np.ndarray) -> np.ndarray:
        """Return the cells of values in single precision."""
        part = ((x - self.inner[0]) * self.factor).astype(np.intp)
        found = self.before.take(part, mode="clip")
        divided = np.flatnonzero(found == _DIVIDED)
        found[divided] = self.inner.searchsorted(x[divided], side="right")
        return found


@dataclass(frozen=True, eq=False)
class Histogram(CellCounts):
    """Counts of the values of some columns in cells: each record is in one cell of each column.

    ``edges`` are the inner edges of each column's cells.
    """

    columns: np.ndarray
    edges: tuple[np.ndarray, ...]
    on_grid: ClassVar[bool] = True

    @cached_property
    def _cells(self) -> Cells:
        return Cells(self.edges)

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

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        """See `CellCounts.cells`."""
        return self.starts[:-1] + self._cells.of(np.asarray(data.X[rows])[:, self.columns])

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        given = self.columns
        fine = given.dtype.kind == "i" and given.shape == (len(self.edges),) and given.size
        fine = fine and given.min() >= 0 and given.max() < n_features
        fine = fine and len(np.unique(given)) == given.size
        fine = fine and all(is_rising(e) and e.size <= _MOST_EDGES for e in self.edges)
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
    found = left + (total - left - right) * half / n
    expected = total * prior[..., :half].sum(axis=-1) / prior.sum(axis=-1)
    error = noise * math.sqrt(half * (1 - half / n))
    found = np.where(np.abs(found - expected) <= ALIKE * error, expected, found)
    least = np.minimum(expected, _LEAST * error)
    found = np.minimum(np.maximum(found, least), np.maximum(expected, total - _LEAST * error))
    ends = (slice(half), found), (slice(half, None), total - found)
    each = [denoise_histogram(shares[..., i], prior[..., i], noise, part) for i, part in ends]
    return np.concatenate(each, axis=-1)


def is_rising(values: Array) -> bool:
    """Whether these are finite numbers that increase."""
    if values.ndim != 1 or values.dtype != np.float64 or not np.isfinite(values).all():
        return False
    return bool((np.diff(values) > 0).all())
