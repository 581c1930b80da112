"""The two matrix products of a group of silos whose records lie in one table.

Shapes (n records of S silos, one silo after the other; k' >= k and n' >= n, the rest is zero)::

    by_class  (k', n')    raw = X W + b, then slopes s_j, one row a class
    sums      (S, P)      sum_j s_j a_j^T, flat

Formal guarantee. A silo's part of either product depends on its own records, parameters and slopes
only, bit for bit: products are formed silo by silo, by NumPy or in C. A record of zeros with slope
zero does not change the compiled products, bit for bit. NumPy copies the records of a silo to
remove one that is not finite, and may then add the others in another order; the rounding bounds
hold for every order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skdpfl._compiled import products as compiled
from skdpfl.models._clipping import zero_unless
from skdpfl.models._products import edges_of, flat, in_one_piece, raws_by_class, sums_over_records
from skdpfl.models._rows import FEW

#: bytes that the compiled products keep together
LINE = 64


@dataclass(frozen=True, eq=False)
class Records:
    """Records of several silos: rows of a table (N, d), as row numbers or a slice for each silo."""

    table: NDArray
    rows: Sequence[NDArray | slice]

    @classmethod
    def in_turn(cls, table: NDArray, lengths: Iterable[int]) -> Records:
        """Return the records of silos stored one after the other, ``lengths`` of each."""
        return cls(table, [slice(*ends) for ends in pairwise([0, *accumulate(lengths)])])

    @property
    def lengths(self) -> list[int]:
        """The silos' numbers of records."""
        return [r.stop - r.start if isinstance(r, slice) else len(r) for r in self.rows]

    def index(self) -> NDArray:
        """Return all row numbers, int64."""
        parts = [np.arange(r.start, r.stop) if isinstance(r, slice) else r for r in self.rows]
        return np.concatenate(parts, dtype=np.int64)

    def gathered(self) -> NDArray | list[NDArray]:
        """Return the silos' records, stacked if silos have equal sizes; slices are not copied."""
        if any(isinstance(r, slice) for r in self.rows):
            each = [self.table[r] if isinstance(r, slice) else self._take(r) for r in self.rows]
            return each[0][None] if len(each) == 1 else each
        X, lengths = self._take(self.index()), self.lengths
        if len(set(lengths)) == 1:
            return X.reshape(len(lengths), lengths[0], X.shape[-1])
        return np.split(X, np.cumsum(lengths)[:-1])

    def _take(self, rows: NDArray) -> NDArray:
        return self.table.take(rows, axis=0, mode="clip")


class GroupProducts(Protocol):
    """Both products of one group, the second after the first."""

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        """Return raw predictions (k', n_columns) of parameters (S, P)."""

    def drop_unless(self, good: NDArray) -> None:
        """Set the records that are not good to zero in the sums."""

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        """Return sums (S, P) of slopes, at most ``chunk`` records at a time."""


def group_products(records: Records, n_outputs: int, intercept: bool) -> GroupProducts:
    """Return the fastest products available."""
    make = CompiledProducts if _quick(n_outputs) else NumpyProducts
    return make(records, n_outputs, intercept)


def _quick(n_outputs: int) -> bool:
    return compiled is not None and n_outputs > FEW


def converts(n_outputs: int) -> bool:
    """Return whether :func:`group_products` accepts records of another dtype than parameters.

    NumPy's products convert them a few at a time. The result does not depend on the chunks.
    """
    return not _quick(n_outputs)


class NumpyProducts:
    """Gathers the records; sums are formed by BLAS, silo by silo."""

    def __init__(self, records: Records, n_outputs: int, intercept: bool) -> None:
        X = records.gathered()
        self._X = in_one_piece(X) if isinstance(X, np.ndarray) else [in_one_piece(x) for x in X]
        self._n_outputs, self._intercept = n_outputs, intercept

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        n_weights = params.shape[-1] - self._intercept * self._n_outputs
        weights = params[:, :n_weights].reshape(len(params), -1, self._n_outputs)
        intercept = params[:, n_weights:] if self._intercept else None
        return raws_by_class(self._X, weights, intercept, n_columns)

    def drop_unless(self, good: NDArray) -> None:
        each = zip(self._X, pairwise(edges_of(self._X)), strict=True)
        # arrays of other silos are kept: products of a copy may differ in the last bits
        self._X = [x if good[a:b].all() else zero_unless(good[a:b], x) for x, (a, b) in each]

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        sums = sums_over_records(self._X, by_class, self._intercept, chunk)
        return flat(sums, self._n_outputs)


class CompiledProducts:
    """Reads the records in place, and keeps a copy of them for the second product."""

    def __init__(self, records: Records, n_outputs: int, intercept: bool) -> None:
        self._edges = np.array([0, *accumulate(records.lengths)], dtype=np.int64)
        self._n_outputs, self._intercept = n_outputs, intercept
        self._table, self._rows = records.table, records.index()
        in_lines = self._table.strides[1] == self._table.itemsize
        if not (in_lines and self._table.flags.aligned):
            self._hold(self._table.take(self._rows, axis=0, mode="clip"))

    def raw(self, params: NDArray, n_columns: int) -> NDArray:
        if params.strides[1] != params.itemsize:
            params = np.ascontiguousarray(params)
        n, lanes = len(self._rows), LINE // self._table.itemsize
        by_class = np.empty((self._n_outputs, n_columns), self._table.dtype)
        by_class[:, n:] = 0
        wide = -(-(self._table.shape[1] + self._intercept) // lanes) * lanes
        self._copy = np.empty(wide * n + lanes, self._table.dtype)
        where = self._table, self._rows, self._edges
        compiled.raw(*where, params, by_class, self._copy, self._intercept)
        return by_class

    def drop_unless(self, good: NDArray) -> None:
        n, size = len(self._rows), (self._table.shape[1] + self._intercept) * self._n_outputs
        self._hold(zero_unless(good[:n], self._table.take(self._rows, axis=0, mode="clip")))
        self.raw(np.zeros((len(self._edges) - 1, size), self._table.dtype), n)  # for its copy

    def sums(self, by_class: NDArray, chunk: int | None) -> NDArray:
        d = self._table.shape[1]
        size = (d + self._intercept) * self._n_outputs
        out = np.empty((len(self._edges) - 1, size), self._table.dtype)
        at_once = chunk or max(1, len(self._rows))
        compiled.sums(self._copy, self._edges, by_class, out, d, self._intercept, at_once)
        return out

    def _hold(self, X: NDArray) -> None:
        """Replace the records by the rows of ``X``."""
        self._table, self._rows = X, np.arange(len(X), dtype=np.int64)
