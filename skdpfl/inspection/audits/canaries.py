"""Canaries: records whose gradients are chosen, whatever the model is.

A record's target says what it is: ``SILENT`` records have the gradient zero; the gradient of a
canary is so long that it is clipped, and points along its features or against them::

    dloss / draw_1 = 0, turn * HUGE or -turn * HUGE       for SILENT, PLUS, MINUS

``turn`` is +1 or -1 and may change from round to round: a worst-case record adapts to what was
released. All other code is that of a fit: batches, clipping, sums, noise, algorithm and mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skdpfl.federation import Map
from skdpfl.losses import Loss

#: targets from here on mark records; single precision holds them exactly
SILENT, PLUS, MINUS = (2.0**22 + i for i in range(3))
#: slopes of canaries; tiny ones keep the direction of a message and take its norm
HUGE, TINY = 2.0**30, 2.0**-30


@dataclass
class Turn:
    """The sign of canaries in the current round."""

    sign: float = 1.0


@dataclass(frozen=True)
class CanaryLoss(Loss):
    """A loss that gives marked records the gradients of canaries, and leaves the others alone.

    Parameters
    ----------
    inner : Loss
        The loss of records that are not marked.
    minus : float, default=HUGE
        The size of the slope of MINUS.
    turn : Turn, optional
        The sign, which may be changed between rounds.
    """

    is_classifier = False
    inner: Loss
    minus: float = HUGE
    turn: Turn = field(default_factory=Turn)

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        """See `Loss.value`; marked records have none."""
        marked = y >= SILENT
        plain = np.where(marked, 0, y).astype(y.dtype)
        return np.where(marked, 0.0, self.inner.value(plain, raw, squared_norms=squared_norms))

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        """See `Loss.gradient`."""
        marked = y >= SILENT
        if marked.all():
            out = np.empty_like(raw) if out is None else out
        else:
            plain = np.where(marked, 0, y).astype(y.dtype)
            out = self.inner.gradient(plain, raw, squared_norms=squared_norms, out=out)
        slopes = np.array([0.0, HUGE, -self.minus]) * self.turn.sign
        out[marked] = 0
        out[..., 0][marked] = slopes[(y[marked] - SILENT).astype(int)]
        return out

    def lipschitz(self, n_outputs: int) -> float:
        """See `Loss.lipschitz`."""
        return HUGE

    def curvature(self, n_outputs: int) -> float:
        """See `Loss.curvature`."""
        return self.inner.curvature(n_outputs)


@dataclass(frozen=True)
class KeepsMarks:
    """A map of targets that leaves marked records as they are."""

    inner: Map

    def transform(self, values: NDArray) -> NDArray:
        """Return the mapped targets."""
        marked = values >= SILENT
        return np.where(marked, values, self.inner.transform(np.where(marked, 0, values)))
