"""Losses of residuals; those with one kink, and their Moreau envelopes in closed form.

A loss with one kink, as a function of a residual r that is affine in the raw prediction::

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

from skdpfl._arguments import check_positive
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
