"""Tables of additive models: columns that are made from values and cells as they are read.

A table stores the values of columns and, for each curve, the cell of its value. These and public
numbers determine all columns::

    columns of values      x_i factor_i                                 i < before
    columns of curve f     u B_fk + T_fck      u = x_where(f), c its cell, k < m
    other columns          x_i                                          i >= before

So a table has one byte per value beside the values, however many columns there are. Products read
a few records at a time, whose columns stay in the processor's cache.

**Formal guarantee.** A row's columns follow from its own values and cells: each is one product,
rounded, and one sum, rounded. NumPy and compiled code give the same bits, so that squared norms are
those of the rows that are summed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdpfl._compiled import products as compiled

#: cells that each curve has room for, and numbers that compiled code may read beyond the last one
CELLS, BEYOND = 256, 16
#: lines of a record that compiled code has room for
_LINES = 9


class CurveColumns(NamedTuple):
    """How columns follow from values and cells.

    ``factors`` (before,); ``slopes`` B (curves, m); ``levels`` T (curves, CELLS, m); ``where``
    (curves,) is the index of each curve's value. The last numbers of flat arrays are not used.
    """

    factors: NDArray
    slopes: NDArray
    levels: NDArray
    where: NDArray

    @classmethod
    def of(cls, factors: NDArray, slopes: NDArray, levels: NDArray, where: NDArray) -> CurveColumns:
        """Return the columns of arrays in these shapes."""
        flat, cells = (np.append(each.ravel(), np.zeros(BEYOND)) for each in (slopes, levels))
        return cls(factors, flat, cells, where.astype(np.int64))

    def astype(self, dtype: np.dtype) -> CurveColumns:
        """Return the numbers in a dtype."""
        factors, slopes, levels = (each.astype(dtype, copy=False) for each in self[:3])
        return CurveColumns(factors, slopes, levels, self.where)

    @property
    def added(self) -> int:
        """The number of columns of curves."""
        return len(self.slopes) - BEYOND


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

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self.values), self.values.shape[1] + self.columns.added

    @property
    def dtype(self) -> np.dtype:
        """That of the columns as they are read."""
        return self.precision or self.values.dtype

    @property
    def nbytes(self) -> int:
        """The size of what is stored."""
        return self.values.nbytes + self.cells.nbytes

    def __getitem__(self, rows: slice) -> ExpandedTable:
        return replace(self, values=self.values[rows], cells=self.cells[rows])

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
        factors, slopes, levels, where = self.columns
        (n, width), before, added = self.shape, len(factors), self.columns.added
        out = np.empty((n, width), self.values.dtype)
        np.multiply(self.values[:, :before], factors, out=out[:, :before])
        out[:, before + added :] = self.values[:, before:]
        if added:
            m = added // len(where)
            places = self.cells + CELLS * np.arange(len(where))
            columns = levels[:-BEYOND].reshape(-1, m).take(places, axis=0, mode="clip")
            lines = np.repeat(self.values[:, where], m, axis=1)
            lines *= slopes[:added]
            lines += columns.reshape(n, added)
            out[:, before : before + added] = lines
        return out.astype(self.dtype, copy=False)

    def for_compiled(self) -> tuple[Any, ...]:
        """Return what compiled products take for a table."""
        factors, slopes, levels, where = self.columns
        space = np.empty(_LINES * (self.shape[1] + BEYOND), self.dtype)
        return self.values, self.cells, where, factors, slopes, levels, space, len(factors)
