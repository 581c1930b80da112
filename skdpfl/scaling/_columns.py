"""Sums over the columns of a table: counts in bins, moments in boxes, rows in a ball.

Each is a :class:`skdpfl.federation.BoundedSum`, whose module proves the cost. The lemmas here: for
any record (with NaN, infinities and 1e300 too), the terms are ::

    Counts     a one in one bin of each column                  norm 1, distance sqrt(2)
    Moments    phi inside a box for each column                 :mod:`skdpfl.scaling._moments`
    Rows       a row in a ball, phi of the target in a box      :mod:`skdpfl.scaling._moments`

and over columns (a row in a ball counts as one) norms and distances add in squares with the squared
weights. The mean over a silo's records (unit "silo") is rounded to multiples of 2^-27. Terms are
such multiples too, so float64 sums 2^25 of them without rounding, in any order. Which records are
read depends only on their index and silo.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdpfl.federation import PIECE, BoundedSum, CellCounts, Question, SiloBudgets, SiloData
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, relative_error
from skdpfl.scaling._curves import Expansion
from skdpfl.scaling._magnitudes import LinearGrid, MagnitudeGrid
from skdpfl.scaling._maps import Array
from skdpfl.scaling._moments import DIAMETER, RADIUS, Boxes, RowBall, levels, phi_sums, sums_of_rows

#: the grid of means of whole silos; all other sums lie on it
STEP = 2.0**-27
#: the weight of the target, which matters more than a feature; a power of two keeps sums exact
TARGET_WEIGHT = 2.0
#: the largest block of messages and of rows, in numbers: larger blocks leave the cache, and
#: allocating them takes longer than the computation
_MESSAGES, _ROWS = 2**18, 2**16
#: a target has no more bins
_MOST_BINS = 64


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that are read: the features in ``used`` (n_features,), then the target.

    With ``curves`` they are columns of that expansion.
    """

    used: np.ndarray
    has_target: bool
    curves: Expansion | None = None

    @cached_property
    def is_feature(self) -> np.ndarray:
        """Which of the columns are features."""
        n = int(self.used.sum())
        return np.arange(n + self.has_target) < n

    @cached_property
    def weights(self) -> Array:
        """The weight of each column."""
        return np.where(self.is_feature, 1.0, TARGET_WEIGHT)

    def of(self, data: SiloData, rows: np.ndarray | slice) -> Array:
        """Return the values of some records (n, columns)."""
        parts = []
        if self.used.any():
            X = np.asarray(data.X[rows])
            X = X if self.curves is None else self.curves.transform(X)
            parts.append(X if self.used.all() else X[:, self.used])
        if self.has_target:
            parts.append(np.asarray(data.y[rows])[:, None])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def check(self, n_features: int) -> None:
        """Raise unless the columns fit tables with this number of features."""
        if self.curves is not None:
            self.curves.check(n_features)
            n_features = self.curves.width
        one = self.used.shape == (n_features,) and self.used.dtype == bool
        _check(one and self.is_feature.size)


@dataclass(frozen=True, eq=False)
class ColumnSums(BoundedSum):
    """Base class: sums of each column's contributions, silo by silo."""

    columns: Columns
    adds_exactly: ClassVar[bool] = True
    #: the largest norm of a column's terms, and the largest distance of two
    norm: ClassVar[float]
    distance: ClassVar[float]

    @property
    @abstractmethod
    def entries(self) -> int:
        """The number of values per column."""

    @property
    def radius(self) -> float:
        return self.norm * float(np.linalg.norm(self.columns.weights))

    @property
    def diameter(self) -> float:
        return self.distance * float(np.linalg.norm(self.columns.weights))

    @property
    def entry(self) -> float:
        return self.norm * float(self.columns.weights.max(initial=0.0))

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.is_feature.size, self.entries

    @property
    def weight(self) -> Array:
        return self.columns.weights[:, None]

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        self.columns.check(n_features)

    def mean(self, sums: Array, n: np.ndarray) -> Array:
        # STEP is a power of two, so this is rint(mean / STEP) * STEP
        return np.rint(sums / (n * STEP)[:, None, None]) * STEP

    def drift(self, budgets: SiloBudgets) -> Array:
        """Sums are exact; a product with the weight, one with the grid, and STEP are not."""
        error = relative_error((2, DOUBLE)) * (self.entry * budgets.summed)
        if budgets.unit == "silo":
            error += STEP / 2 * self.columns.weights.max(initial=0.0)
        return np.sqrt(self.shape[0] * self.entries) * error


@dataclass(frozen=True, eq=False)
class Counts(CellCounts, ColumnSums):
    """Counts of the values of each column in each bin."""

    grid: MagnitudeGrid | LinearGrid
    norm: ClassVar[float] = 1.0
    distance: ClassVar[float] = float(np.sqrt(2.0))

    @property
    def entries(self) -> int:
        return self.grid.n_bins

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        width, entries = self.shape
        return self.grid.bins(self.columns.of(data, rows)) + entries * np.arange(width)

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        super().check(n_features, n_classes, work)
        _check(isinstance(self.grid, MagnitudeGrid) or 2 <= self.grid.n_bins <= _MOST_BINS)


@dataclass(frozen=True, eq=False)
class Moments(ColumnSums):
    """Sums of ``phi`` inside boxes: all terms are integers until the last line.

    Boxes are None in plans, which are made before boxes are known.
    """

    boxes: Boxes | None = None
    norm: ClassVar[float] = RADIUS
    distance: ClassVar[float] = DIAMETER
    entries: ClassVar[int] = 2  # type: ignore[misc]

    def sums(self, data: SiloData, work: object) -> Iterator[tuple[np.ndarray, Array]]:
        width, entries = self.shape
        here = np.flatnonzero(data.sizes)
        per_block = max(1, _MESSAGES // max(1, width * entries))
        for first in range(0, len(here), per_block):
            silos = here[first : first + per_block]
            exact = np.zeros((silos.size, width, entries))
            for values, local in self._blocks(data, silos):
                low, high = local[0], local[-1] + 1  # the silos that the block has rows of
                exact[low:high] += self.added(values, local - low, high - low)
            yield silos, exact

    def _blocks(self, data: SiloData, silos: np.ndarray) -> Iterator[tuple[Array, np.ndarray]]:
        """Yield blocks of rows of some silos: their columns, and each row's position in silos."""
        first, last = data.starts[silos[0]], data.starts[silos[-1] + 1]
        positions = np.repeat(np.arange(silos.size), data.sizes[silos])
        per_block = max(1, _ROWS // max(1, self.shape[0]))
        for start in range(first, last, per_block):
            stop = min(start + per_block, last)
            rows = slice(start, stop) if data.order is None else data.order[start:stop]
            yield self.columns.of(data, rows), positions[start - first : stop - first]

    def added(self, values: Array, silos: np.ndarray, n_silos: int) -> Array:
        """Add records (n, c), sorted by local silo numbers (n,): (n_silos, c, entries)."""
        assert self.boxes is not None
        total = np.zeros((n_silos, 2, values.shape[1]))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        u = levels(values, self.boxes)
        linear = np.add.reduceat(u, first, axis=0)
        u *= u
        square = np.add.reduceat(u, first, axis=0)
        counts = np.diff(np.append(first, len(silos)))[:, None]
        total[silos[first]] = phi_sums(linear, square, counts)
        return total.transpose(0, 2, 1)

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        super().check(n_features, n_classes, work)
        _check(self.boxes is not None)
        for values in self.boxes or ():
            _check(values.shape == self.columns.is_feature.shape and values.dtype.kind == "f")
            _check(np.isfinite(values).all())
        _check(self.boxes is not None and (self.boxes.half > 0).all())


@dataclass(frozen=True, eq=False)
class RowMoments(Moments):
    """Sums of rows in a ball, and of the target's ``phi``."""

    @cached_property
    def ball(self) -> RowBall:
        """The ball of the features' part."""
        return RowBall(int(self.columns.is_feature.sum()))

    @cached_property
    def _of_target(self) -> float:
        return float(np.linalg.norm(self.columns.weights[~self.columns.is_feature]))

    @property
    def radius(self) -> float:
        return float(np.hypot(self.ball.norm, RADIUS * self._of_target))

    @property
    def diameter(self) -> float:
        return float(np.hypot(self.ball.diameter, DIAMETER * self._of_target))

    @property
    def entry(self) -> float:
        return max(self.ball.radius, self.ball.squares, super().entry)

    def added(self, values: Array, silos: np.ndarray, n_silos: int) -> Array:
        assert self.boxes is not None
        total = np.zeros((n_silos, values.shape[1], 2))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        total[silos[first]] = sums_of_rows(values, first, self.boxes, self.ball)
        return total


@dataclass(frozen=True, eq=False)
class ExactMoments(Question):
    """Each silo's exact number of finite values, and their sum or that of squares around a center.

    It is for fits without privacy, and independent of other silos' sizes.
    """

    columns: Columns
    number: int
    center: Array | None = None
    purpose = "scales"

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for i in np.flatnonzero(data.sizes).tolist():
            total = np.zeros((self.columns.is_feature.size, 2))
            for start in range(0, int(data.sizes[i]), PIECE):
                rows = slice(start, min(start + PIECE, int(data.sizes[i])))
                total += self._sums(self.columns.of(data, data.rows_of(i, rows)))
            yield np.array([i]), total.reshape(1, -1)

    def _sums(self, values: Array) -> Array:
        values = values.astype(np.float64, copy=False)
        finite = np.isfinite(values)
        if self.center is not None:
            values = np.square(values - self.center)
        seen = np.where(finite, values, 0.0)
        first = np.zeros(1, int)
        sums = [np.add.reduceat(part, first, axis=0, dtype=np.float64) for part in (finite, seen)]
        return np.stack(sums, axis=-1)[0]


def _check(holds: object) -> None:
    if not holds:
        raise ValueError("The boxes or bins do not fit the requested columns.")
