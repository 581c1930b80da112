"""Logistic loss. k = 1, y in {0, 1}: log(1 + e^z) - y z. k > 1: log sum_c e^{z_c} - z_y."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss
from skdpfl.losses._labels import at_codes, sigmoid, signs, softmax


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
    link: ClassVar[Literal["identity", "log", "logit"]] = "logit"

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
