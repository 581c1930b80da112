"""Records' weights: beside the targets, as pairs, and multiplied into the loss.

::

    y           (..., n)   pairs (target, weight): a record's weight goes wherever its target goes
    value_j     = weight_j l(target_j, raw_j)
    gradient_j  = weight_j dl / draw (target_j, raw_j)

Models and whatever puts records together see targets, so that none of them knows of weights. The
gradient is multiplied before anything clips it: whatever a record's weight is, its clipped gradient
is within the clip norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss


def with_weights(y: NDArray, weights: NDArray) -> NDArray:
    """Return targets (..., n) and weights (..., n) as pairs."""
    pairs = np.empty(y.shape, [("target", y.dtype), ("weight", weights.dtype)])
    pairs["target"], pairs["weight"] = y, weights
    return pairs


def loss_for(loss: Loss, y: NDArray) -> Loss:
    """Return the loss of targets like ``y``: the loss itself, or weighted if they have weights."""
    return loss if y.dtype.names is None else Weighted(loss)


@dataclass(frozen=True)
class Weighted(Loss):
    """A loss times each record's weight; targets are pairs, as `with_weights` makes them.

    Parameters
    ----------
    loss : Loss
        What is multiplied.

    Notes
    -----
    Weights are at least 0, so it is convex. A record whose target or weight is not finite has a
    gradient that is not finite either, so that it does not count.
    """

    loss: Loss

    @property
    def is_classifier(self) -> bool:  # type: ignore[override]
        """That of the loss."""
        return self.loss.is_classifier

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

    def lipschitz(self, n_outputs: int) -> float:
        """Infinite: weights are as large as they are given."""
        return inf

    def curvature(self, n_outputs: int) -> float:
        return inf
