"""Calibration of a trained model's predictions, within the budget.

::

    c_j    = a record's term: |c_j| <= c, from the record, the model and what was released before
    m      = sum_i w_i S_i / n_i           S_i the noised sum over silo i's records

The scale of a classifier's raw predictions is estimated from several such means
(:mod:`skdpfl.scaling._temperature`), the level of a quantile's predictions from others. Terms are
multiples of 2^-20 and at most 4 for any record, so float64 sums 2^31 of them without rounding, in
any order; :mod:`skdpfl.federation` proves the cost of a sum.

**The level of a quantile's predictions.** Clipped to kappa, the slopes -q and 1 - q of records
balance at a quantile q' other than the requested q
(:func:`skdpfl.choosing._final_step.with_clipped_quantile`). Noise and smoothing also change the
share of targets below predictions. One shift d of all predictions brings this share to q; with z_j
a record's prediction and y_j its target, in scaled units::

    c_j    = 1/2 if y_j <= z_j + d, else -1/2              (also where something is not a number)
    F      = 1/2 + the noisy mean of c_j                   as above, with the guarantee
    model    F(d) = sigmoid(logit q + (d - d*) / tau)      d* the shift that is looked for
    prior    d* - tau (logit q - logit q') ~ Student's t with 4 degrees of freedom, scale 0.25;
             log tau alike within its grid
    d        the least one whose share of targets below, in the mean over the posterior, is q

At the start, and after each noisy mean, the posterior is computed on a grid of d* and tau. The next
mean is taken at its d; the last d is the shift. Each mean is weighted by its known noise (and 0.01
for the model), so the prior dominates if noise is large. All means together cost 4 % of mu^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpfl.algorithms import is_vector
from skdpfl.federation import BoundedSum, Federation, SiloBudgets, SiloData, SumPlan, Work
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._maps import Array
from skdpfl.scaling._moments import STEP as STEP

#: the largest cut
MOST_CUT = 4.0
#: records whose raw predictions are held at once
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class PredictionSum(BoundedSum):
    """Base class of sums of one bounded number per record, computed from a model's prediction."""

    params: np.ndarray
    on_grid = True

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @abstractmethod
    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        """Return the terms (n,) of records with these raw predictions (n, k)."""

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if work is None or not is_vector(self.params, work.model.size):
            raise ValueError(
                "A sum over predictions needs a model, which this fit does not have yet."
            )

    def model_params(self, work: Work) -> np.ndarray:
        """Return the parameters of the model that predicts."""
        return self.params

    def sums(self, data: SiloData, work: Work) -> Iterator[tuple[np.ndarray, Array]]:
        """See `BoundedSum.sums`.

        Notes
        -----
        A silo's sum depends on its own records only, to the last bit: raw predictions are computed
        silo by silo, terms record by record, and their sum is exact.
        """
        work = work.apart()
        maps = work.features, work.target, work.target_dtype, work.class_weights
        data, params = data.mapped(*maps), self.model_params(work)
        sums = np.zeros(len(data.sizes))
        for silos, rows in data.alike(_BLOCK):
            y = data.targets(rows)
            targets, weights = (y, 1.0) if y.dtype.names is None else (y["target"], y["weight"])
            X = data.at(rows, work.dtype)[0]
            raw = work.model.raw(params, X.reshape(len(silos), -1, X.shape[-1]))
            terms = self.of_predictions(raw.reshape(len(y), -1), targets, weights, work.loss)
            sums[silos] += terms.reshape(len(silos), -1).sum(axis=1)
        here = np.flatnonzero(data.sizes)
        yield here, sums[here]


class LabelShares(NamedTuple):
    """The labels' shares, public or counted (None: unknown), and the error of their log odds."""

    shares: tuple[float, ...] | None = None
    error: float = 0.0


class Calibrated(NamedTuple):
    """A model's parameters after calibration, with the estimated factor or shift.

    ``errors`` are standard deviations of the parameters due to the noise of the releases, each with
    its direction.
    """

    params: np.ndarray
    factor: float = 1.0
    shift: float = 0.0
    errors: tuple[tuple[float, np.ndarray], ...] = ()


@dataclass(frozen=True, eq=False)
class CalibrationPlan(ABC):
    """Base class: the sums for a calibration, and their cost, from public numbers.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation; records are protected.
    """

    budgets: SiloBudgets
    #: purpose of the sums, their number, and the part of mu that each of them spends
    purpose: ClassVar[str]
    evaluations: ClassVar[int]
    share: ClassVar[float]

    def asks(self, params: np.ndarray, value: Any) -> PredictionSum:
        """Return the sum at a factor, or a shift, of predictions."""
        raise NotImplementedError(f"{type(self).__name__} asks nothing of a trained model.")

    @abstractmethod
    def calibrated(self, run: CalibrationRun) -> Calibrated:
        """Return the model after calibration."""

    @cached_property
    def labels(self) -> SumPlan:
        """The plan of the labels' count before training; empty if they are not counted."""
        return SumPlan(self.budgets, "labels", ())

    def counted(self, federation: Federation, streams: Streams) -> LabelShares:
        """Return the labels' shares, which may be counted; before anything else is asked."""
        return LabelShares()

    def start(self, labels: LabelShares, weights: Any) -> float:
        """Return the raw prediction at which rounds begin; ``weights`` are those of classes."""
        return 0.0

    @cached_property
    def sums(self) -> SumPlan:
        """The plan of the sums; each costs at most mu = 1."""
        return SumPlan(self.budgets, self.purpose, (self.spent(self.share),) * self.evaluations)

    def spent(self, share: float) -> Array:
        """Return the mu that each silo spends on a sum, at most 1; inf for exact ones."""
        mu, finite = self.budgets.spends, np.isfinite(self.budgets.spends)
        return np.where(finite, np.minimum(share * np.where(finite, mu, 0.0), 1.0), np.inf)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a mean."""
        return self.sums.noise(0, self.asks(np.zeros(0), 1.0))


class CalibrationRun(NamedTuple):
    """A plan, a trained model, the silos, the server's random streams, and labels' shares.

    The model is the average of ``n_last`` rounds' models; None: of the second half.
    """

    plan: CalibrationPlan
    federation: Federation
    work: Work
    params: np.ndarray
    streams: Streams
    labels: LabelShares = LabelShares()
    n_last: int | None = None

    def mean(self, value: Any, number: int) -> float:
        """Return the noisy mean term."""
        plan, budgets = self.plan, self.plan.budgets
        question = plan.sums.question(number, plan.asks(self.params, value), self.work)
        sums = question.each(self.federation, self.streams)
        if budgets.as_one:
            return float(sums[0] / budgets.units.sum())
        return float(budgets.weights @ (sums / budgets.units))


def finite(value: float) -> float:
    """Return a finite number, or raise."""
    if not math.isfinite(value):
        raise ValueError(
            f"The factor or shift of predictions must be a finite number; got {value!r}."
        )
    return value


#: the grid of shifts, and of tau; the prior's scale and degrees of freedom; the model's error
_SHIFTS, _SLOPES = np.linspace(-2.5, 2.5, 161), np.geomspace(0.02, 1.2, 11)
_PRIOR, _FREEDOM, _MISFIT = 0.25, 4.0, 0.01


@dataclass(frozen=True, eq=False)
class Below(PredictionSum):
    """The count of targets below raw predictions plus a shift: 1/2 for each, -1/2 for others.

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
        The wanted share of targets below predictions.
    """

    quantile: float = 0.5
    purpose = "shift"
    evaluations, share = 6, math.sqrt(0.04 / 6)

    def asks(self, params: np.ndarray, value: float) -> Below:
        return Below(params, value)

    def calibrated(self, run: CalibrationRun) -> Calibrated:
        trained, intercept = run.work.loss.quantile_level, run.work.model.intercept_mask()
        assert trained is not None
        assert intercept is not None
        shift, error = self.find(run.mean, trained)
        moved = run.params + (shift * intercept).astype(run.params.dtype)
        return Calibrated(moved, shift=shift, errors=((error, intercept),))

    def find(self, mean: Callable[[float, int], float], trained: float) -> tuple[float, float]:
        """Return the shift of predictions, and the posterior's standard deviation.

        Parameters
        ----------
        mean : callable
            The noisy mean of the terms at a shift d; the number counts the calls.
        trained : float
            The quantile that the model was trained for.
        """
        shifts, slopes = _SHIFTS[:, None], _SLOPES[None, :]
        wanted, noise = _logit(self.quantile), math.hypot(self.noise, _MISFIT)
        away = (shifts - slopes * (wanted - _logit(trained))) / _PRIOR
        likely = -(_FREEDOM + 1) / 2 * np.log1p(away**2 / _FREEDOM)
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
        return shift, math.sqrt(float((weights * (shifts - shift) ** 2).sum()))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _below(wanted: float, shift: float | Array, true: Array, slopes: Array) -> Array:
    """Return the share of targets below predictions plus ``shift``."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-(wanted + (shift - true) / slopes))))
