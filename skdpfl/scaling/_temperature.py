"""The scale of a classifier's raw predictions, found after training within the budget.

With clipped gradients and noise, predictions rank labels well but are too large or too small as log
odds. One factor t on all of them corrects most of it; with z a record's raw prediction and l its
loss::

    u        = log t                                 prior: normal with mean m0, deviation 0.45
    slope_j  = d l(y_j, t z_j) / du = sum over outputs of (dl / dz)(t z_j) t z_j
    c_j      = slope_j cut to [-c, c], rounded towards 0 to a multiple of 2^-20; not finite: 0
    S_i      = sum of c_j over silo i's records + noise of its own
    g        = sum_i w_i S_i / n_i  (+ alpha t^2 |w|^2)         w_i ~ n_i, the same as in scales
    u       <- u - K g,   K = P h / (h^2 P + v),   P <- P (1 - K h),    P = 0.45^2 at first

v is the variance of the noise of g, h = 0.3 the curvature in u of a logistic model with typical raw
predictions: these are the steps of a Kalman filter. Two of them are as good as more. Both together
cost 4 % of mu^2, so training has 2 % more noise. The prior's mean, which is public, is smaller if
the noise of training moves predictions far.

**Formal guarantee.** Let D be 2 where a record is replaced and 1 where its contribution is set to
zero. c_j is a function of record j and of what was released before (the model, the scales, u), and
|c_j| <= c, so between neighbours sum_j c_j moves by at most D c: a record's term is replaced, or
becomes 0. All terms are multiples of 2^-20 and at most 4, so float64 adds up 2^31 of them without
rounding, in any order. Sum and noise are added on one grid, and the grid's step and the divisions
by public numbers are part of the noise (:func:`skdpfl.privacy.release.noise_for`). So each S_i
(with ``trust="server"``: their one sum, whose terms move alike) is a Gaussian mechanism of noise
multiplier D / (share mu_i), as ``composition`` tells the accountant, and everything later is
computed from such sums and public numbers. A silo's sums depend on other silos' records only
through what these released, so the guarantee holds whatever they hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdpfl.privacy.events import Composition, Exact, Gaussian
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, NoisedSum, grid_for, noise_for, relative_error
from skdpfl.scaling._maps import Array
from skdpfl.scaling._setting import Setting

#: evaluations of the slope, and the part of mu that each of them spends: 4 % of mu^2 in all
EVALUATIONS, SHARE = 2, math.sqrt(0.04 / 2)
#: the prior's deviation, the curvature in u, and the limits of u
_PRIOR, _CURVATURE, _RANGE = 0.45, 0.3, (-2.5, 1.5)
#: the cut is as wide as this noise on the mean slope allows, within limits
_NOISE, _CUTS = 0.15, (0.7, 4.0)
#: all terms are multiples of this
_STEP = 2.0**-20
#: the prior's mean: 0 up to the first walk of predictions, the least from the second on
_LEAST, _WALKS = -0.6, (1.5, 3.0)

#: silos, and what each sends (n, 1); in any order and pieces
Answers = Iterable[tuple[np.ndarray, Array]]


@dataclass(frozen=True, eq=False)
class TemperaturePlan:
    """The releases that estimate the factor, and their cost, from public numbers.

    Parameters
    ----------
    setting : Setting
        Silo sizes, budgets as mu, trust and relation; records are protected.
    given_cut : float, optional
        The cut, where it follows from silos that the setting does not know.
    """

    setting: Setting
    given_cut: float | None = None

    def __post_init__(self) -> None:
        if self.given_cut is not None and not 0 < self.given_cut <= _CUTS[1]:
            raise ValueError(f"The cut lies in (0, {_CUTS[1]}], got {self.given_cut!r}.")

    def of_silo(self, i: int) -> TemperaturePlan:
        """Return what one silo needs to know of the plan."""
        return TemperaturePlan(self.setting.of_silo(i), self.cut)

    def composition(self, silo: int) -> Composition:
        """The releases of the silo at this position, for the accountant."""
        mu = float(self._mu[silo])
        event = Exact() if math.isinf(mu) else Gaussian(self._change / mu)
        return ((event, EVALUATIONS),)

    @cached_property
    def _mu(self) -> Array:
        """The mu that each silo spends on each evaluation, at most 1."""
        mu = self.setting.spends
        return np.where(np.isfinite(mu), np.minimum(SHARE * mu, 1.0), np.inf)

    @property
    def _change(self) -> float:
        """D."""
        return 2.0 if self.setting.neighbours == "replace" else 1.0

    @cached_property
    def cut(self) -> float:
        """c, a public number."""
        if self.given_cut is not None:
            return self.given_cut
        per = self.setting.noise_of_mean(self._std(1.0))
        return min(_CUTS[1], max(_CUTS[0], _NOISE / per)) if per > 0 else _CUTS[1]

    def _std(self, cut: float) -> Array:
        """Standard deviations of the noises (n_silos,) for terms within ``cut``; 0: none."""
        units = self.setting.units
        most = units.sum() if self.setting.at_server else units
        error = np.broadcast_to(relative_error((2, DOUBLE)) * cut * most, units.shape)
        return noise_for(self._mu, self._change * cut, 1, error)

    @cached_property
    def noised(self) -> NoisedSum:
        """The noised sum of each silo, or at the server, (n_silos,)."""
        std, units = self._std(self.cut), self.setting.units
        bounds = self.cut * (np.full(units.shape, units.sum()) if self.setting.at_server else units)
        pairs = zip(std.tolist(), bounds.tolist(), strict=True)
        return NoisedSum(std, np.array([grid_for(s, b) if s else 0.0 for s, b in pairs]))

    def answers(self, silos: np.ndarray, exact: Array, streams: Streams, number: int) -> Array:
        """Return what silos send (n,) of their exact sums: noised, unless the server does that."""
        if self.setting.at_server:
            return exact
        return _added(self.noised.of(silos), silos, exact, streams, number)

    def mean(self, answers: Answers, streams: Streams, number: int) -> float:
        """Return the noisy mean slope, from what all silos sent."""
        sums, units = _gathered(answers, self.setting.n_silos), self.setting.units
        if not self.setting.at_server:
            return float(self.setting.weights @ (sums / units))
        first = np.zeros(1, int)
        noised = _added(self.noised.of(first), first, sums.sum()[None], streams, number)
        return float(noised[0] / units.sum())

    @property
    def noise_of_logarithm(self) -> float:
        """Standard deviation that the noise of the evaluations gives log t."""
        doubt, h, variance = _PRIOR**2, _CURVATURE, 0.0
        noise = self.setting.noise_of_mean(self.noised.std)
        for _ in range(EVALUATIONS):
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
        doubt, h = _PRIOR**2, _CURVATURE
        noise = self.setting.noise_of_mean(self.noised.std)
        for number in range(EVALUATIONS):
            t = math.exp(u)
            slope = self.mean(ask(t, number), streams, number) + penalty * t * t
            gain = doubt * h / (h * h * doubt + noise**2)
            u = min(_RANGE[1], max(_RANGE[0], u - gain * slope))
            doubt *= 1 - gain * h
        return math.exp(u)


def slope_terms(slopes: Array, cut: float) -> Array:
    """Return the terms of records' slopes (n,): cut, on the grid of all terms; 0 if not finite."""
    terms = np.where(np.isfinite(slopes), slopes, 0.0).astype(np.float64)
    return np.trunc(np.clip(terms, -cut, cut) / _STEP) * _STEP


def _gathered(answers: Answers, n_silos: int) -> Array:
    """Return what all silos sent (n_silos,), each once."""
    sent, came = np.zeros(n_silos), np.zeros(n_silos, int)
    for silos, values in answers:
        sent[silos] = values[:, 0]
        np.add.at(came, silos, 1)
    if (came != 1).any():
        raise ValueError("Each silo answers a question once: some did not, or did so twice.")
    return sent


def _added(
    noised: NoisedSum, silos: np.ndarray, exact: Array, streams: Streams, number: int
) -> Array:
    """Return sums (n,) plus their noises; those of infinite budgets stay exact."""
    units = streams.units_block("temperature", silos, number, (), np.float64)
    noisy, out = noised.std > 0, exact.astype(np.float64)
    if noisy.any():
        out[noisy] = noised.of(noisy).added(out[noisy], units[noisy])
    return out
