"""Tables whose columns are made from values and cells as they are read: of curves, and of frames.

A table stores the values of columns and, for each curve, the cell of its value. These and public
numbers determine all columns::

    columns of values      x_i factor_i                                 i < before
    columns of curve f     u B_fk + T_fck      u = x_where(f), c its cell, k < m_f
    other columns          x_i                                          i >= rest

So a table has one byte per value beside the values, however many columns there are. Products read
a few records at a time, whose columns stay in the processor's cache.

A column of a frame is a curve, too (:meth:`ExpandedTable.of_parts`). Its cell is the level, and T
has one row of 0 and 1 for each; a number is its first column, the only one with a slope, which
is 1.

**Formal guarantee.** A row's columns follow from its own values and cells: each is one product,
rounded, and one sum, rounded. NumPy and compiled code give the same bits, so that squared norms are
those of the rows that are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skdpfl._compiled import products as compiled
from skdpfl.encoding import EncodedPart, Encoding

#: cells that each curve has room for, and numbers that compiled code may read beyond the last one
CELLS, BEYOND = 256, 16
#: lines of a record that compiled code has room for
_LINES = 9


class CurveColumns(NamedTuple):
    """How columns follow from values and cells.

    ``factors`` (before,); ``slopes`` B (added,) and ``levels`` T, a table (CELLS, m_f) for each
    curve, one after the other; ``where`` (curves,) is the index of each curve's value, ``widths``
    (curves,) has m_f; ``rest`` is the first value that is another column. The last numbers of
    ``slopes`` and ``levels`` are not used.
    """

    factors: NDArray
    slopes: NDArray
    levels: NDArray
    where: NDArray
    widths: NDArray
    rest: int

    @classmethod
    def of(
        cls,
        factors: NDArray,
        slopes: NDArray,
        levels: Iterable[NDArray],
        where: Sequence[int] | NDArray,
        rest: int | None = None,
    ) -> CurveColumns:
        """Return the columns of arrays in these shapes; ``levels`` has those of each curve.

        ``rest`` is by default the first value without a factor.
        """
        tables, spare = list(levels), np.zeros(BEYOND)
        widths = np.array([each.shape[1] for each in tables], np.int64)
        flat = np.concatenate([*(each.ravel() for each in tables), spare])
        own, rest = np.array(where, np.int64), len(factors) if rest is None else rest
        return cls(factors, np.append(slopes, spare), flat, own, widths, rest)

    def astype(self, dtype: np.dtype) -> CurveColumns:
        """Return the numbers in a dtype."""
        factors, slopes, levels = (each.astype(dtype, copy=False) for each in self[:3])
        return self._replace(factors=factors, slopes=slopes, levels=levels)

    @property
    def added(self) -> int:
        """The number of columns of curves."""
        return len(self.slopes) - BEYOND

    @property
    def places(self) -> list[tuple[int, int]]:
        """Where each curve's columns begin and end among those of all."""
        return list(pairwise([0, *np.cumsum(self.widths).tolist()]))

    def tables(self) -> list[NDArray]:
        """Return the levels (CELLS, m_f) of each curve."""
        each = (self.levels[CELLS * i : CELLS * j] for i, j in self.places)
        return [own.reshape(CELLS, -1) for own in each]

    def mapped(self, transform: Callable[[NDArray], NDArray]) -> CurveColumns:
        """Return those of a frame with all columns but numbers mapped, each by itself."""
        slopes = self.slopes[: self.added]
        levels = transform(np.concatenate(self.tables(), axis=1)) * (slopes == 0)
        each = [levels[:, i:j] for i, j in self.places]
        return CurveColumns.of(self.factors, slopes, each, self.where, self.rest)


@dataclass(frozen=True, eq=False)
class ExpandedTable:
    """Rows of columns, from ``values`` (n, before or more) and ``cells`` (n, curves) of bytes.

    Columns are made in the dtype of the values, then converted to ``precision``, which is no
    coarser; None: not converted.
    """

    values: NDArray
    cells: NDArray
    columns: CurveColumns
    precision: np.dtype | None = None

    @classmethod
    def of_parts(cls, parts: Iterable[EncodedPart], encoding: Encoding, n: int) -> ExpandedTable:
        """Return the table of a frame's n rows, from the parts of its columns, one by one."""
        numbers, size = encoding.n_parts
        values, cells = np.zeros((n, max(1, numbers))), np.empty((n, size), np.uint8)
        slopes, levels, where = list[bool](), list[NDArray](), list[int]()
        for f, (own, places, rows) in enumerate(parts):
            has_number, number = own is not None, sum(slopes)
            cells[:, f] = places
            levels.append(np.zeros((CELLS, rows.shape[1])))
            levels[-1][: len(rows)] = rows
            where.append(number * has_number)
            slopes += [has_number] + [False] * (rows.shape[1] - 1)
            if has_number:
                values[:, number] = own
        every = np.zeros(0), np.array(slopes, float), levels, where, values.shape[1]
        return cls(values, cells, CurveColumns.of(*every))

    def parts(self) -> Iterator[EncodedPart]:
        """Yield the columns of a frame's table."""
        columns = self.columns
        each = zip(columns.where, columns.places, columns.tables(), strict=True)
        for f, (number, (first, _), rows) in enumerate(each):
            own = self.values[:, number] if columns.slopes[first] else None
            yield EncodedPart(own, self.cells[:, f], rows)

    @property
    def numbers(self) -> NDArray:
        """The columns of a frame's table that are values, in their order."""
        return np.flatnonzero(self.columns.slopes[: self.columns.added])

    @property
    def stored(self) -> tuple[NDArray, NDArray]:
        """Values and cells."""
        return self.values, self.cells

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        columns = self.columns
        others = self.values.shape[1] - columns.rest
        return len(self.values), len(columns.factors) + columns.added + others

    @property
    def dtype(self) -> np.dtype:
        """That of the columns as they are read."""
        return self.precision or self.values.dtype

    @property
    def nbytes(self) -> int:
        """The size of what is stored."""
        return self.values.nbytes + self.cells.nbytes

    def __getitem__(self, rows: NDArray | slice) -> ExpandedTable:
        return replace(self, values=self.values[rows], cells=self.cells[rows])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        return self.dense().astype(dtype or self.dtype, copy=False)

    def take(self, rows: NDArray, axis: int, mode: Any) -> ExpandedTable:
        """Return some rows."""
        values = self.values.take(rows, axis=axis, mode=mode)
        return replace(self, values=values, cells=self.cells.take(rows, axis=axis, mode=mode))

    def astype(self, dtype: np.dtype) -> ExpandedTable:
        """Return the table with columns that are converted to a dtype as they are read."""
        return replace(self, precision=dtype)

    def dense(self) -> NDArray:
        """Return all columns (n, width)."""
        if compiled is None:
            return self.by_numpy()
        out, n = np.empty(self.shape, self.dtype), len(self)
        compiled.expand(self.for_compiled(), np.arange(n), np.array([0, n]), out)
        return out

    def by_numpy(self) -> NDArray:
        """Return the same, without compiled code."""
        columns, before = self.columns, len(self.columns.factors)
        out = np.empty(self.shape, self.values.dtype)
        np.multiply(self.values[:, :before], columns.factors, out=out[:, :before])
        out[:, before + columns.added :] = self.values[:, columns.rest :]
        lines, each = out[:, before:], zip(columns.places, columns.tables(), strict=True)
        for f, ((i, j), levels) in enumerate(each):
            lines[:, i:j] = self.values[:, columns.where[f], None] * columns.slopes[i:j]
            lines[:, i:j] += levels[self.cells[:, f]]
        return out.astype(self.dtype, copy=False)

    def for_compiled(self) -> tuple[Any, ...]:
        """Return what compiled products take for a table."""
        factors, slopes, levels, where, widths, rest = self.columns
        space = np.empty(_LINES * (self.shape[1] + BEYOND), self.dtype)
        places = np.concatenate([where, widths])
        others = self.values.shape[1] - rest
        return self.values, self.cells, places, factors, slopes, levels, space, others
