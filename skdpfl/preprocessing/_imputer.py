"""``DPSimpleImputer``: fill missing values by noisy means, medians or most frequent values.

Means and medians of columns with missing values are from noisy sums.

::

    box of a column: centre m, half width h            declared, or the magnitudes found first
    mean      a record gives (a o, o u),  o = 1 if it has a value,  u = cut((x - m) / h, -1, 1)
              estimate  m + h S_u / max(S_o, 2 noise)
    median    counts of K equal bins of the box, values beyond it in the end bins;
              estimate  where the running sum of noisy counts passes half of the total
    magnitude counts of MagnitudeGrid's bins (1, 2, 4, ... of either sign) give the box

:mod:`skdpfl.scaling._centre_sums` has the sums, their cost, and the boxes. If boxes are found by a
release, each of the two releases spends mu^2 / 2. Infinite values count as the box's ends; among
magnitudes they are not counted.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdpfl import scaling
from skdpfl._arguments import check_choice
from skdpfl.federation import BoundedSum, SiloBudgets, SumPlan
from skdpfl.preprocessing import _paying
from skdpfl.preprocessing._encoder import Vocabulary, beside_threshold

#: numbers of a quantile's bins, and the error of its rank, as a share of the records, to stay below
_BINS, _RANK = (128, 64, 32, 16, 8), 0.02
#: a noise of the mean above this share of the half width is warned about
_COARSE = 0.25


def enough_bins(
    used: np.ndarray, largest: int, noise_of: Callable[[BoundedSum], float], n: float
) -> int:
    """Return the most bins of the used columns whose noise tells ranks among n records well."""

    def error(k: int) -> float:
        noise = noise_of(scaling.Bins(used, largest, np.zeros((int(used.sum()), k + 1))))
        return noise * math.sqrt(k / 2)

    return next((k for k in _BINS if error(k) <= _RANK * n), _BINS[-1])


class Centres:
    """The releases for the centres of columns, and the centres.

    ``mu`` is the whole budget. ``bounds`` are the declared ones, or the number of features;
    ``strategy`` is "mean" or "median".
    """

    def __init__(
        self, budgets: SiloBudgets, mu: float, bounds: scaling.Bounds | int, strategy: str
    ) -> None:
        self.budgets, self.strategy = budgets, strategy
        self.bounds = bounds if isinstance(bounds, scaling.Bounds) else None
        self.used = np.ones(bounds, bool) if isinstance(bounds, int) else bounds.used
        self.d = int(self.used.sum())
        #: columns with values beyond the magnitudes that are looked for
        self.far: np.ndarray = np.zeros(len(self.used), dtype=bool)
        several = (mu,) if self.bounds is not None else (mu / math.sqrt(2),) * 2
        mus = tuple(np.full(budgets.n_silos, each) for each in several if self.d)
        self.plan = SumPlan(budgets, "preprocessing", mus) if self.d else None

    @property
    def _largest(self) -> int:
        return int(self.budgets.summed.max())

    @property
    def first(self) -> BoundedSum | None:
        """The first sum."""
        if self.bounds is None:
            return scaling.Magnitudes(self.used, self._largest)
        used = self.used & (self.bounds.high / 2 > self.bounds.low / 2)
        box = scaling.Bounds(self.bounds.low[used], self.bounds.high[used])
        return self._asked(used, box) if used.any() else None

    def _asked(self, used: np.ndarray, box: scaling.Bounds, n_bins: int = 0) -> BoundedSum:
        """Return the sum for the centres of some columns inside boxes."""
        if self.strategy == "mean":
            return scaling.Means(used, self._largest, *box, self.budgets.neighbours == "replace")
        return scaling.Bins(used, self._largest, box.edges(n_bins or self._n_bins()))

    def _total(
        self, source: _paying.SiloSource, number: int, what: BoundedSum
    ) -> tuple[np.ndarray, float]:
        """Return the noisy total over all silos, and the standard deviation of its noise."""
        assert self.plan is not None
        sums = self.plan.question(number, what).each(source.federation, source.streams)
        std = float(self.plan.noised(number, what).std[0])
        return sums.sum(axis=0), std * math.sqrt(len(sums))

    def _noise(self, what: BoundedSum) -> float:
        """The noise of a total of the last release."""
        assert self.plan is not None
        n_sums = 1 if self.budgets.as_one else self.budgets.n_silos
        last = self.plan.numbers[-1]
        return float(self.plan.noised(last, what).std[0]) * math.sqrt(n_sums)

    @property
    def _n(self) -> float:
        return float(self.budgets.units.sum())

    @property
    def advice(self) -> str:
        """Warnings from public numbers alone."""
        if self.plan is None:
            return ""
        nothing = np.zeros(0)
        replaced = self.budgets.neighbours == "replace"
        noise = (
            self._noise(scaling.Means(self.used, self._largest, nothing, nothing, replaced))
            / self._n
        )
        if noise <= _COARSE:
            return ""
        return (
            f"There are too few records ({self._n:.0f}) for these columns and this budget: the "
            f"noise of the centres is at least {noise:.2g} times half the width of their bounds."
        )

    def find(self, source: _paying.SiloSource) -> tuple[np.ndarray, np.ndarray]:
        """Return each column's centre, and which columns have too few values for one."""
        if source.records is not None and self.plan is not None:
            return self._exact(np.asarray(source.records, dtype=np.float64))
        box = self._box(source)
        centres, lost = box.center, np.zeros(len(self.used), dtype=bool)
        lost |= self.used & ~np.isfinite(centres)
        centres[lost] = 0.0
        # halves may underflow: 0 / 0 would be NaN, and the sum with it
        open_ = self.used & (box.high / 2 > box.low / 2)
        if open_.any():
            inner = scaling.Bounds(box.low[open_], box.high[open_])
            find = self._means if self.strategy == "mean" else self._medians
            centres[open_], lost[open_] = find(source, open_, inner)
        return centres, lost

    def _exact(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lost = self.used & np.isnan(X).all(axis=0)
        of = np.nanmean if self.strategy == "mean" else np.nanmedian
        centres = of(np.where(lost, 0.0, X), axis=0)
        if self.bounds is not None:
            centres = np.where(self.used, centres, self.bounds.center)
        return centres, lost

    def _box(self, source: _paying.SiloSource) -> scaling.Bounds:
        """Return the declared bounds, or those of the magnitudes with significant counts."""
        if self.bounds is not None:
            return self.bounds
        counts, noise = self._total(source, 0, scaling.Magnitudes(self.used, self._largest))
        box, self.far = scaling.boxes_of(counts, noise)
        return box

    def _means(
        self, source: _paying.SiloSource, used: np.ndarray, box: scaling.Bounds
    ) -> tuple[np.ndarray, np.ndarray]:
        what = self._asked(used, box)
        assert isinstance(what, scaling.Means)
        assert self.plan is not None
        noisy, noise = self._total(source, self.plan.numbers[-1], what)
        centre, half = box.center, box.half_range
        n_seen, its_noise = noisy[0] / what.a, noise / what.a
        mean = np.clip(noisy[1] / np.maximum(n_seen, 2 * its_noise), -1.0, 1.0)
        return centre + half * mean, n_seen < 2 * its_noise

    def _medians(
        self, source: _paying.SiloSource, used: np.ndarray, box: scaling.Bounds
    ) -> tuple[np.ndarray, np.ndarray]:
        k = self._n_bins()
        assert self.plan is not None
        counts, noise = self._total(source, self.plan.numbers[-1], self._asked(used, box, k))
        medians = scaling.quantiles(counts, box.edges(k), np.array([0.5]))[:, 0]
        few = counts.sum(axis=1) < 2 * noise * math.sqrt(k)
        return np.where(few, (box.low + box.high) / 2, medians), few

    def _n_bins(self) -> int:
        """The number of bins for the error of the median's rank; from public numbers."""
        return enough_bins(self.used, self._largest, self._noise, self._n)


_NUMBERS = ("mean", "median")


@_paying.shared_docs
@dataclass(eq=False, repr=False)
class DPSimpleImputer(_paying.PayingTransformer):
    """Fill missing values with private means, medians or most frequent values.

    NaN and None count as missing. A constant needs no budget: scikit-learn's
    ``SimpleImputer(strategy="constant")`` learns nothing.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget; ``inf`` computes exact values, without privacy.
    strategy : {"mean", "median", "most_frequent"}, default="mean"
        The value that fills missing ones. "most_frequent" also works for strings.
    [delta]
    feature_bounds : (low, high) or mapping, default=None
        Public ranges, for "mean" and "median": two numbers, two arrays of shape (n_features,), or a
        mapping from column to (low, high). Without bounds, half of the budget is spent on
        estimating the ranges.
    [running]

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        The fill value of each column.
    [cost]
    [fitted]

    See Also
    --------
    DPOneHotEncoder : Categories.
    sklearn.impute.SimpleImputer : The same without privacy.

    Notes
    -----
    **Formal guarantee.** The messages of a silo are (epsilon, delta)-differentially private for its
    records, for any data of the others. Means: sums of values clipped to their bounds and the
    weighted number of values, whose sensitivity is proved in :mod:`skdpfl.scaling._centre_sums`;
    medians, and the magnitudes of columns without bounds: counts of a histogram on fixed bins,
    where replacing a record changes two counts of each column by 1. All are Gaussian mechanisms
    (:mod:`skdpfl.federation._sums`). Most frequent values: noisy counts above a threshold
    (:mod:`skdpfl.scaling._value_counts`), which costs a hundredth of delta.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.preprocessing import DPSimpleImputer
    >>> X = np.random.default_rng(0).normal(60, 10, (2000, 1))
    >>> X[:50] = np.nan
    >>> imputer = DPSimpleImputer(feature_bounds=(0, 120), random_state=0).fit(X)
    >>> bool(abs(imputer.statistics_[0] - 60) < 3), bool(np.isnan(imputer.transform(X)).any())
    (True, False)
    >>> imputer.privacy_spent_
    PrivacySpent(ε=1.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    """

    epsilon: float = 1.0
    _: KW_ONLY
    strategy: str = "mean"
    feature_bounds: Any = None
    neighbours: str = "auto"
    keep_silo_column: bool = True

    def _check(self) -> None:
        super()._check()
        if isinstance(self.strategy, str) and self.strategy == "constant":
            raise ValueError(
                'strategy="constant" learns nothing and needs no budget: use scikit-learn\'s '
                'SimpleImputer(strategy="constant", fill_value=...).'
            )
        check_choice("strategy", self.strategy, (*_NUMBERS, "most_frequent"))
        if self.feature_bounds is not None and self.strategy == "most_frequent":
            raise ValueError('feature_bounds are for strategy="mean" and "median"; leave them out.')

    def _read(self, features: Any, *, reset: bool, **how: Any) -> np.ndarray:
        dtype = _paying.FLOATS if self.strategy in _NUMBERS else None
        return super()._read(features, reset=reset, dtype=dtype)

    def _plan(self, budgets: SiloBudgets, delta: float) -> _paying.Learning:
        epsilon, d = float(self.epsilon), self.n_features_in_
        if self.strategy not in _NUMBERS:
            each = beside_threshold(budgets, epsilon, delta)
            self._release: Any = Vocabulary(budgets, np.ones(d, bool), self._kinds, *each)
            tau, most = self._release.threshold, float(budgets.summed.max())
            if tau > most:
                raise ValueError(
                    f"No most frequent value can be found: it would need a noisy count of "
                    f"{tau:.0f}, and the largest silo has {most:.0f} records. {_REMEDY}"
                )
            few = (
                f"Values need {tau:.0f} records in a silo to be found; there are {most:.0f} in the "
            )
            advice = f"{few}largest. {_REMEDY}" if tau > most / 4 else ""
            return _paying.Learning((self._release.plan,), self._release.what, advice)
        self._release = Centres(budgets, float(budgets.mu[0]), self._bounds(), self.strategy)
        plans = () if self._release.plan is None else (self._release.plan,)
        return _paying.Learning(plans, self._release.first, self._release.advice)

    def _bounds(self) -> scaling.Bounds | int:
        """Return the declared bounds; without, the number of features."""
        if self.feature_bounds is None:
            return self.n_features_in_
        names = getattr(self, "feature_names_in_", None)
        return scaling.read_feature_bounds(self.feature_bounds, self.n_features_in_, names)

    def _learn(self, source: _paying.SiloSource) -> str:
        release = self._release
        del self._release  # silos' sizes
        if self.strategy in _NUMBERS:
            self.statistics_, lost = release.find(source)
            return self._doubts(lost, release.far)
        counted = release.find(source)
        words = [kind == "category" for kind in self._kinds]
        fillers = ["missing_value" if word else 0.0 for word in words]
        tops = [
            each.index[0] if len(each) else fill
            for each, fill in zip(counted, fillers, strict=True)
        ]
        self.statistics_ = np.array(tops, dtype=object if any(words) else np.float64)
        lost = np.array([not len(counts) for counts in counted])
        return self._doubts(lost, np.zeros_like(lost))

    def _doubts(self, lost: np.ndarray, far: np.ndarray) -> str:
        """Return warnings about columns with too few values, or with too large ones."""
        doubts, names = [], np.asarray(getattr(self, "feature_names_in_", np.arange(len(lost))))
        if lost.any():
            doubts.append(
                f"Too few values in {names[lost].tolist()!r} to distinguish them from noise; "
                f"missing ones are filled with {self.statistics_[lost].tolist()!r}. {_REMEDY}"
            )
        if far.any():
            doubts.append(
                f"Values in {names[far].tolist()!r} are beyond 5e11; missing ones are filled with "
                f"{self.statistics_[far].tolist()!r}. Give feature_bounds, or other units."
            )
        return " ".join(doubts)

    def _map(self, X: np.ndarray, inverse: bool) -> np.ndarray:
        missing = pd.isna(X)
        filled = X.copy()
        rows, columns = np.nonzero(missing)
        if not rows.size:
            return filled
        filled[rows, columns] = self.statistics_[columns]
        return filled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


_REMEDY = "Give feature_bounds if they are public, raise epsilon, or fill with a constant."
