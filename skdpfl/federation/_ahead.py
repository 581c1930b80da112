"""Random numbers of several steps at once, where those of one step are few.

Drawing costs a fixed time that short draws do not earn. Streams have addresses, so numbers drawn
ahead are the numbers that would have been drawn in their turn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: at most this many numbers are drawn ahead for a stack
AHEAD = 2**15
#: and for so many stacks at once; those of a fit differ in size by factors of two
STACKS = 64

#: (silos, steps) -> (len(steps), len(silos), ...)
Make = Callable[[np.ndarray, range], np.ndarray]


class Ahead:
    """What ``make`` gives for stacks of silos, step by step; each stack's last block is kept.

    ``stop`` is the step from which on the stack may be another one. A stack is known by its array
    of silos, which is to stay the same object.
    """

    def __init__(self, make: Make, per_silo: int) -> None:
        self._make, self._per_silo = make, max(1, per_silo)
        #: by the array's identity: the array, whose steps are in the block, and the block
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
        """Keep a block; of too many, the one that was made first goes."""
        self._blocks.pop(id(silos), None)
        self._blocks[id(silos)] = silos, steps, block
        for first in list(self._blocks)[:-STACKS]:  # of a copy: other threads keep theirs meanwhile
            self._blocks.pop(first, None)
