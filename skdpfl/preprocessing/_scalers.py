"""``DPStandardScaler`` and ``DPMinMaxScaler``: scalers fitted within a privacy budget."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from skdpfl import scaling
from skdpfl.federation import SiloBudgets
from skdpfl.preprocessing import _paying
from skdpfl.privacy.events import SecureAggregation

#: the range of DPMinMaxScaler: this many standard deviations on each side of the mean
_REACH = 2.5


@dataclass(eq=False, repr=False)
class PrivateScaler(_paying.PayingTransformer):
    """Base class of transformers that spend their budget on the scales of the features."""

    epsilon: float = 1.0
    _: KW_ONLY
    delta: Any = "auto"
    feature_bounds: Any = None
    trust: str | SecureAggregation = "silo"
    silo_column: Any = None
    random_state: Any = None

    def inverse_transform(self, X: Any) -> Any:
        """Undo the scaling; ignored features (low == high) are set to their bound.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        array or DataFrame
        """
        return self._transformed(X, inverse=True)

    def _checked(self, features: Any, *, reset: bool, **how: Any) -> scaling.Array:
        return super()._checked(features, reset=reset, dtype=_paying.FLOATS)

    def _plan(self, budgets: SiloBudgets, delta: float) -> _paying.Learning:
        bounds, n_features = self.feature_bounds, self.n_features_in_
        if bounds is not None:
            names = getattr(self, "feature_names_in_", None)
            bounds = scaling.read_feature_bounds(bounds, n_features, names)
        plan = scaling.plan_scaling(
            budgets,
            n_features,
            scaling="private",
            feature_bounds=bounds,
            shares=scaling.EVERYTHING,
        )
        self._scaling_plan = plan = self._without_known(plan, bounds)
        first = None if plan.counts is None else plan.counts.what
        return _paying.Learning(() if plan.is_free else (plan.sums,), first, plan.advice)

    def _without_known(
        self, plan: scaling.ScalingPlan, bounds: scaling.Bounds | None
    ) -> scaling.ScalingPlan:
        """Return the plan without releases that the bounds make unnecessary."""
        return plan

    def _learn(self, source: _paying.SiloSource) -> str:
        plan = self._scaling_plan
        del self._scaling_plan  # silos' sizes
        self.scaling_, doubts = self._scaling(plan, source)
        self._set_attributes()
        return " ".join(doubts)

    def _scaling(
        self, plan: scaling.ScalingPlan, source: _paying.SiloSource
    ) -> tuple[scaling.AffineScaling, list[str]]:
        """Return the scaling, and warnings; only this method reads values."""
        raise NotImplementedError

    def _doubts(self, far: tuple[int, ...], unseen: bool) -> list[str]:
        """Return warnings about features out of range, by the names of their columns."""
        return scaling.doubts_about(far, unseen, names=getattr(self, "feature_names_in_", None))

    def _set_attributes(self) -> None:
        """Set the fitted attributes of scikit-learn's scaler with the same name."""
        raise NotImplementedError

    def _map(self, X: scaling.Array, inverse: bool) -> scaling.Array:
        with np.errstate(over="ignore"):
            mapped = self.scaling_.inverse(X) if inverse else self.scaling_.transform(X)
        # one record's large value must not become an infinite one, which later steps refuse
        over = np.isinf(mapped) & np.isfinite(X)
        most = np.finfo(mapped.dtype).max
        return np.where(over, np.copysign(most, mapped), mapped) if over.any() else mapped


@_paying.shared_docs
class DPStandardScaler(PrivateScaler):
    """Standardize features with means and variances estimated within a privacy budget.

    With ``feature_bounds`` the whole budget is spent on means and variances within the bounds;
    otherwise half of it is spent first on the magnitude of each feature. Estimates are shrunk
    towards those of a typical feature if the noise is large. Missing and infinite values count as
    the middle of a feature's range, and ``transform`` does not change them.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget; ``inf`` computes exact moments, without privacy.
    [delta]
    [feature_bounds]
    [trust]
    [silo_column]
    [random_state]

    Attributes
    ----------
    mean_, var_, scale_ : ndarray of shape (n_features,)
        The estimated mean, variance and standard deviation. ``scale_`` is ``inf`` for features
        with ``low == high``, which are ignored.
    scaling_ : object
        The scaling.
    [cost]
    [fitted]

    See Also
    --------
    DPMinMaxScaler : Maps ranges to [0, 1].

    Notes
    -----
    **Formal guarantee.** The messages of a silo are (epsilon, delta)-differentially private for its
    records (one is replaced), for any data of the other silos: they are a composition of Gaussian
    mechanisms on sums of bounded contributions, as proved in :mod:`skdpfl.scaling._columns`. An
    outlier cannot change a sum by more than any other record.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.preprocessing import DPStandardScaler
    >>> X = np.random.default_rng(0).normal(40, 12, (10_000, 3))
    >>> scaler = DPStandardScaler(feature_bounds=(0, 100), random_state=0).fit(X)
    >>> scaler.privacy_spent_
    PrivacySpent(ε=1.00, δ=1e-05, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> bool(abs(scaler.mean_ - 40).max() < 2)
    True
    """

    def _scaling(
        self, plan: scaling.ScalingPlan, source: _paying.SiloSource
    ) -> tuple[scaling.AffineScaling, list[str]]:
        scales = scaling.run_scaling(plan, source.federation, source.streams)
        assert isinstance(scales.features, scaling.AffineScaling)
        return scales.features, self._doubts(scales.far_features, scales.unseen_features)

    def _set_attributes(self) -> None:
        self.mean_, self.scale_ = self.scaling_.center.copy(), self.scaling_.scale.copy()
        self.var_ = self.scale_**2


@_paying.shared_docs
class DPMinMaxScaler(PrivateScaler):
    """Scale features to [0, 1] by public bounds, or by a range estimated within a budget.

    With ``feature_bounds`` nothing is estimated and nothing is spent. Without, the range is 2.5
    standard deviations on each side of the mean, both estimated privately: the minimum and maximum
    are records and cannot be released. Values beyond the range are not clipped; missing and
    infinite ones are treated as by :class:`DPStandardScaler`.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget; ``inf`` takes the exact extremes, without privacy.
    [delta]
    [feature_bounds]
    [trust]
    [silo_column]
    [random_state]

    Attributes
    ----------
    data_min_, data_max_, data_range_ : ndarray of shape (n_features,)
        The range that is mapped to [0, 1], and its length (``inf`` for features with
        ``low == high``, which are ignored).
    scaling_ : object
        The scaling.
    privacy_spent_ : PrivacySpent
        The cost of the fit; zero with ``feature_bounds``.
    [fitted]

    See Also
    --------
    DPStandardScaler : Centers and scales to unit variance.

    Notes
    -----
    **Formal guarantee.** As for :class:`DPStandardScaler`; with bounds the output does not depend
    on the records.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.preprocessing import DPMinMaxScaler
    >>> X = np.array([[20.0, 1.0], [70.0, 3.0]])
    >>> DPMinMaxScaler(feature_bounds=([0, 0], [100, 4])).fit_transform(X)
    array([[0.2 , 0.25],
           [0.7 , 0.75]])
    """

    def _without_known(
        self, plan: scaling.ScalingPlan, bounds: scaling.Bounds | None
    ) -> scaling.ScalingPlan:
        if bounds is None:
            return plan
        return replace(plan, features="bounds", counts=None, moments=(), advice="")

    def _scaling(
        self, plan: scaling.ScalingPlan, source: _paying.SiloSource
    ) -> tuple[scaling.AffineScaling, list[str]]:
        bounds, doubts = plan.feature_bounds, list[str]()
        if bounds is not None:
            low, high = bounds.low, bounds.high
        elif source.records is not None:
            X = source.records
            finite = np.isfinite(X)
            low = np.where(finite, X, np.inf).min(axis=0)
            high = np.where(finite, X, -np.inf).max(axis=0)
            low, high = np.where(low <= high, (low, high), 0.0)
        else:
            learnt = scaling.find_moments(
                plan, scaling.ScalingRun(plan, source.federation, source.streams)
            )
            low, high = range_of(plan, learnt)
            far = tuple(np.flatnonzero(learnt.counted.beyond).tolist())
            doubts = self._doubts(far, learnt.counted.unseen)
        return scaling.AffineScaling(low, np.where(high > low, high - low, np.inf)), doubts

    def _set_attributes(self) -> None:
        self.data_min_, self.data_range_ = self.scaling_.center.copy(), self.scaling_.scale.copy()
        self.data_max_ = self.data_min_ + self.data_range_


def range_of(
    plan: scaling.ScalingPlan, learnt: scaling.FoundMoments
) -> tuple[scaling.Array, scaling.Array]:
    """Return the mean plus and minus some deviations, within the box found by counts."""
    middle = learnt.last.center + learnt.last.half * learnt.moments.mean
    reach = _REACH * learnt.last.half * scaling.deviations(learnt.moments, plan.floor)
    first = learnt.first
    low = np.maximum(middle - reach, first.center - first.half)
    return low, np.maximum(np.minimum(middle + reach, first.center + first.half), low + reach)
