"""Base class of losses: convex functions of one record's raw predictions.

Shapes (leading axes, written ``...``, are silos)::

    y        (..., n)       targets: numbers, {0, 1}, or class codes 0 .. k-1
    raw      (..., n, k)    raw predictions; k = 1 for regression and two classes
    value    (..., n)       l(y, raw)
    gradient (..., n, k)    dl / draw

A loss does not depend on features, parameters, silos or privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._labels import sigmoid, softmax


@dataclass(frozen=True)
class Loss(ABC):
    """Base class of all losses.

    A new loss is a frozen dataclass with `value`, `gradient`, `lipschitz` and `curvature`. Every
    field has a default. The property tests check every loss in ``skdpfl.losses.LOSSES``: the
    gradient against the value, convexity, and the two bounds.
    """

    is_classifier: ClassVar[bool]
    #: whether the second derivative is constant
    is_quadratic: ClassVar[bool] = False
    #: the link function, from the mean target to the raw prediction. Under "log", targets are
    #: scaled but not shifted before a fit: a factor of the target is a shift of the raw prediction
    link: ClassVar[Literal["identity", "log", "logit"]] = "identity"
    #: smallest and largest target that there may be
    target_range: ClassVar[tuple[float, float]] = (-inf, inf)

    @property
    def quantile_level(self) -> float | None:
        """The share of targets that is to lie below predictions; None for other losses."""
        return None

    def at_quantile(self, q: float) -> Loss:
        """Return the loss for another share of targets below; the same for other losses."""
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

    @abstractmethod
    def lipschitz(self, n_outputs: int) -> float:
        """Bound of the gradient's Euclidean norm over the k outputs; inf if there is none."""

    @abstractmethod
    def curvature(self, n_outputs: int) -> float:
        """Bound of the largest second derivative in the raw predictions; inf if there is none."""

    def smoothness(self, n_outputs: int, squared_norm: float) -> float:
        """Lipschitz constant of a linear model's gradient in w, for ``|(x, 1)|^2 <= squared_norm``.

        For w -> l(y, w (x, 1)) the Hessian is the Kronecker product of l's with (x, 1)(x, 1)^T, so
        its largest eigenvalue is at most ``curvature * squared_norm``.
        """
        return self.curvature(n_outputs) * squared_norm

    @property
    def smooth(self) -> bool:
        """Whether the gradient is Lipschitz in the parameters of a linear model."""
        return self.smoothness(1, 1.0) < inf

    @property
    def smoothing(self) -> float | None:
        """The parameter of a Moreau envelope; None for any other loss."""
        return None

    @property
    def can_be_smoothed(self) -> bool:
        """Whether there is a kink that `smoothed` removes."""
        return False

    def smoothed(self, b: float) -> Loss:
        """Return the Moreau envelope with parameter b of a loss with a kink, else the loss."""
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

    def bounded(self, largest: float) -> Loss:
        """Return a loss of finite curvature that is the same for means of at most `largest`.

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
