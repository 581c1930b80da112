"""Arrays and bounds that can be looked up: plans are remembered by their public numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skdpfl.preprocessing._bounds import Bounds


class Frozen(NamedTuple):
    """An array that nobody can change any more, and that can be looked up."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes

    def array(self) -> np.ndarray:
        """Return it, read-only."""
        return np.frombuffer(self.content, self.dtype).reshape(self.shape)


def frozen(values: ArrayLike) -> Frozen:
    """Return a copy of an array that can be looked up."""
    array = np.asarray(values)
    return Frozen(array.dtype.str, array.shape, array.tobytes())


def frozen_bounds(bounds: Bounds | None) -> tuple[Frozen, Frozen] | None:
    """Return bounds that can be looked up."""
    return None if bounds is None else (frozen(bounds.low), frozen(bounds.high))


def thawed_bounds(bounds: tuple[Frozen, Frozen] | None) -> Bounds | None:
    """Return what :func:`frozen_bounds` was given."""
    return None if bounds is None else Bounds(bounds[0].array(), bounds[1].array())
