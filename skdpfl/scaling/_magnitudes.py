"""Ranges of columns, targets and exposures, from noisy counts in bins.

*A column's values*, on a fixed logarithmic grid::

    bin of x     sign(x), floor(log2|x|)                    0, NaN, inf and |x| < 2^-20: one bin,
                                                            exactly 1 (indicators): one bin
    shares       p_hat = p + sigma * normal                  (columns, bins); sigma is known
    library      P[s, k] = shares of shape s at scale 2^k    shapes: normal, lognormal, 0/1, ...
    posterior    w[s, k] ~ b[k] times normal densities of p_hat around P[s, k], of variance
                           sigma^2 + misfit^2

The result for a column is a box [low, high], the 15 % and 85 % posterior quantiles of the shapes'
ends, which is wider the larger the noise. Where whole silos are hidden, features whose bins the
noise drowns have one box if, by all their counts, one shape at one scale is more probable than
shapes of their own; and the target's box has median ends, since too wide a one makes predictions
noise. All of this uses only noisy shares and public numbers: it is post-processing and costs
nothing.

The library of shapes depends on no data. A shape is a distribution at scale 1 (normal around 1, 0
or -1, lognormal of one sign or both, without and with zeros, squares and products of normals, two
values) that is stretched by scales 2^k, or a few small integers, which exist at scale 1 only.

*The target*, where its moments in its box would be dominated by noise::

    bin of y     floor(n (y - low) / (high - low)), at least 0, at most n - 1         NaN: n // 2
    shares       p_hat = p + sigma * normal                     (n,); sigma is known, n = 6
    P[m, d]      the shares of a beta distribution on the bounds, of mean m and deviation d
    posterior    w[m, d] ~ exp((<p_hat, P[m, d]> - |P[m, d]|^2 / 2) / (sigma^2 + misfit^2))

Beta distributions are narrow or wide, skewed to either side, or of two values. All m and log d are
equally likely before. The result is the posterior mean of m, the geometric mean of d^2 (a scale
that is too large does more harm than one that is too small), and the standard deviations of m and
d^2. Later sums refine them.

Reason: bounds are wide; a target's standard deviation is typically a fifth of half their range. The
noise for sums over the box is calibrated to its ends, while a record changes counts by the same
amount wherever it is. At equal budgets the error of the mean is half of that from sums, and that of
the scale a third.

**Formal guarantee.** For any y (NaN and infinities too), a record adds a one to exactly one bin, so
replacing it changes the counts by at most sqrt(2) in L2, zeroing it by 1:
:mod:`skdpfl.federation._sums` covers these sums like all others. The posterior is computed from the
noisy shares and public numbers.

*The typical exposure* of records, so that fits start near the mean::

    bin of e     floor(log2 e) within [-20, 40]             each record has exactly one
    shares       p_hat = p + sigma * normal                 60 bins; sigma is known
    typical      2^m,  m the mean of the bins' middles, weighted by max(0, p_hat - 2 sigma)

The offset of a record's raw prediction is the logarithm of its exposure over the typical one, and
the intercept gets the rest after the fit. So the typical exposure changes where a fit starts, not
what it fits, and a factor of two matters little.

**Formal guarantee.** For any exposure (NaN and infinities too), a record adds a one to exactly one
bin, so replacing it changes the counts by at most sqrt(2) in L2, zeroing it by 1:
:mod:`skdpfl.federation._sums` covers these sums like all others. The typical exposure is computed
from noisy shares and public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betainc, gammainc, iti0k0, logsumexp, ndtr

from skdpfl.federation import CellCounts, Federation, SiloBudgets, SiloData, SumPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._maps import Array, Bounds

#: the grid covers magnitudes 2^-20 (1e-6) to 2^40 (1e12); the end bins hold all others
LOWEST, HIGHEST = -20, 40
#: the shares of real columns differ from those of the library by about this
_MISFIT = 0.01
#: iterations that estimate the prior, and its weight in columns (without it, and that of scales,
#: scales are off by ten twice as often)
_ROUNDS, _PRIOR_WEIGHT = 6, 5.0
#: ends of columns are such quantiles of what they may be
_QUANTILE = 0.85
#: smaller shares, and likelihoods relative to the best, count as 0: products would be subnormal
#: numbers, which are ten times slower
_NEGLIGIBLE = float(np.finfo(np.float32).eps)
#: the ends of octaves
_ENDS = 2.0 ** np.arange(LOWEST, HIGHEST + 1)


@dataclass(frozen=True)
class MagnitudeGrid:
    """Signed bins of an octave each: negatives, zero, positives, exactly one."""

    n_positive: ClassVar[int] = HIGHEST - LOWEST
    n_bins: ClassVar[int] = 2 * n_positive + 2
    #: the edges of all bins but the last (of ones); the end bins are open
    edges: ClassVar[Array] = np.concatenate([-_ENDS[::-1], _ENDS])

    def bins(self, columns: Array) -> np.ndarray:
        """Each value's bin, 0 to n_bins - 1; every value has exactly one."""
        with np.errstate(divide="ignore", over="ignore"):
            steps = np.log2(np.abs(columns), dtype=np.float32)
        steps[~(steps < np.inf)] = -np.inf
        np.floor(steps, out=steps)
        steps -= LOWEST - 1  # from the bin of zeros, in the sign's direction
        np.clip(steps, 0, self.n_positive, out=steps)
        np.negative(steps, out=steps, where=columns < 0)
        bins = steps.astype(np.int64)
        bins += self.n_positive
        bins[columns == 1] = self.n_bins - 1
        return bins


class ShapeLibrary(NamedTuple):
    """Shapes at scales, one after the other: their shares per bin, ends, and prior weights."""

    shares: Array  # (n, bins), float32: twice as fast, and precise enough
    low: Array
    high: Array
    prior: Array
    wide: Array  # which of them spread over many powers of ten

    def boxes(
        self,
        noisy: Array,
        noise: Array,
        unclear: np.ndarray,
        targets: np.ndarray,
        part: float,
    ) -> tuple[Bounds, Array, Array]:
        """Boxes of columns, from shares and noise of each, and two probabilities.

        They are that of a wide shape, and that ``targets`` (columns,) are narrower than this
        ``part`` of their box, by a prior without their own counts, which would confirm themselves.
        The boxes of targets have median ends. The ``unclear`` columns (columns,) are one column's
        repetitions if that is more probable.
        """
        variance = (noise**2 + _MISFIT**2).astype(np.float32)[:, None]
        logs = noisy.astype(np.float32) @ self.shares.T
        logs -= np.square(self.shares).sum(axis=1) / 2
        logs /= variance
        if unclear.any():
            of_each, before = logs[unclear].astype(np.float64), np.log(self.prior)
            of_one = of_each.sum(axis=0)
            of_one[self.wide > 0] = -np.inf  # as wide as many columns of unlike scales
            own = logsumexp(of_each + before, axis=1).sum()
            if logsumexp(of_one + before) > max(own, 0.0):  # 0: noise alone
                logs[unclear] = of_one
        likely = np.exp(logs - logs.max(axis=1, keepdims=True))
        likely[likely < _NEGLIGIBLE] = 0.0
        prior, nonzero = self.prior, np.clip(1 - noisy[:, MagnitudeGrid.n_positive], 0.0, 1.0)
        for _ in range(_ROUNDS):
            weights = likely * prior
            weights /= weights.sum(axis=1, keepdims=True)
            prior = (_PRIOR_WEIGHT * self.prior + nonzero @ weights).astype(np.float32)
        quantiles = np.where(targets, 0.5, _QUANTILE)
        low = _quantiles(self.low, weights, 1 - quantiles)
        high = _quantiles(self.high, weights, quantiles)
        narrow = np.zeros(targets.size)
        if targets.any():
            others = _PRIOR_WEIGHT * self.prior + nonzero[~targets] @ weights[~targets]
            alone = likely[targets] * others
            shorter = self.high - self.low < part * (high - low)[targets, None]
            narrow[targets] = (alone * shorter).sum(axis=1) / alone.sum(axis=1)
        return Bounds(low, high), weights @ self.wide, narrow


def _quantiles(values: Array, weights: Array, q: Array) -> Array:
    """The quantiles q (rows,) of ``values`` (n,) under each row of ``weights``, which sum to 1."""
    order = np.argsort(values)
    places = (weights[:, order].cumsum(axis=1) < q[:, None]).sum(axis=1)
    return values[order[np.minimum(places, order.size - 1)]]


#: log2 of the scales that are tried
_SCALES = np.arange(-16, 36, 0.5)
#: prior of a scale's log2: wide, as columns may be lengths in metres or incomes in cents
_PRIOR_LOG2, _PRIOR_OCTAVES = 3.0, 7.0


#: deviations of normal columns around 1 and -1
_NARROW = (0.05, 0.3)
#: shares of exact zeros of normal columns around 0, of lognormal ones, and of two values
_ZEROS = (0.0, 0.5, 0.75, 0.9)
#: deviations of the logarithm of lognormal columns; from the second on, values spread over many
#: powers of ten
_SPREAD, _WIDE = 0.8, 2.0
#: squares and products of normals gather around 0, but not far out: their end at scale 1
_GATHERED = 3.0
#: columns of so many small integers, from 0 or 1, equally frequent (without: score -.48 at worst)
_GRADES = 5


class _UnitShape(NamedTuple):
    """A shape at scale 1: its distribution function, share of exact zeros, ends."""

    cdf: Callable[[Array], Array]
    zeros: float
    low: float
    high: float
    wide: bool = False


@cache
def shape_library() -> ShapeLibrary:
    """The library: all shapes have one prior weight, integers at their only scale."""
    scales, shapes = 2.0**_SCALES, _shapes()
    shares = [_shares(shape, scales) for shape in shapes]
    shares += [_two_values(1 - zeros, scales) for zeros in _ZEROS[1:]]
    ends = [(shape.low, shape.high) for shape in shapes] + [(0.0, 2.0)] * len(_ZEROS[1:])
    low, high = np.array(ends).T[:, :, None] * scales
    prior = np.exp(-np.square((_SCALES - _PRIOR_LOG2) / _PRIOR_OCTAVES) / 2)
    alone = _integers()
    low, high = (
        np.append(ends, [values[end] for values, _ in alone])
        for ends, end in ((low, 0), (high, -1))
    )
    rounded = np.concatenate([*shares, [_of_values(*each) for each in alone]]).astype(np.float32)
    rounded[rounded < _NEGLIGIBLE] = 0.0
    at_one, many = len(scales) * prior[_SCALES == 0] / prior.sum(), len(ends)
    priors = np.concatenate([np.tile(prior / prior.sum(), many), *[at_one] * len(alone)])
    wide = np.zeros(priors.size, np.float32)
    wide[: len(shapes) * scales.size] = np.repeat([shape.wide for shape in shapes], scales.size)
    return ShapeLibrary(rounded, low, high, (priors / priors.sum()).astype(np.float32), wide)


def _shapes() -> list[_UnitShape]:
    """Return the shapes that exist at all scales, but for columns of two values.

    The ends of those around 1 and -1 are at least those of an octave, since counts do not tell
    where in it the values lie.
    """
    normals = [(mean, spread, 0.0) for mean in (-1, 1) for spread in _NARROW]
    normals += [(0, 1, zeros) for zeros in _ZEROS]
    shapes = []
    for mean, spread, zeros in normals:
        near, far = sorted([mean * 2**-0.5, mean * 2**0.5])
        ends = min(mean - 3 * spread, near), max(mean + 3 * spread, far)
        shapes.append(_UnitShape(_normal(mean, spread), zeros, *ends))
    for spread, zeros in [(_SPREAD, zeros) for zeros in _ZEROS] + [(_WIDE, 0.0)]:
        end, wide, cdf = math.exp(2 * spread), spread >= _WIDE, _lognormal(spread)
        shapes.append(_UnitShape(cdf, zeros, 0.0, end, wide))
        shapes.append(_UnitShape(_both_signs(cdf), zeros, -end, end, wide))
    squares = _UnitShape(lambda x: gammainc(0.5, np.maximum(x, 0.0)), 0.0, 0.0, _GATHERED)
    return [*shapes, squares, _UnitShape(_product, 0.0, -_GATHERED, _GATHERED)]


def _integers() -> list[tuple[Array, Array]]:
    """Return the values of columns of a few integers, and their shares."""
    grades, alike = np.arange(float(_GRADES)), np.full(_GRADES, 1 / _GRADES)
    ones = 2.0 ** -np.arange(1, 8)  # a half to 1/128: noise would look like flags with fewer
    flags = [(np.array([0.0, 1.0]), np.array([1 - part, part])) for part in ones]
    return [*flags, (grades, alike), (1 + grades, alike)]


def _normal(mean: float, spread: float) -> Callable[[Array], Array]:
    return lambda x: ndtr((x - mean) / spread)


def _lognormal(spread: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x > 0, ndtr(np.log(np.where(x > 0, x, 1.0)) / spread), 0.0)


def _product(x: Array) -> Array:
    """Return the distribution function of the product of two normals, of density K0(|x|) / pi."""
    return 0.5 + np.sign(x) * np.minimum(iti0k0(np.minimum(np.abs(x), 700.0))[1] / np.pi, 0.5)


def _both_signs(cdf: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: 0.5 + 0.5 * np.sign(x) * cdf(np.abs(x))


def _shares(shape: _UnitShape, scales: Array) -> Array:
    """Share of each bin (scales, bins) of a shape stretched by each scale."""
    grid = MagnitudeGrid()
    below = shape.cdf(grid.edges / scales[:, None])
    below[:, 0], below[:, -1] = 0.0, 1.0
    shares = np.zeros((len(scales), grid.n_bins))
    shares[:, :-1] = (1 - shape.zeros) * np.diff(below, axis=1)
    shares[:, grid.n_positive] += shape.zeros
    return shares


def _two_values(larger: float, scales: Array) -> Array:
    """Share of each bin (scales, bins) of a column of zeros and, in part, one other value."""
    grid = MagnitudeGrid()
    shares = np.zeros((len(scales), grid.n_bins))
    shares[:, grid.n_positive] = 1 - larger
    shares[np.arange(len(scales)), grid.bins(scales * 1.0001)] += larger
    return shares


def _of_values(values: Array, parts: Array) -> Array:
    """Share of each bin (bins,) of a column of a few values."""
    grid = MagnitudeGrid()
    counts = np.bincount(grid.bins(values), weights=parts, minlength=grid.n_bins)
    return counts.astype(np.float64)


#: bins of the target; shares of real targets differ from those of beta distributions by about this
N_BINS, _TARGET_MISFIT = 6, 0.02
#: means within (0, 1), and deviations in those of two values with that mean
_MEANS, _DEVIATIONS = np.linspace(0.02, 0.98, 40), np.geomspace(0.03, 0.97, 16)


@dataclass(frozen=True)
class LinearGrid:
    """Equal bins of an interval; values beyond it are in the last bin of their side."""

    low: float
    high: float
    n_bins: int = N_BINS

    def bins(self, columns: Array) -> np.ndarray:
        """Each value's bin, 0 to n_bins - 1; every value has exactly one."""
        half = self.high / 2 - self.low / 2
        with np.errstate(all="ignore"):
            place = (columns.astype(np.float64) / 2 - self.low / 2) / half * self.n_bins
        place[np.isnan(place)] = self.n_bins // 2
        return np.clip(np.floor(place), 0, self.n_bins - 1).astype(np.int64)


class Estimate(NamedTuple):
    """Posterior means of columns' means and variances in box units, and standard errors of both.

    A variance may be negative.
    """

    mean: Array
    variance: Array
    variance_error: Array
    mean_error: Array


def seen_in_bins(shares: Array, noise: float) -> Estimate:
    """Return the posterior of mean and variance, from noisy shares (n_bins,) and their noise."""
    mean, part = (values.ravel() for values in np.meshgrid(_MEANS, _DEVIATIONS))
    both = 1 / part[:, None] ** 2 - 1  # the sum of both parameters
    edges = np.linspace(0, 1, shares.size + 1)
    likely = np.diff(betainc(mean[:, None] * both, (1 - mean[:, None]) * both, edges))
    logs = (likely @ shares - np.square(likely).sum(axis=1) / 2) / (noise**2 + _TARGET_MISFIT**2)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean, variance = 2 * mean - 1, 4 * mean * (1 - mean) * part**2
    errors = (np.sqrt(weights @ np.square(v - weights @ v)) for v in (variance, mean))
    return Estimate(weights @ mean, np.exp(weights @ np.log(variance)), *errors)


#: the share of mu that the histogram costs: a hundredth of mu^2
_EXPOSURE_SHARE = 0.1
#: smaller counts, in deviations of the noise, do not count
_SURE_DEVIATIONS = 2.0


@dataclass(frozen=True, eq=False)
class ExposureCounts(CellCounts):
    """How many records have an exposure in each octave."""

    on_grid: ClassVar[bool] = True
    radius: ClassVar[float] = 1.0
    diameter: ClassVar[float] = 2**0.5

    @property
    def shape(self) -> tuple[int, ...]:
        return (HIGHEST - LOWEST,)

    def cells(self, data: SiloData, rows: Any) -> np.ndarray:
        """See `CellCounts.cells`."""
        if data.exposure is None:
            raise ValueError("These records have no exposure.")
        with np.errstate(all="ignore"):
            octaves = np.floor(np.log2(data.exposure[rows].astype(np.float64)))
        octaves[~np.isfinite(octaves)] = 0
        return np.clip(octaves - LOWEST, 0, self.shape[0] - 1).astype(np.intp)[:, None]


@dataclass(frozen=True, eq=False)
class ExposurePlan:
    """The histogram of exposures, and its cost, from public numbers.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation.
    """

    budgets: SiloBudgets

    @cached_property
    def sums(self) -> SumPlan:
        """The plan of the one sum."""
        return SumPlan(self.budgets, "exposure", (_EXPOSURE_SHARE * self.budgets.spends,))

    def typical(self, federation: Federation, streams: Streams) -> float:
        """Return the typical exposure; 1 if noise hides all counts."""
        what = ExposureCounts()
        shares = self.sums.question(0, what).mean(federation, streams)
        return typical(shares, self.sums.noise(0, what))


def typical(shares: Array, noise: float) -> float:
    """Return the typical exposure from noisy shares of octaves."""
    sure = np.maximum(shares - _SURE_DEVIATIONS * noise, 0.0)
    if not sure.any():
        return 1.0
    middles = np.arange(LOWEST, HIGHEST) + 0.5
    return float(2.0 ** (sure @ middles / sure.sum()))
