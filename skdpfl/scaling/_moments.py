"""Sums over the columns of a table: counts in bins, moments in boxes, rows in a ball.

Each is a :class:`skdpfl.federation.BoundedSum`, whose module proves the cost. The lemmas here: for
any record (with NaN, infinities and 1e300 too), the terms are ::

    Counts     a one in one bin of each column                  norm 1, distance sqrt(2)
    Moments    phi inside a box for each column                 below
    Rows       a row in a ball, phi of the target in a box      below

and over columns (a row in a ball counts as one) norms and distances add in squares with the squared
weights. The mean over a silo's records (unit "silo") is rounded to multiples of 2^-27. Terms are
such multiples too, so float64 sums 2^25 of them without rounding, in any order. Which records are
read depends only on their index and silo.

**Means and spreads of columns inside known boxes**, from noisy first and second moments.

::

    u = clip((x - center) / half, -1, 1)              per value, on a grid of 2^-12; NaN: 0
    phi(record) = weight * (u, A u^2 - A B),          A = 13/8, B = 11/16      (columns, 2)
    m_hat = mean u + s * normal,  q_hat = mean u^2 + (s / A) * normal          s is known

**Sensitivity.** For one column the curve (u, A u^2), |u| <= 1, has diameter 2: with t = |u + u'|,
``|phi - phi'|^2 = (u - u')^2 (1 + A^2 t^2) <= (2 - t)^2 (1 + A^2 t^2) <= 4`` whenever
``A^2 <= min over t of (4 - t) / (t (2 - t)^2) = 2.77``. So second moments are free: both together
cost as much as the means alone. Its points have norm at most ``sqrt(1 + A^2 (1 - B)^2) < 1.122``.
Over columns, squares add with the squared weights.

**Shrinkage.** Estimates are shrunk towards the columns' common mean, depending on the known noise
(normal prior, whose centre and width are learnt from the noisy moments themselves). If the noise is
too large to distinguish columns, the result is the typical column, which is still useful, because
bounds are wider than data, usually on one side.

The second estimate is of whole rows in a ball, which needs far less noise than boxes.

::

    v = clip((x - m) / s, -4, 4)               m, s: what the first look found, NaN: 0
    a = v min(1, R / |v|)                      R^2 = 0.64 d,   a row of d features
    b = q min(1, Q / |q|),  q = min(v^2, 6) / 2        Q^2 = 0.49 d,   entries >= 0
    contribution = (a, b),   and the target's phi in the box m +- 3 s    (d [+ 1], 2)

**Sensitivity.** Replacing a record changes ``a`` by at most 2 R, and ``b`` by at most sqrt(2) Q,
since the angle between non-negative vectors is at most a right angle; setting it to zero changes
them by R and Q. Entries are rounded towards zero, to multiples of 2^-20, which does not increase
norms or change signs.

Reason: the noise for boxes is calibrated to their corners, at a distance of sqrt(d) half ranges.
Deviations from the mean typically have a third or a fifth of that norm, less for wider bounds, and
the first release estimates mean and norm of rows. Norms concentrate, so clipping rows somewhat
below their typical norm shrinks the estimates but hardly changes their direction.

**Shrinkage.** The estimates of the first release, with their errors, are the prior.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from skdpfl.federation import PIECE, BoundedSum, CellCounts, Question, SiloBudgets, SiloData
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import DOUBLE, relative_error
from skdpfl.scaling._magnitudes import Estimate, LinearGrid, MagnitudeGrid
from skdpfl.scaling._maps import Array

#: second moments are multiplied by A and shifted by A B, exact in binary
A, B = 13 / 8, 11 / 16
#: greatest distance of two columns' points, and greatest norm of one
DIAMETER, RADIUS = 2.0, float(np.hypot(1.0, A * (1 - B)))
#: values are rounded to this grid, so that all sums are exact and their order does not matter
_STEP = 2.0**-12


#: center and width of a normal hierarchy: columns' values around a common center, as that around it
_MEAN, _VARIANCE = (0.0, 0.35), (0.12, 0.15)
#: the smallest deviation of a target, in half boxes
_FINEST_TARGET = 0.01
#: a mean that is closer to an end of its box than this, and than the noise tells, is at the end
_END = 0.1
#: weight of the prior width, in columns (no width is learnt: R2 of diabetes -.022 at epsilon 1)
_WIDTH_WEIGHT = 6.0


class Boxes(NamedTuple):
    """One interval per column: center +- half, half > 0."""

    center: Array
    half: Array


def levels(columns: Array, boxes: Boxes) -> Array:
    """``u`` of each value in steps of 2^-12: integers from -4096 to 4096, for any values."""
    u = np.empty(columns.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(columns, boxes.center, out=u)
        u *= 1 / (boxes.half * _STEP)
        np.clip(u, -1 / _STEP, 1 / _STEP, out=u)
    np.rint(u, out=u)
    if np.isnan(u.sum()):
        u[np.isnan(u)] = 0.0
    return u


def phi_sums(linear: Array, square: Array, counts: Array) -> Array:
    """Sums of ``phi`` (silos, 2, columns) from sums of levels and of their squares."""
    return np.stack([linear * _STEP, square * (A * _STEP**2) - counts * (A * B)], axis=1)


def estimate(noisy: Array, noise: Array, is_feature: np.ndarray) -> Estimate:
    """Shrunk means and variances from the noisy mean contribution (2, columns).

    ``noise`` (columns,) is the standard deviation of its entries. ``is_feature`` marks the
    columns that are shrunk towards their common mean; the target is shrunk towards the prior's.
    """
    mean_hat, square_hat = noisy[0], noisy[1] / A + B
    mean, mean_left = _shrink(mean_hat, noise**2, is_feature, _MEAN)
    mean = np.clip(mean, -1.0, 1.0)
    seen, its_noise = variance_seen(square_hat, noise / A, mean, mean_left)
    variance, left = _shrink(seen, its_noise, is_feature, _VARIANCE)
    return Estimate(mean, variance, np.sqrt(left), np.sqrt(mean_left))


def variance_seen(square: Array, noise: Array, mean: Array, left: Array) -> tuple[Array, Array]:
    """Return variances from noisy mean squares, and the variance of their error.

    ``mean`` and ``left`` are the posterior mean and variance of the mean: its expected square is
    ``mean^2 + left``, which is less noisy than the square of a noisy mean.
    """
    return square - mean**2 - left, noise**2 + 4 * mean**2 * left + 2 * left**2


def deviations(estimate: Estimate, floor: Array | float | None) -> Array:
    """Each column's standard deviation in box units, at least ``floor``; None: no floor.

    Without a floor, the estimate of a variance far below the noise is a fraction of the noise. A
    floor would make training worse: features that are scaled too large are clipped with their
    gradients, but features that are scaled too small are lost.
    """
    if floor is None:
        return np.sqrt(np.minimum(_positive(estimate.variance, estimate.variance_error), 1.0))
    return np.sqrt(np.clip(estimate.variance, np.square(floor), 1.0))


def center_and_scale(
    boxes: Boxes, estimate: Estimate, floor: Array | float | None, is_feature: np.ndarray
) -> tuple[Array, Array, Array]:
    """Return center and scale in the columns' units, and the expected spread of scaled columns.

    The target's scale (not in ``is_feature``) may be below the floor if its variance is precise
    enough, since errors of predictions are proportional to it.
    """
    deviation = deviations(estimate, floor)
    if floor is not None:
        least = np.clip(estimate.variance_error, _FINEST_TARGET**2, np.square(floor))
        finer = np.sqrt(np.clip(estimate.variance, least, 1.0))
        deviation = np.where(is_feature, deviation, finer)
    spread = np.sqrt(np.maximum(estimate.variance, 0.0)) / deviation
    return (
        boxes.center + boxes.half * estimate.mean,
        boxes.half * deviation,
        np.minimum(spread, 1.0),
    )


def target_is_unresolved(
    estimate: Estimate, floor: float | None, bounded: bool, gathered: bool
) -> bool:
    """Whether the target, the last column, varies far less than its box, or is outside it.

    If so, its scale is unknown, and the error of predictions is a fraction of the floor. For
    declared boxes (``bounded``) the criterion is ``variance + 4 s < 1.1 floor^2``, with s the
    standard deviation of its noise: it holds once in thousands of fits if the target's deviation is
    at the floor, once in twenty at 0.7 of it, and in at least every second fit at a fortieth of it,
    if the noise allows to distinguish them. Or the mean must be at an end of the box, which is more
    reliable: nearly all values are then close to that end. For estimated boxes, which should fit, a
    variance within 1.5 deviations of its noise is enough, if one is at most twice the floor's, but
    counts must have shown that the target is ``gathered`` in few bins.
    """
    if floor is None:
        return False
    mean, variance, variance_error, mean_error = (float(values[-1]) for values in estimate)
    if bounded:
        narrow = variance + 4 * variance_error < 1.1 * floor**2
        close = 1 - abs(mean) < min(2 * mean_error, _END)
        return narrow or (close and variance < floor**2) or abs(mean) >= 1
    narrow = variance < 1.5 * variance_error < 3 * floor**2
    return gathered and (narrow or abs(mean) >= 1)


def _shrink(
    values: Array, noise: Array, is_feature: np.ndarray, prior: tuple[float, float]
) -> tuple[Array, Array]:
    """Posterior means and variances of a normal hierarchy; ``noise`` are variances."""
    expected, width = prior
    center, between = np.full(values.shape, expected), np.full(values.shape, width**2)
    if is_feature.any():
        x, v = values[is_feature], noise[is_feature]
        between[is_feature] = _between(x, v, width)
        precision = 1 / (between[is_feature] + v)
        weight = precision.sum() + 1 / width**2
        center[is_feature] = (x @ precision + expected / width**2) / weight
    share = between / (between + noise)
    return center + (values - center) * share, noise * share


def _between(values: Array, noise: Array, width: float) -> float:
    """Variance between columns: the estimate minus the noise, averaged with the prior's."""
    seen = ((values - values.mean()) ** 2 - noise).sum()
    total = _WIDTH_WEIGHT * width**2 + seen
    return float(max(total / (_WIDTH_WEIGHT + len(values) - 1), (width / 4) ** 2))


def _positive(means: Array, spread: Array) -> Array:
    """Means of normal variables, conditional on being positive."""
    spread = np.maximum(spread, 1e-15)
    a = means / spread
    return means + spread * np.exp(-(a**2) / 2 - log_ndtr(a)) / np.sqrt(2 * np.pi)


#: the limits of deviations and of squares; the weight of squares; the target's box in deviations
_LONGEST, _SQUARE, HALF, _TARGET = 4.0, 6.0, 0.5, 3.0
#: the least unit of deviations, in half boxes; of a target at least that which is known
_FINEST_UNIT = 0.15
#: the prior's variance of variances, in squares of their error: larger, as the prior may be wrong
#: (no larger: log loss +.018 at worst)
_LOOSER_PRIOR = 2.0
#: all entries are multiples of this
STEP = 2.0**-20
#: lengths are cut slightly below their limits, so that rounding errors do not exceed them
_BELOW = 1 - 2.0**-40


@dataclass(frozen=True)
class RowBall:
    """The ball that contains a row's contribution, by its number of features."""

    n_features: int

    @property
    def radius(self) -> float:
        """R, the length of deviations."""
        return float(np.sqrt(0.64 * self.n_features))

    @property
    def squares(self) -> float:
        """Q, the length of halved squares."""
        return float(np.sqrt(0.49 * self.n_features))

    @property
    def diameter(self) -> float:
        """The largest distance between the contributions of two rows."""
        return float(np.hypot(2 * self.radius, np.sqrt(2.0) * self.squares))

    @property
    def norm(self) -> float:
        """The largest norm of a contribution."""
        return float(np.hypot(self.radius, self.squares))


def boxes_around(boxes: Boxes, estimate: Estimate, is_feature: np.ndarray) -> Boxes:
    """The intervals m +- s of features, m +- 3 s of the target."""
    center = boxes.center + boxes.half * estimate.mean
    return Boxes(center, boxes.half * _units(estimate, is_feature))


def _units(estimate: Estimate, is_feature: np.ndarray) -> Array:
    """s of features, 3 s of the target, in half boxes."""
    precise = np.clip(2 * estimate.variance_error, _FINEST_TARGET**2, _FINEST_UNIT**2)
    finest = np.where(is_feature, _FINEST_UNIT**2, precise)
    return np.sqrt(np.clip(estimate.variance, finest, 1.0)) * np.where(is_feature, 1.0, _TARGET)


def contributions(columns: Array, boxes: Boxes, ball: RowBall) -> Array:
    """``a`` and ``b`` of each row (2, n, d), for any values."""
    both = np.empty((2, *columns.shape))
    v, squares = both
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(columns, boxes.center, out=v)
        v *= 1 / boxes.half
    np.clip(v, -_LONGEST, _LONGEST, out=v)
    if np.isnan(v.sum()):
        v[np.isnan(v)] = 0.0
    np.minimum(np.multiply(v, v, out=squares), _SQUARE, out=squares)
    squares *= HALF
    lengths = np.maximum(np.sqrt(np.einsum("knd,knd->kn", both, both)), 1e-300)
    limits = _BELOW * np.array([ball.radius, ball.squares])[:, None]
    both *= np.minimum(1.0, limits / lengths)[..., None] / STEP
    np.trunc(both, out=both)
    both *= STEP
    return both


def sums_of_rows(columns: Array, first: np.ndarray, boxes: Boxes, ball: RowBall) -> Array:
    """Sums of contributions over the rows from each of ``first`` to the next (m, columns, 2)."""
    d = ball.n_features
    features = contributions(columns[:, :d], Boxes(boxes.center[:d], boxes.half[:d]), ball)
    total = [np.moveaxis(np.add.reduceat(features, first, axis=1), 0, -1)]
    if columns.shape[1] > d:
        u = levels(columns[:, d:], Boxes(boxes.center[d:], boxes.half[d:]))
        counts = np.diff(np.append(first, len(columns)))[:, None]
        linear, square = (np.add.reduceat(x, first, axis=0) for x in (u, u * u))
        total.append(phi_sums(linear, square, counts).transpose(0, 2, 1))
    return np.concatenate(total, axis=1)


def refine(estimate: Estimate, noisy: Array, noise: Array, is_feature: np.ndarray) -> Estimate:
    """Update the estimates of the first release by noisy mean contributions (columns, 2).

    ``noise`` (columns,) is the standard deviation of their entries; all estimates are in the units
    of the boxes of the first release.
    """
    unit = _units(estimate, is_feature)
    shift, noise_of_mean = noisy[:, 0] * unit, noise * unit
    square = np.where(is_feature, noisy[:, 1] / HALF, noisy[:, 1] / A + B) * unit**2
    noise_of_square = noise * np.where(is_feature, 1 / HALF, 1 / A) * unit**2
    prior = estimate.mean_error**2
    weight = prior / (prior + noise_of_mean**2)
    moved, left = weight * shift, prior * (1 - weight)
    seen, its_noise = variance_seen(square, noise_of_square, moved, left)
    prior = _LOOSER_PRIOR * estimate.variance_error**2
    weight = prior / (prior + its_noise)
    variance = estimate.variance + weight * (seen - estimate.variance)
    mean = np.clip(estimate.mean + moved, -1.0, 1.0)
    return Estimate(mean, variance, np.sqrt(prior * (1 - weight)), np.sqrt(left))


#: the grid of means of whole silos; all other sums lie on it
_MEANS_STEP = 2.0**-27
#: the weight of the target, which matters more than a feature; a power of two keeps sums exact
TARGET_WEIGHT = 2.0
#: the largest block of messages and of rows, in numbers: larger blocks leave the cache, and
#: allocating them takes longer than the computation
_MESSAGES, _ROWS = 2**18, 2**16
#: a target has no more bins
_MOST_BINS = 64


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that are read: the features in ``used``, then the target.

    ``used`` may go on beyond a table's features, with columns that curves add and nobody reads.
    """

    used: np.ndarray
    has_target: bool

    @cached_property
    def is_feature(self) -> np.ndarray:
        """Which of the columns are features."""
        n = int(self.used.sum())
        return np.arange(n + self.has_target) < n

    @cached_property
    def weights(self) -> Array:
        """The weight of each column."""
        return np.where(self.is_feature, 1.0, TARGET_WEIGHT)

    def of(self, data: SiloData, rows: np.ndarray | slice) -> Array:
        """Return the values of some records (n, columns)."""
        parts = []
        if self.used.any():
            X = data.stored(rows)
            parts.append(X if self.used.all() else X[:, self.used[: X.shape[1]]])
        if self.has_target:
            parts.append(np.asarray(data.y[rows])[:, None])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def check(self, n_features: int) -> None:
        """Raise unless the columns fit tables with this number of features."""
        one = self.used.ndim == 1 and self.used.dtype == bool
        _check(one and self.used.size >= n_features and not self.used[n_features:].any())
        _check(self.is_feature.size)


@dataclass(frozen=True, eq=False)
class ColumnSums(BoundedSum):
    """Base class: sums of each column's contributions, silo by silo."""

    columns: Columns
    adds_exactly: ClassVar[bool] = True
    #: the largest norm of a column's terms, and the largest distance of two
    norm: ClassVar[float]
    distance: ClassVar[float]

    @property
    @abstractmethod
    def entries(self) -> int:
        """The number of values per column."""

    @property
    def radius(self) -> float:
        return self.norm * float(np.linalg.norm(self.columns.weights))

    @property
    def diameter(self) -> float:
        return self.distance * float(np.linalg.norm(self.columns.weights))

    @property
    def entry(self) -> float:
        return self.norm * float(self.columns.weights.max(initial=0.0))

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.is_feature.size, self.entries

    @property
    def weight(self) -> Array:
        return self.columns.weights[:, None]

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        self.columns.check(n_features)

    def mean(self, sums: Array, n: np.ndarray) -> Array:
        # _MEANS_STEP is a power of two, so this is rint(mean / _MEANS_STEP) * _MEANS_STEP
        return np.rint(sums / (n * _MEANS_STEP)[:, None, None]) * _MEANS_STEP

    def drift(self, budgets: SiloBudgets) -> Array:
        """Sums are exact; a product with the weight, one with the grid, and _MEANS_STEP are not."""
        error = relative_error((2, DOUBLE)) * (self.entry * budgets.summed)
        if budgets.unit == "silo":
            error += _MEANS_STEP / 2 * self.columns.weights.max(initial=0.0)
        return np.sqrt(self.shape[0] * self.entries) * error


@dataclass(frozen=True, eq=False)
class Counts(CellCounts, ColumnSums):
    """Counts of the values of each column in each bin."""

    grid: MagnitudeGrid | LinearGrid
    norm: ClassVar[float] = 1.0
    distance: ClassVar[float] = float(np.sqrt(2.0))

    @property
    def entries(self) -> int:
        return self.grid.n_bins

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        width, entries = self.shape
        return self.grid.bins(self.columns.of(data, rows)) + entries * np.arange(width)

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        super().check(n_features, n_classes, work)
        _check(isinstance(self.grid, MagnitudeGrid) or 2 <= self.grid.n_bins <= _MOST_BINS)


@dataclass(frozen=True, eq=False)
class Moments(ColumnSums):
    """Sums of ``phi`` inside boxes: all terms are integers until the last line.

    Boxes are None in plans, which are made before boxes are known.
    """

    boxes: Boxes | None = None
    norm: ClassVar[float] = RADIUS
    distance: ClassVar[float] = DIAMETER
    entries: ClassVar[int] = 2  # type: ignore[misc]

    def sums(self, data: SiloData, work: object) -> Iterator[tuple[np.ndarray, Array]]:
        width, entries = self.shape
        here = np.flatnonzero(data.sizes)
        per_block = max(1, _MESSAGES // max(1, width * entries))
        for first in range(0, len(here), per_block):
            silos = here[first : first + per_block]
            exact = np.zeros((silos.size, width, entries))
            for values, local in self._blocks(data, silos):
                low, high = local[0], local[-1] + 1  # the silos that the block has rows of
                exact[low:high] += self.added(values, local - low, high - low)
            yield silos, exact

    def _blocks(self, data: SiloData, silos: np.ndarray) -> Iterator[tuple[Array, np.ndarray]]:
        """Yield blocks of rows of some silos: their columns, and each row's position in silos."""
        first, last = data.starts[silos[0]], data.starts[silos[-1] + 1]
        positions = np.repeat(np.arange(silos.size), data.sizes[silos])
        per_block = max(1, _ROWS // max(1, self.shape[0]))
        for start in range(first, last, per_block):
            stop = min(start + per_block, last)
            rows = slice(start, stop) if data.order is None else data.order[start:stop]
            yield self.columns.of(data, rows), positions[start - first : stop - first]

    def added(self, values: Array, silos: np.ndarray, n_silos: int) -> Array:
        """Add records (n, c), sorted by local silo numbers (n,): (n_silos, c, entries)."""
        assert self.boxes is not None
        total = np.zeros((n_silos, 2, values.shape[1]))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        u = levels(values, self.boxes)
        linear = np.add.reduceat(u, first, axis=0)
        u *= u
        square = np.add.reduceat(u, first, axis=0)
        counts = np.diff(np.append(first, len(silos)))[:, None]
        total[silos[first]] = phi_sums(linear, square, counts)
        return total.transpose(0, 2, 1)

    def check(self, n_features: int, n_classes: int | None, work: object) -> None:
        super().check(n_features, n_classes, work)
        _check(self.boxes is not None)
        for values in self.boxes or ():
            _check(values.shape == self.columns.is_feature.shape and values.dtype.kind == "f")
            _check(np.isfinite(values).all())
        _check(self.boxes is not None and (self.boxes.half > 0).all())


@dataclass(frozen=True, eq=False)
class RowMoments(Moments):
    """Sums of rows in a ball, and of the target's ``phi``."""

    @cached_property
    def ball(self) -> RowBall:
        """The ball of the features' part."""
        return RowBall(int(self.columns.is_feature.sum()))

    @cached_property
    def _of_target(self) -> float:
        return float(np.linalg.norm(self.columns.weights[~self.columns.is_feature]))

    @property
    def radius(self) -> float:
        return float(np.hypot(self.ball.norm, RADIUS * self._of_target))

    @property
    def diameter(self) -> float:
        return float(np.hypot(self.ball.diameter, DIAMETER * self._of_target))

    @property
    def entry(self) -> float:
        return max(self.ball.radius, self.ball.squares, super().entry)

    def added(self, values: Array, silos: np.ndarray, n_silos: int) -> Array:
        assert self.boxes is not None
        total = np.zeros((n_silos, values.shape[1], 2))
        first = np.flatnonzero(np.diff(silos, prepend=-1))
        total[silos[first]] = sums_of_rows(values, first, self.boxes, self.ball)
        return total


@dataclass(frozen=True, eq=False)
class ExactMoments(Question):
    """Each silo's exact number of finite values, and their sum or that of squares around a center.

    It is for fits without privacy, and independent of other silos' sizes.
    """

    columns: Columns
    number: int
    center: Array | None = None
    purpose = "scales"

    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for i in np.flatnonzero(data.sizes).tolist():
            total = np.zeros((self.columns.is_feature.size, 2))
            for start in range(0, int(data.sizes[i]), PIECE):
                rows = slice(start, min(start + PIECE, int(data.sizes[i])))
                total += self._sums(self.columns.of(data, data.rows_of(i, rows)))
            yield np.array([i]), total.reshape(1, -1)

    def _sums(self, values: Array) -> Array:
        values = values.astype(np.float64, copy=False)
        finite = np.isfinite(values)
        if self.center is not None:
            values = np.square(values - self.center)
        seen = np.where(finite, values, 0.0)
        first = np.zeros(1, int)
        sums = [np.add.reduceat(part, first, axis=0, dtype=np.float64) for part in (finite, seen)]
        return np.stack(sums, axis=-1)[0]


def _check(holds: object) -> None:
    if not holds:
        raise ValueError("The boxes or bins do not fit the requested columns.")
