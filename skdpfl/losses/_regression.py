"""Losses of numbers, one output (k = 1), z the raw prediction and r = z - y the residual::

SquaredError    r^2 / 2
Huber           r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2)
AbsoluteError   |r|
Quantile        max(-q r, (1 - q) r)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpfl._arguments import check_positive, check_share
from skdpfl.losses._moreau import Kink, Kinked, OfResidual


@dataclass(frozen=True)
class SquaredError(OfResidual):
    """Half the squared error: gradient raw - y, curvature 1, no Lipschitz bound."""

    is_quadratic: ClassVar[bool] = True

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        np.square(r, out=r)
        r *= 0.5
        return r

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        return r

    def lipschitz(self, n_outputs: int) -> float:
        return inf

    def curvature(self, n_outputs: int) -> float:
        return 1.0

    def loss_at_zero(self, n_outputs: int) -> float:
        return 0.5


@dataclass(frozen=True)
class Huber(OfResidual):
    """Huber's loss: quadratic up to `delta`, linear beyond; gradient clip(r, -delta, delta).

    Parameters
    ----------
    delta : float, default=1.35
        The threshold, in units of the target.

    Notes
    -----
    Its derivative is non-decreasing (convex), bounded by delta (Lipschitz) and 1-Lipschitz
    (curvature 1).
    """

    delta: float = 1.35

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_positive("delta", self.delta))

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        r = np.abs(r)
        near = np.minimum(r, self.delta)
        return near * (r - 0.5 * near)

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        return np.clip(r, -self.delta, self.delta, out=r)

    def lipschitz(self, n_outputs: int) -> float:
        """The threshold `delta`."""
        return self.delta

    def curvature(self, n_outputs: int) -> float:
        return 1.0

    def loss_at_zero(self, n_outputs: int) -> float:
        return 0.5


@dataclass(frozen=True)
class Quantile(Kinked):
    """Pinball loss, whose minimiser is the conditional quantile `q`, or a smooth version of it.

    Parameters
    ----------
    q : float, default=0.5
        The quantile, in (0, 1). At 0.5 the loss is half the absolute error.
    smoothing : float or None, default=None
        Parameter b > 0 of the Moreau envelope, in the parameters of a linear model, of ``|r| / 2``
        in ``|r| / 2 + (1/2 - q) r``, which is the loss; None: the loss itself, with a subgradient.

    Notes
    -----
    A maximum of two linear functions: convex, Lipschitz with max(q, 1 - q). The smooth version is
    an envelope (`skdpfl.losses.Kink` has the proofs) plus a linear function, hence convex and
    b-smooth, its slopes lie between -q and 1 - q as well, and it lies within
    ``|(x, 1)|^2 / (8 b)`` under the loss, less than an envelope of the whole.

    Only the even part is smoothed to avoid bias: where residuals r have density p near 0, the mean
    slope at the quantile changes by p times the integral of the smoothing's change of the slope.
    That change is odd in r here, so its integral is zero for every q; for an envelope of the whole
    it is ``(1/2 - q) |(x, 1)|^2 / b``, which biases all quantiles towards the median.
    """

    kink: ClassVar[tuple[float, float]] = (-0.5, 0.5)
    q: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", check_share("q", self.q))
        super().__post_init__()

    @property
    def quantile_level(self) -> float:
        """q."""
        return self.q

    def at_quantile(self, q: float) -> Quantile:
        """Return the loss with another q."""
        return replace(self, q=q)

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        return super().of_residual(r, squared_norms) + (0.5 - self.q) * r

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        if self.smoothing is None:
            return Kink(-self.q, 1 - self.q, None).slope(r, None)
        slope = super().slope(r, squared_norms)
        slope += 0.5 - self.q
        return slope

    def lipschitz(self, n_outputs: int) -> float:
        """max(q, 1 - q)."""
        return max(self.q, 1 - self.q)


@dataclass(frozen=True)
class AbsoluteError(Kinked):
    """Absolute error ``|r|``, or its Moreau envelope.

    Parameters
    ----------
    smoothing : float or None, default=None
        Parameter b > 0 of the Moreau envelope in the parameters of a linear model; None: the
        loss itself, with a subgradient.

    Notes
    -----
    A maximum of two linear functions: convex, 1-Lipschitz. The envelope is Huber's loss with a
    separate threshold for each record: its curvature is ``b / |(x, 1)|^2``. See
    `skdpfl.losses.Kink`.
    """

    kink: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def lipschitz(self, n_outputs: int) -> float:
        return 1.0
