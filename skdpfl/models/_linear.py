"""The linear model: raw = x W + b, with flat parameters on the last axis.

Shapes (leading axes, written ``...``, are silos; they broadcast)::

    params   (..., P)       P = (d + intercept) k: W in C order (d, k), then the intercept (k,)
    X        (..., n, d)    y (..., n)    weights (..., n)
    raw      (..., n, k)    = X W + b
    a_j      = (x_j, 1)     the features with the intercept's 1
    g_j      = a_j (dloss_j)^T, the gradient of record j; |g_j| = |a_j| |dloss_j|

Per-record gradients are never formed: clipping g_j to norm C is one factor on dloss_j, and the
sum over records is one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from skdpfl.losses import Loss


@dataclass(frozen=True)
class LinearModel:
    """Linear raw predictions with an optional intercept.

    Parameters
    ----------
    n_features : int
        Number d of features.
    n_outputs : int
        Number k of raw predictions of a record.
    fit_intercept : bool, default=True
        Whether there is an intercept (a last row of parameters).
    """

    n_features: int
    n_outputs: int
    fit_intercept: bool = True

    @property
    def size(self) -> int:
        """Number of parameters."""
        return (self.n_features + self.fit_intercept) * self.n_outputs

    def init(self, dtype: DTypeLike = np.float64) -> NDArray:
        """Return the starting point: zeros."""
        return np.zeros(self.size, dtype=dtype)

    def split(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Return views: weights (..., d, k) and intercept (..., k), zeros without one."""
        n_weights = self.n_features * self.n_outputs
        shape = params.shape[:-1]
        weights = params[..., :n_weights].reshape(*shape, self.n_features, self.n_outputs)
        if self.fit_intercept:
            return weights, params[..., n_weights:]
        return weights, np.zeros((*shape, self.n_outputs), dtype=params.dtype)

    def unpack(self, params: NDArray) -> tuple[NDArray, NDArray]:
        """Return scikit-learn's ``coef_`` (..., k, d) and ``intercept_`` (..., k), as copies."""
        weights, intercept = self.split(params)
        return np.ascontiguousarray(np.swapaxes(weights, -1, -2)), intercept.copy()

    def pack(self, coef: ArrayLike, intercept: ArrayLike | None = None) -> NDArray:
        """Return the flat parameters of scikit-learn's ``coef_`` and ``intercept_``."""
        weights = np.swapaxes(np.asarray(coef), -1, -2)
        flat = weights.reshape(*weights.shape[:-2], self.n_features * self.n_outputs)
        if not self.fit_intercept:
            return np.ascontiguousarray(flat)
        tail = np.asarray(0.0 if intercept is None else intercept, dtype=flat.dtype)
        tail = np.broadcast_to(tail, (*flat.shape[:-1], self.n_outputs))
        return np.concatenate([flat, tail], axis=-1)

    def penalty_mask(self) -> NDArray:
        """Return 1 for weights and 0 for the intercept, which is not penalised, flat."""
        mask = np.ones(self.size)
        mask[self.n_features * self.n_outputs :] = 0
        return mask

    def raw(self, params: NDArray, X: NDArray) -> NDArray:
        """Return the raw predictions, shape (..., n, k)."""
        weights, intercept = self.split(params)
        out = np.matmul(X, weights)
        if self.fit_intercept:
            out += intercept[..., None, :]
        return out

    def squared_row_norms(self, X: NDArray) -> NDArray:
        """Return ``|a_j|^2``, the intercept's 1 counted, shape (..., n); not finite if x_j is not.

        At least 2 d times the smallest normal number, so that underflow never hides a norm.
        """
        out = np.einsum("...d,...d->...", X, X)
        out += float(self.fit_intercept) + 2 * self.n_features * np.finfo(out.dtype).tiny
        return out

    def mean_loss(
        self, params: NDArray, X: NDArray, y: NDArray, loss: Loss, alpha: float = 0.0
    ) -> NDArray:
        """Return mean_j loss_j + alpha/2 |W|^2, shape (...)."""
        weights, _ = self.split(params)
        norms = self.squared_row_norms(X)
        fit = loss.value(y, self.raw(params, X), squared_norms=norms).mean(axis=-1)
        return fit + alpha / 2 * np.square(weights).sum(axis=(-1, -2))

    def gradient_sum(
        self,
        params: NDArray,
        X: NDArray,
        y: NDArray,
        loss: Loss,
        *,
        squared_norms: NDArray | None = None,
        weights: NDArray | None = None,
    ) -> NDArray:
        """Return the sum of the records' gradients, not clipped, shape (..., P)."""
        return self.clipped_gradient_sum(
            params, X, y, loss, clip_norm=inf, squared_norms=squared_norms, weights=weights
        )

    def clipped_gradient_sum(
        self,
        params: NDArray,
        X: NDArray,
        y: NDArray,
        loss: Loss,
        *,
        clip_norm: float | NDArray,
        squared_norms: NDArray | None = None,
        weights: NDArray | None = None,
    ) -> NDArray:
        """Return the sum over records of their gradients, each clipped to norm `clip_norm`."""
        if squared_norms is None:
            squared_norms = self.squared_row_norms(X)
        with np.errstate(all="ignore"):
            factors = loss.gradient(y, self.raw(params, X), squared_norms=squared_norms)
            good = np.isfinite(factors).all(axis=-1) & np.isfinite(squared_norms)
            if np.asarray(y).dtype.kind == "f":
                good = good & np.isfinite(y)
            if not good.all():
                factors[~good] = 0
                X = np.where(good[..., None], X, X.dtype.type(0))
            norms = np.sqrt(np.einsum("...k,...k->...", factors, factors) * squared_norms)
            clip = np.asarray(clip_norm, dtype=factors.dtype)[..., None]
            scale = np.minimum(1, clip / np.maximum(norms, np.finfo(norms.dtype).tiny))
        if weights is not None:
            scale = scale * weights
        factors *= scale[..., None]
        return self._sum(X, factors)

    def _sum(self, X: NDArray, factors: NDArray) -> NDArray:
        """Return sum_j a_j factors_j^T, flat."""
        product = np.matmul(np.swapaxes(X, -1, -2), factors)
        flat = product.reshape(*product.shape[:-2], -1)
        if not self.fit_intercept:
            return flat
        return np.concatenate([flat, factors.sum(axis=-2)], axis=-1)
