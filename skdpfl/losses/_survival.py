"""The loss of survival times: a hazard that is constant in each of several intervals.

::

    hazard        exp(z_b) in interval b            z_b = a_b + x w, per horizon
    e_b           the time that a record was observed in interval b, in horizons
    d_b           1 if its event is in interval b, else 0
    loss          sum_b e_b exp(z_b) - d_b z_b
    gradient      r_b = e_b exp(z_b) - d_b          in z_b

It is the negative log-likelihood of the piecewise exponential model, so of a Cox model whose
baseline hazard is a step function. Nobody has to know who else was at risk.

A target is one number: the time, in horizons, with the sign + for an event and - for a censored
record (:func:`signed_times`). Times beyond the horizon are censored there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpfl._arguments import check_number
from skdpfl.losses._base import Loss
from skdpfl.losses._rates import Link, growth, integral

#: hazards per horizon beyond which a fit without privacy continues the loss by a polynomial
_LARGEST = 30.0


@dataclass(frozen=True)
class PiecewiseExponential(Loss):
    """Negative log-likelihood of survival times under a piecewise constant hazard.

    Parameters
    ----------
    cuts : tuple of float, default=(0.25, 0.5, 0.75)
        The inner ends of the intervals, increasing, in shares of the horizon.
    largest : float, default=inf
        Hazard per horizon beyond which exp is replaced by its second-order Taylor polynomial.
    label_free : bool, default=False
        Whether a record's gradient is clipped by the largest that it has with any time and event.

    Notes
    -----
    A record's loss is a sum of convex functions of its raw predictions. The e_b sum to at most 1,
    so the second derivatives ``e_b exp(z_b)`` sum to at most `largest`: with one slope for all
    intervals the Hessian in (w, a) is at most ``largest (|x|^2 + 1)``, as ``(x w + a_b)^2 <=
    (|x|^2 + 1)(|w|^2 + a_b^2)``. There is no Lipschitz bound. The gradient in (w, a) is the one
    vector ``((sum_b r_b) x, r)``, which is clipped once: a record never becomes several rows.

    *Clipping without labels.* Let h_b be the hazard times the width of interval b, H their sum. For
    any time and event the r_b sum to a number from -1 to H, and their squares to at most
    ``1 + sum h_b^2``: so the gradient's squared norm is at most ``max(1, H)^2 |x|^2 + 1 + sum
    h_b^2``. A factor that follows from this and x leaves the mean gradient 0 at the true
    parameters, if censoring does not depend on the event given x. Clipped by their own norm, events
    of records of low risk count less than they should, and hazard ratios are too large.
    """

    cuts: tuple[float, ...] = (0.25, 0.5, 0.75)
    largest: float = inf
    label_free: bool = False
    is_classifier: ClassVar[bool] = False
    link: ClassVar[Link] = "log"
    one_slope: ClassVar[bool] = True
    scales_target: ClassVar[bool] = False
    target_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        cuts = tuple(float(cut) for cut in self.cuts)
        ends = np.array([0.0, *cuts, 1.0])
        if not (np.diff(ends) > 0).all():
            raise ValueError(f"cuts must increase, between 0 and 1; got {self.cuts!r}.")
        object.__setattr__(self, "cuts", cuts)
        largest = check_number("largest", self.largest, low=0, open_low=True)
        object.__setattr__(self, "largest", largest)

    def n_outputs(self, n_classes: int | None = None) -> int:
        """Return the number of intervals."""
        return len(self.cuts) + 1

    def exposures(self, y: NDArray) -> tuple[NDArray, NDArray]:
        """Return e (..., n, k) and d (..., n, k) of signed times (..., n)."""
        starts, ends = np.array([0.0, *self.cuts]), np.array([*self.cuts, 1.0])
        time = np.abs(y)[..., None]
        spent = np.clip(time - starts, 0.0, ends - starts)
        within = (time > starts) & (time <= ends)
        within[..., 0] |= time[..., 0] == 0
        return spent, within & ~np.signbit(y)[..., None]

    def value(self, y: NDArray, raw: NDArray, *, squared_norms: NDArray | None = None) -> NDArray:
        spent, event = self.exposures(y)
        each = spent * integral(raw, 1.0, self.largest) - np.where(event, raw, 0)
        return np.asarray(each.sum(axis=-1).astype(raw.dtype, copy=False))

    def gradient(
        self,
        y: NDArray,
        raw: NDArray,
        *,
        squared_norms: NDArray | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        spent, event = self.exposures(y)
        out = growth(raw, 1.0, self.largest, out)
        np.multiply(out, spent, out=out, casting="same_kind")
        out -= event
        return out

    def largest_norm(self, raw: NDArray, squared_features: NDArray) -> NDArray | None:
        """Return the bound of the gradient's norm over all times and events."""
        if not self.label_free:
            return None
        widths = np.diff([0.0, *self.cuts, 1.0]).astype(raw.dtype)
        hazards = growth(raw, 1.0, self.largest) * widths
        of_slope = np.maximum(hazards.sum(axis=-1), 1) ** 2 * squared_features
        return np.sqrt(of_slope + 1 + np.square(hazards).sum(axis=-1))

    def without_labels(self) -> PiecewiseExponential:
        """Return the loss with ``label_free=True``."""
        return replace(self, label_free=True)

    def lipschitz(self, n_outputs: int) -> float:
        return inf

    def curvature(self, n_outputs: int) -> float:
        """`largest`: that of the sum over the intervals."""
        return self.largest

    def bounded(self, largest: float) -> PiecewiseExponential:
        """Return the loss for hazards of at most 30 per horizon."""
        return replace(self, largest=min(self.largest, _LARGEST))


def signed_times(event: NDArray, time: NDArray, horizon: float) -> NDArray:
    """Return times in horizons, at most 1, with the sign - where there is no event."""
    seen = event & (time <= horizon)
    return np.where(seen, 1.0, -1.0) * np.minimum(time / horizon, 1.0)
