"""The library of column shapes for noisy counts; it does not depend on data.

A shape is a distribution at scale 1 (normal around 1 or 0, lognormal with and without zeros or
with both signs, squares and products of normals, Cauchy, two values) that is stretched by scales
2^k, or a few small integers, which exist at scale 1 only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.special import gammainc, iti0k0, ndtr

from skdpfl.scaling._magnitudes import MagnitudeGrid, ShapeLibrary
from skdpfl.scaling._maps import Array

#: log2 of the scales that are tried
_SCALES = np.arange(-16, 36, 0.5)
#: prior of a scale's log2: wide, as columns may be lengths in metres or incomes in cents
_PRIOR_LOG2, _PRIOR_OCTAVES = 3.0, 7.0
#: smaller shares are set to 0
_NEGLIGIBLE = 1e-9


@cache
def shape_library(grid: MagnitudeGrid) -> ShapeLibrary:
    """The library on a grid."""
    scales = 2.0**_SCALES
    shapes = [*_normals(), *_lognormals(), *_GATHERED, *_WIDE]
    shares = [_shares(grid, cdf, zeros, scales) for cdf, zeros, *_ in shapes]
    shares += [_two_values(grid, ones, scales) for ones in _ONES]
    ends = [(low, high) for *_, low, high, _ in shapes] + [(0.0, 2.0**grid.octaves)] * len(_ONES)
    weights = [weight for *_, weight in shapes] + [0.05] * len(_ONES)
    own = len(shares)  # the shapes from here on exist at scale 1 only
    for values, parts, weight in _INTEGERS:
        shares.append(np.tile(_of_values(grid, values, parts), (len(scales), 1)))
        ends.append((float(min(values)), float(max(values))))
        weights.append(weight * len(scales))
    bonus = np.zeros((len(shares), len(scales)), np.float32)
    bonus[own:, scales != 1] = -np.inf
    prior = np.exp(-(((_SCALES - _PRIOR_LOG2) / _PRIOR_OCTAVES) ** 2) / 2)
    low, high = np.array(ends, np.float32).T[:, :, None] * scales.astype(np.float32)
    rounded = np.array(shares, np.float32)
    rounded[rounded < _NEGLIGIBLE] = 0.0
    return ShapeLibrary(
        rounded,
        low,
        high,
        (np.array(weights) / np.sum(weights)).astype(np.float32),
        (prior / prior.sum()).astype(np.float32),
        bonus,
        tuple(i for i, shape in enumerate(shapes) if shape in _WIDE),
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
    skewed = [(_lognormal_cdf(t), 0.0, 0.0, float(np.exp(2 * t)), 1.0) for t in (0.6, 1.2)]
    sparse = [
        (_lognormal_cdf(0.8), zeros, 0.0, float(np.exp(1.6)), 0.7)
        for zeros in (0.2, 0.4, 0.7, 0.9, 0.97)
    ]
    return skewed + sparse


def _normal_cdf(mean: float, spread: float) -> Callable[[Array], Array]:
    return lambda x: ndtr((x - mean) / spread)


def _lognormal_cdf(spread: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x > 0, ndtr(np.log(np.where(x > 0, x, 1.0)) / spread), 0.0)


def _both_signs(cdf: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: 0.5 + 0.5 * np.sign(x) * cdf(np.abs(x))


def _product_cdf(x: Array) -> Array:
    """Return that of the product of two normals, whose density is K0(|x|) / pi."""
    return 0.5 + np.sign(x) * np.minimum(iti0k0(np.minimum(np.abs(x), 700.0))[1] / np.pi, 0.5)


#: columns that gather around 0, but not far out: squares, less even ones, products of normals
_GATHERED: list[_Shape] = [
    (lambda x: gammainc(0.5, np.maximum(x, 0.0)), 0.0, 0.0, 3.0, 0.3),
    (lambda x: gammainc(0.25, np.maximum(x, 0.0)), 0.0, 0.0, 2.0, 0.1),
    (_product_cdf, 0.0, -3.0, 3.0, 0.2),
]
#: columns over many powers of ten, of one sign and of both
_WIDE: list[_Shape] = [
    (_lognormal_cdf(2.0), 0.0, 0.0, float(np.exp(4.0)), 1.0),
    (_lognormal_cdf(3.0), 0.0, 0.0, float(np.exp(4.0)), 0.1),
    (lambda x: 0.5 + np.arctan(x) / np.pi, 0.0, -6.0, 6.0, 0.2),
    (_both_signs(_lognormal_cdf(2.5)), 0.0, -float(np.exp(3.0)), float(np.exp(3.0)), 0.1),
]


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
