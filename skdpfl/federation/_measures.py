"""Private scores of predictions, computed from noised sums over records.

::

    accuracy                    t = [right] - 1/2                                    K classes
    balanced_accuracy           t = e_y (1/2, [right] - 1/2)                         2 K numbers
    confusion                   t = e_(y, predicted)                                 K^2 numbers
    neg_log_loss                t = 1/2 - min(-log(probability of y) / bound, 1)
    neg_brier_score             t = 1/2 - sum_k (probability of k - [y = k])^2 / 2
    neg_mean_absolute_error     t = 1/2 - min(|y - prediction| / bound, 1)
    r2                          t = (e - 1/2, u / 2, v - 5/8),  u = (y - middle) / half, cut to 1
                                e = min(deviance(y, prediction) / cap, 1)
                                v = deviance(y, middle) / cap
    d2_poisson                  t = (e - 1/2, u / 2, v - 1/2)

Scores from histograms of predictions are in :mod:`skdpfl.federation._ranks`.

A measure is a :class:`BoundedSum` over predictions, one row per record: label codes,
log-probabilities of all classes, scores of the second class, or predicted targets. Values that are
not finite count as the worst. Models are fixed before a record is read.

**Formal guarantee.** Numbers in [-1/2, 1/2] have radius 1/2. ``e_i`` are unit vectors: radius 1,
diameter sqrt(2). Balanced accuracy: the norm is at most sqrt(1/4 + 1/4); terms of two records of
one class differ only in the second number, by at most 1; those of different classes are orthogonal,
at distance at most sqrt(1/2 + 1/2) = 1. Probabilities p and one-hot labels: |p - e_y|^2 <= 2. R2:
v = u^2, |e - 1/2| <= 1/2, and u^2 / 4 + (u^2 - 5/8)^2 is convex in u^2, so the largest at u^2 = 0
or 1, where it is 25/64 both times: together 1/4 + 25/64 = 41/64. D2: each of three numbers is in
[-1/2, 1/2], for the deviance from the middle is convex and largest at the ends of the bounds, where
it is at most the cap: radius sqrt(3)/2.

**Deviance explained.** Both deviances d are Bregman divergences, so for any point m
``mean d(y, mean y) = mean d(y, m) - d(mean y, m)``: two noisy means give the deviance of the
constant model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import xlogy

from skdpfl.federation._budgets import SiloBudgets
from skdpfl.federation._sums import BoundedSum, SumPlan
from skdpfl.privacy.randomness.streams import Streams

#: scores: decisions, or else probabilities; decisions, log_odds: log-odds instead, which come first
Reads = Literal["codes", "log_probabilities", "scores", "decisions", "log_odds", "targets"]
#: a count within so many deviations of its noise may be none at all
UNSURE = 3.0


class Measure(BoundedSum):
    """A private score: the bounded term of a record, and the score from their noisy mean."""

    #: what predictions it needs
    reads: ClassVar[Reads]
    #: the shares of mu^2 of its sums, each of which may depend on those before
    parts: ClassVar[tuple[float, ...]] = (1.0,)
    #: 1 if greater is better, -1 for an error
    sign: ClassVar[int] = 1
    #: the loss at which a record's loss is clipped, if it is
    clip: float | None = None

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if (self.reads == "targets") != (n_classes is None) or not self._holds(n_classes):
            raise ValueError(f"The score {type(self).__name__} is not defined for such records.")

    def _holds(self, n_classes: int | None) -> bool:
        """Whether its fields are consistent with each other and with the number of classes."""
        return True

    def score(self, mean: np.ndarray, noise: float) -> float:
        """Return the score for a mean of terms, given the noise in each number; NaN: undefined."""
        raise NotImplementedError

    @property
    def chance(self) -> float:
        """The score that an undefined one counts as in a search."""
        return 0.0

    def after(self, mean: np.ndarray, noise: float) -> Measure:
        """Return the next sum, given the results so far."""
        raise NotImplementedError

    def error(self, mean: np.ndarray, noise: float) -> float:
        """Return the standard deviation of the noise in the score, to first order.

        It is infinite where the score is undefined.
        """
        here = self.score(mean, noise)
        if math.isnan(here):
            return math.inf
        steps = noise * np.eye(mean.size).reshape(-1, *self.shape)
        up, down = (
            np.array([self.score(mean + sign * step, noise) - here for step in steps])
            for sign in (1, -1)
        )
        up, down = np.where(np.isnan(up), -down, up), np.where(np.isnan(down), -up, down)
        return float(np.linalg.norm(np.nan_to_num(up - down)) / 2)


@dataclass(frozen=True, eq=False)
class Accuracy(Measure):
    """The share of correct labels."""

    reads: ClassVar[Reads] = "codes"
    on_grid: ClassVar[bool] = True
    shape: ClassVar[tuple[int, ...]] = ()
    radius: ClassVar[float] = 0.5

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (X[:, 0] == y) - 0.5

    def score(self, mean: np.ndarray, noise: float) -> float:
        return float(mean) + 0.5


@dataclass(frozen=True, eq=False)
class BalancedAccuracy(Measure):
    """The mean over classes of the share of correct labels, with noisy class counts."""

    n_classes: int
    reads: ClassVar[Reads] = "codes"

    diameter: ClassVar[float] = 1.0
    radius: ClassVar[float] = math.sqrt(0.5)

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, self.n_classes)

    @property
    def chance(self) -> float:
        return 1 / self.n_classes

    def _holds(self, n_classes: int | None) -> bool:
        return self.n_classes == n_classes

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        its_own = y[:, None] == np.arange(self.n_classes)
        right = (X[:, 0] == y) - 0.5
        return np.stack([its_own * 0.5, its_own * right[:, None]], axis=1)

    def score(self, mean: np.ndarray, noise: float) -> float:
        half, excess = mean
        sure = half > UNSURE * noise
        if sure.sum() < 2:
            return math.nan
        return float((0.5 + excess[sure] / (2 * half[sure])).mean())


@dataclass(frozen=True, eq=False)
class Confusion(Measure):
    """The shares of records by true and predicted class."""

    n_classes: int
    reads: ClassVar[Reads] = "codes"
    on_grid: ClassVar[bool] = True

    diameter: ClassVar[float] = math.sqrt(2)
    radius: ClassVar[float] = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_classes, self.n_classes)

    def _holds(self, n_classes: int | None) -> bool:
        return self.n_classes == n_classes

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        classes = np.arange(self.n_classes)
        predicted = np.nan_to_num(X[:, 0], nan=-1.0).astype(int)
        return (
            (y[:, None] == classes)[:, :, None] & (predicted[:, None] == classes)[:, None]
        ) * 1.0


@dataclass(frozen=True, eq=False)
class Closeness(Measure):
    """A score ``shift - worth * mean(min(loss / bound, 1))``.

    ``worth`` is the loss at the bound, ``shift`` the score of perfect predictions.
    """

    kind: Literal["log_loss", "brier", "absolute_error", "squared_error"]
    bound: float
    worth: float
    shift: float = 0.0

    radius: ClassVar[float] = 0.5
    shape: ClassVar[tuple[int, ...]] = ()

    @property
    def reads(self) -> Reads:  # type: ignore[override]
        return "log_probabilities" if self.kind in ("log_loss", "brier") else "targets"

    @property
    def clip(self) -> float:  # type: ignore[override]
        return self.worth

    def _holds(self, n_classes: int | None) -> bool:
        return 0 < self.bound < math.inf

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        shares = self._losses(X, y) / self.bound
        if self.kind == "squared_error":
            shares = shares * shares
        return 0.5 - np.clip(np.where(np.isfinite(shares), shares, 1.0), 0.0, 1.0)

    def _losses(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the records' losses; NaN or infinite where there is none."""
        if self.reads == "targets":
            return np.abs(y.astype(float) - X[:, 0])
        codes = y.astype(int)
        if self.kind == "brier":
            return np.square(np.exp(X) - (codes[:, None] == np.arange(X.shape[1]))).sum(axis=1)
        return np.where(codes >= 0, -X[np.arange(len(y)), np.maximum(codes, 0)], math.inf)

    def score(self, mean: np.ndarray, noise: float) -> float:
        return self.shift - self.worth * (0.5 - float(mean))


@dataclass(frozen=True, eq=False)
class R2(Measure):
    """The share of the squared error explained, with targets within public bounds."""

    low: float
    high: float
    reads: ClassVar[Reads] = "targets"
    #: what is taken off the third number
    _centre: ClassVar[float] = 0.625

    radius: ClassVar[float] = math.sqrt(41) / 8
    shape: ClassVar[tuple[int, ...]] = (3,)

    def _holds(self, n_classes: int | None) -> bool:
        return -math.inf < self.low < self.high < math.inf

    @property
    def _middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def _half(self) -> float:
        return (self.high - self.low) / 2

    def _deviance(self, y: np.ndarray, predicted: Any) -> np.ndarray:
        """Return the deviances of predictions, as shares of that of the middle from an end."""
        return np.square((y - predicted) / self._half)

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        u = np.clip(np.nan_to_num((y.astype(float) - self._middle) / self._half), -1.0, 1.0)
        targets = self._middle + self._half * u
        errors = self._deviance(targets, X[:, 0])
        errors = np.clip(np.where(np.isfinite(errors), errors, 1.0), 0.0, 1.0)
        spread = np.clip(self._deviance(targets, self._middle), 0.0, 1.0)
        return np.stack([errors - 0.5, u / 2, spread - self._centre], axis=1)

    def score(self, mean: np.ndarray, noise: float) -> float:
        error, spread = max(mean[0] + 0.5, 0.0), mean[2] + self._centre
        average = self._middle + self._half * np.clip(2 * mean[1], -1.0, 1.0)
        total = spread - float(self._deviance(average, self._middle))
        return float(1 - error / total) if total > UNSURE * noise else math.nan


@dataclass(frozen=True, eq=False)
class D2Poisson(R2):
    """The share of the Poisson deviance explained, with counts within public bounds."""

    _centre: ClassVar[float] = 0.5
    radius: ClassVar[float] = math.sqrt(3) / 2

    def _holds(self, n_classes: int | None) -> bool:
        return 0 <= self.low < self.high < math.inf

    def _deviance(self, y: np.ndarray, predicted: Any) -> np.ndarray:
        ends = np.array([self.low, self.high])
        return _poisson(y, predicted) / _poisson(ends, self._middle).max()


def _poisson(y: np.ndarray, predicted: Any) -> np.ndarray:
    """Return half the Poisson deviances; infinite for predictions that are not positive."""
    fine = np.asarray(predicted, float) > 0
    means = np.where(fine, predicted, 1.0)
    return np.where(fine, xlogy(y, y / means) - y + means, math.inf)


# ---- asking ----------------------------------------------------------------------------------


class Found(NamedTuple):
    """A measure's noisy means, over all units and per silo, with the noise in each number.

    With a trusted server there is one sum, and ``means`` has one row.
    """

    measure: Any
    mean: np.ndarray
    noise: float
    means: np.ndarray
    noises: np.ndarray

    @property
    def score(self) -> float:
        """The score over all units."""
        return float(self.measure.score(self.mean, self.noise))

    @property
    def error(self) -> float:
        """The standard deviation of the noise in it."""
        return float(self.measure.error(self.mean, self.noise))


def score_plan(measure: Measure, budgets: SiloBudgets, mu: float, first: int = 0) -> SumPlan:
    """Return the plan of one score that costs each silo ``mu``; ``first`` numbers its sums.

    A sum that may be repeated is paid for twice, within the same ``mu``.
    """
    spare = budgets.spare if budgets.shares_noise else 0
    paid = sum(measure.parts) + spare * max(measure.parts)
    mus = tuple(np.full(budgets.n_silos, mu * math.sqrt(part / paid)) for part in measure.parts)
    return SumPlan(budgets, "score", mus, first)


def ask_score(
    measure: Measure,
    plan: SumPlan,
    federation: Any,
    streams: Streams,
    made: Callable[[Measure], BoundedSum] = lambda measure: measure,
) -> Found:
    """Compute a score over silos; ``made`` turns the measure into the sum that they compute."""
    budgets = plan.budgets
    units = np.array([budgets.units.sum()]) if budgets.as_one else budgets.units
    mean, noise = np.zeros(0), 0.0
    for number in plan.numbers:
        if number > plan.first:
            measure = measure.after(mean, noise)
        question = plan.question(number, made(measure))
        sums = question.each(federation, streams)
        std = plan.noised(number, question.what).std[: len(units)]
        mean, noise = sums.sum(axis=0) / units.sum(), float(np.linalg.norm(std) / units.sum())
    each = units.reshape(-1, *[1] * len(measure.shape))
    return Found(measure, mean, noise, sums / each, std / units)
