"""The noise of a fit's steps, in whole units of the release's grid.

A unit is 2^-20 (float32) or 2^-36 (float64) standard deviations. :class:`FreshNoise` is independent
noise for every step; a mechanism may use noise that is correlated over steps: see
:meth:`skdpfl.privacy.mechanisms.Mechanism.noise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.randomness.streams import Streams


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
