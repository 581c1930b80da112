"""How one noised sum is put on its grid: step, reduced clip norm and release, from public numbers.

See :mod:`skdpfl.privacy.grid` for the guarantee.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skdpfl.privacy.grid import grid_for, reduced_clip


class Snapping(NamedTuple):
    """The grid's step and the clip norm under which the priced multiplier is met exactly."""

    grid: float
    clip_norm: float

    def release(self, total: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return rint(total / grid) grid + rint(noise / grid) grid, added exactly.

        Both arguments are used up.
        """
        return release(total, noise, self.grid)


def snapping(
    clip_norm: float, std: float, size: int, neighbours: str, dtype: np.dtype | None = None
) -> Snapping:
    """Return the snapping of a sum of ``size`` numbers with noise of standard deviation ``std``.

    Without noise (a silo whose own epsilon is infinite) the grid is only a fine rounding.
    """
    grid = grid_for(std if std > 0 else clip_norm, clip_norm, dtype or np.dtype(np.float64))
    return Snapping(grid, reduced_clip(clip_norm, grid, size, neighbours))


def release(total: np.ndarray, noise: np.ndarray, grid: np.ndarray | float) -> np.ndarray:
    """Return the total and the noise, each rounded to the grid, added exactly; uses both up."""
    for part in (total, noise):
        np.divide(part, grid, out=part)
        np.rint(part, out=part)
    total += noise
    total *= grid
    return total
