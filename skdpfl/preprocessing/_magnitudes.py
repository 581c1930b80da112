"""Where a column's values lie, from noisy counts on a fixed logarithmic grid.

::

    bin of x     sign(x), floor(log2|x| / octaves)          0, NaN, inf and |x| < 2^-20: one bin,
                                                            exactly 1 (indicators): one bin
    shares       p_hat = p + sigma * normal                  (columns, bins); sigma is known
    library      P[s, k] = shares of shape s at scale 2^k    shapes: normal, lognormal, 0/1, ...
    posterior    w[s, k] ~ a[s] b[k] exp((<p_hat, P[s, k]> - |P[s, k]|^2 / 2) / sigma^2)

The answer for a column is a box [low, high], the 15 % and 85 % posterior quantiles of the shapes'
ends, so doubt widens it. The priors ``a`` (shapes) and ``b`` (scales) are re-estimated from all
columns together: many columns alike (pixels) help each other. All of this reads only noisy shares
and public numbers; it is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr

from skdpfl.preprocessing._scaling import Array

#: the grid covers magnitudes 2^-20 (1e-6) to 2^40 (1e12); beyond, the end bins take all
_LOWEST, _HIGHEST = -20, 40
#: scales of the library are tried from 2^-16 to 2^36, every half octave
_SCALES = np.arange(_LOWEST + 4, _HIGHEST - 4, 0.5)
#: prior of a scale's log2: tables hold lengths in metres and incomes in cents
_PRIOR_LOG2, _PRIOR_OCTAVES = 3.0, 7.0
#: real columns are no member of the library; their shares differ by about this
_MISFIT = 0.02
#: columns that re-estimate the priors (more add nothing), rounds, and the priors' weight in columns
_POOL, _ROUNDS, _PRIOR_WEIGHT = 512, 6, 5.0
_QUANTILE = 0.85


@dataclass(frozen=True)
class MagnitudeGrid:
    """Signed logarithmic bins of ``octaves`` each: negatives, the zero bin, positives, one."""

    octaves: float

    @property
    def first(self) -> int:
        """Number of the lowest positive bin, which begins at 2^(first * octaves)."""
        return int(np.floor(_LOWEST / self.octaves))

    @property
    def n_positive(self) -> int:
        """How many positive bins there are."""
        return int(np.ceil(_HIGHEST / self.octaves)) - self.first

    @property
    def n_bins(self) -> int:
        """How many bins there are in all."""
        return 2 * self.n_positive + 2

    @property
    def edges(self) -> Array:
        """The ``n_bins`` edges of all bins but the last (of ones); the end bins are open."""
        ends = 2.0 ** (self.octaves * (self.first + np.arange(self.n_positive + 1)))
        return np.concatenate([-ends[::-1], ends])

    def bins(self, columns: Array) -> np.ndarray:
        """Each value's bin, 0 to n_bins - 1; every value has exactly one."""
        sizes = np.abs(columns)
        known = np.isfinite(sizes) & (sizes > 0)
        logs = np.log2(sizes, where=known, out=np.full(sizes.shape, -np.inf))
        step = np.maximum(np.floor(logs / self.octaves), self.first - 1.0) - self.first
        step = np.minimum(step, self.n_positive - 1).astype(np.int64)
        zero = self.n_positive
        bins = np.where(step < 0, zero, np.where(columns > 0, zero + 1 + step, zero - 1 - step))
        bins[columns == 1] = self.n_bins - 1
        return bins


@dataclass(frozen=True, eq=False)
class ShapeLibrary:
    """Shapes at scales: their shares per bin, their ends, and their prior weights."""

    shares: Array  # (shapes, scales, bins)
    low: Array  # (shapes, scales)
    high: Array  # (shapes, scales)
    shape_prior: Array  # (shapes,)
    scale_prior: Array  # (scales,)
    bonus: Array  # (shapes, scales): log weight of pairs that are likelier than their factors

    def boxes(self, noisy: Array, noise: Array, pool: np.ndarray) -> tuple[Array, Array]:
        """Boxes [low, high] of columns, from noisy shares (columns, bins) and their noise.

        ``pool`` marks the columns (features, not the target) that inform each other.
        """
        scores = self._scores(noisy, noise)
        told = np.clip(1 - noisy[:, self.shares.shape[2] // 2 - 1] - 2 * noise, 0.0, 1.0)
        some = np.flatnonzero(pool)[:: max(1, int(pool.sum()) // _POOL)]
        priors = self._learn_priors(scores[some], told[some])
        lows, highs = np.sort(self.low, axis=None), np.sort(self.high, axis=None)
        by_low, by_high = np.argsort(self.low, axis=None), np.argsort(self.high, axis=None)
        low, high = np.empty(len(noisy)), np.empty(len(noisy))
        for j, score in enumerate(scores):
            weights = self._posterior(score[None], *(priors if pool[j] else self._own)).ravel()
            low[j] = _quantile(lows, weights[by_low], 1 - _QUANTILE)
            high[j] = _quantile(highs, weights[by_high], _QUANTILE)
        return low, high

    @property
    def _own(self) -> tuple[Array, Array]:
        return self.shape_prior, self.scale_prior

    def _scores(self, noisy: Array, noise: Array) -> Array:
        """Log likelihood of each (shape, scale), up to a constant: (columns, shapes, scales)."""
        flat = self.shares.reshape(-1, self.shares.shape[-1])
        fits = noisy @ flat.T - (flat**2).sum(axis=1) / 2
        fits /= (noise**2 + _MISFIT**2)[:, None]
        return fits.reshape(len(noisy), *self.low.shape)

    def _posterior(self, scores: Array, shape_prior: Array, scale_prior: Array) -> Array:
        logs = scores + (np.log(shape_prior)[:, None] + np.log(scale_prior) + self.bonus)
        logs -= logs.max(axis=(1, 2), keepdims=True)
        np.exp(logs, out=logs)
        logs /= logs.sum(axis=(1, 2), keepdims=True)
        return logs

    def _learn_priors(self, scores: Array, told: Array) -> tuple[Array, Array]:
        """Expectation-maximisation of the two priors; few columns leave them as they are.

        A column tells its scale by the part ``told`` of its values that are not zero.
        """
        shapes, scales = self._own
        for _ in range(_ROUNDS if len(scores) else 0):
            weights = self._posterior(scores, shapes, scales)
            shapes = _PRIOR_WEIGHT * self.shape_prior + told @ weights.sum(axis=2)
            scales = _PRIOR_WEIGHT * self.scale_prior + told @ weights.sum(axis=1)
            shapes, scales = shapes / shapes.sum(), scales / scales.sum()
        return shapes, scales


@cache
def shape_library(grid: MagnitudeGrid) -> ShapeLibrary:
    """The library on a grid; the same for everybody, it knows no data."""
    scales = 2.0**_SCALES
    shapes = _normals() + _lognormals()
    shares = [_shares(grid, cdf, zeros, scales) for cdf, zeros, *_ in shapes]
    shares += [_two_values(grid, ones, scales) for ones in _ONES]
    ends = [(low, high) for *_, low, high, _ in shapes] + [(0.0, 2.0**grid.octaves)] * len(_ONES)
    weights = [weight for *_, weight in shapes] + [0.05] * len(_ONES)
    own = len(shares)  # the shapes from here on exist at scale 1 only
    for values, parts, weight in _INTEGERS:
        shares.append(np.tile(_of_values(grid, values, parts), (len(scales), 1)))
        ends.append((float(min(values)), float(max(values))))
        weights.append(weight * len(scales))
    bonus = np.zeros((len(shares), len(scales)))
    bonus[own:, scales != 1] = -np.inf
    prior = np.exp(-(((_SCALES - _PRIOR_LOG2) / _PRIOR_OCTAVES) ** 2) / 2)
    low_high = np.array(ends)
    return ShapeLibrary(
        np.array(shares),
        low_high[:, :1] * scales,
        low_high[:, 1:] * scales,
        np.array(weights) / np.sum(weights),
        prior / prior.sum(),
        bonus,
    )


#: shares of the larger value among columns of zeros and one other value
_ONES = (0.1, 0.35, 0.65, 0.9)
#: columns of small integers: values, their shares, prior weight
_INTEGERS: list[tuple[tuple[int, ...], tuple[float, ...], float]] = [
    *[((0, 1), (1 - p, p), 0.3) for p in (0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)],
    ((1, 2), (0.5, 0.5), 0.3),
    ((0, 1, 2), (0.4, 0.4, 0.2), 0.3),
    ((1, 2, 3), (0.2, 0.4, 0.4), 0.3),
    ((0, 1, 2, 3), (0.25, 0.25, 0.25, 0.25), 0.3),
    ((0, 1, 2, 3, 4), (0.37, 0.37, 0.18, 0.06, 0.02), 0.3),
    ((1, 2, 3, 4, 5), (0.2, 0.2, 0.2, 0.2, 0.2), 0.3),
]

# a shape: cdf at scale 1, share of exact zeros, low end, high end, prior weight
_Shape = tuple[Callable[[Array], Array], float, float, float, float]


def _normals() -> list[_Shape]:
    """Normal columns around +1 or (rarer) -1 with several spreads, and around 0."""
    around = [
        (_normal_cdf(sign, spread), 0.0, sign - 3 * spread, sign + 3 * spread, weight)
        for spread in (0.03, 0.08, 0.25, 0.5)
        for sign, weight in ((1.0, 1.0), (-1.0, 0.1))
    ]
    return [*around, (_normal_cdf(0.0, 1.0), 0.0, -3.0, 3.0, 3.0)]


def _lognormals() -> list[_Shape]:
    """Positive skewed columns, without and with exact zeros."""
    skewed = [(_lognormal_cdf(t), 0.0, 0.0, float(np.exp(2 * t)), 1.0) for t in (0.6, 1.2, 2.0)]
    sparse = [
        (_lognormal_cdf(0.8), zeros, 0.0, float(np.exp(1.6)), 0.7)
        for zeros in (0.2, 0.4, 0.7, 0.9, 0.97)
    ]
    return skewed + sparse


def _normal_cdf(mean: float, spread: float) -> Callable[[Array], Array]:
    return lambda x: ndtr((x - mean) / spread)


def _lognormal_cdf(spread: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x > 0, ndtr(np.log(np.where(x > 0, x, 1.0)) / spread), 0.0)


def _shares(
    grid: MagnitudeGrid, cdf: Callable[[Array], Array], zeros: float, scales: Array
) -> Array:
    """Share of each bin (scales, bins) of a shape stretched by each scale."""
    below = cdf(grid.edges / scales[:, None])
    below[:, 0], below[:, -1] = 0.0, 1.0
    shares = np.zeros((len(scales), grid.n_bins))
    shares[:, :-1] = (1 - zeros) * np.diff(below, axis=1)
    shares[:, grid.n_positive] += zeros
    return shares


def _two_values(grid: MagnitudeGrid, larger: float, scales: Array) -> Array:
    """Share of each bin (scales, bins) of a column of zeros and, in part, one other value."""
    shares = np.zeros((len(scales), grid.n_bins))
    shares[:, grid.n_positive] = 1 - larger
    shares[np.arange(len(scales)), grid.bins(scales * 1.0001)] += larger
    return shares


def _of_values(grid: MagnitudeGrid, values: tuple[int, ...], parts: tuple[float, ...]) -> Array:
    """Share of each bin (bins,) of a column of a few values."""
    return np.bincount(
        grid.bins(np.array(values, float)), weights=parts, minlength=grid.n_bins
    ).astype(np.float64)


def _quantile(sorted_values: Array, weights: Array, q: float) -> float:
    where = int(np.searchsorted(np.cumsum(weights), q))
    return float(sorted_values[min(where, len(weights) - 1)])
