"""Counts in few bins, of targets and of exposures.

*The target*, where its moments in its box would be dominated by noise.

::

    bin of y     floor(n (y - low) / (high - low)), at least 0, at most n - 1         NaN: n // 2
    shares       p_hat = p + sigma * normal                     (n,); sigma is known, n = 6
    library      P[h] = shares of a distribution h inside the bounds, of mean m_h, variance v_h
    posterior    w[h] ~ prior[h] exp((<p_hat, P[h]> - |P[h]|^2 / 2) / (sigma^2 + misfit^2))

The library has normal distributions, lognormal ones from either end, and two-point distributions.
The result is the posterior mean of m, the geometric mean of v (a scale that is too large does more
harm than one that is too small), and their standard deviations. Later sums refine them.

Reason: bounds are wide; a target's standard deviation is typically a fifth of half their range. The
noise for sums over the box is calibrated to its ends, while a record changes counts by the same
amount wherever it is. At equal budgets the error of the mean is half of that from sums, and that of
the scale a third.

**Formal guarantee.** For any y (NaN and infinities too), a record adds a one to exactly one bin, so
replacing it changes the counts by at most sqrt(2) in L2, zeroing it by 1:
:mod:`skdpfl.federation._sums` covers these sums like all others. The posterior is computed from the
noisy shares and public numbers.

*The typical exposure* of records, so that fits start near the mean.

::

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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from skdpfl.federation import BoundedSum, Federation, SiloBudgets, SiloData, SumPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._magnitudes import HIGHEST, LOWEST
from skdpfl.scaling._maps import Array

#: bins of the target; shares of real targets differ from those of the library by about this
N_BINS, _MISFIT = 6, 0.02
#: cells that distributions are computed on, a multiple of the bins
_CELLS = 240
#: means and deviations of normals, medians and shapes of lognormals, in half boxes
_MEANS, _DEVIATIONS = np.linspace(-0.95, 0.95, 39), np.geomspace(0.03, 0.7, 16)
_MEDIANS, _SHAPES = np.geomspace(0.02, 1.2, 20), (0.5, 0.9)
#: the shares of one end of two values; prior weights of the three kinds
_ENDS, _WEIGHTS = np.linspace(0.01, 0.99, 50), (0.3, 0.5, 0.2)
#: a normal's mean is within this of the middle, by the prior
_AROUND = 0.5


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


class Seen(NamedTuple):
    """Mean and variance estimated from counts, in half boxes around the middle."""

    mean: float
    variance: float
    variance_error: float
    mean_error: float


class _Library(NamedTuple):
    shares: Array  # (distributions, bins)
    mean: Array
    variance: Array
    prior: Array


def seen_in_bins(shares: Array, noise: float) -> Seen:
    """Return the posterior of mean and variance, from noisy shares (n_bins,) and their noise."""
    library = _library(shares.size)
    half_norms = np.square(library.shares).sum(axis=1) / 2
    logs = (library.shares @ shares - half_norms) / (noise**2 + _MISFIT**2)
    weights = library.prior * np.exp(logs - logs.max())
    weights /= weights.sum()
    mean, variance = float(weights @ library.mean), float(weights @ library.variance)
    return Seen(
        mean,
        float(np.exp(weights @ np.log(library.variance))),
        float(np.sqrt(max(weights @ library.variance**2 - variance**2, 1e-8))),
        float(np.sqrt(max(weights @ library.mean**2 - mean**2, 1e-8))),
    )


@cache
def _library(n_bins: int) -> _Library:
    edges = np.linspace(-1, 1, _CELLS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    mean, deviation = (a.ravel() for a in np.meshgrid(_MEANS, _DEVIATIONS))
    normals = _cells(ndtr((edges - mean[:, None]) / deviation[:, None]))
    rising = [
        _cells(ndtr(np.log(np.maximum(edges + 1, 1e-12) / _MEDIANS[:, None]) / t)) for t in _SHAPES
    ]
    lognormals = np.concatenate([*rising, *(p[:, ::-1] for p in rising)])
    two = np.zeros((len(_ENDS), _CELLS))
    two[:, 0], two[:, -1] = 1 - _ENDS, _ENDS
    cells = np.concatenate([normals, lognormals, two])
    means = cells @ middles
    variances = np.maximum(cells @ middles**2 - means**2, 1e-4)
    kinds = np.exp(-((mean / _AROUND) ** 2) / 2), np.ones(len(lognormals)), np.ones(len(two))
    prior = np.concatenate([w * k / k.sum() for w, k in zip(_WEIGHTS, kinds, strict=True)])
    return _Library(cells.reshape(len(cells), n_bins, -1).sum(axis=2), means, variances, prior)


def _cells(cdf: Array) -> Array:
    """Return the shares of cells (m, cells); the end cells include what is beyond them."""
    cdf[:, 0], cdf[:, -1] = 0.0, 1.0
    return np.diff(cdf, axis=1)


#: the share of mu that the histogram costs: a hundredth of mu^2
_EXPOSURE_SHARE = 0.1
#: smaller counts, in deviations of the noise, do not count
_SURE = 2.0


@dataclass(frozen=True, eq=False)
class ExposureCounts(BoundedSum):
    """How many records have an exposure in each octave."""

    on_grid: ClassVar[bool] = True
    radius: ClassVar[float] = 1.0
    diameter: ClassVar[float] = 2**0.5

    @property
    def shape(self) -> tuple[int, ...]:
        return (HIGHEST - LOWEST,)

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        """See `BoundedSum.sums`; counts are exact."""
        if data.exposure is None:
            raise ValueError("These records have no exposure.")
        with np.errstate(all="ignore"):
            octaves = np.floor(np.log2(data.exposure.astype(np.float64)))
        octaves[~np.isfinite(octaves)] = 0
        bins = np.clip(octaves - LOWEST, 0, self.shape[0] - 1).astype(np.intp)
        for silo in np.flatnonzero(data.sizes).tolist():
            own = bins[data.rows_of(silo, slice(None))]
            yield np.array([silo]), np.bincount(own, minlength=self.shape[0])[None].astype(float)


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
    sure = np.maximum(shares - _SURE * noise, 0.0)
    if not sure.any():
        return 1.0
    middles = np.arange(LOWEST, HIGHEST) + 0.5
    return float(2.0 ** (sure @ middles / sure.sum()))
