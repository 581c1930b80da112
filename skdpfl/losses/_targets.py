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

Losses of class labels
----------------------
::

    LogLoss        k = 1, y in {0, 1}: log(1 + e^z) - y z;  k > 1: log sum_c e^{z_c} - z_y
    Hinge          sum_c max(0, 1 - s_c z_c)
    SquaredHinge   sum_c max(0, 1 - s_c z_c)^2
    Ordinal        mean over the cuts c of log(1 + e^{z_c}) - 1[y > c] z_c

Hinge losses are one-vs-rest for k > 1, with s = +1 for the record's class and -1 for the others.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdpfl._arguments import check_positive, check_share
from skdpfl.losses._base import Loss, at_codes, one_vs_rest_signs, sigmoid, signs, softmax


def _subgradient(r: NDArray, low: float, high: float) -> NDArray:
    """Return the derivative of max(low r, high r), written over r; at 0 one of its subgradients."""
    np.sign(r, out=r)
    return np.multiply(r, np.where(r > 0, r.dtype.type(high), -low), out=r)


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

    #: the slopes on both sides of the kink
    kink: ClassVar[tuple[float, float]]
    smoothing: float | None = field(default=None, kw_only=True)

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return max(low r, high r), or its Moreau envelope."""
        if self.smoothing is None:
            return np.maximum(self.kink[0] * r, self.kink[1] * r)
        slope = Kinked.slope(self, r.copy(), squared_norms)
        half_inverse_kappa = _columns(squared_norms, r) / (2 * self.smoothing)
        return slope * (r - slope * half_inverse_kappa)

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        if self.smoothing is None:
            return _subgradient(r, *self.kink)
        with np.errstate(over="ignore"):
            r *= self.smoothing
            r /= np.maximum(_columns(squared_norms, r), np.finfo(r.dtype).tiny)
        return np.clip(r, *self.kink, out=r)

    def __post_init__(self) -> None:
        if self.smoothing is not None:
            check_positive("smoothing", self.smoothing, words=" (or None)")

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
    an envelope (`skdpfl.losses.Kinked` has the proofs) plus a linear function, hence convex and
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
            return _subgradient(r, -self.q, 1 - self.q)
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
    `skdpfl.losses.Kinked`.
    """

    kink: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def lipschitz(self, n_outputs: int) -> float:
        return 1.0


@dataclass(frozen=True)
class LogLoss(Loss):
    """Negative log-likelihood of the binary or multinomial logistic model.

    Two classes: one output z, y in {0, 1}, gradient p - y with p = 1 / (1 + e^-z).
    More: one output a class, y the class code, gradient p - e_y with p = softmax(z).

    Parameters
    ----------
    label_free : bool, default=False
        Whether linear models of two classes clip a record's gradient by the larger of the gradients
        that it has with either label.

    Notes
    -----
    Log-sum-exp is convex. *Lipschitz*: ``|p - y| <= 1``; with k > 1 outputs
    ``|p - e_y|^2 = (1 - p_y)^2 + sum_{c != y} p_c^2 <= 2 (1 - p_y)^2 <= 2``. *Curvature*:
    ``p (1 - p) <= 1/4``; with k > 1 the Hessian is ``diag(p) - p p^T``, whose form v -> Var_p(v)
    is at most ``(max v - min v)^2 / 4 <= |v|^2 / 2``.

    *Clipping without labels.* Let a = (x, 1), z = a w and ``f = min(1, C / (|a| max(p, 1 - p)))``.
    The clipped gradient of two classes is ``f (p - y) a``, whose norm is at most C for both labels,
    as ``|p - y|`` is p or 1 - p. f depends on x and w alone: if labels are drawn with the
    probabilities of w, the mean over them of the clipped gradient is 0 at w for every x. So without
    noise, clipped gradients balance at the true parameters of a logistic model, but for the sample.
    Clipped by its own norm, a misclassified record counts less than others, and coefficients are
    too large. *Curvature.* f is constant or falls with ``|z|``, so the derivative in w of the mean
    over labels is at most ``f p (1 - p) a a^T`` at the truth, of norm at most
    ``C |a| min(p, 1 - p) <= C |a| / 2``.
    """

    label_free: bool = False
    is_classifier: ClassVar[bool] = True
    link: ClassVar[Literal["identity", "log", "logit"]] = "logit"

    def largest_slope(self, y: NDArray, gradient: NDArray) -> NDArray | None:
        """Return max(p, 1 - p) of two classes, from ``|p - y|``, which is one of them."""
        if not self.label_free or gradient.shape[-1] > 1:
            return None
        own = np.abs(gradient[..., 0])
        return np.maximum(own, 1 - own, out=own)

    def without_labels(self) -> Loss:
        """Return the loss with ``label_free=True``."""
        return replace(self, label_free=True)

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        if raw.shape[-1] == 1:
            margin = raw[..., 0] * signs(y, raw.dtype)
            return np.logaddexp(raw.dtype.type(0), -margin)
        shifted = raw - raw.max(axis=-1, keepdims=True)
        correct = shifted[at_codes(y)]
        return np.log(np.exp(shifted, out=shifted).sum(axis=-1)) - correct

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        if raw.shape[-1] == 1:
            out = sigmoid(raw, out)
            out[..., 0] -= y
            return out
        out = softmax(raw, out)
        out[at_codes(y)] -= 1
        return out

    def lipschitz(self, n_outputs: int) -> float:
        """1 for one output, sqrt(2) for more."""
        return 1.0 if n_outputs == 1 else 2.0**0.5

    def curvature(self, n_outputs: int) -> float:
        """1/4 for one output, 1/2 for more."""
        return 0.25 if n_outputs == 1 else 0.5

    def loss_at_zero(self, n_outputs: int) -> float:
        """log of the number of classes."""
        return log(max(2, n_outputs))

    def predict_proba(self, raw: NDArray) -> NDArray:
        """Return the probabilities of the classes, shape (..., n, n_classes)."""
        if raw.shape[-1] > 1:
            return softmax(raw)
        return sigmoid(np.concatenate([-raw, raw], axis=-1))


@dataclass(frozen=True)
class Hinge(Kinked):
    """Hinge loss of linear support vector machines, or its Moreau envelope.

    Parameters
    ----------
    smoothing : float or None, default=None
        Parameter b > 0 of the Moreau envelope in the parameters of a linear model; None: the
        hinge itself, with a subgradient.

    Notes
    -----
    The outputs are separate coordinates of w, each with its own (x, 1): the envelope of the sum
    is the sum of the envelopes. *Lipschitz*: each output's slope lies in [-1, 1], so sqrt(k).
    See `skdpfl.losses.Kinked` for the envelope and its proof.
    """

    is_classifier: ClassVar[bool] = True
    kink: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def lipschitz(self, n_outputs: int) -> float:
        """The square root of the number of outputs."""
        return float(n_outputs) ** 0.5


@dataclass(frozen=True)
class SquaredHinge(OfResidual):
    """Squared hinge loss: max(0, 1 - s z)^2, gradient -2 s max(0, 1 - s z).

    Notes
    -----
    The square of a non-negative convex function is convex; the second derivative is 0 or 2; no
    Lipschitz bound.
    """

    is_classifier: ClassVar[bool] = True

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        np.maximum(r, 0, out=r)
        return np.square(r, out=r)

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        np.maximum(r, 0, out=r)
        r *= 2
        return r

    def curvature(self, n_outputs: int) -> float:
        """2: the outputs are separate."""
        return 2.0


@dataclass(frozen=True)
class Ordinal(Loss):
    """Cumulative logit model of ordered labels, by a composite likelihood over the cuts.

    Parameters
    ----------
    label_free : bool, default=False
        Whether a record's gradient is clipped by the largest that it has with any label.

    Notes
    -----
    With ``y in 0 .. K-1`` and a raw prediction for each cut, ``raw_c = x w + a_c``, c = 0 .. K-2::

        P[y > c]  = 1 / (1 + exp(-raw_c))
        loss      = mean over the cuts c of  log(1 + exp(raw_c)) - 1[y > c] raw_c
        gradient  (P[y > c] - 1[y > c]) / (K - 1)         in raw_c

    With one slope for all cuts this is the cumulative logit (proportional odds) model.

    Each cut is a logistic regression of "above or not" on all records, so where the odds are
    proportional, the gradient has mean 0 at the true slope and intercepts: the estimate is
    consistent, and little less precise than maximum likelihood. The likelihood itself is undefined
    where noise puts two intercepts in the wrong order; this loss is convex everywhere.

    *Clipping without labels.* At level y the gradient in (w, a) is
    ``((P - y) x, p - 1[c < y]) / k``, P the sum of the p_c: its squared norm is at most
    ``(max(P, k - P)^2 |x|^2 + sum max(p_c, 1 - p_c)^2) / k^2`` for every y. A factor that follows
    from it and x leaves the mean gradient 0 at the true parameters, see :class:`LogLoss`. The
    curvature of such gradients is at most ``C |a| / 2`` for a row a = (x, 1), as max(P, k - P) >=
    k / 2.

    *Lipschitz.* Each entry is at most 1 / k for k cuts, so the norm is at most ``1 / sqrt(k)``.
    *Curvature.* Second derivatives ``p (1 - p) / k`` sum to at most 1/4: with one slope, the
    Hessian is at most ``(|x|^2 + 1) / 4``.

    Probabilities of labels are differences of cumulative ones, which are made to fall first.
    """

    label_free: bool = False
    is_classifier: ClassVar[bool] = True
    one_slope: ClassVar[bool] = True
    target_range: ClassVar[tuple[float, float]] = (-inf, inf)

    def n_outputs(self, n_classes: int | None = None) -> int:
        """Return the number of cuts."""
        return 1 if n_classes is None else max(1, n_classes - 1)

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        above = _above(y, raw)
        each = np.logaddexp(raw.dtype.type(0), np.where(above, -raw, raw))
        return np.asarray(each.mean(axis=-1))

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        above = _above(y, raw)
        out = sigmoid(raw, out)
        out -= above
        out /= raw.shape[-1]
        return out

    def largest_norm(self, raw: NDArray, squared_features: NDArray) -> NDArray | None:
        """Return the bound of the gradient's norm over all levels."""
        if not self.label_free:
            return None
        p, k = sigmoid(raw), raw.shape[-1]
        total = p.sum(axis=-1)
        of_slope = np.maximum(total, k - total) ** 2 * squared_features
        return np.sqrt(of_slope + (np.maximum(p, 1 - p) ** 2).sum(axis=-1)) / k

    def without_labels(self) -> Ordinal:
        """Return the loss with ``label_free=True``."""
        return replace(self, label_free=True)

    def lipschitz(self, n_outputs: int) -> float:
        """1 / sqrt(n_outputs)."""
        return float(n_outputs**-0.5)

    def curvature(self, n_outputs: int) -> float:
        """1/4: that of the sum over the cuts."""
        return 0.25

    def loss_at_zero(self, n_outputs: int) -> float:
        """log 2."""
        return log(2)

    def predict_proba(self, raw: NDArray) -> NDArray:
        """Return the probabilities of the levels, shape (..., n, k + 1)."""
        above = sigmoid(np.minimum.accumulate(raw, axis=-1))
        ends = np.ones_like(above[..., :1])
        return np.asarray(-np.diff(np.concatenate([ends, above, 0 * ends], axis=-1), axis=-1))

    def predict(self, raw: NDArray) -> NDArray:
        """Return the most probable level."""
        return np.asarray(self.predict_proba(raw).argmax(axis=-1))


def _above(y: NDArray, raw: NDArray) -> NDArray:
    """Return whether each record's level is above each cut, in the shape of raw."""
    return np.asarray(y[..., None] > np.arange(raw.shape[-1]))
