"""The loss of ordered labels: a logistic loss for each cut between two neighbouring levels.

::

    y in 0 .. K-1                 raw_c = x w + a_c,  c = 0 .. K-2
    P[y > c]  = 1 / (1 + exp(-raw_c))
    loss      = mean over the cuts c of  log(1 + exp(raw_c)) - 1[y > c] raw_c
    gradient  (P[y > c] - 1[y > c]) / (K - 1)         in raw_c

With one slope for all cuts this is the cumulative logit (proportional odds) model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpfl.losses._base import Loss, sigmoid


@dataclass(frozen=True)
class Ordinal(Loss):
    """Cumulative logit model of ordered labels, by a composite likelihood over the cuts.

    Parameters
    ----------
    label_free : bool, default=False
        Whether a record's gradient is clipped by the largest that it has with any label.

    Notes
    -----
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
