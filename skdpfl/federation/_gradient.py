"""The private gradient, which algorithms get instead of data.

    gradient(params) = [ sum_{j in batch} clip_C(grad_j(params)) + noise ] / divisor + alpha params

Sum and noise are added exactly, in the precision that the clip norm was reduced for
(:mod:`skdpfl.privacy.release`). The parameters are public, so the penalty, which leaves out the
intercept, is not noised. If the server or a shuffler adds the noise, noise and penalty are left out
here, and the engine adds alpha params to the released mean. One instance is for a group or a stack
of silos, with a leading axis, in one round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.losses import loss_for
from skdpfl.models import Records
from skdpfl.privacy.release import NoisedSum, Precision


class Batch(NamedTuple):
    """Records of a stack: X (..., n, d), y, |(x, 1)|^2 and 0/1 weights (..., n) or None.

    ``silos``: which of the stack's silos; pieces of a stack come in order. ``limits``: what the
    model computed for clipping records that come again (`Model.clip_limits`), or None.
    """

    X: np.ndarray
    y: np.ndarray
    squared_norms: np.ndarray
    weights: np.ndarray | None = None
    silos: slice = slice(None)
    limits: np.ndarray | None = None


class Group(NamedTuple):
    """Records of a group of silos; the other arrays (n,) are silo by silo."""

    records: Records
    y: np.ndarray
    squared_norms: np.ndarray


#: a step's records, in one part or several
Draw = Callable[[], Iterable[Batch | Group]]


class Noise(NamedTuple):
    """A step's noise in whole units (n, size), and the silos' noised sums."""

    units: np.ndarray
    noised: NoisedSum


class Terms(NamedTuple):
    """A silo's (or stack's) gradient terms: clip norm (...,) and divisor, (...,) or (..., 1).

    ``dtype`` is that of gradients, ``precision`` that of their sums; None: unchanged.
    """

    clip: np.ndarray | float
    divisor: np.ndarray | float
    dtype: np.dtype
    precision: Precision | None


class PrivateGradient:
    """Clipped, sampled, noised gradients; counts its calls. The caller may overwrite results."""

    def __init__(
        self,
        work: Work,
        batches: Sequence[Draw],
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
        params = np.asarray(params)  # no subclass, whose methods could read the gradients
        step, self.n_calls = self.n_calls, self.n_calls + 1
        total, divisor = self._sum(params, self._batches[step]()), self._terms.divisor
        if self._noises is None:
            total = total / divisor
        else:
            units, noised = self._noises(step)
            total = noised.added(total, units, divisor=divisor, out=total)
        total = total.astype(self._terms.dtype, copy=False)
        return total if self._penalty is None else total + self._penalty * params

    def _sum(self, params: np.ndarray, batch: Iterable[Batch | Group]) -> np.ndarray:
        """Return the sum of the clipped gradients, in the precision of the release."""
        precision = self._terms.precision
        pieces: list[np.ndarray] = []
        for total, of_piece in map(partial(self._part, params), batch):  # one part in memory
            if of_piece or not pieces:
                pieces.append(total)
            else:
                pieces[0] += total
        total = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return total if precision is None else total.astype(precision.release, copy=False)

    def _part(self, params: np.ndarray, batch: Batch | Group) -> tuple[np.ndarray, bool]:
        """Return the sum of a part, and whether parts are of different silos (not of records)."""
        terms, model, y, norms = self._terms, self._work.model, batch.y, batch.squared_norms
        loss, clip, precision = loss_for(self._work.loss, y), terms.clip, terms.precision
        chunk = None if precision is None else precision.chunk
        if isinstance(batch, Group):
            dtype = batch.records.table.dtype if precision is None else precision.products
            params, given = params.astype(dtype, copy=False), batch.records
            sums = model.clipped_gradient_sums(
                params, given, y, loss, clip_norm=clip, squared_norms=norms, chunk=chunk
            )
            return sums, False
        X, weights, silos = batch.X, batch.weights, batch.silos
        params = params.astype(X.dtype, copy=False)
        params = params[silos] if params.ndim > 1 else params
        clip = clip[silos] if isinstance(clip, np.ndarray) else clip
        before = {} if batch.limits is None else {"limits": batch.limits}
        sums = model.clipped_gradient_sum(
            params,
            X,
            y,
            loss,
            clip_norm=clip,
            squared_norms=norms,
            weights=weights,
            chunk=chunk,
            **before,
        )
        return sums, True

    def check_used(self) -> None:
        """Raise unless the declared number of gradients was used."""
        if self.n_calls != self.n_steps:
            raise RuntimeError(
                f"The algorithm declared {self.n_steps} private gradients for this round and took "
                f"{self.n_calls}; the plan is charged for what was declared."
            )
