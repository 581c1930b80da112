"""The scale of a classifier's raw predictions, found after training within the budget.

With clipped gradients and noise, predictions rank labels well but are too large or too small as log
odds. One factor t on all of them corrects most of it; with z a record's raw prediction and l its
loss::

    u        = log t                                 prior: normal with mean m0, deviation 0.45
    slope_j  = d l(y_j, t z_j) / du = sum over outputs of (dl / dz)(t z_j) t z_j
    e_j      = sum over labels of p(label) slope_j(label) cut to [-c, c], p the model's at t
    c_j      = slope_j cut to [-c, c], less e_j; times the record's weight; cut again, and rounded
               towards 0 to a multiple of 2^-20; not finite: 0
    g        = the noisy mean of c_j  (+ alpha t^2 |w|^2)     see _bounded_sums, with the guarantee
    u       <- u - K g,   K = P h / (h^2 P + v),   P <- P (1 - K h),    P = 0.45^2 at first

The cut shortens the slopes of records that are wrong, which are the long ones; e_j, which is 0
without a cut, makes up for it: where probabilities are right, c_j is 0 on average.

v is the variance of the noise of g, h = 0.3 the curvature in u of a logistic model with typical raw
predictions: these are the steps of a Kalman filter. Two of them are as good as more. Both together
cost 4 % of mu^2, so training has 2 % more noise. The prior's mean is public::

    m0 = -0.6, or up to 0 if the noise of training does not move predictions far
         - log(s / 0.04) if s, the noise of the whole fit in clip norms, is larger than 0.04

With more noise than that predictions are mostly noise, as far from 0 as with less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._bounded_sums import MOST, STEP, Answers, BoundedSums
from skdpfl.scaling._maps import Array

#: the prior's deviation, the curvature in u, and the limits of u
_PRIOR, _CURVATURE, _RANGE = 0.45, 0.3, (-2.5, 1.5)
#: the cut is as wide as this noise on the mean slope allows, and at least so wide
_NOISE, _LEAST_CUT = 0.15, 0.7
#: the prior's mean: 0 up to the first walk of predictions, the least from the second on
_LEAST, _WALKS = -0.6, (1.5, 3.0)
#: the noise of a fit, in clip norms, beyond which predictions are mostly noise
_DROWNED = 0.04


@dataclass(frozen=True, eq=False)
class TemperaturePlan(BoundedSums):
    """The releases that estimate the factor, and their cost, from public numbers.

    Parameters
    ----------
    setting : Setting
        Silo sizes, budgets as mu, trust and relation; records are protected.
    given_cut : float, optional
        The cut, where it follows from silos that the setting does not know.
    """

    given_cut: float | None = None
    purpose = "temperature"
    evaluations, share = 2, math.sqrt(0.04 / 2)

    def __post_init__(self) -> None:
        if self.given_cut is not None and not 0 < self.given_cut <= MOST:
            raise ValueError(f"The cut lies in (0, {MOST}], got {self.given_cut!r}.")

    def of_silo(self, i: int) -> TemperaturePlan:
        """Return what one silo needs to know of the plan."""
        return TemperaturePlan(self.setting.of_silo(i), self.cut)

    @cached_property
    def cut(self) -> float:
        """c, a public number."""
        if self.given_cut is not None:
            return self.given_cut
        per = self.setting.noise_of_mean(self._std(1.0))
        return min(MOST, max(_LEAST_CUT, _NOISE / per)) if per > 0 else MOST

    @property
    def noise_of_logarithm(self) -> float:
        """Standard deviation that the noise of the evaluations gives log t."""
        doubt, h, variance, noise = _PRIOR**2, _CURVATURE, 0.0, self.noise
        for _ in range(self.evaluations):
            gain = doubt * h / (h * h * doubt + noise**2)
            variance = (1 - gain * h) ** 2 * variance + (gain * noise) ** 2
            doubt *= 1 - gain * h
        return math.sqrt(variance)

    def find(
        self,
        ask: Callable[[float, int], Answers],
        streams: Streams,
        walk: float = 0.0,
        penalty: float = 0.0,
    ) -> float:
        """Return t.

        Parameters
        ----------
        ask : callable
            Asks the silos, at a factor t, for their sums of terms; the number counts how often.
        streams : Streams
            Where the noise comes from.
        walk : float, default=0.0
            How far the training's noise carries a typical raw prediction; public or paid for.
        penalty : float, default=0.0
            alpha |w|^2 of the model at t = 1.
        """
        near, far = _WALKS
        u = _LEAST * min(1.0, max(0.0, (walk - near) / (far - near)))
        level = self.share * self.noise / self.cut  # of a mean with the whole budget
        u = max(_RANGE[0], u - max(0.0, math.log(level / _DROWNED))) if level > 0 else u
        doubt, h, noise = _PRIOR**2, _CURVATURE, self.noise
        for number in range(self.evaluations):
            t = math.exp(u)
            slope = self.mean(ask(t, number), streams, number) + penalty * t * t
            gain = doubt * h / (h * h * doubt + noise**2)
            u = min(_RANGE[1], max(_RANGE[0], u - gain * slope))
            doubt *= 1 - gain * h
        return math.exp(u)


def centred_slopes(raw: Array, slopes: Array, cut: float) -> Array:
    """Return slopes (n,) cut to [-cut, cut], less what they are on average over labels.

    ``raw``, log odds (n, 1) or (n, K), are the predictions that say how likely labels are.
    """
    z = raw if raw.shape[-1] > 1 else np.concatenate([np.zeros_like(raw), raw], axis=-1)
    likely = softmax(z, axis=-1)
    of_labels = (likely * z).sum(axis=-1, keepdims=True) - z
    mean: Array = (likely * np.clip(of_labels, -cut, cut)).sum(axis=-1)
    return np.clip(slopes, -cut, cut) - mean


def slope_terms(slopes: Array, cut: float) -> Array:
    """Return the terms of records' slopes (n,): cut, on the grid of all terms; 0 if not finite."""
    terms = np.where(np.isfinite(slopes), slopes, 0.0).astype(np.float64)
    return np.trunc(np.clip(terms, -cut, cut) / STEP) * STEP
