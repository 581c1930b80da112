"""``DPSimpleImputer``: fills missing values by noisy means, medians or most frequent values."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.federation import SiloBudgets
from skdpfl.preprocessing._centres import Centres
from skdpfl.preprocessing._paying import (
    FLOATS,
    Learning,
    PayingTransformer,
    SiloSource,
    shared_docs,
)
from skdpfl.preprocessing._vocabulary import Vocabulary, beside_threshold
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.scaling import Bounds, read_feature_bounds

_NUMBERS = ("mean", "median")


@shared_docs
@dataclass(eq=False, repr=False)
class DPSimpleImputer(PayingTransformer):
    """Fill missing values by means, medians or most frequent values that were found privately.

    Missing are NaN and None. A constant needs no budget: scikit-learn's
    ``SimpleImputer(strategy="constant")`` learns nothing.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget; ``inf`` computes exact values, without privacy.
    strategy : {"mean", "median", "most_frequent"}, default="mean"
        What fills a column's missing values. "most_frequent" takes strings, too.
    [delta]
    feature_bounds : (low, high) or mapping, default=None
        Public knowledge, for "mean" and "median": two numbers, two arrays of shape (n_features,),
        or a mapping from column to (low, high). Without bounds half of the budget goes into finding
        where the columns' values lie.
    [running]

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        What fills the missing values of each column.
    [cost]
    [fitted]

    See Also
    --------
    DPOneHotEncoder : Categories.
    sklearn.impute.SimpleImputer : The same without privacy.

    Notes
    -----
    **Formal guarantee.** What a silo sends is (epsilon, delta)-differentially private for its
    records, whatever the others hold. Means: sums of values cut to their bounds and the weighted
    number of values, whose sensitivity is proved in :mod:`skdpfl.scaling._centre_sums`; medians,
    and the magnitudes of columns without bounds: counts of a histogram on fixed bins, where a
    replaced record moves two counts of each column by 1. All are Gaussian mechanisms
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
    delta: Any = "auto"
    feature_bounds: Any = None
    trust: str = "silo"
    neighbours: str = "auto"
    silo_column: Any = None
    keep_silo_column: bool = True
    random_state: Any = None

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

    def _checked(self, features: Any, *, reset: bool, **how: Any) -> np.ndarray:
        dtype = FLOATS if self.strategy in _NUMBERS else None
        return super()._checked(features, reset=reset, dtype=dtype)

    def _plan(self, budgets: SiloBudgets, delta: float) -> Learning:
        epsilon, d = float(self.epsilon), self.n_features_in_
        if self.strategy not in _NUMBERS:
            each = beside_threshold(budgets, epsilon, delta)
            self._release: Any = Vocabulary(budgets, np.ones(d, bool), *each)
            tau, most = self._release.threshold, float(budgets.summed.max())
            if tau > most:
                raise ValueError(
                    f"No most frequent value can be found: it would need a noisy count of "
                    f"{tau:.0f}, and the largest silo has {most:.0f} records. {_REMEDY}"
                )
            few = f"Values need {tau:.0f} records in a silo to be found, of {most:.0f} in the "
            advice = f"{few}largest. {_REMEDY}" if tau > most / 4 else ""
            return Learning((self._release.plan,), self._release.what, advice)
        mu = gaussian_mu(epsilon, delta)
        self._release = Centres(budgets, mu, self._bounds(), self.strategy)
        plans = () if self._release.plan is None else (self._release.plan,)
        return Learning(plans, self._release.first, self._release.advice)

    def _bounds(self) -> Bounds | int:
        """Return the declared bounds; without, the number of features."""
        if self.feature_bounds is None:
            return self.n_features_in_
        names = getattr(self, "feature_names_in_", None)
        return read_feature_bounds(self.feature_bounds, self.n_features_in_, names)

    def _learn(self, source: SiloSource) -> str:
        release = self._release
        del self._release  # silos' sizes
        if self.strategy in _NUMBERS:
            self.statistics_, lost = release.found(source)
            return self._doubts(lost, release.far)
        found = release.found(source)
        numeric = source.dtype.kind in "fiub"
        filler: Any = 0 if numeric else "missing_value"
        tops = [counts.index[0] if len(counts) else filler for counts in found]
        self.statistics_ = np.array(tops, dtype=source.dtype if numeric else object)
        lost = np.array([not len(counts) for counts in found])
        return self._doubts(lost, np.zeros_like(lost))

    def _doubts(self, lost: np.ndarray, far: np.ndarray) -> str:
        """Return what to say of columns with too few values, and with ones that are too large."""
        said, names = [], np.asarray(getattr(self, "feature_names_in_", np.arange(len(lost))))
        if lost.any():
            said.append(
                f"Too few values were seen in {names[lost].tolist()!r} to tell from the noise; "
                f"missing ones are filled by {self.statistics_[lost].tolist()!r}. {_REMEDY}"
            )
        if far.any():
            said.append(
                f"Values in {names[far].tolist()!r} are beyond 5e11, where centres are not looked "
                f"for; missing ones are filled by {self.statistics_[far].tolist()!r}. Give "
                "feature_bounds, or values in other units."
            )
        return " ".join(said)

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


_REMEDY = (
    "Give feature_bounds where they are public, raise epsilon, fill by a constant "
    "(scikit-learn's SimpleImputer, which costs nothing), or let a trusted server add the noise "
    '(trust="server").'
)
