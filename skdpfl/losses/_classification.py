"""Losses of class labels::

LogLoss        k = 1, y in {0, 1}: log(1 + e^z) - y z;  k > 1: log sum_c e^{z_c} - z_y
Hinge          sum_c max(0, 1 - s_c z_c)
SquaredHinge   sum_c max(0, 1 - s_c z_c)^2

Hinge losses are one-vs-rest for k > 1, with s = +1 for the record's class and -1 for the others.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf, log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss, at_codes, one_vs_rest_signs, sigmoid, signs, softmax
from skdpfl.losses._moreau import Kinked


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


class OfShortfall(Loss):
    """Base class of sums over the outputs of a function of the shortfall r = 1 - s z."""

    is_classifier: ClassVar[bool] = True

    @abstractmethod
    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return each output's part of the loss, in the shape of r, which may be overwritten."""

    @abstractmethod
    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        """Return the derivative in r, written over r."""

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        return self.of_residual(_shortfall(y, raw, None)[0], squared_norms).sum(axis=-1)

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        shortfall, minus_sign = _shortfall(y, raw, out)
        slope = self.slope(shortfall, squared_norms)
        return np.multiply(slope, minus_sign, out=slope)


def _shortfall(y: NDArray, raw: NDArray, out: NDArray | None) -> tuple[NDArray, NDArray]:
    """Return 1 - s z and -s, its derivative in z."""
    minus_sign = one_vs_rest_signs(y, raw)
    np.negative(minus_sign, out=minus_sign)
    out = np.multiply(raw, minus_sign, out=out)
    out += 1
    return out, minus_sign


@dataclass(frozen=True)
class Hinge(Kinked, OfShortfall):
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
    See `skdpfl.losses.Kink` for the envelope and its proof.
    """

    kink: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def lipschitz(self, n_outputs: int) -> float:
        """The square root of the number of outputs."""
        return float(n_outputs) ** 0.5


@dataclass(frozen=True)
class SquaredHinge(OfShortfall):
    """Squared hinge loss: max(0, 1 - s z)^2, gradient -2 s max(0, 1 - s z).

    Notes
    -----
    The square of a non-negative convex function is convex; the second derivative is 0 or 2; no
    Lipschitz bound.
    """

    def of_residual(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        np.maximum(r, 0, out=r)
        return np.square(r, out=r)

    def slope(self, r: NDArray, squared_norms: NDArray | None) -> NDArray:
        np.maximum(r, 0, out=r)
        r *= 2
        return r

    def lipschitz(self, n_outputs: int) -> float:
        return inf

    def curvature(self, n_outputs: int) -> float:
        """2: the outputs are separate."""
        return 2.0
