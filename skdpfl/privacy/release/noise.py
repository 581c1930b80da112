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
    """The noise of silos' steps.

    The answer for a silo and a step must always be the same: steps are drawn ahead and may be asked
    for again, and two answers for one step would let the noise be averaged away. Noise that is a
    function of streams' addresses has that by itself. Noise that remembers anything else gives it
    out in ``state``; a silo that is saved and restored hands it to ``restore``.
    """

    @abstractmethod
    def units(self, silos: np.ndarray, steps: range) -> np.ndarray:
        """Return integers of shape (len(steps), len(silos), size).

        Steps are numbered from the first one of the fit; at a server, by rounds. int32 for sums
        that are released in float32, int64 for float64.
        """

    def state(self, silo: int) -> dict[str, np.ndarray]:
        """Return what must be kept of a silo's noise beside its streams."""
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
