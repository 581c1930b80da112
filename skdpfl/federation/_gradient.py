"""The private gradient that an algorithm is handed in place of data.

    gradient(params) = [ sum_{j in batch} clip_C(grad_j(params)) + noise ] / divisor + alpha params

The sum and the noise are added exactly (:mod:`skdpfl.privacy.grid`), in the precision that the
clip norm was reduced for (:mod:`skdpfl.privacy.precision`); params is already public, so the
penalty costs nothing; it skips the intercept. One instance serves one silo, or a stack of silos
with their leading axis, for one round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.privacy.grid import snapped_release
from skdpfl.privacy.precision import Precision


class Batch(NamedTuple):
    """The records of a step: X (..., n, d), y, |(x, 1)|^2 and 0/1 weights (..., n) or None."""

    X: np.ndarray
    y: np.ndarray
    squared_norms: np.ndarray
    weights: np.ndarray | None = None

    def part(self, records: slice) -> Batch:
        """Return some of the records."""
        weights = None if self.weights is None else self.weights[..., records]
        X, y, norms = (
            self.X[..., records, :],
            self.y[..., records],
            self.squared_norms[..., records],
        )
        return Batch(X, y, norms, weights)


class Noise(NamedTuple):
    """A step's noise in whole units, and the grid they stand for, (...,) or (..., 1)."""

    units: np.ndarray
    grid: np.ndarray | float


class Terms(NamedTuple):
    """A silo's (or stack's) gradient terms: clip norm (...,) and divisor, (...,) or (..., 1).

    ``dtype`` is that of gradients and ``precision`` how their sums are computed; None: as they are.
    """

    clip: np.ndarray | float
    divisor: np.ndarray | float
    dtype: np.dtype
    precision: Precision | None


class PrivateGradient:
    """Clipped, sampled, noised; counts its uses."""

    def __init__(
        self,
        work: Work,
        batches: Sequence[Callable[[], Batch]],
        noises: Callable[[int], Noise] | None,
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
        total = self._sum(params, self._batches[step]())
        if self._noises is not None:
            noise = self._noises(step)
            total = snapped_release(total, noise.units, noise.grid, out=total)
        total = (total / self._terms.divisor).astype(self._terms.dtype, copy=False)
        return total if self._penalty is None else total + self._penalty * params

    def _sum(self, params: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the sum of the clipped gradients in the precision it is released in."""
        precision, n = self._terms.precision, batch.y.shape[-1]
        if precision is None:
            return self._product(params, batch)
        if n <= precision.chunk:
            return self._product(params, batch).astype(precision.release, copy=False)
        starts = range(0, n, precision.chunk)
        parts = (batch.part(slice(start, start + precision.chunk)) for start in starts)
        total = sum(self._product(params, part).astype(np.float64, copy=False) for part in parts)
        return np.asarray(total).astype(precision.release, copy=False)

    def _product(self, params: np.ndarray, batch: Batch) -> np.ndarray:
        return self._work.model.clipped_gradient_sum(
            params.astype(batch.X.dtype, copy=False),
            batch.X,
            batch.y,
            self._work.loss,
            clip_norm=self._terms.clip,
            squared_norms=batch.squared_norms,
            weights=batch.weights,
        )

    def check_used(self) -> None:
        """Raise unless exactly the declared number of gradients was taken."""
        if self.n_calls != self.n_steps:
            raise RuntimeError(
                f"The algorithm declared {self.n_steps} private gradients for this round and took "
                f"{self.n_calls}; the plan is charged for what was declared."
            )
