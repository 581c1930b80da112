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

Scores from histograms of predictions are in :mod:`skdpfl.federation._measures`.

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

Private scores by name, and those from histograms of predictions: ranks and calibration.
----------------------------------------------------------------------------------------
::

    roc_auc             t = e_(cell of the score), twice; then e_(y, bin of the score)
    average_precision   likewise, with finer bins at the top
    concordance         likewise; then e_(event, bin of the time, bin of the score)
    calibration_error   t = e_(bin of p) (a, b s, c q),  s = 1 if y, else -1
                        q = (p - middle of the bin) / half its width

**Formal guarantee.** ``e_i`` are unit vectors, so the first three have radius 1 and diameter
sqrt(2). Calibration: a^2 = b^2 + c^2 = 1/2 and |s|, |q| <= 1, so the norm is at most 1; terms of
two records of one bin differ by at most 2 sqrt(b^2 + c^2) = sqrt(2), and those of different bins
are orthogonal. Cells and bins are functions of earlier noisy counts, which spend a fifth of mu^2.

**The area under the ROC curve.** Let p_b and q_b be the shares of positives and negatives in bin b
of the score; ties count one half. Binning keeps the order of two records in different bins. Two
records in the same bin count one half instead of 0, 1/2 or 1. So the area of the binned scores
differs from that of the scores by at most ``sum_b p_b q_b / 2``.

**Concordance.** Two records are comparable if the earlier time is that of an event. Times are in
equal intervals of the public horizon, later ones in one more; records in the same interval are not
compared, and ties of the score count one half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.special import xlogy

from skdpfl.federation._budgets import SiloBudgets
from skdpfl.federation._sums import BoundedSum, SumPlan
from skdpfl.privacy.randomness.streams import Streams

#: scores: decisions, or else probabilities; decisions, log_odds: log-odds instead, which come first
Reads = Literal["codes", "log_probabilities", "scores", "decisions", "log_odds", "targets"]
#: a count within so many deviations of its noise may be none at all
UNSURE_DEVIATIONS = 3.0


class Measure(BoundedSum):
    """A private score: the bounded term of a record, and the score from their noisy mean."""

    #: the predictions that it needs
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
        sure = half > UNSURE_DEVIATIONS * noise
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
    #: subtracted from the third number
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
        return float(1 - error / total) if total > UNSURE_DEVIATIONS * noise else math.nan


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


class ReleasedScore(NamedTuple):
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
) -> ReleasedScore:
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
    return ReleasedScore(measure, mean, noise, sums / each, std / units)


#: bins of scores s, whose cells are equal steps of s / (1 + |s| / LIMIT)
BINS, LIMIT = 16, 4.0
#: shares of the records above the edges of bins for precision, which matters at the top
_FROM_TOP = (
    *(0.005, 0.01, 0.02, 0.03, 0.045, 0.065, 0.09),
    *(0.12, 0.16, 0.21, 0.27, 0.35, 0.45, 0.6, 0.78),
)
#: intervals of time, and bins of scores of survival
TIMES, RISKS = 12, 8
#: draws for the noise of a score that is not smooth in its counts
_DRAWS = 400


@dataclass(frozen=True, eq=False)
class ScoreHistogram(Measure):
    """Counts of scores in bins by label; bins follow the scores, wherever they are.

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
    #: the number of cells before there are bins
    n_cells: ClassVar[int] = 64
    #: the shares of the records below the edges of bins
    below: ClassVar[tuple[float, ...]] = tuple(i / BINS for i in range(1, BINS))

    diameter: ClassVar[float] = math.sqrt(2)
    radius: ClassVar[float] = 1.0

    @property
    def n_bins(self) -> int:
        """The number of bins."""
        return len(self.below) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_cells,) if self.edges is None else self._shape_of_bins

    @property
    def _shape_of_bins(self) -> tuple[int, ...]:
        return (2, self.n_bins)

    def _holds(self, n_classes: int | None) -> bool:
        edges, (low, high) = self.edges, self.span
        size = (self.n_bins - 1,)
        ordered = edges is None or (edges.shape == size and (edges[1:] >= edges[:-1]).all())
        return bool(ordered) and -LIMIT <= low < high <= LIMIT and n_classes == 2

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        scores = np.nan_to_num(X[:, 0], nan=0.0)
        if self.edges is not None:
            bins = np.searchsorted(self.edges, scores)[:, None] == np.arange(self.n_bins)
            return self._of_bins(bins, y)
        (low, high), n = self.span, self.n_cells
        cells = np.floor((scores / (1 + np.abs(scores) / LIMIT) - low) / (high - low) * n)
        return np.clip(cells, 0, n - 1)[:, None] == np.arange(n)

    def _of_bins(self, bins: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the terms of records in these bins (n, n_bins)."""
        return (y[:, None] == (0, 1))[:, :, None] & bins[:, None]

    def after(self, mean: np.ndarray, noise: float) -> Self:
        if self.zoomed:
            return replace(self, edges=np.sort(self.quantiles(mean, self.below)))
        ends, rising = np.linspace(*self.span, self.n_cells + 1), _rising(mean)
        # half of the noise of all cells is in either half of them
        share = min(max(0.025, noise * math.sqrt(self.n_cells)), 0.25)
        low, high = np.interp([share, 1 - share], rising, ends)
        beside = (high - low) / 2 + (ends[1] - ends[0]) / 2
        low, high = max(low - beside, -LIMIT), min(high + beside, LIMIT)
        return replace(self, span=(float(low), float(high)), zoomed=True)

    def quantiles(self, mean: np.ndarray, shares: Sequence[float]) -> np.ndarray:
        """Return quantiles of the scores from noisy shares of the cells."""
        bent = np.interp(shares, _rising(mean), np.linspace(*self.span, self.n_cells + 1))
        return np.asarray(bent / (1 + 1e-9 - np.abs(bent) / LIMIT))

    def has_both(self, mean: np.ndarray, noise: float) -> bool:
        """Whether both labels have counts that are more than noise."""
        sure = UNSURE_DEVIATIONS * noise * math.sqrt(mean.shape[1])
        return bool(mean.sum(axis=1).min() > sure)


@dataclass(frozen=True, eq=False)
class RocAuc(ScoreHistogram):
    """The area under the ROC curve, from counts of scores in bins by class."""

    chance: ClassVar[float] = 0.5

    def curve(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return non-decreasing false and true positive rates, starting with the highest bin."""
        falling = np.maximum(mean[:, ::-1], 0.0)
        sums = np.cumsum(falling, axis=1)
        rates = sums / np.maximum(sums[:, -1:], 1e-300)
        false, true = np.hstack([np.zeros((2, 1)), rates])
        return false, true

    def score(self, mean: np.ndarray, noise: float) -> float:
        if not self.has_both(mean, noise):
            return math.nan
        negative, positive = mean
        above = positive.sum() - np.cumsum(positive) + positive / 2
        area = negative @ above / (negative.sum() * positive.sum())
        return float(area)


@dataclass(frozen=True, eq=False)
class AveragePrecision(ScoreHistogram):
    """The mean precision over recalls; within a bin records count as in random order."""

    below: ClassVar[tuple[float, ...]] = tuple(1 - share for share in reversed(_FROM_TOP))

    def score(self, mean: np.ndarray, noise: float) -> float:
        if not self.has_both(mean, noise):
            return math.nan
        positive, both = mean[1, ::-1], mean.sum(axis=0)[::-1]
        hits, all_above = np.cumsum(positive) - positive / 2, np.cumsum(both) - both / 2
        precision = hits / np.maximum(all_above, UNSURE_DEVIATIONS * noise)
        return float(positive @ precision / positive.sum())


@dataclass(frozen=True, eq=False)
class Concordance(ScoreHistogram):
    """The share of comparable pairs in which the earlier event has the higher score.

    Targets are pairs (time, event); ``horizon`` is the public end of observation.
    """

    horizon: float = 1.0
    below: ClassVar[tuple[float, ...]] = tuple(i / RISKS for i in range(1, RISKS))
    chance: ClassVar[float] = 0.5

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        if n_classes is not None or not self._holds(2):
            raise ValueError("The score Concordance is not defined for such records.")

    def _holds(self, n_classes: int | None) -> bool:
        return 0 < self.horizon < math.inf and super()._holds(n_classes)

    @property
    def _shape_of_bins(self) -> tuple[int, ...]:
        return (2, TIMES + 1, RISKS)

    def _of_bins(self, bins: np.ndarray, y: np.ndarray) -> np.ndarray:
        times, events = y[:, 0].astype(float), y[:, 1] > 0
        intervals = np.clip(np.floor(np.nan_to_num(times) / self.horizon * TIMES), 0, TIMES)
        events = events & (intervals < TIMES)
        at = intervals[:, None] == np.arange(TIMES + 1)
        own = events[:, None] == (False, True)
        return own[:, :, None, None] & at[:, None, :, None] & bins[:, None, None]

    def score(self, mean: np.ndarray, noise: float) -> float:
        events, every = mean[1], mean.sum(axis=0)
        later = every.sum(axis=0) - np.cumsum(every, axis=0)  # (times, scores)
        lower = np.cumsum(later, axis=1) - later / 2
        pairs = float((events * later.sum(axis=1, keepdims=True)).sum())
        unsure = noise * math.sqrt(events.size)
        if events.sum() <= UNSURE_DEVIATIONS * unsure or pairs <= UNSURE_DEVIATIONS * unsure:
            return math.nan
        return float((events * lower).sum() / pairs)


@dataclass(frozen=True, eq=False)
class CalibrationError(Measure):
    """The mean distance of predicted probabilities from shares, over equal bins.

    Two labels: the probability of the second; more: that of the predicted label, and whether it is
    right. Noise makes distances larger on average, so its variance is taken off their squares.
    """

    n_bins: int = 10
    reads: ClassVar[Reads] = "log_probabilities"
    sign: ClassVar[int] = -1

    diameter: ClassVar[float] = math.sqrt(2)
    radius: ClassVar[float] = 1.0

    def _holds(self, n_classes: int | None) -> bool:
        return 1 <= self.n_bins <= 1000

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.n_bins)

    @property
    def _factors(self) -> np.ndarray:
        """The factors a, b, c; b : c makes the noise of a bin's distance least."""
        width = 1 / self.n_bins
        return np.sqrt([0.5, 0.5 / (1 + width), 0.5 * width / (1 + width)])

    @property
    def middles(self) -> np.ndarray:
        """The middles of the bins."""
        return (np.arange(self.n_bins) + 0.5) / self.n_bins

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        codes = y.astype(int)
        chances = np.exp(X[:, 1] if X.shape[1] == 2 else X.max(axis=1))
        hits = codes == (1 if X.shape[1] == 2 else X.argmax(axis=1))
        known = np.isfinite(chances) & (codes >= 0)
        chances = np.clip(np.where(known, chances, 0.0), 0.0, 1.0)
        bins = np.minimum((chances * self.n_bins).astype(int), self.n_bins - 1)
        within = 2 * self.n_bins * (chances - self.middles[bins])
        rows = np.stack([np.ones(len(y)), np.where(hits, 1.0, -1.0), within], axis=1)
        rows = rows * self._factors * known[:, None]
        return rows[:, :, None] * (bins[:, None] == np.arange(self.n_bins))[:, None]

    def curve(self, mean: np.ndarray) -> np.ndarray:
        """Return each bin's share of the records, hits and sum of probabilities (3, n_bins)."""
        n, signs, within = mean / self._factors[:, None]
        return np.stack([n, (signs + n) / 2, self.middles * n + within / (2 * self.n_bins)])

    def gap_noise(self, noise: float) -> np.ndarray:
        """Return the noise of each bin's hits minus probabilities (n_bins,)."""
        a, b, c = self._factors
        parts = (0.5 - self.middles) / a, 0.5 / b, 0.5 / self.n_bins / c
        return noise * np.sqrt(sum(np.square(part) for part in parts))

    def score(self, mean: np.ndarray, noise: float) -> float:
        _, hits, chances = self.curve(mean)
        squares = np.square(hits - chances) - np.square(self.gap_noise(noise))
        return float(np.sqrt(np.maximum(squares, 0.0)).sum())

    def error(self, mean: np.ndarray, noise: float) -> float:
        """Return the standard deviation of the noise in the score, from made-up noise."""
        normals = np.random.default_rng(0).normal(0.0, noise, (_DRAWS, *mean.shape))
        return float(np.std([self.score(mean + each, noise) for each in normals]))


def _rising(mean: np.ndarray) -> np.ndarray:
    """Return cumulative shares at the cells' edges (n + 1,) from noisy shares of the cells.

    They are corrected to end at 1, which removes the sum of the noise, and to be non-decreasing.
    """
    n = len(mean)
    sums = np.concatenate([[0.0], np.cumsum(mean)])
    sums -= np.arange(n + 1) / n * (sums[-1] - 1)
    up, down = np.maximum.accumulate(sums), np.minimum.accumulate(sums[::-1])[::-1]
    return np.clip((up + down) / 2, 0.0, 1.0) + 1e-12 * np.arange(n + 1)


#: probabilities below it count as it, unless a bound is given
LEAST_PROBABILITY = 0.01
OF_TWO_LABELS: dict[str, Callable[[], Measure]] = {
    "roc_auc": RocAuc,
    "average_precision": AveragePrecision,
}
OF_CLASSES = (
    *("accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score"),
    *("calibration_error", *OF_TWO_LABELS),
)
OF_TARGETS = ("r2", "neg_mean_absolute_error", "d2_poisson")
OF_SURVIVAL = ("concordance",)
_BOUNDED = ("neg_log_loss", "neg_mean_absolute_error")


def measure_of(
    name: object,
    *,
    n_classes: int | None,
    bound: float | None = None,
    targets: tuple[float, float] | None = None,
    survival: bool = False,
) -> Measure:
    """Return the measure of a given name; a ValueError lists the valid names.

    A record's loss or error is clipped at ``bound``; ``targets`` are public bounds of the targets,
    of survival the horizon.
    """
    names = OF_SURVIVAL if survival else OF_TARGETS if n_classes is None else OF_CLASSES
    if not isinstance(name, str) or name not in names:
        what = "A function of all records has no bounded cost. " if callable(name) else ""
        raise ValueError(
            f"{what}The private score must be one of {', '.join(names)}; got {name!r}."
        )
    if bound is not None:
        if name not in _BOUNDED:
            raise ValueError(
                f"bound is for scores with a loss or error per record; {name} has none."
            )
        if not 0 < bound < math.inf:
            raise ValueError(f"bound must be positive and finite; got {bound!r}.")
    if n_classes is not None:
        return _of_classes(name, n_classes, bound)
    return _of_targets(name, bound, targets)


def _of_classes(name: str, n_classes: int, bound: float | None) -> Measure:
    if name == "accuracy":
        return Accuracy()
    if name == "balanced_accuracy":
        return BalancedAccuracy(n_classes)
    if name == "neg_log_loss":
        most = -math.log(LEAST_PROBABILITY) if bound is None else float(bound)
        return Closeness("log_loss", most, most)
    if name == "neg_brier_score":  # of two labels scikit-learn counts one of them
        return Closeness("brier", 2.0, 1.0 if n_classes == 2 else 2.0)
    if name == "calibration_error":
        return CalibrationError()
    if n_classes != 2:
        raise ValueError(
            f"{name} needs two labels; got {n_classes}. Use balanced_accuracy or neg_log_loss."
        )
    return OF_TWO_LABELS[name]()


def _of_targets(name: str, bound: float | None, targets: tuple[float, float] | None) -> Measure:
    if targets is None and name == "neg_mean_absolute_error" and bound is None:
        raise ValueError(
            "neg_mean_absolute_error needs public bounds of the targets (target_bounds), or of the "
            "error (bound): larger errors of a record are clipped. Give bound or target_bounds."
        )
    if targets is None and name != "neg_mean_absolute_error":
        raise ValueError(
            f"{name} needs public bounds of the targets: give target_bounds=(low, high)."
        )
    low, high = (0.0, 0.0) if targets is None else (float(targets[0]), float(targets[1]))
    if targets is not None and not -math.inf < low < high < math.inf:
        raise ValueError(f"target_bounds must be finite, and increase; got {targets!r}.")
    if name == "neg_mean_absolute_error":
        most = (high - low) / 2 if bound is None else float(bound)
        return Closeness("absolute_error", most, most)
    if name == "r2":
        return R2(low, high)
    if low < 0:
        raise ValueError(f"{name} needs target_bounds from 0 on; got {targets!r}.")
    return Concordance(horizon=high) if name == "concordance" else D2Poisson(low, high)
