"""Random numbers of several steps at once, where those of one step are few.

Drawing costs a fixed time that short draws do not earn. Streams have addresses, so numbers drawn
ahead are the numbers that would have been drawn in their turn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: at most this many numbers are drawn ahead
AHEAD = 2**15

#: (silos, steps) -> (len(steps), len(silos), ...)
Make = Callable[[np.ndarray, range], np.ndarray]


class Ahead:
    """What ``make`` gives for a stack of silos, step by step; the last block is kept.

    ``stop`` is the step from which on the stack may be another one.
    """

    def __init__(self, make: Make, per_silo: int) -> None:
        self._make, self._per_silo = make, max(1, per_silo)
        self._silos: np.ndarray | None = None
        self._steps, self._block = range(0), np.empty(0)

    def get(self, silos: np.ndarray, step: int, stop: int) -> np.ndarray:
        """Return a step's numbers, shape (len(silos), ...)."""
        if self._silos is not silos or step not in self._steps:
            many = max(1, AHEAD // (self._per_silo * len(silos)))
            self._silos, self._steps = silos, range(step, min(step + many, stop))
            self._block = self._make(silos, self._steps)
        return self._block[step - self._steps.start]
