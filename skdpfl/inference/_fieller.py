r"""Confidence intervals from a noisy score and curvature: a Newton step, and Fieller's interval.

::

    theta_1      the pilot, a released model (k,)
    S, J         noisy score and curvature at theta_1: S - J (theta* - theta_1) has mean 0
    s, s_J       deviations of the noise in S, and in J's diagonal (s_J / sqrt 2 off it)
    v            = J^-1 S                         theta = theta_1 + v, the estimate
    V(u)         = M + s^2 I + s_J^2 / 2 (|u|^2 I + u u')
    C(u)         = J^-1 V(u) J^-1
    M            "model": phi [J]_+, the score's variance under the model, phi its dispersion
                 "robust": [noisy sum of the scores' outer products]_+
                 "silos": V(u) = m / (m - 1) sum_i (d_i - d)(d_i - d)', d_i = S_i - J_i u, d their
                 mean: noise and sampling of silo i in one; t with m - 1 degrees of freedom

    interval of c'theta, with t0 = c'theta, at the quantile z:
    ends         the roots t of (t - t0)^2 = z^2 q(t),  q(t) = c' C(u(t)) c, a quadratic;
                 u(t) = v + (t - t0) C c / c'C c
    p            2 (1 - Phi(|t0 - b| / sqrt(q(b)))) against c'theta* = b

**Why.** With E the noise of J, S - J u at u = theta* - theta_1 is the score's sampling error, the
noise of S and -E u, whose covariance is s_J^2 / 2 (|u|^2 I + u u'). Among all u of one c'u, u(t)
is the most likely, so an end is where the hypothesis t is just not rejected (Fieller 1954): the
interval is wider on the side where J could be smaller, and unbounded where J's noise leaves no end.
Ignoring E covers .81 to .93; a floor on J's eigenvalues is a bias. The first derivative of J is
ignored, as in each Newton step: theta_1 has to be near the truth, by predictions.

Formal guarantee
----------------
Everything here is computed from released sums and public numbers, so it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, t

Array = NDArray[np.floating]

#: a curvature whose least eigenvalue is below this multiple of its noise's norm is not used
_LEAST_CURVATURE = 0.5


class Interval(NamedTuple):
    """An estimate, its standard error, and its interval with the p-value of its null value.

    An unbounded interval has infinite ends.
    """

    estimate: float
    error: float
    lower: float
    upper: float
    p: float


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """A noisy Newton step from a pilot.

    Parameters
    ----------
    pilot, score : ndarray of shape (k,)
        The pilot, and the noisy score there.
    curvature : ndarray of shape (k, k)
        The noisy curvature, symmetric.
    score_noise : float or ndarray of shape (k,)
        Deviation of the noise in each entry of the score.
    curvature_noise : float
        Deviation of the noise on the curvature's diagonal.
    dispersion : float, default=1.0
        The score's variance over its curvature, under the model.
    meat : ndarray of shape (k, k), optional
        The noisy sum of the scores' outer products, instead of the model's.
    each : tuple of ndarray, optional
        The silos' noisy scores (m, k) and curvatures (m, k, k), whose sums are the above.
    far : str, default=""
        Why the pilot is too far from the truth for a step, if it is.
    """

    pilot: Array
    score: Array
    curvature: Array
    score_noise: float | Array
    curvature_noise: float
    dispersion: float = 1.0
    meat: Array | None = None
    each: tuple[Array, Array] | None = None
    far: str = ""

    def along(self, basis: Array) -> NewtonStep:
        """Return the step within the span of orthonormal columns (k, k'), in their coordinates.

        Their squares may not overlap (single parameters, or means of groups): then the score's
        noise stays independent, and the curvature's is at most what it was.
        """
        each = None
        if self.each is not None:
            each = self.each[0] @ basis, basis.T @ self.each[1] @ basis
        score_noise = np.broadcast_to(self.score_noise, len(basis))
        return replace(
            self,
            pilot=self.pilot @ basis,
            score=self.score @ basis,
            curvature=basis.T @ self.curvature @ basis,
            meat=None if self.meat is None else basis.T @ self.meat @ basis,
            each=each,
            score_noise=np.sqrt(np.square(score_noise) @ np.square(basis)),
        )

    @property
    def refused(self) -> str:
        """Why there is no estimate; "" if there is one."""
        if self.far or self.inverse is not None:
            return self.far
        return (
            "the noise hides the curvature: the records are too few for this budget, or columns "
            "determine each other"
        )

    @property
    def least_curvature(self) -> float:
        """The curvature along a direction below which it is hidden by noise."""
        return _LEAST_CURVATURE * self.curvature_noise * math.sqrt(2 * len(self.score))

    @cached_property
    def inverse(self) -> Array | None:
        """The inverse of the curvature; None if it is refused."""
        own = np.linalg.eigvalsh(self.curvature)
        rounding = len(own) * np.finfo(float).eps * np.abs(own).max(initial=0.0)
        least = max(self.least_curvature, rounding)
        fine = bool(np.isfinite(own).all()) and own.min(initial=np.inf) > least
        return np.linalg.inv(self.curvature) if fine else None

    @cached_property
    def step(self) -> Array:
        """The step v from the pilot to the estimate."""
        return self._solved(self.score)

    @cached_property
    def _own(self) -> Array:
        """The score's variance without noise, M."""
        return positive_part(self.dispersion * self.curvature if self.meat is None else self.meat)

    def _solved(self, right: Array) -> Array:
        """Return J^-1 times a vector or matrix."""
        assert self.inverse is not None  # refused
        return np.asarray(self.inverse @ right)

    @property
    def estimate(self) -> Array:
        """The estimate theta, unshrunk."""
        return self.pilot + self.step

    @cached_property
    def covariance(self) -> Array:
        """C(u) at the step: the estimate's covariance."""
        return self._solved(self._solved(self._variance(self.step)).T)

    def _variance(self, u: Array) -> Array:
        """Return V(u)."""
        if self.each is not None:
            scores, curvatures = self.each
            left = scores - curvatures @ u
            left = left - left.mean(axis=0)
            return left.T @ left * (len(left) / (len(left) - 1))
        k = len(u)
        of_curvature = self.curvature_noise**2 / 2 * (u @ u * np.eye(k) + np.outer(u, u))
        return self._own + np.diag(np.full(k, np.square(self.score_noise))) + of_curvature

    @property
    def _law(self) -> Any:
        """The law of a standardised error."""
        return norm if self.each is None else t(len(self.each[0]) - 1)

    def interval(
        self, weights: ArrayLike, confidence: float, offset: float = 0.0, null: float = 0.0
    ) -> Interval:
        """Return the interval of ``weights @ theta + offset``, and p against ``null``.

        Parameters
        ----------
        weights : array-like of shape (k,)
            A linear combination of the parameters.
        confidence : float
            The probability with which the interval covers.
        offset, null : float, default=0.0
            A constant that is added, and the value that p is about.
        """
        c = np.asarray(weights, float)
        at, z = float(c @ self.estimate) + offset, float(self._law.ppf((1 + confidence) / 2))
        variance = self._variance_along(c)
        p = float(2 * self._law.sf(abs(at - null) / math.sqrt(variance(null - at))))
        e0, e2 = variance(0.0), (variance(1.0) + variance(-1.0)) / 2 - variance(0.0)
        e1 = (variance(1.0) - variance(-1.0)) / 2
        left, error = 1 - z**2 * e2, math.sqrt(e0)
        if left <= 0:  # the hypothesis at infinity is not rejected
            return Interval(at, error, -math.inf, math.inf, p)
        root = math.sqrt(z**4 * e1**2 + 4 * left * z**2 * e0)
        low, high = ((z**2 * e1 + sign * root) / (2 * left) for sign in (-1, 1))
        return Interval(at, error, at + low, at + high, p)

    def _variance_along(self, c: Array) -> Callable[[float], float]:
        """Return the variance of c'theta where c'theta* is larger than the estimate by a number."""
        along = self.covariance @ c
        along = along / (c @ along)
        g = self._solved(c)
        return lambda beyond: max(float(g @ self._variance(self.step + beyond * along) @ g), 0.0)


def positive_part(matrix: Array) -> Array:
    """Return a symmetric matrix with its negative eigenvalues set to 0."""
    if not np.isfinite(matrix).all():
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def unpacked(packed: Array, k: int) -> Array:
    """Return the symmetric matrix from its packed upper triangle, products times sqrt(2)."""
    upper = np.zeros((k, k))
    upper[np.triu_indices(k)] = packed
    matrix = (upper + upper.T) / math.sqrt(2)
    np.fill_diagonal(matrix, upper.diagonal())
    return matrix


def packed(matrix: Array) -> Array:
    """Return the upper triangle of a symmetric matrix, products times sqrt(2)."""
    scaled = matrix * math.sqrt(2)
    np.fill_diagonal(scaled, matrix.diagonal())
    return np.asarray(scaled[np.triu_indices(len(matrix))])
