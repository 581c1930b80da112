"""Private scores by name, and those from histograms of predictions: ranks and calibration.

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
from typing import ClassVar, Self

import numpy as np

from skdpfl.federation import _measures
from skdpfl.federation._measures import UNSURE, Measure, Reads

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
        sure = UNSURE * noise * math.sqrt(mean.shape[1])
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
        precision = hits / np.maximum(all_above, UNSURE * noise)
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
        if events.sum() <= UNSURE * unsure or pairs <= UNSURE * unsure:
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
OF_TWO_LABELS: dict[str, Callable[[], _measures.Measure]] = {
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
) -> _measures.Measure:
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


def _of_classes(name: str, n_classes: int, bound: float | None) -> _measures.Measure:
    if name == "accuracy":
        return _measures.Accuracy()
    if name == "balanced_accuracy":
        return _measures.BalancedAccuracy(n_classes)
    if name == "neg_log_loss":
        most = -math.log(LEAST_PROBABILITY) if bound is None else float(bound)
        return _measures.Closeness("log_loss", most, most)
    if name == "neg_brier_score":  # of two labels scikit-learn counts one of them
        return _measures.Closeness("brier", 2.0, 1.0 if n_classes == 2 else 2.0)
    if name == "calibration_error":
        return CalibrationError()
    if n_classes != 2:
        raise ValueError(
            f"{name} needs two labels; got {n_classes}. Use balanced_accuracy or neg_log_loss."
        )
    return OF_TWO_LABELS[name]()


def _of_targets(
    name: str, bound: float | None, targets: tuple[float, float] | None
) -> _measures.Measure:
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
        return _measures.Closeness("absolute_error", most, most)
    if name == "r2":
        return _measures.R2(low, high)
    if low < 0:
        raise ValueError(f"{name} needs target_bounds from 0 on; got {targets!r}.")
    return Concordance(horizon=high) if name == "concordance" else _measures.D2Poisson(low, high)
