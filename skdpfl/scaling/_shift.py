"""The level of a quantile regression's predictions, found after training within the budget.

Noise, clipping (which shortens the longer of the two slopes) and smoothing move the share of
targets below the predictions away from the quantile q that was asked for. One shift d of all
predictions brings it back; with z_j a record's prediction and y_j its target, in scaled units::

    c_j    = 1/2 if y_j <= z_j + d, else -1/2              (also where something is not a number)
    F      = 1/2 + the noisy mean of c_j                   see _bounded_sums, with the guarantee
    model    F(d) = sigmoid(logit q + (d - d*) / tau)      d* the shift that is looked for
    prior    d* ~ Student's t with 4 degrees of freedom, scale 0.25; log tau uniform
    d     <- the least d whose share of targets below, in the mean over the posterior, is q

After each answer the posterior is computed on a grid of d* and tau; the next one is asked at the
new d, the last d is the shift. An answer counts by its known noise (and 0.01 for the model), so
where noise is large d stays near 0. All answers together cost 4 % of mu^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._bounded_sums import Answers, BoundedSums
from skdpfl.scaling._maps import Array

#: the grid of shifts, and of tau; the prior's scale and degrees of freedom; the model's error
_SHIFTS, _SLOPES = np.linspace(-2.0, 2.0, 161), np.geomspace(0.02, 0.8, 9)
_PRIOR, _FREEDOM, _MISFIT = 0.25, 4.0, 0.01


class Level(NamedTuple):
    """A shift, and the posterior's standard deviation."""

    shift: float
    error: float


@dataclass(frozen=True, eq=False)
class ShiftPlan(BoundedSums):
    """The counts that estimate the shift, and their cost, from public numbers.

    Parameters
    ----------
    setting : Setting
        Silo sizes, budgets as mu, trust and relation; records are protected.
    """

    purpose = "shift"
    evaluations, share = 4, math.sqrt(0.04 / 4)

    def of_silo(self, i: int) -> ShiftPlan:
        """Return what one silo needs to know of the plan."""
        return ShiftPlan(self.setting.of_silo(i))

    @property
    def cut(self) -> float:
        """1/2."""
        return 0.5

    def find(
        self, ask: Callable[[float, int], Answers], streams: Streams, quantile: float
    ) -> Level:
        """Return the shift of predictions.

        Parameters
        ----------
        ask : callable
            Asks the silos, at a shift d, for their sums of terms; the number counts how often.
        streams : Streams
            Where the noise comes from.
        quantile : float
            The share of targets that is to be below.
        """
        shifts, slopes = _SHIFTS[:, None], _SLOPES[None, :]
        wanted, noise = math.log(quantile / (1 - quantile)), math.hypot(self.noise, _MISFIT)
        likely = -(_FREEDOM + 1) / 2 * np.log1p((shifts / _PRIOR) ** 2 / _FREEDOM) + 0 * slopes
        shift, at_all = 0.0, _below(wanted, _SHIFTS[:, None, None], shifts, slopes)
        for number in range(self.evaluations):
            share = 0.5 + self.mean(ask(shift, number), streams, number)
            likely -= 0.5 * ((share - _below(wanted, shift, shifts, slopes)) / noise) ** 2
            weights = np.exp(likely - likely.max())
            weights /= weights.sum()
            shift = float(np.interp(quantile, (at_all * weights).sum(axis=(1, 2)), _SHIFTS))
        return Level(shift, math.sqrt(float((weights * (shifts - shift) ** 2).sum())))


def _below(wanted: float, shift: float | Array, true: Array, slopes: Array) -> Array:
    """Return the share of targets below predictions that are moved by ``shift``."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-(wanted + (shift - true) / slopes))))


def below_terms(y: Array, raw: Array, shift: float) -> Array:
    """Return the terms of records (n,) from targets and predictions (n,)."""
    return np.where(y <= raw + raw.dtype.type(shift), 0.5, -0.5)
