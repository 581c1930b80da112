"""Private scores of predictions, computed from noised sums over records.

::

    accuracy                    t = [right] - 1/2                                    K classes
    balanced_accuracy           t = e_y (1/2, [right] - 1/2)                         2 K numbers
    confusion                   t = e_(y, predicted)                                 K^2 numbers
    neg_log_loss                t = 1/2 - min(-log(probability of y) / bound, 1)
    roc_auc                     t = e_(cell of the score), twice; then e_(y, bin of the score)
    neg_mean_absolute_error     t = 1/2 - min(|y - prediction| / bound, 1)
    r2                          t = (e - 1/2, u / 2, u^2 - 5/8),  u = (y - middle) / half, cut to 1
                                e = min(((y - prediction) / half)^2, 1)

A measure is a :class:`BoundedSum` over predictions, one row per record: label codes,
log-probabilities of all classes, scores of the second class, or predicted targets. Values that are
not finite count as the worst. Models are fixed before a record is read.

**Formal guarantee.** Numbers in [-1/2, 1/2] have radius 1/2. ``e_i`` are unit vectors: radius 1,
diameter sqrt(2). Balanced accuracy: the norm is at most sqrt(1/4 + 1/4); terms of two records of
one class differ only in the second number, by at most 1; those of different classes are orthogonal,
at distance at most sqrt(1/2 + 1/2) = 1. R2: |e - 1/2| <= 1/2, and u^2 / 4 + (u^2 - 5/8)^2 is convex
in u^2, so the largest at u^2 = 0 or 1, where it is 25/64 both times: together 1/4 + 25/64 = 41/64.

**The area under the ROC curve.** Let p_b and q_b be the shares of positives and negatives in bin b
of the score; ties count one half. Binning keeps the order of two records in different bins. Two
records in the same bin count one half instead of 0, 1/2 or 1. So the area of the binned scores
differs from that of the scores by at most ``sum_b p_b q_b / 2``. Bin edges are quantiles from noisy
counts of all scores, which spend a fifth of mu^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from skdpfl.federation._budgets import SiloBudgets
from skdpfl.federation._sums import BoundedSum, SumPlan
from skdpfl.privacy.randomness.streams import Streams

Reads = Literal["codes", "log_probabilities", "scores", "targets"]
#: cells of scores s, equal steps of s / (1 + |s| / LIMIT), and bins after that
CELLS, BINS, LIMIT = 64, 16, 4.0
#: a count within so many deviations of its noise may be none at all
UNSURE = 3.0
#: probabilities below it count as it, unless a bound is given
LEAST_PROBABILITY = 0.01
OF_CLASSES = ("accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc")
OF_TARGETS = ("r2", "neg_mean_absolute_error")


class Measure(BoundedSum):
    """A private score: the bounded term of a record, and the score from their noisy mean."""

    #: what predictions it needs
    reads: ClassVar[Reads]
    #: the shares of mu^2 of its sums, each of which may depend on those before
    parts: ClassVar[tuple[float, ...]] = (1.0,)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if (self.reads == "targets") != (n_classes is None) or not self._holds(n_classes):
            raise ValueError(f"The score {type(self).__name__} is not defined for such records.")

    def _holds(self, n_classes: int | None) -> bool:
        """Whether its fields are consistent with each other and with the number of classes."""
        return True

    def score(self, mean: np.ndarray, noise: float) -> float:
        """Return the score for a mean of terms, given the noise in each number."""
        raise NotImplementedError

    def after(self, mean: np.ndarray, noise: float) -> Measure:
        """Return the next sum, given the results so far."""
        raise NotImplementedError

    def error(self, mean: np.ndarray, noise: float) -> float:
        """Return the standard deviation of the noise in the score, to first order."""
        steps = noise * np.eye(mean.size).reshape(-1, *self.shape)
        turns = [self.score(mean + s, noise) - self.score(mean - s, noise) for s in steps]
        return float(np.linalg.norm(turns) / 2)


@dataclass(frozen=True, eq=False)
class Accuracy(Measure):
    """The share of correct labels."""

    reads: ClassVar[Reads] = "codes"
    on_grid: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def radius(self) -> float:
        return 0.5

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (X[:, 0] == y) - 0.5

    def score(self, mean: np.ndarray, noise: float) -> float:
        return float(mean) + 0.5


@dataclass(frozen=True, eq=False)
class BalancedAccuracy(Measure):
    """The mean over classes of the share of correct labels, with noisy class counts."""

    n_classes: int
    reads: ClassVar[Reads] = "codes"

    @property
    def shape(self) -> tuple[int, ...]:
        return (2, self.n_classes)

    def _holds(self, n_classes: int | None) -> bool:
        return self.n_classes == n_classes

    @property
    def radius(self) -> float:
        return math.sqrt(0.5)

    @property
    def diameter(self) -> float:
        return 1.0

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        its_own = y[:, None] == np.arange(self.n_classes)
        right = (X[:, 0] == y) - 0.5
        return np.stack([its_own * 0.5, its_own * right[:, None]], axis=1)

    def score(self, mean: np.ndarray, noise: float) -> float:
        half, excess = mean
        sure = half > UNSURE * noise
        if not sure.any():
            return 1 / self.n_classes
        return float(np.clip(0.5 + excess[sure] / (2 * half[sure]), 0.0, 1.0).mean())


@dataclass(frozen=True, eq=False)
class Confusion(Measure):
    """The shares of records by true and predicted class."""

    n_classes: int
    reads: ClassVar[Reads] = "codes"
    on_grid: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_classes, self.n_classes)

    def _holds(self, n_classes: int | None) -> bool:
        return self.n_classes == n_classes

    @property
    def radius(self) -> float:
        return 1.0

    @property
    def diameter(self) -> float:
        return math.sqrt(2)

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        classes = np.arange(self.n_classes)
        predicted = X[:, 0].astype(int)
        return (
            (y[:, None] == classes)[:, :, None] & (predicted[:, None] == classes)[:, None]
        ) * 1.0


@dataclass(frozen=True, eq=False)
class Closeness(Measure):
    """A score ``shift - worth * mean(min(loss / bound, 1))``.

    ``worth`` is the loss at the bound, ``shift`` the score of perfect predictions.
    """

    kind: Literal["log_loss", "absolute_error", "squared_error"]
    bound: float
    worth: float
    shift: float = 0.0

    @property
    def reads(self) -> Reads:  # type: ignore[override]
        return "log_probabilities" if self.kind == "log_loss" else "targets"

    def _holds(self, n_classes: int | None) -> bool:
        return 0 < self.bound < math.inf

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def radius(self) -> float:
        return 0.5

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.kind == "log_loss":
            losses = -X[np.arange(len(y)), y.astype(int)]
        else:
            losses = np.abs(y.astype(float) - X[:, 0])
        shares = losses / self.bound
        if self.kind == "squared_error":
            shares = shares * shares
        return 0.5 - np.clip(np.where(np.isfinite(shares), shares, 1.0), 0.0, 1.0)

    def score(self, mean: np.ndarray, noise: float) -> float:
        return self.shift - self.worth * (0.5 - float(mean))


@dataclass(frozen=True, eq=False)
class R2(Measure):
    """R2: one minus mean squared error / variance of the targets, both within public bounds."""

    low: float
    high: float
    reads: ClassVar[Reads] = "targets"

    def _holds(self, n_classes: int | None) -> bool:
        return -math.inf < self.low < self.high < math.inf

    @property
    def shape(self) -> tuple[int, ...]:
        return (3,)

    @property
    def radius(self) -> float:
        return math.sqrt(41) / 8

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        u = np.clip(np.nan_to_num((y.astype(float) - middle) / half), -1.0, 1.0)
        errors = np.square(u - (X[:, 0] - middle) / half)
        errors = np.minimum(np.where(np.isfinite(errors), errors, 1.0), 1.0)
        return np.stack([errors - 0.5, u / 2, u * u - 0.625], axis=1)

    def score(self, mean: np.ndarray, noise: float) -> float:
        error, first, second = mean[0] + 0.5, 2 * mean[1], mean[2] + 0.625
        variance = second - first * first
        # with no variance left beside the noise there is nothing to be explained
        return float(1 - max(error, 0.0) / variance) if variance > UNSURE * noise else 0.0


@dataclass(frozen=True, eq=False)
class RocAuc(Measure):
    """The area under the ROC curve, from counts of scores in bins by class.

    Without ``edges``, scores of both classes are counted in equal cells of ``span`` on a bounded
    scale: first over the whole scale, then where most scores are. Bin edges are quantiles of these
    counts.

    Formal guarantee
    ----------------
    A record adds a unit vector, or zero, to each sum: radius 1, diameter sqrt(2). Cells and bins
    are functions of earlier noisy counts.
    """

    span: tuple[float, float] = (-LIMIT, LIMIT)
    zoomed: bool = False
    edges: np.ndarray | None = None
    reads: ClassVar[Reads] = "scores"
    on_grid: ClassVar[bool] = True
    parts: ClassVar[tuple[float, ...]] = (0.1, 0.1, 0.8)

    @property
    def shape(self) -> tuple[int, ...]:
        return (CELLS,) if self.edges is None else (2, BINS)

    @property
    def radius(self) -> float:
        return 1.0

    @property
    def diameter(self) -> float:
        return math.sqrt(2)

    def _holds(self, n_classes: int | None) -> bool:
        edges, (low, high) = self.edges, self.span
        ordered = edges is None or (edges.shape == (BINS - 1,) and (edges[1:] >= edges[:-1]).all())
        return bool(ordered) and -LIMIT <= low < high <= LIMIT and n_classes == 2

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        scores = np.nan_to_num(X[:, 0], nan=0.0)
        if self.edges is not None:
            bins = np.searchsorted(self.edges, scores)[:, None] == np.arange(BINS)
            return (y[:, None] == (0, 1))[:, :, None] & bins[:, None]
        low, high = self.span
        cells = np.floor((scores / (1 + np.abs(scores) / LIMIT) - low) / (high - low) * CELLS)
        return np.clip(cells, 0, CELLS - 1)[:, None] == np.arange(CELLS)

    def after(self, mean: np.ndarray, noise: float) -> RocAuc:
        ends, below = np.linspace(*self.span, CELLS + 1), _rising(mean)
        if self.zoomed:
            bent = np.interp(np.arange(1, BINS) / BINS, below, ends)
            return replace(self, edges=np.sort(bent / (1 + 1e-9 - np.abs(bent) / LIMIT)))
        # half of the noise of all cells is in either half of them
        share = min(max(0.025, noise * math.sqrt(CELLS)), 0.25)
        low, high = np.interp([share, 1 - share], below, ends)
        beside = (high - low) / 2 + (ends[1] - ends[0]) / 2
        low, high = max(low - beside, -LIMIT), min(high + beside, LIMIT)
        return replace(self, span=(float(low), float(high)), zoomed=True)

    def curve(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return non-decreasing false and true positive rates, starting with the highest bin."""
        falling = np.maximum(mean[:, ::-1], 0.0)
        sums = np.cumsum(falling, axis=1)
        rates = sums / np.maximum(sums[:, -1:], 1e-300)
        false, true = np.hstack([np.zeros((2, 1)), rates])
        return false, true

    def score(self, mean: np.ndarray, noise: float) -> float:
        negative, positive = mean
        sure = UNSURE * noise * math.sqrt(mean.shape[1])
        if min(negative.sum(), positive.sum()) <= sure:
            return 0.5
        above = positive.sum() - np.cumsum(positive) + positive / 2
        area = negative @ above / (negative.sum() * positive.sum())
        return float(np.clip(area, 0.0, 1.0))


def _rising(mean: np.ndarray) -> np.ndarray:
    """Return cumulative shares at the cells' edges (n + 1,) from noisy shares of the cells.

    They are corrected to end at 1, which removes the sum of the noise, and to be non-decreasing.
    """
    n = len(mean)
    sums = np.concatenate([[0.0], np.cumsum(mean)])
    sums -= np.arange(n + 1) / n * (sums[-1] - 1)
    up, down = np.maximum.accumulate(sums), np.minimum.accumulate(sums[::-1])[::-1]
    return np.clip((up + down) / 2, 0.0, 1.0) + 1e-12 * np.arange(n + 1)


# ---- by name ---------------------------------------------------------------------------------


def measure_of(
    name: str,
    *,
    n_classes: int | None,
    bound: float | None = None,
    targets: tuple[float, float] | None = None,
) -> Measure:
    """Return the measure of a given name; a ValueError lists the valid names.

    A record's loss or error is clipped at ``bound``; ``targets`` are public bounds of the targets.
    """
    names = OF_TARGETS if n_classes is None else OF_CLASSES
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"The private score must be one of {', '.join(names)}; got {name!r}.")
    if bound is not None:
        if name not in ("neg_log_loss", "neg_mean_absolute_error"):
            raise ValueError(
                f"bound is for scores with a loss or error per record; {name} has none."
            )
        if not 0 < bound < math.inf:
            raise ValueError(f"bound must be positive and finite; got {bound!r}.")
    if n_classes is not None:
        return _of_classes(name, n_classes, bound)
    if name == "r2":
        if targets is None:
            raise ValueError(
                "r2 needs public bounds of the targets: give the estimator's target_bounds."
            )
        return R2(float(targets[0]), float(targets[1]))
    if bound is None and targets is None:
        raise ValueError(
            "Give bound, from public knowledge: larger errors of a record are clipped to it."
        )
    if bound is None:
        assert targets is not None
        bound = (targets[1] - targets[0]) / 2
    return Closeness("absolute_error", float(bound), float(bound))


def _of_classes(name: str, n_classes: int, bound: float | None) -> Measure:
    if name == "accuracy":
        return Accuracy()
    if name == "balanced_accuracy":
        return BalancedAccuracy(n_classes)
    if name == "neg_log_loss":
        most = -math.log(LEAST_PROBABILITY) if bound is None else float(bound)
        return Closeness("log_loss", most, most)
    if n_classes != 2:
        raise ValueError(
            f"roc_auc needs two labels; got {n_classes}. Use balanced_accuracy or neg_log_loss."
        )
    return RocAuc()


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
    """Return the plan of one score that costs each silo ``mu``."""
    mus = tuple(np.full(budgets.n_silos, mu * math.sqrt(part)) for part in measure.parts)
    return SumPlan(budgets, "score", mus, first * len(mus))


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
