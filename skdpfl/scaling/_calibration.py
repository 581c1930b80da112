"""Calibration within the budget: what a trained model's predictions are corrected by.

::

    c_j    = a record's term: |c_j| <= c, from the record, the model and what was released before
    m      = sum_i w_i S_i / n_i           S_i the noised sum over silo i's records

The scale of a classifier's raw predictions follows from several such means
(:mod:`skdpfl.scaling._temperature`), the level of a quantile's from others
(:mod:`skdpfl.scaling._shift`). Terms are multiples of 2^-20 and at most 4, whatever a record holds,
so float64 adds up 2^31 of them without rounding, in any order; :mod:`skdpfl.federation` has the
proof of what a sum costs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpfl.algorithms import is_vector
from skdpfl.federation import BoundedSum, Federation, SiloBudgets, SiloData, SumPlan, Work
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._maps import Array

#: the largest cut, and what all terms are multiples of
MOST, STEP = 4.0, 2.0**-20
#: records whose raw predictions are held at once
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class PredictionSum(BoundedSum):
    """A sum of one bounded number of each record, which follows from a model's prediction."""

    params: np.ndarray
    on_grid = True
    #: whether terms follow from the labels alone
    of_labels: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @abstractmethod
    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        """Return the terms (n,) of records with these raw predictions (n, k), each by itself."""

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if work is None or not is_vector(self.params, work.model.size):
            raise ValueError("There is no question about predictions before there is a model.")

    def model_params(self, work: Work) -> np.ndarray:
        """Return the parameters of the model whose predictions are looked at."""
        return self.params

    def sums(self, data: SiloData, work: Work) -> Iterator[tuple[np.ndarray, Array]]:
        """See `BoundedSum.sums`.

        Notes
        -----
        A silo's sum depends on its own records only, to the last bit: raw predictions are formed
        silo by silo, terms record by record, and their sum is exact.
        """
        work = work.apart()
        maps = work.features, work.target, work.target_dtype, work.class_weights
        data, params = data.mapped(*maps), self.model_params(work)
        sums = np.zeros(len(data.sizes))
        for silos, rows in data.alike(_BLOCK):
            y = data.targets(rows)
            targets, weights = (y, 1.0) if y.dtype.names is None else (y["target"], y["weight"])
            raw = np.zeros((len(y), 0), work.dtype)
            if not self.of_labels:
                X = data.at(rows, work.dtype)[0]
                raw = work.model.raw(params, X.reshape(len(silos), -1, X.shape[-1]))
            terms = self.of_predictions(raw.reshape(len(y), -1), targets, weights, work.loss)
            sums[silos] += terms.reshape(len(silos), -1).sum(axis=1)
        here = np.flatnonzero(data.sizes)
        yield here, sums[here]


class Calibrated(NamedTuple):
    """A model's parameters after calibration, and what was found.

    ``errors`` are standard deviations that the noise of the releases gives the parameters, each
    with the direction of it. ``shares`` are the labels', if they are public or were paid for.
    """

    params: np.ndarray
    factor: float = 1.0
    shift: float = 0.0
    errors: tuple[tuple[float, np.ndarray], ...] = ()
    shares: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class CalibrationPlan(ABC):
    """The sums that a calibration follows from, and their cost, from public numbers.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation; records are protected.
    """

    budgets: SiloBudgets
    #: what the sums are for, how many there are, and the part of mu that each of them spends
    purpose: ClassVar[str]
    evaluations: ClassVar[int]
    share: ClassVar[float]

    @abstractmethod
    def asks(self, params: np.ndarray, value: Any) -> PredictionSum:
        """Return the sum that is asked for at a factor, or a shift, of predictions."""

    @abstractmethod
    def calibrated(self, run: CalibrationRun, walk: float) -> Calibrated:
        """Return the model after calibration."""

    @cached_property
    def sums(self) -> SumPlan:
        """What silos are asked for; at most mu = 1 for each sum."""
        mu = self.budgets.spends
        each = np.where(np.isfinite(mu), np.minimum(self.share * mu, 1.0), np.inf)
        return SumPlan(self.budgets, self.purpose, (each,) * self.evaluations)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a mean."""
        return self.sums.noise(0, self.asks(np.zeros(0), 1.0))


class CalibrationRun(NamedTuple):
    """A plan, a trained model, the silos that are asked, and the server's streams."""

    plan: CalibrationPlan
    federation: Federation
    work: Work
    params: np.ndarray
    streams: Streams

    def mean(self, value: Any, number: int) -> float:
        """Return the noisy mean term."""
        plan, budgets = self.plan, self.plan.budgets
        question = plan.sums.question(number, plan.asks(self.params, value), self.work)
        sums = question.each(self.federation, self.streams)
        if budgets.as_one:
            return float(sums[0] / budgets.units.sum())
        return float(budgets.weights @ (sums / budgets.units))


def calibrated(
    plan: CalibrationPlan,
    federation: Federation,
    work: Work,
    params: np.ndarray,
    streams: Streams,
    walk: float = 0.0,
) -> Calibrated:
    """Return a trained model after calibration; ``walk``: how far noise moves its predictions."""
    return plan.calibrated(CalibrationRun(plan, federation, work, params, streams), walk)


def finite(value: float) -> float:
    """Return a number; raise unless it is one."""
    if not math.isfinite(value):
        raise ValueError(f"There is no question about predictions at {value!r}.")
    return value
