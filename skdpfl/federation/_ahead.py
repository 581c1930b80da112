"""Random numbers of several steps drawn at once, if one step needs few.

Each draw has a fixed overhead. Streams have addresses, so numbers that are drawn ahead are the same
as if they were drawn step by step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: at most this many numbers are drawn ahead for a stack
AHEAD = 2**15
#: and for at most this many stacks; the sizes of a fit's stacks differ by factors of two
STACKS = 64

#: (silos, steps) -> (len(steps), len(silos), ...)
Make = Callable[[np.ndarray, range], np.ndarray]


class Ahead:
    """The results of ``make`` for stacks of silos, step by step; keeps each stack's last block.

    ``stop`` is the first step at which the stack may be another one. Stacks are identified by
    their array of silos, which must stay the same object.
    """

    def __init__(self, make: Make, per_silo: int) -> None:
        self._make, self._per_silo = make, max(1, per_silo)
        #: id of the array -> the array, the steps of the block, and the block
        self._blocks: dict[int, tuple[np.ndarray, range, np.ndarray]] = {}

    def get(self, silos: np.ndarray, step: int, stop: int) -> np.ndarray:
        """Return a step's numbers, shape (len(silos), ...)."""
        whose, steps, block = self._blocks.get(id(silos), (None, range(0), np.empty(0)))
        if whose is not silos or step not in steps:
            many = max(1, AHEAD // (self._per_silo * len(silos)))
            steps = range(step, min(step + many, stop))
            block = self._make(silos, steps)
            if len(steps) > 1:
                self._keep(silos, steps, block)
        return block[step - steps.start]

    def _keep(self, silos: np.ndarray, steps: range, block: np.ndarray) -> None:
        """Keep a block; drop the oldest if there are too many."""
        self._blocks.pop(id(silos), None)
        self._blocks[id(silos)] = silos, steps, block
        for first in list(self._blocks)[:-STACKS]:  # a copy, as other threads may add blocks
            self._blocks.pop(first, None)
