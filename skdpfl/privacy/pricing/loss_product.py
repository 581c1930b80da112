r"""The sum of a few independent privacy losses, convolved without a Fourier transform.

The rounding errors of a fast Fourier transform are relative to the largest tilted probability. For
heavy-tailed losses (a record is rarely sampled, but exposed when it is) and tiny delta, no tilt
makes the relevant probabilities large enough. Here products of positive numbers are added, so that
the relative error is small for every probability, however small.

Formal guarantee
----------------
For grid losses that dominate the true ones the result bounds the true delta (or epsilon) from
above. Sums below the window are rounded up to its first point. Sums l above its last point l' share
their probability p: ``p e^{l' - l}`` stays at l', which keeps Q's probability, the rest goes to
infinity (:mod:`skdpfl.privacy.pricing.loss_grid` says why that dominates). A convolution of N
points adds N + 2 roundings to the relative errors of its two factors, which add up: n releases are
right to n (N + 2) roundings. That share is added to delta, and ``_LOST``, far above what
underflows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, reduce

import numpy as np

from skdpfl.privacy.pricing.loss_grid import SURE, GridLoss
from skdpfl.privacy.pricing.loss_sum import LossSum
from skdpfl.privacy.pricing.loss_window import Window

#: The least relative error that is assumed, and a bound on what underflows.
_ROUND, _LOST = 1e-9, 1e-290


class LossProduct(LossSum):
    """Independent losses on one grid: ``parts`` are (loss, how many times)."""

    @property
    def infinite(self) -> float:
        """The probability that some loss is infinite."""
        return self._law.infinite * (1.0 + self._rounding)

    @property
    def _rounding(self) -> float:
        """A bound on the relative rounding error of each probability."""
        return max(_ROUND, self.n_releases * (self._law.probs.size + 2) * 2.0**-52)

    @cached_property
    def _law(self) -> GridLoss:
        """The distribution of the sum, in a window that holds all losses."""
        most = max(max(-loss.low, loss.low + loss.probs.size - 1) for loss, _ in self.parts)
        return reduce(
            lambda a, b: _sum(a, b, most), (_times(loss, n, most) for loss, n in self.parts)
        )

    def _window(self, saddle: float, epsilon: float, log_size: float) -> Window:
        law = self._law
        losses = law.losses
        centre = float(min(max(epsilon, losses[0]), losses[-1]))
        return Window(
            self.h, losses, law.probs, 0.0, centre, 0.0, _LOST, self.n_releases, self._rounding
        )


def _times(loss: GridLoss, n: int, most: int) -> GridLoss:
    """The sum of n identically distributed losses, by doubling."""
    total = None
    while True:
        if n % 2:
            total = loss if total is None else _sum(total, loss, most)
        n //= 2
        if not n:
            assert total is not None
            return total
        loss = _sum(loss, loss, most)


def _sum(a: GridLoss, b: GridLoss, most: int) -> GridLoss:
    """The sum of two losses, on at most ``most`` points on either side of 0."""
    low, probs = a.low + b.low, np.convolve(a.probs, b.probs)
    infinite = a.infinite + b.infinite
    if (cut := -most - low) > 0:
        probs[cut] += probs[:cut].sum()
        low, probs = -most, probs[cut:]
    if (keep := most - low + 1) < probs.size:
        kept = probs[keep:] * SURE * np.exp(-a.h * np.arange(1, probs.size - keep + 1))
        infinite += float((probs[keep:] - kept).sum())
        probs = probs[:keep].copy()
        probs[-1] += kept.sum()
    return replace(a, low=low, probs=probs, infinite=infinite)
