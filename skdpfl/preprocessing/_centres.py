r"""Means and medians of columns with missing values, from noisy sums.

::

    box of a column: centre m, half width h            declared, or the magnitudes found first
    mean      a record gives (a o, o u),  o = 1 if it has a value,  u = cut((x - m) / h, -1, 1)
              estimate  m + h S_u / max(S_o, 2 noise)
    median    counts of K equal bins of the box, values beyond it in the end bins;
              estimate  where the running sum of noisy counts passes half of the total
    magnitude counts of MagnitudeGrid's bins (1, 2, 4, ... of either sign); the box is from the
              lowest to the highest bin with a noisy count above 4 times its noise

Formal guarantee
----------------
Over d columns that are not ignored, one record's contribution is a point of the d-fold product of a
fixed set, so squared distances add up over columns.

- *Mean.* The set is (0, 0) and the segment from (a, -1) to (a, 1). A replaced record moves a point
  by at most max(2, sqrt(a^2 + 1)): 2 for a = sqrt(3). Zeroed: sqrt(a^2 + 1), sqrt(2) for a = 1.
  Entries o and u are multiples of 2^-20 (u is cut off towards 0); a multiplies the sum.
- *Counts.* A one in one bin or in none: sqrt(2) for a replaced record, 1 for a zeroed one.

So Delta is sqrt(d) times these; :mod:`skdpfl.preprocessing._sums` has the rest. Boxes found are
functions of a release, with mu^2 / 2 for each of the two. Records with infinite values count as the
box's ends, or, among magnitudes, as none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skdpfl.preprocessing._sums import STEP, Held
from skdpfl.privacy.events import change_of
from skdpfl.scaling import Bounds, MagnitudeGrid

#: a bin counts if it exceeds this many deviations of its noise
_CLEAR = 4.0
#: numbers of a median's bins, and the error of its rank, as a share of the records, to stay below
_BINS, _RANK = (128, 64, 32, 16, 8), 0.02
#: a noise of the mean above this share of the half width is warned about
_COARSE = 0.25


class Box(NamedTuple):
    """An interval for each column; width 0: the column is ignored, or nothing was found."""

    low: np.ndarray
    high: np.ndarray


class Centres:
    """What will be released to find the centres of columns, and the centres.

    ``held`` says whose records they are, ``mu`` is the whole budget. ``bounds`` are those declared,
    or the number of features; ``strategy`` is "mean" or "median".
    """

    def __init__(self, held: Held, mu: float, bounds: Bounds | int, strategy: str) -> None:
        self.held, self.strategy = held, strategy
        declared = isinstance(bounds, Bounds)
        self.bounds = bounds if isinstance(bounds, Bounds) else None
        self.used = bounds.used if isinstance(bounds, Bounds) else np.ones(bounds, dtype=bool)
        self.d = int(self.used.sum())
        #: columns with values beyond the magnitudes that are looked for
        self.far: np.ndarray = np.zeros(len(self.used), dtype=bool)
        if not self.d:
            self.mus: tuple[float, ...] = ()
        else:
            self.mus = (mu,) if declared else (mu / math.sqrt(2),) * 2

    @property
    def _replaced(self) -> bool:
        return self.held.neighbours == "replace"

    def _std(self, mu: float, change: float, norm: float, size: int) -> float:
        """The noise of a total over all groups."""
        one = self.held.noise(mu, change=change, norm=norm, size=size)
        return one * math.sqrt(self.held.groups.size)

    @property
    def _of_counts(self) -> dict[str, float]:
        """Sensitivity and norm of a histogram."""
        return {
            "change": math.sqrt(change_of(self.held.neighbours) * self.d),
            "norm": math.sqrt(self.d),
        }

    @property
    def _weight(self) -> float:
        """The weight a of the number of values."""
        return math.sqrt(3) if self._replaced else 1.0

    @property
    def _of_means(self) -> dict[str, float]:
        norm = math.sqrt(self.d * (self._weight**2 + 1))
        return {"change": 2 * math.sqrt(self.d) if self._replaced else norm, "norm": norm}

    @property
    def advice(self) -> str:
        """What to say from public numbers alone."""
        if not self.mus:
            return ""
        n = float(self.held.groups.sum())
        noise = self._std(self.mus[-1], **self._of_means, size=2 * self.d) / n
        if noise <= _COARSE:
            return ""
        return (
            f"There are too few records ({n:.0f}) for these columns and this budget: the noise of "
            f"the centres is at least {noise:.2g} times half the width of their bounds. Raise "
            "epsilon, or fill by constants, which cost nothing."
        )

    def found(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each column's centre, and which columns have too few values to tell."""
        if self.mus and math.isinf(self.mus[0]):
            return self._exact(X)
        box = self._box(X)
        centres, lost = box.low / 2 + box.high / 2, np.zeros(len(self.used), dtype=bool)
        lost |= self.used & ~np.isfinite(centres)
        centres[lost] = 0.0
        # halves may underflow: 0 / 0 would be NaN, and the sum with it
        open_ = np.flatnonzero(self.used & (box.high / 2 > box.low / 2))
        if open_.size:
            inner = Box(box.low[open_], box.high[open_])
            find = self._means if self.strategy == "mean" else self._medians
            centres[open_], lost[open_] = find(X[:, open_], inner)
        return centres, lost

    def _exact(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lost = self.used & np.isnan(X).all(axis=0)
        of = np.nanmean if self.strategy == "mean" else np.nanmedian
        centres = of(np.where(lost, 0.0, X), axis=0)
        if self.bounds is not None:
            centres = np.where(self.used, centres, self.bounds.center)
        return centres, lost

    def _box(self, X: np.ndarray) -> Box:
        """Return the declared bounds, or those of the magnitudes that are clearly there."""
        if self.bounds is not None:
            return Box(self.bounds.low.astype(float), self.bounds.high.astype(float))
        grid = MagnitudeGrid(1.0)
        bins = np.where(np.isfinite(X), grid.bins(X), -1)
        exact = self.held.counted(bins, grid.n_bins)
        counts, noise = self.held.released(exact, self.mus[0], **self._of_counts, number=0)
        edges = grid.edges
        lows, highs = np.append(edges[:-1], 1.0), np.append(edges[1:], 1.0)
        zero = grid.n_positive
        lows[zero] = highs[zero] = 0.0
        clear = counts > _CLEAR * noise
        self.far = np.any(clear[:, [0, 2 * grid.n_positive]], axis=1)  # the two open bins
        low = np.where(clear, lows, np.inf).min(axis=1)
        high = np.where(clear, highs, -np.inf).max(axis=1)
        none = ~clear.any(axis=1)
        low[none] = high[none] = np.nan
        return Box(low, high)

    def _means(self, X: np.ndarray, box: Box) -> tuple[np.ndarray, np.ndarray]:
        # halves first: a width that overflows would make an infinite value NaN, and the sum with it
        centre, half = box.low / 2 + box.high / 2, box.high / 2 - box.low / 2
        seen = ~np.isnan(X)
        u = np.where(seen, np.clip((X - centre) / half, -1.0, 1.0), 0.0)
        u = np.trunc(u / STEP) * STEP
        exact = np.stack([self.held.added(seen.astype(float)), self.held.added(u)], axis=1)
        exact[:, 0] *= self._weight
        number = len(self.mus) - 1
        noisy, noise = self.held.released(exact, self.mus[-1], **self._of_means, number=number)
        n_seen, its_noise = noisy[0] / self._weight, noise / self._weight
        mean = np.clip(noisy[1] / np.maximum(n_seen, 2 * its_noise), -1.0, 1.0)
        return centre + half * mean, n_seen < 2 * its_noise

    def _medians(self, X: np.ndarray, box: Box) -> tuple[np.ndarray, np.ndarray]:
        k = self._n_bins()
        width = (box.high - box.low) / k
        places = np.clip(np.floor((X - box.low) / width), 0, k - 1)
        bins = np.where(np.isnan(X), -1, places).astype(np.int64)
        number = len(self.mus) - 1
        counts, noise = self.held.released(
            self.held.counted(bins, k), self.mus[-1], **self._of_counts, number=number
        )
        below = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
        # noise makes running sums fall; the nearest that does not: between its largest and least
        rising = np.maximum.accumulate(below, axis=1)
        falling = np.minimum.accumulate(below[:, ::-1], axis=1)[:, ::-1]
        below = (rising + falling) / 2
        total = below[:, -1]
        half = np.maximum(total, 0) / 2
        at = np.array([np.searchsorted(row, h) for row, h in zip(below, half, strict=True)])
        at = np.clip(at, 1, k)
        rows = np.arange(len(at))
        step = below[rows, at] - below[rows, at - 1]
        part = np.where(step > 0, (half - below[rows, at - 1]) / np.where(step > 0, step, 1), 0.5)
        few = total < 2 * noise * math.sqrt(k)
        medians = box.low + width * (at - 1 + np.clip(part, 0, 1))
        return np.where(few, (box.low + box.high) / 2, medians), few

    def _n_bins(self) -> int:
        """As many bins as leave the median's rank this error; from public numbers."""
        n = float(self.held.groups.sum())
        for k in _BINS:
            noise = self._std(self.mus[-1], **self._of_counts, size=k * self.d)
            if noise * math.sqrt(k / 2) <= _RANK * n:
                return k
        return _BINS[-1]
