"""Counts in few bins, of targets and of exposures.

*The target*, where its moments in its box would be dominated by noise.

::

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

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betainc

from skdpfl.federation import CellCounts, Federation, SiloBudgets, SiloData, SumPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._magnitudes import HIGHEST, LOWEST
from skdpfl.scaling._maps import Array

#: bins of the target; shares of real targets differ from those of beta distributions by about this
N_BINS, _MISFIT = 6, 0.02
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


class Seen(NamedTuple):
    """Mean and variance estimated from counts, in half boxes around the middle."""

    mean: float
    variance: float
    variance_error: float
    mean_error: float


def seen_in_bins(shares: Array, noise: float) -> Seen:
    """Return the posterior of mean and variance, from noisy shares (n_bins,) and their noise."""
    mean, part = (values.ravel() for values in np.meshgrid(_MEANS, _DEVIATIONS))
    both = 1 / part[:, None] ** 2 - 1  # the sum of both parameters
    edges = np.linspace(0, 1, shares.size + 1)
    likely = np.diff(betainc(mean[:, None] * both, (1 - mean[:, None]) * both, edges))
    logs = (likely @ shares - np.square(likely).sum(axis=1) / 2) / (noise**2 + _MISFIT**2)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean, variance = 2 * mean - 1, 4 * mean * (1 - mean) * part**2
    return Seen(
        float(weights @ mean),
        float(np.exp(weights @ np.log(variance))),
        *(math.sqrt(weights @ np.square(v - weights @ v)) for v in (variance, mean)),
    )


#: the share of mu that the histogram costs: a hundredth of mu^2
_EXPOSURE_SHARE = 0.1
#: smaller counts, in deviations of the noise, do not count
_SURE = 2.0


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
    sure = np.maximum(shares - _SURE * noise, 0.0)
    if not sure.any():
        return 1.0
    middles = np.arange(LOWEST, HIGHEST) + 0.5
    return float(2.0 ** (sure @ middles / sure.sum()))
