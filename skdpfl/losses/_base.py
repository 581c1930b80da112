"""Losses: convex functions of one record's raw predictions, and their weighting.

Shapes (leading axes, written ``...``, are silos)::

    y        (..., n)       targets: numbers, {0, 1}, or class codes 0 .. k-1
    raw      (..., n, k)    raw predictions; k = 1 for regression and two classes
    value    (..., n)       l(y, raw)
    gradient (..., n, k)    dl / draw

A loss does not depend on features, parameters, silos or privacy.

With weights of records, targets are pairs (target, weight), so that a weight stays with its
target::

    value_j     = weight_j l(target_j, raw_j)
    gradient_j  = weight_j dl / draw (target_j, raw_j)

Models and other code that handles targets do not depend on weights. The gradient is multiplied
before it is clipped, so a record's clipped gradient is within the clip norm for any weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from skdpfl._apart import anew, attempted, is_stackable
from skdpfl._surface import forwarded
from skdpfl._warnings import warnings_off


@dataclass(frozen=True)
class Loss(ABC):
    """Base class of all losses.

    A new loss is a frozen dataclass with `value`, `gradient`, `lipschitz` and `curvature`. Every
    field has a default. Property tests check every loss in ``skdpfl.losses.LOSSES``: the gradient
    against the value, convexity, and the two bounds.

    A user-defined loss gets one record at a time, which is slow but cannot mix records, unless its
    class sets ``stackable = True`` (:mod:`skdpfl._apart`).
    """

    #: of a class from outside: its author declares that records may be given together
    stackable: ClassVar[bool]
    is_classifier: ClassVar[bool]
    #: whether the second derivative is constant
    is_quadratic: ClassVar[bool] = False
    #: the link function, from the mean target to the raw prediction. Under "log", targets are
    #: scaled but not shifted before a fit: a factor of the target is a shift of the raw prediction
    link: ClassVar[Literal["identity", "log", "logit"]] = "identity"
    #: whether all outputs have the same coefficients, and differ by their intercepts
    one_slope: ClassVar[bool] = False
    #: whether targets are scaled before a fit; False if they have a public scale
    scales_target: ClassVar[bool] = True
    #: smallest and largest target that there may be
    target_range: ClassVar[tuple[float, float]] = (-inf, inf)

    def largest_slope(self, y: NDArray, gradient: NDArray) -> NDArray | None:
        """Return what a linear model's gradients are clipped by, (..., n); None: by their own norm.

        It is the largest norm of ``gradient`` (..., n, k) over all labels, for the raw predictions
        that gave it.
        """
        return None

    def largest_norm(self, raw: NDArray, squared_features: NDArray) -> NDArray | None:
        """Return what a one-slope model's gradients are clipped by, (..., n); None: their own norm.

        It bounds the gradient's norm over all labels, for raw predictions (..., n, k) and the
        features' squared norms (..., n).
        """
        return None

    def without_labels(self) -> Loss:
        """Return the loss whose gradients are clipped by the largest over labels, if it has one."""
        return self

    @property
    def quantile_level(self) -> float | None:
        """The wanted share of targets below predictions; None for other losses."""
        return None

    def at_quantile(self, q: float) -> Loss:
        """Return the loss for another quantile; unchanged for other losses."""
        return self

    @abstractmethod
    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        """Loss of each record.

        Parameters
        ----------
        y : ndarray of shape (..., n)
            Targets.
        raw : ndarray of shape (..., n, k)
            Raw predictions, float32 or float64.
        squared_norms : ndarray of shape (..., n), optional
            Squared norm of each record's features, the intercept's 1 counted. Read by Moreau
            envelopes only.

        Returns
        -------
        ndarray of shape (..., n)
            In the dtype of `raw`.
        """

    @abstractmethod
    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        """Gradient (or a subgradient) of each record's loss in its raw predictions.

        Parameters
        ----------
        y : ndarray of shape (..., n)
            Targets.
        raw : ndarray of shape (..., n, k)
            Raw predictions, float32 or float64. If not finite, the result may be NaN.
        squared_norms : ndarray of shape (..., n), optional
            Squared norm of each record's features, the intercept's 1 counted. Read by Moreau
            envelopes only.
        out : ndarray of shape (..., n, k), optional
            Where to write the result; may be `raw` itself.

        Returns
        -------
        ndarray of shape (..., n, k)
            In the dtype of `raw`.
        """

    def lipschitz(self, n_outputs: int) -> float:
        """Bound of the gradient's Euclidean norm over the k outputs; inf if there is none."""
        return inf

    def curvature(self, n_outputs: int) -> float:
        """Bound of the largest second derivative in the raw predictions; inf if there is none."""
        return inf

    def smoothness(self, n_outputs: int, squared_norm: float) -> float:
        """Lipschitz constant of a linear model's gradient in w, for ``|(x, 1)|^2 <= squared_norm``.

        For w -> l(y, w (x, 1)) the Hessian is the Kronecker product of l's with (x, 1)(x, 1)^T, so
        its largest eigenvalue is at most ``curvature * squared_norm``.
        """
        return self.curvature(n_outputs) * squared_norm

    @property
    def smoothing(self) -> float | None:
        """The parameter of a Moreau envelope; None for any other loss."""
        return None

    @property
    def can_be_smoothed(self) -> bool:
        """Whether the loss is non-smooth, and `smoothed` makes it smooth."""
        return False

    def smoothed(self, b: float) -> Loss:
        """Return the Moreau envelope with parameter b; a smooth loss is unchanged."""
        return self

    def loss_at_zero(self, n_outputs: int) -> float:
        """Largest loss of the raw prediction 0; in regression, for targets in [-1, 1]."""
        return float(n_outputs)

    def inverse_link(self, raw: NDArray) -> NDArray:
        """Return the mean target of raw predictions, shape (..., n, k); finite if `raw` is."""
        if self.link == "identity":
            return raw
        if self.link == "log":
            return np.exp(np.minimum(raw, np.log(np.finfo(raw.dtype).max)))
        return softmax(raw) if raw.shape[-1] > 1 else sigmoid(raw)

    def of_scaled(self, scale: float) -> Loss:
        """Return the loss, but for a factor, of targets divided by `scale` under a log link."""
        return self

    def bounded(self, largest: float) -> Loss:
        """Return a loss with finite curvature that is equal for means of at most `largest`.

        Returns the loss itself if its curvature is finite or it can be smoothed.
        """
        return self

    def n_outputs(self, n_classes: int | None = None) -> int:
        """Return k: 1 for regression and two classes, else the number of classes."""
        if not self.is_classifier or n_classes is None or n_classes <= 2:
            return 1
        return n_classes

    def predict(self, raw: NDArray) -> NDArray:
        """Return class codes, or predicted targets for regression.

        Two classes: 1 where raw > 0. More: the index of the largest output, the first if equal.
        """
        if not self.is_classifier:
            return self.inverse_link(raw)[..., 0]
        if raw.shape[-1] == 1:
            return (raw[..., 0] > 0).astype(np.intp)
        return raw.argmax(axis=-1)


def signs(y: NDArray, dtype: DTypeLike) -> NDArray:
    """Return -1 for 0 and +1 for 1, as a new array."""
    out = np.multiply(y, 2, dtype=dtype, casting="unsafe")
    out -= 1
    return out


def one_vs_rest_signs(y: NDArray, raw: NDArray) -> NDArray:
    """Return, shaped and laid out as `raw`, +1 at each record's own class and -1 at the others."""
    if raw.shape[-1] == 1:
        return signs(y, raw.dtype)[..., None]
    out = np.full_like(raw, -1)
    out[at_codes(y)] = 1
    return out


def at_codes(y: NDArray) -> tuple[Any, ...]:
    """Index of the entries (..., i, y[..., i]) of an array of shape (..., n, k).

    The array may have leading axes that y lacks. An out-of-range code raises; it can never reach
    another record's entry.
    """
    codes = y.astype(np.intp, copy=False)
    if y.ndim == 1:
        return ..., np.arange(y.shape[0]), codes
    return (..., *np.ogrid[tuple(slice(size) for size in y.shape)], codes)


def sigmoid(raw: NDArray, out: NDArray | None = None) -> NDArray:
    """Return 1 / (1 + e^-z); twice as fast as `scipy.special.expit`."""
    out = np.negative(raw, out=out)
    np.minimum(out, _range(out), out=out)
    np.exp(out, out=out)
    out += 1
    return np.reciprocal(out, out=out)


def softmax(raw: NDArray, out: NDArray | None = None) -> NDArray:
    """Return exp(z_c) / sum exp(z)."""
    out = np.subtract(raw, raw.max(axis=-1, keepdims=True), out=out)
    np.maximum(out, -_range(out), out=out)
    np.exp(out, out=out)
    out /= out.sum(axis=-1, keepdims=True)
    return out


def _range(raw: NDArray) -> float:
    """Return the largest exponent used; beyond it probabilities are below 1e-6 unit roundoffs.

    Much smaller numbers, or their squares, are subnormal, and 40 times slower in products.
    """
    return 30.0 if raw.dtype == np.float32 else 300.0


def with_weights(y: NDArray, weights: NDArray) -> NDArray:
    """Return targets (..., n) and weights (..., n) as pairs."""
    pairs = np.empty(y.shape, [("target", y.dtype), ("weight", weights.dtype)])
    pairs["target"], pairs["weight"] = y, weights
    return pairs


@dataclass(frozen=True)
class Weighted(Loss):
    """A loss times each record's weight; targets are pairs, as `with_weights` makes them.

    Parameters
    ----------
    loss : Loss
        The loss that is weighted.

    Notes
    -----
    Weights are at least 0, so it is convex. If a record's target or weight is not finite, its
    gradient is not finite either, so it is ignored.
    """

    loss: Loss
    is_classifier = forwarded("loss.is_classifier")

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        value = self.loss.value(y["target"], raw, squared_norms=squared_norms)
        return value * y["weight"].astype(raw.dtype, copy=False)

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        target, factor = y["target"], y["weight"]
        if target.dtype.kind == "f":
            factor = factor + 0 * target  # not finite where the target is not
        out = self.loss.gradient(target, raw, squared_norms=squared_norms, out=out)
        out *= factor[..., None]
        return out

    def largest_slope(self, y: NDArray, gradient: NDArray) -> NDArray | None:
        """Return that without weights: a weighted gradient is shortened as much as its record's."""
        weights = y["weight"].astype(gradient.dtype)[..., None]
        known = np.divide(gradient, weights, out=np.zeros_like(gradient), where=weights > 0)
        return self.loss.largest_slope(y["target"], known)

    def largest_norm(self, raw: NDArray, squared_features: NDArray) -> NDArray | None:
        """Return that without weights: a weighted gradient is shortened as much as its record's."""
        return self.loss.largest_norm(raw, squared_features)


#: overridable by a loss from outside without losing trusted status: no record reaches these
_UNREAD = frozenset((
    "is_classifier", "is_quadratic", "link", "one_slope", "scales_target", "target_range",
    "quantile_level", "at_quantile",
    "lipschitz", "curvature", "smoothness", "smoothing", "can_be_smoothed", "smoothed",
    "bounded", "of_scaled", "loss_at_zero", "n_outputs", "inverse_link", "predict", "predict_proba",
))  # fmt: skip


def record_by_record(loss: Loss, *, raises: bool = False) -> Loss:
    """Return a loss that cannot mix records: itself if known, else wrapped record by record.

    ``raises``: whether errors are passed on, as in trials.
    """
    return loss if is_stackable(loss, _UNREAD) else RecordByRecord(loss, raises)


def _first(of: Callable[..., Any], record: tuple[Any, Any, Any]) -> Any:
    """Return the result of a loss for one record."""
    return of(*record[:2], squared_norms=record[2])[0]


@dataclass(frozen=True)
class RecordByRecord(Loss):
    """A wrapper of a user-defined loss, which then sees one record at a time.

    Notes
    -----
    **Formal guarantee.** For any code of the loss, a record's value and gradient depend on that
    record alone. *Proof.* Each call gets copies of one record's numbers, and a fresh copy of the
    loss, without any state of earlier calls. If it raises an error or returns another shape, both
    are NaN, and the record counts as zero; warnings are off. (Trials on made-up records raise it.)
    """

    loss: Loss
    raises: bool = False
    is_classifier = forwarded("loss.is_classifier")
    quantile_level = forwarded("loss.quantile_level")

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        out, fixed = np.empty(raw.shape[:-1], raw.dtype), np.array(np.nan, raw.dtype)
        with nullcontext() if self.raises else warnings_off():
            for i, new, record in self._records(y, raw, squared_norms):
                call = partial(_first, new.value, record)
                out[i] = attempted(call, fixed, raises=self.raises)
        return out

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        out = np.empty_like(raw) if out is None else out
        fixed = np.full(raw.shape[-1], np.nan, raw.dtype)
        with nullcontext() if self.raises else warnings_off():
            for i, new, record in self._records(y, raw, squared_norms):
                call = partial(_first, new.gradient, record)
                out[i] = attempted(call, fixed, raises=self.raises)
        return out

    def lipschitz(self, n_outputs: int) -> float:
        return self.loss.lipschitz(n_outputs)

    def curvature(self, n_outputs: int) -> float:
        return self.loss.curvature(n_outputs)

    def _records(
        self, y: NDArray, raw: NDArray, squared_norms: NDArray | None
    ) -> Iterator[tuple[tuple[int, ...], Loss, tuple[NDArray, NDArray, NDArray | None]]]:
        """Yield each record's index, a fresh loss, and the record's numbers."""
        shape, new = raw.shape[:-1], anew(self.loss)
        y = np.broadcast_to(y, shape)
        norms = None if squared_norms is None else np.broadcast_to(squared_norms, shape)
        alongside = raw.shape[-1] > 1 and raw.strides[-1] != raw.itemsize
        for i in np.ndindex(shape):
            places = (i, i) if alongside else (i,)  # sums over classes then add in the same order
            z = np.array([raw[j] for j in places], order="F" if alongside else "C")
            norm = None if norms is None else np.array([norms[j] for j in places])
            yield i, new(), (np.array([y[j] for j in places]), z, norm)
