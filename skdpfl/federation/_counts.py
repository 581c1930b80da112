"""Sums that count records in cells: a one in at most one cell of each of some columns.

A person's term is the mean over the person's records: the person's own counts, divided by their
number. Few of them are not zero, and only these are computed::

    counts   (cell, number) of each cell with a record of the person
    mean     number / n, rounded as :func:`skdpfl.federation._sums.rounded_means` does, which leaves
             a zero a zero, as the middle of counts is the origin
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from skdpfl.federation._data import SiloData
from skdpfl.federation._sums import BoundedSum

#: counts in memory at once, and a table's numbers whose cells are counted together
_COUNTED, _NUMBERS = 2**18, 2**20


class CellCounts(BoundedSum):
    """Base class of counts: a one in at most one cell of each column, of all cells in ``shape``."""

    adds_exactly: ClassVar[bool] = True

    @abstractmethod
    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        """Return the cell of each column (n, columns) that each row is in; -1: in none."""

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See `BoundedSum.sums`."""
        here, width = np.flatnonzero(data.sizes), 1 + math.prod(self.shape)
        per_block = max(1, _COUNTED // width)
        for first in range(0, len(here), per_block):
            silos = here[first : first + per_block]
            counts = np.zeros((len(silos), width))
            for keys, low, high in self._keys(data, silos, _rows_of(data) // 4):
                found = np.bincount(keys.ravel(), minlength=(high - low) * width)
                counts[low:high] += found.reshape(high - low, width)
            yield silos, counts[:, 1:].reshape(len(silos), *self.shape)

    def of_persons(self, data: SiloData, work: Any) -> np.ndarray:
        """See `BoundedSum.of_persons`."""
        people, width = data.people, 1 + math.prod(self.shape)
        assert people is not None
        totals = np.zeros((len(people.counts), width))
        for persons, cells, counts in self._counts_of_persons(data.by_person()):
            counts = counts.reshape(-1, *[1] * len(self.shape))
            means = self.person_means(counts, people.rows[persons]).ravel()
            silos = people.silo_of[persons]  # increasing
            low, high = silos[0], silos[-1] + 1
            found = np.bincount((silos - low) * width + cells, means, (high - low) * width)
            totals[low:high] += found.reshape(-1, width)
        return totals[:, 1:].reshape(-1, *self.shape)

    def _counts_of_persons(
        self, data: SiloData
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield persons, cells + 1, and how many of a person's records are in the cell."""
        here, width = np.flatnonzero(data.sizes), 1 + math.prod(self.shape)
        n = _rows_of(data)
        ends = np.cumsum(data.sizes[here]) // n
        groups = np.split(here, np.flatnonzero(np.diff(ends)) + 1)
        for persons in groups if len(here) else ():
            parts = [
                np.unique(keys + low * width, return_counts=True)
                for keys, low, _ in self._keys(data, persons, n)
            ]
            keys, counts = parts[0] if len(parts) == 1 else _merged(parts)
            yield persons[keys // width], keys % width, counts.astype(np.float64)

    def _keys(
        self, data: SiloData, silos: np.ndarray, n: int
    ) -> Iterator[tuple[np.ndarray, int, int]]:
        """Yield numbers of silo and cell of up to n rows (n, columns), and the range of silos."""
        rows, edges = data.rows_together(silos)
        for i in range(0, int(edges[-1]), n):
            own = edges[1:].searchsorted(np.arange(i, min(i + n, edges[-1])), side="right")
            if isinstance(rows, slice):
                some: Any = slice(rows.start + i, rows.start + i + len(own))
            else:
                some = rows[i : i + n]
            low, high = int(own[0]), int(own[-1]) + 1
            first = (own - low) * (1 + math.prod(self.shape))
            yield first[:, None] + 1 + self.cells(data, some), low, high


def _rows_of(data: SiloData) -> int:
    """Return how many rows are counted together."""
    return max(4, _NUMBERS // max(1, data.X.shape[1]))


def _merged(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return increasing keys, and counts, of several of these; a person can be in two."""
    all_keys, all_counts = map(np.concatenate, zip(*parts, strict=True))
    keys, at = np.unique(all_keys, return_inverse=True)
    return keys, np.bincount(at, all_counts, minlength=len(keys))
