"""Losses of numbers, one output (k = 1), z the raw prediction and r = z - y the residual::

SquaredError    r^2 / 2
Huber           r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2)
AbsoluteError   |r|
Quantile        max(-q r, (1 - q) r)

A loss with one kink has a Moreau envelope in closed form. As a function of a residual r that is
affine in the raw prediction it is ::

    h(r) = max(low r, high r),   low <= 0 <= high             # = max of t r over t in [low, high]

For a linear model the record's loss in w is f(w) = h(<a, w> - const), a = (x, 1). Its envelope

    f_b(w) = min_v f(v) + (b/2) |w - v|^2

has its minimiser on the line w - s a (moving v across a costs and does not change f), where
|w - v|^2 = (r - u)^2 / |a|^2 for a residual u at v. So with kappa = b / |a|^2

    f_b(w) = min_u h(u) + (kappa/2) (r - u)^2 = t r - t^2 / (2 kappa),  t = clip(kappa r, low, high)

(at the minimum kappa (r - u) = t is a subgradient of h at u: t = high if u > 0, i.e. kappa r >
high; t = low if u < 0; in between u = 0 and t = kappa r; then h(u) = t u). Its derivative in r
is t, hence grad f_b(w) = t a = b (w - prox(w)).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpfl._arguments import check_positive, check_share
from skdpfl.losses._base import Loss, one_vs_rest_signs


@dataclass(frozen=True)
class Kink:
    """max(low r, high r) or its Moreau envelope with parameter `smoothing`.

    Notes
    -----
    With L = max(-low, high) |a|, the envelope f_b (see the module's docstring)

    - is *convex*: the minimum over v of a function that is convex in (w, v) jointly;
    - is *L-Lipschitz*: its gradient is t a with low <= t <= high;
    - is *b-smooth*: t is kappa-Lipschitz in r and r is |a|-Lipschitz in w, so the gradient t a
      is kappa |a|^2 = b Lipschitz;
    - lies *within L^2/(2b) under f*: v = w gives f_b <= f; and h(r) - (t r - t^2/(2 kappa)) with
      s = the end of [low, high] at which h(r) = s r is (s - t) r + t^2 / (2 kappa): for t = s
      it is s^2 |a|^2 / (2b) <= L^2/(2b); else t = kappa r and it is
      (2 s t - t^2) / (2 kappa) <= s^2 / (2 kappa), as (s - t)^2 >= 0.
    """

    low: float
    high: float
    smoothing: float | None

    def value(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Value at residuals r of shape (..., n, k), with norms (..., n)."""
        if self.smoothing is None:
            return np.maximum(self.low * r, self.high * r)
        slope = self.slope(r.copy(), squared_norms)
        half_inverse_kappa = _columns(squared_norms, r) / (2 * self.smoothing)
        return slope * (r - slope * half_inverse_kappa)

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Derivative in r, written over r; at an unsmoothed kink 0, one of its subgradients."""
        if self.smoothing is None:
            np.sign(r, out=r)
            return np.multiply(r, np.where(r > 0, r.dtype.type(self.high), -self.low), out=r)
        with np.errstate(over="ignore"):
            r *= self.smoothing
            r /= np.maximum(_columns(squared_norms, r), np.finfo(r.dtype).tiny)
        return np.clip(r, self.low, self.high, out=r)


def _columns(squared_norms: NDArray | None, r: NDArray) -> NDArray:
    """Return the norms as a column in r's dtype."""
    if squared_norms is None:
        raise ValueError(
            "squared_norms=None: the Moreau envelope of a record's loss needs the squared norm "
            "of its features, an array of shape (..., n)"
        )
    return np.asarray(squared_norms, dtype=r.dtype)[..., None]


class OfResidual(Loss):
    """Base class of sums over the outputs of a function of a residual r.

    For numbers r = z - y, with one output; for classes it is each output's shortfall 1 - s z, with
    s = +1 for the record's class and -1 for the others. Methods may overwrite r.
    """

    is_classifier: ClassVar[bool] = False

    @abstractmethod
    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return each output's part of the loss, in the shape of r (..., n, k)."""

    @abstractmethod
    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return the derivative in r, written over r."""

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        return self.of_residual(self._residual(y, raw, None)[0], squared_norms).sum(axis=-1)

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        residual, factor = self._residual(y, raw, out)
        slope = self.slope(residual, squared_norms)
        return slope if factor is None else np.multiply(slope, factor, out=slope)

    def _residual(
        self, y: NDArray, raw: NDArray, out: NDArray | None
    ) -> tuple[NDArray, NDArray | None]:
        """Return r in raw's dtype and shape, and its derivative in z; None: 1."""
        if not self.is_classifier:
            out = np.empty_like(raw) if out is None else out
            return np.subtract(raw, y[..., None], out=out, casting="same_kind"), None
        minus_sign = one_vs_rest_signs(y, raw)
        np.negative(minus_sign, out=minus_sign)
        out = np.multiply(raw, minus_sign, out=out)
        out += 1
        return out, minus_sign


@dataclass(frozen=True)
class Kinked(OfResidual):
    """Base class of losses with one kink in each output, which an envelope can smooth.

    Parameters
    ----------
    smoothing : float or None, default=None
        Parameter b > 0 of the Moreau envelope in the parameters of a linear model; None: the loss
        itself, with a subgradient.
    """

    #: the slopes on both sides of the kink
    kink: ClassVar[tuple[float, float]]
    smoothing: float | None = field(default=None, kw_only=True)

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        return Kink(*self.kink, self.smoothing).value(r, squared_norms)

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        return Kink(*self.kink, self.smoothing).slope(r, squared_norms)

    def __post_init__(self) -> None:
        if self.smoothing is not None:
            check_positive("smoothing", self.smoothing, words=" (or None)")

    def curvature(self, n_outputs: int) -> float:
        """Infinite; the envelope's curvature depends on the record, see `smoothness`."""
        return inf

    def smoothness(self, n_outputs: int, squared_norm: float) -> float:
        """The Moreau parameter b, for all records."""
        return inf if self.smoothing is None else self.smoothing

    @property
    def can_be_smoothed(self) -> bool:
        """Whether the loss is not smoothed yet."""
        return self.smoothing is None

    def smoothed(self, b: float) -> Kinked:
        """Return the envelope with parameter b."""
        return replace(self, smoothing=b)


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
