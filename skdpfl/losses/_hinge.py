"""Hinge losses, one-vs-rest for k > 1, with s = +1 for the record's class and -1 for the others::

Hinge          sum_c max(0, 1 - s_c z_c)
SquaredHinge   sum_c max(0, 1 - s_c z_c)^2
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss
from skdpfl.losses._labels import one_vs_rest_signs
from skdpfl.losses._moreau import Kinked


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
