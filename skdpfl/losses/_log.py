"""Logistic loss. k = 1, y in {0, 1}: log(1 + e^z) - y z. k > 1: log sum_c e^{z_c} - z_y."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss
from skdpfl.losses._codes import at_codes, signs


@dataclass(frozen=True)
class LogLoss(Loss):
    """Negative log-likelihood of the binary or multinomial logistic model.

    Two classes: one output z, y in {0, 1}, gradient p - y with p = 1 / (1 + e^-z).
    More: one output a class, y the class code, gradient p - e_y with p = softmax(z).

    Notes
    -----
    Log-sum-exp is convex. *Lipschitz*: ``|p - y| <= 1``; with k > 1 outputs
    ``|p - e_y|^2 = (1 - p_y)^2 + sum_{c != y} p_c^2 <= 2 (1 - p_y)^2 <= 2``. *Curvature*:
    ``p (1 - p) <= 1/4``; with k > 1 the Hessian is ``diag(p) - p p^T``, whose form v -> Var_p(v)
    is at most ``(max v - min v)^2 / 4 <= |v|^2 / 2``.
    """

    is_classifier: ClassVar[bool] = True

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        """See `Loss.value`."""
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
        """See `Loss.gradient`."""
        if raw.shape[-1] == 1:
            out = _sigmoid(raw, out)
            out[..., 0] -= y
            return out
        out = _softmax(raw, out)
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

    def link(self, mean: NDArray) -> NDArray:
        """Return the logit of one probability, of several the logarithms."""
        return np.log(mean) - np.log1p(-mean) if mean.shape[-1] == 1 else np.log(mean)

    def inverse_link(self, raw: NDArray) -> NDArray:
        """Return the probabilities of 1, or of each class, shape (..., n, k)."""
        return _softmax(raw, None) if raw.shape[-1] > 1 else _sigmoid(raw, None)

    def predict_proba(self, raw: NDArray) -> NDArray:
        """Return the probabilities of the classes, shape (..., n, n_classes)."""
        if raw.shape[-1] > 1:
            return _softmax(raw, None)
        return _sigmoid(np.concatenate([-raw, raw], axis=-1), None)


def _sigmoid(raw: NDArray, out: NDArray | None) -> NDArray:
    """Return 1 / (1 + e^-z), in half the time of `scipy.special.expit`."""
    out = np.negative(raw, out=out)
    np.minimum(out, _range(out), out=out)
    np.exp(out, out=out)
    out += 1
    return np.reciprocal(out, out=out)


def _softmax(raw: NDArray, out: NDArray | None) -> NDArray:
    out = np.subtract(raw, raw.max(axis=-1, keepdims=True), out=out)
    np.maximum(out, -_range(out), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=-1, keepdims=True)
    return out


def _range(raw: NDArray) -> float:
    """Largest exponent used: past it a probability is 0 to a millionth of a rounding error.

    Much smaller ones, or their squares, are subnormal numbers, 40 times slower in products.
    """
    return 30.0 if raw.dtype == np.float32 else 300.0
