"""A noised sum: the clip norm of its terms, its noise and its grid; and the noise of a fit's steps.

Gradients, messages of whole silos, sums at the server, private scales and noisy scores are all
released by this object. Its clip norm is reduced to allow for rounding
(:mod:`skdpfl.privacy.release.rounding`), and it adds noise exactly
(:mod:`skdpfl.privacy.release.grid`).

Noise is in whole units of the grid: 2^-20 (float32) or 2^-36 (float64) standard deviations.
:class:`FreshNoise` is independent noise for every step; a mechanism may use noise that is
correlated over steps: see :meth:`skdpfl.privacy.mechanisms.Mechanism.noise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release.grid import grid_for, snapped_release
from skdpfl.privacy.release.rounding import reduced_clip, relative_error, underflow


class StepNoise(ABC):
    """The noise of silos' steps in one fit.

    A silo's steps are requested in order, each at most once; steps that it does not take are
    skipped. A silo may be saved and restored between rounds, perhaps with streams of another
    secret: ``state`` returns what later steps need of earlier noise, and ``restore`` accepts it.
    """

    @abstractmethod
    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return integers of shape (len(steps), len(silos), size).

        Steps are numbered from the first one of the fit. int32 for sums that are released in
        float32, int64 for float64.
        """

    def state(self, silo: int) -> dict[str, np.ndarray]:
        """Return the state that later steps of a silo need; it is as secret as the records."""
        return {}

    def restore(self, silo: int, state: dict[str, np.ndarray]) -> None:
        """Continue from a result of :meth:`state`."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps nothing, got {sorted(state)}.")


@dataclass(frozen=True)
class FreshNoise(StepNoise):
    """Independent normals, from a separate stream for each (silo, step)."""

    streams: Streams
    purpose: str
    size: int
    dtype: np.dtype

    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        return self.streams.units_blocks(self.purpose, silos, steps, (self.size,), self.dtype)


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


class NoisedSum(NamedTuple):
    """A sum of clipped terms plus noise; or one for each of n silos, the fields then (n,).

    Attributes
    ----------
    std : float or ndarray
        Standard deviation of the noise on the sum; 0: none (an infinite budget).
    grid : float or ndarray
        The step of the grid; noise is drawn in units of it.
    clip : float, ndarray or None
        Clip norm of the terms, slightly below the priced one. None: terms are bounded by other
        means, and the noise is larger instead.
    dtype : dtype
        The dtype of the release.
    """

    std: Any
    grid: Any
    clip: Any = None
    dtype: np.dtype = DOUBLE

    def of(self, silos: np.ndarray) -> NoisedSum:
        """Return the sums of some of the silos."""
        clip = None if self.clip is None else self.clip[silos]
        return NoisedSum(self.std[silos], self.grid[silos], clip, self.dtype)

    def scaled(self, factor: float) -> NoisedSum:
        """Return the sums with ``factor`` times the noise and the same clip norms."""
        std = self.std * factor
        return self._replace(std=std, grid=grids(std, self.grid, self.dtype))

    def added(
        self,
        sums: np.ndarray,
        units: np.ndarray,
        *,
        divisor: float | np.ndarray = 1.0,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return (sums + noise) / divisor; ``units`` is the noise as multiples of the grid."""
        grid = self.grid
        if isinstance(grid, np.ndarray):
            grid = grid.reshape(-1, *[1] * (sums.ndim - 1))
        return snapped_release(sums, units, grid, out=out, divisor=divisor)


@lru_cache(maxsize=256)  # called several times in a round, mostly with the same arguments
def noised_sum(
    clip_norm: float, std: float, size: int, neighbours: str, *, terms: float, operations: int
) -> NoisedSum:
    """Return the release of a float64 sum of ``size`` numbers.

    Noise of ``std`` for terms of norm ``clip_norm`` is what was priced, for terms that are replaced
    or zeroed (``neighbours``). ``terms`` is the largest total weight of the terms (each at most 1),
    ``operations`` the most floating-point operations on a term, up to the grid.
    """
    grid = grid_for(std, terms * clip_norm)
    error = terms * relative_error((operations, DOUBLE))
    # with messages, squares are sent as well, divided by the norm
    lost = underflow(4 * operations, DOUBLE, size) * max(1.0, 1 / clip_norm)
    clip = reduced_clip(clip_norm, grid, size, neighbours, rounding=error, apart=lost)
    return NoisedSum(std, grid, clip)


def grids(std: np.ndarray, otherwise: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the grids of noises of standard deviation ``std`` (n,), ``otherwise`` where 0."""
    noises = std.tolist()
    made = {s: grid_for(s, 0.0, dtype) for s in set(noises) if s > 0}
    return np.array([made.get(s, o) for s, o in zip(noises, otherwise.tolist(), strict=True)])
