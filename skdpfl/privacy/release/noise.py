"""The noise of a fit's steps, in whole units of the release's grid.

A unit is 2^-20 (float32) or 2^-36 (float64) standard deviations. Noise that is drawn anew for every
step is :class:`FreshNoise`; a mechanism may bring other noise, correlated over steps: see
:meth:`skdpfl.privacy.mechanisms.Mechanism.noise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skdpfl.privacy.randomness.streams import Streams


class StepNoise(ABC):
    """The noise of silos' steps in one fit.

    A silo's steps are asked for in their order, each once, those that it does not take left out. A
    silo may be saved and restored between rounds, perhaps with streams under another secret: what
    later steps need of earlier noise is given out by ``state`` and handed to ``restore``.
    """

    @abstractmethod
    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return integers of shape (len(steps), len(silos), size).

        Steps are numbered from the first one of the fit. int32 for sums that are released in
        float32, int64 for float64.
        """

    def state(self, silo: int) -> dict[str, np.ndarray]:
        """Return what later steps of a silo need; as secret as its records."""
        return {}

    def restore(self, silo: int, state: dict[str, np.ndarray]) -> None:
        """Go on from what :meth:`state` returned."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps nothing, got {sorted(state)}.")


@dataclass(frozen=True)
class FreshNoise(StepNoise):
    """Independent normals, each (silo, step) from a stream of its own."""

    streams: Streams
    purpose: str
    size: int
    dtype: np.dtype

    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        return self.streams.units_blocks(self.purpose, silos, steps, (self.size,), self.dtype)
