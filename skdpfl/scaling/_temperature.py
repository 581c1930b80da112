"""The scale of a classifier's raw predictions, found after training within the budget.

With clipped gradients and noise, predictions rank labels well but are too large or too small as log
odds. One factor t on all of them corrects most of it; with z a record's raw prediction and l its
loss::

    u        = log t                                 prior: normal with mean m0, deviation 0.45
    slope_j  = d l(y_j, t z_j) / du = sum over outputs of (dl / dz)(t z_j) t z_j
    e_j      = sum over labels of p(label) slope_j(label) cut to [-c, c], p the model's at t
    c_j      = slope_j cut to [-c, c], less e_j; times the record's weight; cut again, and rounded
               towards 0 to a multiple of 2^-20; not finite: 0
    g        = the noisy mean of c_j  (+ alpha t^2 |w|^2)     see _calibration, with the guarantee
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
from typing import Any

import numpy as np
from scipy.special import softmax

from skdpfl.federation import Work
from skdpfl.scaling._calibration import (
    MOST,
    STEP,
    Calibrated,
    CalibrationPlan,
    CalibrationRun,
    PredictionSum,
    finite,
)
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
class Slopes(PredictionSum):
    """The sum of records' slopes in the logarithm of a factor on raw predictions, each cut."""

    factor: float
    cut: float

    @property
    def radius(self) -> float:
        return self.cut

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        finite(self.factor)
        if not 0 < self.cut <= MOST:
            raise ValueError(f"The cut lies in (0, {MOST}], got {self.cut!r}.")

    def model_params(self, work: Work) -> np.ndarray:
        return work.model.rescaled(self.params, self.factor)

    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        slopes = (loss.gradient(y, raw) * raw).sum(axis=-1)
        return slope_terms(centred_slopes(raw, slopes, self.cut) * weights, self.cut)


@dataclass(frozen=True, eq=False)
class TemperaturePlan(CalibrationPlan):
    """The sums that estimate the factor, and their cost, from public numbers."""

    purpose = "temperature"
    evaluations, share = 2, math.sqrt(0.04 / 2)

    @cached_property
    def cut(self) -> float:
        """c, a public number."""
        per = self.sums.noise(0, Slopes(np.zeros(0), 1.0, 1.0))
        return min(MOST, max(_LEAST_CUT, _NOISE / per)) if per > 0 else MOST

    def asks(self, params: np.ndarray, value: float) -> Slopes:
        return Slopes(params, value, self.cut)

    @property
    def noise_of_logarithm(self) -> float:
        """Standard deviation that the noise of the evaluations gives log t."""
        doubt, h, variance, noise = _PRIOR**2, _CURVATURE, 0.0, self.noise
        for _ in range(self.evaluations):
            gain = doubt * h / (h * h * doubt + noise**2)
            variance = (1 - gain * h) ** 2 * variance + (gain * noise) ** 2
            doubt *= 1 - gain * h
        return math.sqrt(variance)

    def calibrated(self, run: CalibrationRun, walk: float) -> Calibrated:
        model, params = run.work.model, run.params
        mask = model.output_mask()
        scaled = run.work.penalty if mask is None else run.work.penalty * mask
        penalty = float(np.square(params, dtype=np.float64) @ scaled)
        factor = self.find(run.mean, walk, penalty)
        rescaled = model.rescaled(params, factor)
        return Calibrated(rescaled, factor, error=self.noise_of_logarithm, direction=rescaled)

    def find(
        self, mean: Callable[[float, int], float], walk: float = 0.0, penalty: float = 0.0
    ) -> float:
        """Return t.

        Parameters
        ----------
        mean : callable
            The noisy mean of the terms at a factor t; the number counts how often it is asked for.
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
            slope = mean(t, number) + penalty * t * t
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
