"""The typical exposure of records, from one noisy histogram, so that fits start near the mean.

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
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdpfl.federation import BoundedSum, Federation, SiloBudgets, SiloData, SumPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._magnitudes import HIGHEST, LOWEST
from skdpfl.scaling._maps import Array

#: the share of mu that the histogram costs: a hundredth of mu^2
_SHARE = 0.1
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
        return SumPlan(self.budgets, "exposure", (_SHARE * self.budgets.spends,))

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
