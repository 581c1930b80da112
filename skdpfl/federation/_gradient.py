"""The private gradient that an algorithm is handed in place of data.

    gradient(params) = [ sum_{j in batch} clip_C(grad_j(params)) + noise ] / divisor + alpha params

summed and noised on a grid (see :mod:`skdpfl.privacy.grid`); params is already public, so the
penalty costs nothing; it skips the intercept. One instance serves one silo, or a stack of silos
with their leading axis, for one round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.privacy.snapping import release


class Batch(NamedTuple):
    """The records of a step: X (..., n, d), y, |(x, 1)|^2 and 0/1 weights (..., n) or None."""

    X: np.ndarray
    y: np.ndarray
    squared_norms: np.ndarray
    weights: np.ndarray | None = None


class Terms(NamedTuple):
    """A silo's (or stack's) gradient terms: clip (...,), grid and divisor (..., 1)."""

    clip: np.ndarray | float
    grid: np.ndarray | float
    divisor: np.ndarray | float


class PrivateGradient:
    """Clipped, sampled, noised; counts its uses."""

    def __init__(
        self,
        work: Work,
        batches: Sequence[Callable[[], Batch]],
        noises: Callable[[int], np.ndarray] | None,
        terms: Terms,
        penalty: np.ndarray | None,
    ) -> None:
        self._work, self._batches, self._noises = work, batches, noises
        self._terms, self._penalty = terms, penalty
        self.n_steps, self.n_calls = len(batches), 0

    def __call__(self, params: np.ndarray) -> np.ndarray:
        """Return the next private gradient at ``params`` (..., size)."""
        if self.n_calls == self.n_steps:
            raise RuntimeError(
                f"The algorithm declared {self.n_steps} private gradients for this round and asks "
                "for more; each one is paid for, so declare it in n_gradients(round)."
            )
        step, self.n_calls = self.n_calls, self.n_calls + 1
        batch, work, terms = self._batches[step](), self._work, self._terms
        total = work.model.clipped_gradient_sum(
            params,
            batch.X,
            batch.y,
            work.loss,
            clip_norm=terms.clip,
            squared_norms=batch.squared_norms,
            weights=batch.weights,
        )
        if self._noises is not None:
            total = release(total, self._noises(step), terms.grid)
        total = total / terms.divisor
        return total if self._penalty is None else total + self._penalty * params

    def check_used(self) -> None:
        """Raise unless exactly the declared number of gradients was taken."""
        if self.n_calls != self.n_steps:
            raise RuntimeError(
                f"The algorithm declared {self.n_steps} private gradients for this round and took "
                f"{self.n_calls}; the plan is charged for what was declared."
            )
