"""The records of all silos, held once: a silo is a range of rows, or a list of them.

Rows in mixed order that are read often are copied, silo by silo, as far as there is room:

    record, in silo order    0 ... len(X) - 1    len(X) ... n - 1
    read from                X, the copy         rest, as they were handed in
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

#: data beyond this many bytes, in memory or mapped, are gathered and transformed batch by batch,
#: never copied whole
LARGE = 2**28
#: records that are copied at once
BLOCK = 2**12

#: row numbers, or rows that stand together
Rows = np.ndarray | slice
Transform = Callable[[np.ndarray], np.ndarray]


class Rest(NamedTuple):
    """Records that were not copied: record i is row ``rows[i]`` of X (None: row i)."""

    X: np.ndarray
    rows: np.ndarray | None
    transform: Transform | None

    def features(self, records: Rows) -> np.ndarray:
        """Return the features of some of the records."""
        X = _taken(self.X, records if self.rows is None else self.rows[records])
        return X if self.transform is None else self.transform(X)

    def copy(self, records: slice, out: np.ndarray) -> None:
        """Write the features of some of the records into ``out``."""
        if self.rows is None or self.transform is not None:
            out[...] = self.features(records)
        else:
            self.X.take(self.rows[records], axis=0, out=out, mode="clip")

    def after(self, held: int) -> Rest | None:
        """Return all but the first ``held`` records, None if that is none."""
        if held == (len(self.X) if self.rows is None else len(self.rows)):
            return None
        if self.rows is None:
            return Rest(self.X[held:], None, self.transform)
        return Rest(self.X, self.rows[held:].copy(), self.transform)


@dataclass(frozen=True, eq=False)
class SiloData:
    """Rows grouped by silo, without moving them.

    ``order`` lists the rows silo by silo (None: they already are), silo i's being
    ``order[starts[i]:starts[i + 1]]``. ``transform`` is applied to every batch that is taken, and
    targets are given out as ``y_dtype`` (None: as they are). ``rest``: where the features of
    records from ``len(X)`` on are.
    """

    X: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    order: np.ndarray | None = None
    transform: Transform | None = None
    y_dtype: np.dtype | None = None
    rest: Rest | None = None

    @classmethod
    def from_codes(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        codes: np.ndarray,
        n_silos: int,
        transform: Transform | None = None,
        y_dtype: np.dtype | None = None,
    ) -> SiloData:
        """Group rows by their silo's code 0..n_silos-1."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_silos))])
        order = None
        if n_silos > 1 and not (codes[1:] >= codes[:-1]).all():
            # radix sort: 10 x faster
            small = codes.astype(np.uint16) if n_silos <= 2**16 else codes
            order = np.argsort(small, kind="stable")
            order = order.astype(np.int32) if len(codes) < 2**31 else order
        return cls(np.asarray(X), y, starts, order, transform, y_dtype)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records."""
        return np.diff(self.starts)

    def in_order(self, room: float = np.inf) -> SiloData:
        """Return the same data with each silo's records together, and transformed: a copy.

        What is beyond ``room`` bytes stays where it is, and is gathered whenever it is read.
        """
        (n, d), order = self.X.shape, self.order
        held, a_row, a_number = n, d * self.X.itemsize, 0 if order is None else order.itemsize
        if room < n * a_row:  # then the row numbers of the others stay as well
            held = max(0, int((room - n * a_number) // max(1, a_row - a_number)))
        if not held or self.rest is not None or (order is None and self.transform is None):
            return self
        given = Rest(self.X, order, self.transform)
        X, y = np.empty((held, d), self.X.dtype), self.y
        for rows in _blocks(held):
            given.copy(rows, X[rows])
        if order is not None:
            y = np.empty_like(y)
            for rows in _blocks(n):
                y[rows] = self.y[order[rows]]
        rest = given.after(held)
        return SiloData(X, y, self.starts, y_dtype=self.y_dtype, rest=rest)

    def rows_of(self, silo: int, batch: Rows) -> Rows:
        """Return where some of a silo's records are, ``batch`` counting within the silo."""
        start, stop = int(self.starts[silo]), int(self.starts[silo + 1])
        if self.order is not None:
            return self.order[start:stop][batch].astype(np.intp)
        if isinstance(batch, slice):
            first, last, _ = batch.indices(stop - start)
            return slice(start + first, start + last)
        return batch + start

    def first_rows(self, silos: np.ndarray) -> np.ndarray:
        """Return where the silos' first records are."""
        starts = self.starts[silos]
        return starts if self.order is None else self.order[starts].astype(np.intp)

    def in_table(self, rows: Rows) -> bool:
        """Return whether the records at ``rows`` are given out as these rows of X."""
        if self.transform is not None or self.rest is None:
            return self.transform is None
        last = rows.stop - 1 if isinstance(rows, slice) else rows.max(initial=-1)
        return bool(last < len(self.X))

    def at(self, rows: Rows, dtype: np.dtype | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the records at ``rows`` of the whole data, those of a slice without a copy.

        Features come in ``dtype``, None: as they are.
        """
        return self._features(rows, dtype or self.X.dtype), self.targets(rows)

    def targets(self, rows: Rows) -> np.ndarray:
        """Return the targets of the records at ``rows``."""
        y = self.y[rows]
        return y if self.y_dtype is None else y.astype(self.y_dtype, copy=False)

    def _features(self, rows: Rows, dtype: np.dtype) -> np.ndarray:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self.y))
            rows, n = slice(start, stop), stop - start
        else:
            n = len(rows) if rows.ndim == 1 else 0
        if n <= BLOCK or (dtype == self.X.dtype and self.rest is None):
            return self._given(rows).astype(dtype, copy=False)
        if isinstance(rows, slice) and self.rest is not None and rows.stop <= len(self.X):
            return self.X[rows].astype(dtype, copy=False)
        X = np.empty((n, self.X.shape[1]), dtype)
        for block in _blocks(n):
            some = rows[block] if isinstance(rows, np.ndarray) else _shifted(block, rows.start)
            X[block] = self._given(some)
        return X

    def _given(self, rows: Rows) -> np.ndarray:
        """Return features as they are kept; the rows of a slice have a start and a stop."""
        if self.rest is None:
            X = _taken(self.X, rows)
            return X if self.transform is None else self.transform(X)
        held = len(self.X)
        if isinstance(rows, slice):
            if rows.stop <= held:
                return self.X[rows]
            late = self.rest.features(_shifted(slice(max(held, rows.start), rows.stop), -held))
            return late if rows.start >= held else np.concatenate([self.X[rows], late])
        beyond = rows >= held
        X = self.X.take(rows, axis=0, mode="clip")
        if beyond.any():
            X[beyond] = self.rest.features(rows[beyond] - held)
        return X


def _shifted(rows: slice, by: int) -> slice:
    return slice(rows.start + by, rows.stop + by)


def _taken(X: np.ndarray, rows: Rows) -> np.ndarray:
    """Return some rows, those of a slice without a copy."""
    return X[rows] if isinstance(rows, slice) else X.take(rows, axis=0, mode="clip")


def _blocks(n: int) -> Iterator[slice]:
    """Cut the first ``n`` rows into slices."""
    return (slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK))
