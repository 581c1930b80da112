"""The silos that are stacked, and the length of their arrays in a stack.

Formal guarantee. Both are functions of a silo's own size and of public numbers of the plan, never
of who takes part in a round. So no bit of a silo's message depends on the silos that it is stacked
with: alone it is the same. If sizes are secret, stacks have silos of one size. Otherwise arrays
are as long as the longest silo whose size has the same power of two, among all silos of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skdpfl._distinct import distinct
from skdpfl.federation._base import Work
from skdpfl.privacy.sampling import PoissonSampling

#: steps with fewer multiplications are dominated by call overhead: stack them with others
STACK_WORK = 200_000
#: the largest number of numbers in a stack, and in the messages of silos that are cut into stacks
STACK_SIZE = 2**22
#: from this rate on Poisson batches are masked in a stack, not gathered
MASK_RATE = 0.5
#: and at any rate if a silo's gradient takes fewer multiplications than this
MASK_WORK = 20_000


class Stacking:
    """The silos of a plan; ``lengths`` and ``batch_lengths`` (n_silos,) are in records.

    ``typical`` is the number of multiplications in a step of the median silo.
    """

    def __init__(self, work: Work) -> None:
        self._work, plan = work, work.plan
        sizes = plan.known_sizes
        self.typical = float(np.median(plan.expected_sizes)) * work.model.work_per_record
        self.lengths, self.batch_lengths = sizes, plan.largest_batches
        if plan.secret_sizes:
            self.stacked = plan.expected_sizes * work.model.work_per_record <= STACK_WORK
        else:
            self.stacked = np.full(len(sizes), len(sizes) > 1 and self.typical <= STACK_WORK)
            like = np.frexp(sizes)[1]
            self.lengths = _longest(sizes, like)
            self.batch_lengths = _longest(plan.largest_batches, like)
        if isinstance(
            plan.sampling, PoissonSampling
        ):  # gathered ones would be as long as the longest
            small = sizes * work.model.work_per_record <= MASK_WORK
            self.stacked &= small | (plan.sampling.rate >= MASK_RATE)

    def cut(self, silos: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Cut silos into stacks of equal length, of at most STACK_SIZE numbers, and large silos."""
        small, none = self.stacked[silos], silos[:0]
        if np.logical_and.reduce(small):
            return list(self._stacks(silos)), none
        return list(self._stacks(silos[small])), silos[~small]

    def _stacks(self, silos: np.ndarray) -> Iterator[np.ndarray]:
        model, lengths = self._work.model, self.lengths[silos]
        one = np.logical_and.reduce(lengths == lengths[:1])
        for longest in (lengths[:1] if one else np.unique(lengths)).tolist():
            alike = silos if one else silos[lengths == longest]
            per_silo = longest * model.numbers_per_record + 4 * model.size
            at_once = max(1, STACK_SIZE // per_silo)
            if len(alike) <= at_once:
                yield alike
            else:
                yield from (alike[i : i + at_once] for i in range(0, len(alike), at_once))


def _longest(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return for each silo the largest value of silos with the same key."""
    kinds, of_silo = distinct(like)
    largest = np.zeros(len(kinds), values.dtype)
    np.maximum.at(largest, of_silo, values)
    return largest[of_silo]
