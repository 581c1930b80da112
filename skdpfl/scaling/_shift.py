"""The level of a quantile regression's predictions, found after training within the budget.

Slopes -q and 1 - q of records that are clipped to kappa balance at another quantile q' than the q
that was asked for (:func:`skdpfl.choosing._final_step.with_clipped_quantile`), and noise and
smoothing move the share of targets below predictions, too. One shift d of all predictions brings it
to q; with z_j a record's prediction and y_j its target, in scaled units::

    c_j    = 1/2 if y_j <= z_j + d, else -1/2              (also where something is not a number)
    F      = 1/2 + the noisy mean of c_j                   see _calibration, with the guarantee
    model    F(d) = sigmoid(logit q + (d - d*) / tau)      d* the shift that is looked for
    prior    d* - tau (logit q - logit q') ~ Student's t with 4 degrees of freedom, scale 0.25;
             log tau normal around log 0.3 with deviation 1.5
    d        the least one whose share of targets below, in the mean over the posterior, is q

At first, and after each answer, the posterior is computed on a grid of d* and tau; a question is
asked at its d, the last d is the shift. An answer counts by its known noise (and 0.01 for the
model), so where noise is large the prior decides. All answers together cost 4 % of mu^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpfl.scaling._calibration import (
    Calibrated,
    CalibrationPlan,
    CalibrationRun,
    PredictionSum,
    finite,
)
from skdpfl.scaling._maps import Array

#: the grid of shifts, and of tau; the prior's scale and degrees of freedom; the model's error
_SHIFTS, _SLOPES = np.linspace(-2.5, 2.5, 161), np.geomspace(0.02, 1.2, 11)
_PRIOR, _FREEDOM, _MISFIT = 0.25, 4.0, 0.01
#: a typical tau, and the prior's deviation of its logarithm
_TYPICAL, _DOUBT = 0.3, 1.5


class Level(NamedTuple):
    """A shift, and the posterior's standard deviation."""

    shift: float
    error: float


@dataclass(frozen=True, eq=False)
class Below(PredictionSum):
    """How many targets are below raw predictions plus a shift: 1/2 for each, -1/2 for others.

    Weights of records are ignored.
    """

    shift: float

    @property
    def radius(self) -> float:
        return 0.5

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        finite(self.shift)

    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        moved = raw[:, 0] + raw.dtype.type(self.shift)
        return np.where(y <= moved, 0.5, -0.5)


@dataclass(frozen=True, eq=False)
class ShiftPlan(CalibrationPlan):
    """The counts that estimate the shift, and their cost, from public numbers.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation; records are protected.
    quantile : float, default=0.5
        The share of targets that is to be below predictions.
    """

    quantile: float = 0.5
    purpose = "shift"
    evaluations, share = 6, math.sqrt(0.04 / 6)

    def asks(self, params: np.ndarray, value: float) -> Below:
        return Below(params, value)

    def calibrated(self, run: CalibrationRun, walk: float) -> Calibrated:
        trained, intercept = run.work.loss.quantile_level, run.work.model.intercept_mask()
        assert trained is not None
        assert intercept is not None
        shift, error = self.find(run.mean, trained)
        moved = run.params + (shift * intercept).astype(run.params.dtype)
        return Calibrated(moved, shift=shift, errors=((error, intercept),))

    def find(self, mean: Callable[[float, int], float], trained: float) -> Level:
        """Return the shift of predictions.

        Parameters
        ----------
        mean : callable
            The noisy mean of the terms at a shift d; the number counts how often it is asked for.
        trained : float
            The quantile that the model was trained for.
        """
        shifts, slopes = _SHIFTS[:, None], _SLOPES[None, :]
        wanted, noise = _logit(self.quantile), math.hypot(self.noise, _MISFIT)
        away = (shifts - slopes * (wanted - _logit(trained))) / _PRIOR
        likely = -(_FREEDOM + 1) / 2 * np.log1p(away**2 / _FREEDOM)
        likely -= 0.5 * (np.log(slopes / _TYPICAL) / _DOUBT) ** 2
        at_all, number = _below(wanted, _SHIFTS[:, None, None], shifts, slopes), 0
        while True:
            weights = np.exp(likely - likely.max())
            weights /= weights.sum()
            shares = (at_all * weights).sum(axis=(1, 2))
            shift = float(np.interp(self.quantile, shares, _SHIFTS))
            if number == self.evaluations:
                break
            share = 0.5 + mean(shift, number)
            likely -= 0.5 * ((share - _below(wanted, shift, shifts, slopes)) / noise) ** 2
            number += 1
        return Level(shift, math.sqrt(float((weights * (shifts - shift) ** 2).sum())))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _below(wanted: float, shift: float | Array, true: Array, slopes: Array) -> Array:
    """Return the share of targets below predictions that are moved by ``shift``."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-(wanted + (shift - true) / slopes))))
