"""Noise added exactly: the clipped sum and the noise live on one grid.

First working interface.
"""

from __future__ import annotations

import numpy as np


def grid_for(scale: float, bound: float, dtype=np.float64) -> float:
    """Return the grid's step for noise of standard deviation ``scale``.

    ``bound`` is the largest possible absolute value of an entry of the clipped sum.
    """
    return scale * 2.0**-20


def snap(values: np.ndarray, gamma: float, out: np.ndarray | None = None) -> np.ndarray:
    """Round to the grid."""
    out = np.divide(values, gamma, out=out)
    np.rint(out, out=out)
    return np.multiply(out, gamma, out=out)


def snapped_release(
    clipped_sum: np.ndarray, noise: np.ndarray, gamma: float, out: np.ndarray | None = None
) -> np.ndarray:
    """Return the sum plus the noise, both rounded to the grid and added exactly."""
    total = np.rint(clipped_sum.astype(np.float64) / gamma)
    total += np.rint(noise / gamma)
    total *= gamma
    if out is None:
        return total.astype(clipped_sum.dtype)
    out[...] = total
    return out


def reduced_clip(clip_norm: float, gamma: float, size: int, neighbours: str) -> float:
    """Return the clip norm whose snapped sum has the sensitivity that ``clip_norm`` promises."""
    moved = gamma * np.sqrt(size)
    return clip_norm - (moved / 2 if neighbours == "replace" else moved)
