"""The posterior of the factor on raw predictions of a classifier, from two noisy slopes.

With x a record's raw prediction less the anchor b, z = b + t x what a factor t makes of it::

    x        normal, of variance V for each output; log V = log of its typical value +- 0.8
    labels   have the log odds  b + t* x               t* is the best factor
    log t*   = log(0.7 / (1 + 24 S)) +- 0.7            S: see _temperature

V is 0.8 |w|^2 of an output of a linear model, and 1.5 for others. A slope that was seen is what
this says of its cut terms (normal quantiles stand for x; of several outputs, fixed draws), but for
noise and an error of 0.15 of the slope without a signal. The factor is the one of the least
expected loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import log_softmax, ndtri, softmax

from skdpfl.scaling._maps import Array

#: grid of factors
_FACTORS = np.geomspace(0.01, 4.0, 49)
#: grid of log V in deviations, and a deviation of log V
_SPREADS, _DOUBT = np.array([-1.5, -0.75, 0.0, 0.75, 1.5]), 0.8
#: the prior's median of t* without noise, how much S lowers it, and its deviation of log t*
_TYPICAL, _BY_NOISE, _WIDE = 0.7, 24.0, 0.7
#: the error of the model of slopes
_MISFIT = 0.15
#: V^0.5 t where slopes are asked for: first (t = 1 at most), and at least
_ASKED, _ASKED_LEAST = 1.5, 0.5
#: normal quantiles, or draws and their mirror images, of at most so many numbers
_POINTS, _NUMBERS = 32, 6400


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """The posterior of V and t*.

    Parameters
    ----------
    variance : float
        The typical V.
    base : tuple of float
        The anchor b of each output.
    level : float
        S.
    noise, cut : float
        Those of mean slopes.
    penalty : float, default=0.0
        alpha |w|^2 of the model.
    """

    variance: float
    base: tuple[float, ...]
    level: float
    noise: float
    cut: float
    penalty: float = 0.0

    @property
    def first(self) -> float:
        """The factor that the first slope is asked for at."""
        return min(1.0, _ASKED / math.sqrt(self.variance))

    @property
    def least(self) -> float:
        """The smallest factor at which a slope is computed."""
        return _ASKED_LEAST / math.sqrt(self.variance)

    def factor(self, seen: list[tuple[float, float]]) -> float:
        """Return the factor, after slopes were seen at factors."""
        loss = (self._losses * self._likely(seen)).sum(axis=(1, 2))
        loss += self.penalty * _FACTORS**2 / 2
        best = int(np.clip(loss.argmin(), 1, len(loss) - 2))
        below, least, above = loss[best - 1 : best + 2]
        bend = below - 2 * least + above
        off = float(np.clip((below - above) / (2 * bend), -1, 1)) if bend > 0 else 0.0
        return float(_FACTORS[best] * (_FACTORS[1] / _FACTORS[0]) ** off)

    def slopes(self, factor: float) -> Array:
        """Return the mean cut slope at a factor (V, t*)."""
        away = factor * self._x
        likely, steps = softmax(of_labels(np.array(self.base) + away), axis=-1), of_labels(away)
        each = (likely * steps).sum(axis=-1, keepdims=True) - steps
        cut = np.clip(each, -self.cut, self.cut)[:, None]
        found: Array = ((self._true - likely[:, None]) * cut).sum(axis=-1).mean(axis=-1)
        return found

    def expected(self, seen: list[tuple[float, float]], factor: float) -> float:
        """Return the expected slope at a factor, after slopes were seen."""
        return float((self._likely(seen) * self.slopes(factor)).sum())

    def _likely(self, seen: list[tuple[float, float]]) -> Array:
        """Return the probabilities of V and t*."""
        median = _TYPICAL / (1 + _BY_NOISE * self.level)
        logs = -np.square(np.log(_FACTORS / median) / _WIDE) / 2
        logs = logs - np.square(_SPREADS)[:, None] / 2
        for factor, slope in seen:
            told = self.slopes(factor)
            variance = self.noise**2 + np.square(_MISFIT * told[:, :1])
            logs = logs - np.square(slope - told) / (2 * variance) - np.log(variance) / 2
        likely = np.exp(logs - logs.max())
        return np.asarray(likely / likely.sum())

    @cached_property
    def _x(self) -> Array:
        """x (V, m, k)."""
        deviations = np.sqrt(self.variance * np.exp(_DOUBT * _SPREADS))
        return deviations[:, None, None] * _points(len(self.base))

    def _raw(self) -> Array:
        """Return raw predictions at all factors (V, factors, m, k)."""
        return np.array(self.base) + _FACTORS[:, None, None] * self._x[:, None]

    @cached_property
    def _true(self) -> Array:
        """Probabilities of labels (V, t*, m, K)."""
        found: Array = softmax(of_labels(self._raw()), axis=-1)
        return found

    @cached_property
    def _losses(self) -> Array:
        """The expected loss (factors, V, t*)."""
        logs = log_softmax(of_labels(self._raw()), axis=-1)
        found = np.einsum("vuml,vtml->tvu", self._true, logs, optimize=True)
        return np.asarray(-found / logs.shape[2])


@lru_cache(maxsize=16)
def _points(n_outputs: int) -> Array:
    """Return points (m, k) that stand for independent standard normal variables."""
    if n_outputs == 1:
        quantiles: Array = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
        return quantiles
    half = min(_POINTS, max(4, _NUMBERS // (2 * n_outputs)))
    drawn = np.random.default_rng(0).normal(size=(half, n_outputs))
    return np.concatenate([drawn, -drawn])


def of_labels(raw: Any) -> Array:
    """Return raw predictions of all labels (.., K)."""
    return raw if raw.shape[-1] > 1 else np.concatenate([np.zeros_like(raw), raw], axis=-1)
