"""The records of all silos, held once: a silo is a range of rows, or a list of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: data beyond this many bytes, in memory or mapped, are gathered and transformed batch by batch,
#: never copied whole
LARGE = 2**28

#: row numbers, or rows that stand together
Rows = np.ndarray | slice


@dataclass(frozen=True, eq=False)
class SiloData:
    """Rows grouped by silo, without moving them.

    ``order`` lists the rows silo by silo (None: they already are), silo i's being
    ``order[starts[i]:starts[i + 1]]``. ``transform`` is applied to every batch that is taken.
    """

    X: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    order: np.ndarray | None = None
    transform: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def from_codes(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        codes: np.ndarray,
        n_silos: int,
        transform: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> SiloData:
        """Group rows by their silo's code 0..n_silos-1; small data are transformed at once."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_silos))])
        is_sorted = n_silos == 1 or bool((codes[1:] >= codes[:-1]).all())
        small = codes.astype(np.uint16) if n_silos <= 2**16 else codes  # radix sort: 10 x faster
        order = None if is_sorted else np.argsort(small, kind="stable")
        if transform is not None and X.nbytes <= LARGE:
            X, transform = transform(X), None
        return cls(np.asarray(X), y, starts, order, transform)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records."""
        return np.diff(self.starts)

    def in_order(self) -> SiloData:
        """Return the same data with each silo's records together: a copy."""
        if self.order is None:
            return self
        X, y = self.X.take(self.order, axis=0), self.y.take(self.order, axis=0)
        return SiloData(X, y, self.starts, None, self.transform)

    def rows_of(self, silo: int, batch: Rows) -> Rows:
        """Return where some of a silo's records are, ``batch`` counting within the silo."""
        start, stop = int(self.starts[silo]), int(self.starts[silo + 1])
        if self.order is not None:
            return self.order[start:stop][batch]
        if isinstance(batch, slice):
            first, last, _ = batch.indices(stop - start)
            return slice(start + first, start + last)
        return batch + start

    def first_rows(self, silos: np.ndarray) -> np.ndarray:
        """Return where the silos' first records are."""
        starts = self.starts[silos]
        return starts if self.order is None else self.order[starts]

    def at(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the records at ``rows`` of the whole data, those of a slice without a copy."""
        X = self.X[rows] if isinstance(rows, slice) else self.X.take(rows, axis=0, mode="clip")
        return (X if self.transform is None else self.transform(X)), self.y[rows]
