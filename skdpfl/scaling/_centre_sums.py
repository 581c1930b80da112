r"""Sums that centres of columns with gaps follow from: values in boxes, and counts in bins.

::

    Means       (a o, o u),  o = 1 if there is a value,  u = cut((x - m) / h, -1, 1)
    Bins        a one in one of K equal bins of a box, values beyond it in the end bins
    Magnitudes  a one in one bin of MagnitudeGrid: 1, 2, 4, ... of either sign

Formal guarantee
----------------
Over d columns that are not ignored, one record's terms are a point of the d-fold product of a fixed
set, so squared norms and distances add up over columns.

- *Mean.* The set is (0, 0) and the segment from (a, -1) to (a, 1). Its diameter is
  max(2, sqrt(a^2 + 1)), 2 for a up to sqrt(3), and its radius sqrt(a^2 + 1). Where a record is
  replaced a is sqrt(3), where its terms are set to zero 1. Entries o and u are multiples of 2^-20
  (u is cut off towards 0); a multiplies the sum.
- *Counts.* A one in one bin or in none: diameter sqrt(2), radius 1.

:mod:`skdpfl.federation._sums` has the proof of what a noised sum costs. Infinite values count as
the box's ends, or, among magnitudes, as none.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.federation import BoundedSum, SiloBudgets, SiloData
from skdpfl.privacy.release import DOUBLE, relative_error
from skdpfl.scaling._magnitudes import MagnitudeGrid

#: terms are multiples of this
STEP = 2.0**-20
#: the most bins of a column
MOST_BINS = 128


def as_numbers(X: np.ndarray) -> np.ndarray:
    """Return a table of anything as numbers; what is none is missing, in each record by itself."""
    if X.dtype != object:
        return X.astype(np.float64)
    columns = [pd.to_numeric(pd.Series(column, dtype=object), errors="coerce") for column in X.T]
    return np.column_stack([column.to_numpy(np.float64, na_value=np.nan) for column in columns])


@dataclass(frozen=True, eq=False)
class CentreSum(BoundedSum):
    """A sum over the columns in ``used`` (n_features,); no silo has more than ``largest`` records.

    All sums have the same noise: that of the largest silo's.
    """

    used: np.ndarray
    largest: int
    on_grid = True
    of_words = True

    @cached_property
    def d(self) -> int:
        """The number of columns."""
        return int(self.used.sum())

    @abstractmethod
    def of_columns(self, X: np.ndarray) -> np.ndarray:
        """Return the sum of some records' terms, from their used columns (n, d)."""

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if self.used.shape != (n_features,) or self.used.dtype != bool or not self.d:
            raise ValueError("The columns that are asked for are none of these records'.")

    def drift(self, budgets: SiloBudgets) -> np.ndarray:
        most = np.maximum(budgets.summed, float(self.largest))
        return np.asarray(relative_error((2, DOUBLE)) * most * self.radius)

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for silo in np.flatnonzero(data.sizes).tolist():
            rows = data.rows_of(silo, slice(None))
            yield np.array([silo]), self.of_columns(as_numbers(data.X[rows][:, self.used]))[None]


@dataclass(frozen=True, eq=False)
class Means(CentreSum):
    """How many values there are, and the sum of them in the box's units (2, d)."""

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

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        for ends in (self.low, self.high):
            if ends.shape != (self.d,) or ends.dtype != np.float64 or not np.isfinite(ends).all():
                raise ValueError("The boxes that are asked for are none of these columns'.")
        if not (self.high / 2 > self.low / 2).all():
            raise ValueError("Boxes have low < high.")

    def of_columns(self, X: np.ndarray) -> np.ndarray:
        # halves first: a width that overflows would make an infinite value NaN, and the sum with it
        centre, half = self.low / 2 + self.high / 2, self.high / 2 - self.low / 2
        seen = ~np.isnan(X)
        u = np.where(seen, np.clip((X - centre) / half, -1.0, 1.0), 0.0)
        return np.stack([seen.sum(axis=0), (np.trunc(u / STEP) * STEP).sum(axis=0)])


@dataclass(frozen=True, eq=False)
class Bins(CentreSum):
    """How many values there are in equal bins of a box, (d, n_bins)."""

    low: np.ndarray
    high: np.ndarray
    n_bins: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.d, self.n_bins

    @property
    def radius(self) -> float:
        return math.sqrt(self.d)

    @property
    def diameter(self) -> float:
        return math.sqrt(2 * self.d)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        if not (2 <= self.n_bins <= MOST_BINS and self.low.shape == self.high.shape == (self.d,)):
            raise ValueError("The bins that are asked for are none of these columns'.")

    def places(self, X: np.ndarray) -> np.ndarray:
        """Return the bin of each value (n, d), -1 for none."""
        width = (self.high - self.low) / self.n_bins
        places = np.clip(np.floor((X - self.low) / width), 0, self.n_bins - 1)
        return np.where(np.isnan(places), -1, places).astype(np.int64)

    def of_columns(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            bins = self.places(X)
        here, (d, n_bins) = bins >= 0, self.shape
        cells = np.broadcast_to(np.arange(d), bins.shape)[here] * n_bins + bins[here]
        return np.bincount(cells, minlength=d * n_bins).reshape(d, n_bins).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Magnitudes(Bins):
    """How many finite values there are of each magnitude, (d, n_bins)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.d, MagnitudeGrid(1.0).n_bins

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        CentreSum.check(self, n_features, n_classes, work)

    def places(self, X: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(X), MagnitudeGrid(1.0).bins(X), -1)


def magnitudes(used: np.ndarray, largest: int) -> Magnitudes:
    """Return the counts of magnitudes of some columns."""
    return Magnitudes(used, largest, np.zeros(0), np.zeros(0), 0)
