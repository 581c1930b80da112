"""The records of all silos, held once: a silo is a range of rows, or a list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: data beyond this many bytes, in memory or mapped, are gathered and transformed batch by batch,
#: never copied whole
LARGE = 2**28
#: records that are copied at once
BLOCK = 2**12

#: row numbers, or rows that stand together
Rows = np.ndarray | slice
Transform = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class SiloData:
    """Rows grouped by silo, without moving them.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
        Features.
    y : ndarray of shape (n,)
        Targets as the loss wants them.
    starts : ndarray of shape (n_silos + 1,)
        Silo i has the rows ``order[starts[i]:starts[i + 1]]``.
    order : ndarray of shape (n,), optional
        The rows silo by silo; None: they are in this order.
    transform : callable, optional
        Applied to every batch of features that is taken.
    y_dtype : dtype, optional
        What targets are given out as; None: as they are.
    """

    X: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    order: np.ndarray | None = None
    transform: Transform | None = None
    y_dtype: np.dtype | None = None

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

    @classmethod
    def of_one(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        index: int,
        n_silos: int,
        transform: Transform | None = None,
        y_dtype: np.dtype | None = None,
    ) -> SiloData:
        """Return the records of one of ``n_silos`` silos; the others' are elsewhere."""
        starts = np.zeros(n_silos + 1, np.int64)
        starts[index + 1 :] = len(y)
        return cls(np.asarray(X), y, starts, None, transform, y_dtype)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records."""
        return np.diff(self.starts)

    def in_order(self) -> SiloData:
        """Return the same data with each silo's records together, and transformed: a copy."""
        if self.order is None and self.transform is None:
            return self
        X, y = np.empty(self.X.shape, self.X.dtype), np.empty_like(self.y)
        for block in _blocks(len(y)):
            rows = block if self.order is None else self.order[block]
            X[block], y[block] = self._given(rows), self.y[rows]
        return SiloData(X, y, self.starts, y_dtype=self.y_dtype)

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
        if dtype == self.X.dtype or isinstance(rows, slice) or rows.size <= BLOCK:
            return self._given(rows).astype(dtype, copy=False)
        X = np.empty((*rows.shape, self.X.shape[1]), dtype)
        flat, index = X.reshape(-1, X.shape[-1]), rows.reshape(-1)
        for block in _blocks(len(index)):
            flat[block] = self._given(index[block])
        return X

    def _given(self, rows: Rows) -> np.ndarray:
        """Return features in the dtype that they are kept in."""
        X = self.X[rows] if isinstance(rows, slice) else self.X.take(rows, axis=0, mode="clip")
        return X if self.transform is None else self.transform(X)


def _blocks(n: int) -> Iterator[slice]:
    """Cut the first ``n`` rows into slices."""
    return (slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK))
