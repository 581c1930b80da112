"""Losses of numbers, one output (k = 1), z the raw prediction and r = z - y the residual::

SquaredError    r^2 / 2
Huber           r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2)
AbsoluteError   |r|
Quantile        max(-q r, (1 - q) r)
Poisson         exp(z) - y z, for counts, under a log link
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf, log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdpfl._arguments import check_number, check_positive, check_share
from skdpfl.losses._base import Loss
from skdpfl.losses._moreau import Kink, Kinked


class OfResidual(Loss):
    """Base class of functions of the residual r, shape (..., n, 1), which they may overwrite."""

    is_classifier: ClassVar[bool] = False

    @abstractmethod
    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return the loss, in the shape of r."""

    @abstractmethod
    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return the derivative in r, written over r."""

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        return self.of_residual(_residual(y, raw, None), squared_norms)[..., 0]

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        return self.slope(_residual(y, raw, out), squared_norms)


def _residual(y: NDArray, raw: NDArray, out: NDArray | None) -> NDArray:
    """Return raw - y in raw's dtype, shape (..., n, 1)."""
    out = np.empty_like(raw) if out is None else out
    return np.subtract(raw, y[..., None], out=out, casting="same_kind")


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
class Quantile(Kinked, OfResidual):
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
class AbsoluteError(Kinked, OfResidual):
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


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the Poisson deviance up to a constant, with mean exp(raw); gradient exp(raw) - y.

    Parameters
    ----------
    largest : float, default=inf
        Mean beyond which exp is replaced by its second-order Taylor polynomial. Smaller means are
        not affected; the curvature is at most `largest`.

    Notes
    -----
    Targets are counts, or other non-negative numbers whose mean is a product of effects. Fits
    scale them, but do not shift them. Under unit="record" gradients are clipped, so no step is
    longer than with any other loss. Fits without privacy, and those with unit="silo", need a
    bounded curvature: `largest` is then the largest target, or four times the targets' root mean
    square. Steps of 1 / `largest` times those of the squared error cannot diverge.

    With Z = log(largest) and u = max(0, z - Z), the mean's part of the loss is
    ``exp(min(z, Z)) (1 + u + u^2 / 2)``. Its derivative ``exp(min(z, Z)) (1 + u)`` is continuous
    and increases (convex), and its second derivative is ``exp(min(z, Z)) <= largest``. There is no
    Lipschitz bound.
    """

    is_classifier: ClassVar[bool] = False
    link: ClassVar[Literal["identity", "log", "logit"]] = "log"
    target_range: ClassVar[tuple[float, float]] = (0.0, inf)
    largest: float = inf

    def __post_init__(self) -> None:
        largest = check_number("largest", self.largest, low=0, open_low=True)
        object.__setattr__(self, "largest", largest)

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        z = raw[..., 0]
        mean, beyond = self._split(z, None)
        mean *= 1 + beyond + beyond * beyond / 2
        return np.subtract(mean, np.multiply(y, z), out=mean, casting="same_kind")

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        out, beyond = self._split(raw, out)
        beyond += 1
        out *= beyond
        return np.subtract(out, y[..., None], out=out, casting="same_kind")

    def _split(self, z: NDArray, out: NDArray | None) -> tuple[NDArray, NDArray]:
        """Return exp(min(z, Z)) and max(0, z - Z)."""
        most = 30.0 if z.dtype == np.float32 else 300.0  # beyond it squares are infinite
        end = min(most, log(self.largest)) if self.largest < inf else most
        beyond = np.maximum(z - z.dtype.type(end), 0)
        out = np.clip(z, -most, end, out=out)
        return np.exp(out, out=out), beyond

    def lipschitz(self, n_outputs: int) -> float:
        return inf

    def curvature(self, n_outputs: int) -> float:
        """`largest`, the bound on means."""
        return self.largest

    def bounded(self, largest: float) -> Poisson:
        """Return the loss with `largest`, at least 1, the mean at raw 0, where fits start."""
        return replace(self, largest=min(self.largest, max(1.0, largest)))
