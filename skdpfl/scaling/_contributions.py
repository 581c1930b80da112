"""The contribution of a record to a release: a function of the record and of public numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skdpfl.scaling._ball import Ball, sums_of_rows
from skdpfl.scaling._magnitudes import MagnitudeGrid
from skdpfl.scaling._maps import Array
from skdpfl.scaling._moments import Boxes, levels, phi_sums
from skdpfl.scaling._scaling_plan import Release
from skdpfl.scaling._target_bins import LinearGrid


class Sums(ABC):
    """Sums of contributions, silo by silo."""

    @abstractmethod
    def check(self, release: Release, is_feature: np.ndarray) -> None:
        """Raise unless these are the contributions that a release was planned for."""

    @abstractmethod
    def __call__(self, columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        """Add records (n, c), sorted by local silo numbers (n,): (n_silos, c, entries)."""


@dataclass(frozen=True, eq=False)
class CountsOn(Sums):
    """One-hot contributions: counts of the values of each silo and column in each bin."""

    grid: MagnitudeGrid | LinearGrid

    def check(self, release: Release, is_feature: np.ndarray) -> None:
        _check(release.grid == self.grid)

    def __call__(self, columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        shape = (n_silos, columns.shape[1], self.grid.n_bins)
        cells = silos[:, None] * shape[1] + np.arange(shape[1])
        flat = np.bincount(
            (cells * shape[2] + self.grid.bins(columns)).ravel(), minlength=np.prod(shape)
        )
        return flat.reshape(shape).astype(np.float64)


@dataclass(frozen=True, eq=False)
class MomentsIn(Sums):
    """``phi`` inside boxes: all terms are integers until the last line."""

    boxes: Boxes

    def check(self, release: Release, is_feature: np.ndarray) -> None:
        _check(release.grid is None and release.ball is None)
        _check_boxes(self.boxes, is_feature.size)

    def __call__(self, columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        total = np.zeros((n_silos, 2, columns.shape[1]))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        u = levels(columns, self.boxes)
        linear = np.add.reduceat(u, first, axis=0)
        u *= u
        square = np.add.reduceat(u, first, axis=0)
        counts = np.diff(np.append(first, len(silos)))[:, None]
        total[silos[first]] = phi_sums(linear, square, counts)
        return total.transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class RowsIn(Sums):
    """Rows in a ball, and the target's ``phi``."""

    boxes: Boxes
    ball: Ball

    def check(self, release: Release, is_feature: np.ndarray) -> None:
        _check(release.ball == self.ball and self.ball.n_features == is_feature.sum())
        _check_boxes(self.boxes, is_feature.size)

    def __call__(self, columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        total = np.zeros((n_silos, columns.shape[1], 2))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        total[silos[first]] = sums_of_rows(columns, first, self.boxes, self.ball)
        return total


@dataclass(frozen=True, eq=False)
class FiniteSums(Sums):
    """The number of finite values, and the sum of them or of their squares around a center."""

    center: Array | None = None

    def check(self, release: Release, is_feature: np.ndarray) -> None:
        _check(False)  # no release that is paid for is exact

    def __call__(self, columns: Array, silos: np.ndarray, n_silos: int) -> Array:
        columns = columns.astype(np.float64, copy=False)
        finite = np.isfinite(columns)
        if self.center is not None:
            columns = np.square(columns - self.center)
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        total = np.zeros((n_silos, columns.shape[1], 2))
        total[silos[first], :, 0] = np.add.reduceat(finite, first, axis=0, dtype=np.float64)
        values = np.where(finite, columns, 0.0)
        total[silos[first], :, 1] = np.add.reduceat(values, first, axis=0)
        return total


def _check(planned: bool) -> None:
    if not planned:
        raise ValueError("Other contributions are asked for than those that were planned.")


def _check_boxes(boxes: Boxes, n_columns: int) -> None:
    """Raise unless there is a center and a half length for each column."""
    for values in boxes:
        _check(values.shape == (n_columns,) and values.dtype.kind == "f")
    _check(bool(np.isfinite(boxes.center).all() and (boxes.half > 0).all()))
