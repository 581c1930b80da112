"""``DPStandardScaler`` and ``DPMinMaxScaler``: scalers fitted within a privacy budget.

``DPSplineTransformer`` makes the columns of an additive model, as a step of a pipeline.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from skdpfl import scaling
from skdpfl._arguments import check_count, is_auto
from skdpfl.federation import SiloBudgets
from skdpfl.preprocessing import _paying
from skdpfl.scaling import Array, CurvePlan, doubts_about, read_feature_bounds
from skdpfl.table import indicators_of

#: the range of DPMinMaxScaler: this many standard deviations on each side of the mean
_RANGE_DEVIATIONS = 2.5


@dataclass(eq=False, repr=False)
class PrivateScaler(_paying.PayingTransformer):
    """Base class of transformers that spend their budget on the scales of the features."""

    epsilon: float = 1.0
    _: KW_ONLY
    feature_bounds: Any = None

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

    def _read(self, features: Any, *, reset: bool, **how: Any) -> scaling.Array:
        return super()._read(features, reset=reset, dtype=_paying.FLOATS)

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
    mechanisms on sums of bounded contributions, as proved in :mod:`skdpfl.scaling._moments`. An
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
            far = tuple(np.flatnonzero(learnt.beyond).tolist())
            doubts = self._doubts(far, learnt.unseen)
        return scaling.AffineScaling(low, np.where(high > low, high - low, np.inf)), doubts

    def _set_attributes(self) -> None:
        self.data_min_, self.data_range_ = self.scaling_.center.copy(), self.scaling_.scale.copy()
        self.data_max_ = self.data_min_ + self.data_range_


def range_of(
    plan: scaling.ScalingPlan, learnt: scaling.LearntMoments
) -> tuple[scaling.Array, scaling.Array]:
    """Return the mean plus and minus some deviations, within the box found by counts."""
    (center, half), moments = learnt.boxes, learnt.moments
    middle, reach = (
        center + half * moments.mean,
        _RANGE_DEVIATIONS * half * scaling.deviations(moments, plan.floor),
    )
    low = np.maximum(middle - reach, center - half)
    return low, np.maximum(np.minimum(middle + reach, center + half), low + reach)


#: pieces of a curve, the most of them, and pieces for each quantile that is a bin
_KNOTS, _MOST_KNOTS, _PER_BIN = 8, 64, 2


@_paying.shared_docs
@dataclass(eq=False, repr=False)
class DPSplineTransformer(_paying.PayingTransformer):
    """Add ranks and bins of each column, so that linear models of them are non-linear.

    Each column is expanded to its value, mapped to [-1, 1] by its bounds; its rank, piecewise
    linear through quantiles of one noisy histogram, in [-1, 1]; and indicator columns of bins
    between quantiles. Unused bins are 0 everywhere, so that the number of columns is public. All
    columns are in [-1, 1], which a later estimator in a pipeline uses as bounds. Columns of dtype
    bool are passed through, need no bounds, and cost nothing.

    An estimator's ``model="additive"`` does the same within one budget, and scales the columns by
    the histogram; this transformer is for other estimators, and for a
    :class:`~skdpfl.model_selection.SharedBudget`. Both need bounds.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget; ``inf`` uses exact counts.
    knots : "auto" or int, default="auto"
        The number of pieces of a rank, with half as many bins; "auto" is 8.
    [delta]
    [feature_bounds]
    [trust]
    [silo_column]
    [random_state]

    Attributes
    ----------
    curves_ : Expansion
        The map, with the estimated edges.
    [cost]
    [fitted]

    See Also
    --------
    skdpfl.models.Additive : The same inside an estimator.
    sklearn.preprocessing.SplineTransformer : Splines, at no cost if the knots are given.

    Notes
    -----
    **Formal guarantee.** Any record adds a one to exactly one cell of each of d columns, so
    replacing it changes the counts by at most sqrt(2 d) in L2. The counts are released once, with
    Gaussian noise; edges follow from them and public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.preprocessing import DPSplineTransformer
    >>> X = np.random.default_rng(0).uniform(0, 9, (2000, 1))
    >>> curves = DPSplineTransformer(feature_bounds=(0, 9), knots=4, random_state=0).fit(X)
    >>> curves.transform([[0.0], [9.0]])[:, :2].round(1)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> curves.get_feature_names_out()[:3].tolist()
    ['x0', 'x0: rank', 'x0: bin 0']
    """

    epsilon: float = 1.0
    _: KW_ONLY
    knots: Any = "auto"
    feature_bounds: Any = None

    def _check(self) -> None:
        super()._check()
        if not is_auto(self.knots):
            check_count("knots", self.knots, low=2, words=' (or "auto")')
            if self.knots > _MOST_KNOTS:
                raise ValueError(f"knots must be at most {_MOST_KNOTS}; got {self.knots!r}.")

    def _read(self, features: Any, *, reset: bool, **how: Any) -> Array:
        if reset:
            self._indicators = indicators_of(features)
        return super()._read(features, reset=reset, dtype=_paying.FLOATS)

    def _plan(self, budgets: SiloBudgets, delta: float) -> _paying.Learning:
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        declared = np.zeros(d) if self._indicators is None else self._indicators
        self._indicators = indicators = np.asarray(declared, bool)
        if self.feature_bounds is None and not indicators.all():
            raise ValueError("Give feature_bounds=(low, high), public ranges of the columns.")
        declared = (0.0, 1.0) if self.feature_bounds is None else self.feature_bounds
        low, high = np.where(indicators, ([0.0], [1.0]), np.nan)
        bounds = read_feature_bounds(declared, d, names, (low, high))
        columns = np.flatnonzero(bounds.used & ~indicators)
        knots = _KNOTS if is_auto(self.knots) else int(self.knots)
        own = [f"x{j}" for j in range(d)] if names is None else [str(name) for name in names]
        pairs = np.zeros((0, 2), np.int64)
        plan = CurvePlan(
            budgets, tuple(own), bounds, columns, knots, knots // _PER_BIN, pairs, share=1.0
        )
        self._curve_plan = plan
        return _paying.Learning(plan.sums, plan.histogram if plan.sums else None)

    def _learn(self, source: _paying.SiloSource) -> str:
        plan = self._curve_plan
        del self._curve_plan  # silos' sizes
        self.curves_, missed = plan.find(source.federation, source.streams)
        self._names, self._coded = plan.names, plan.bounds.used & ~self._indicators
        names = getattr(self, "feature_names_in_", None)
        return " ".join(doubts_about((), False, missed, names))

    def _map(self, X: Array, inverse: bool) -> Array:
        columns, d = self.curves_.transform(X), self.n_features_in_
        low, high = self.curves_.low, self.curves_.high
        half = np.where(self._coded, high / 2 - low / 2, 1.0)
        middle = np.where(self._coded, low / 2 + high / 2, 0.0)
        values = np.clip((columns[:, :d] - middle) / half, -1, 1)
        columns[:, :d] = np.where(low == high, 0.0, values)  # ignored features
        return columns

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        own = self._names[len(names) :]
        renamed = dict(zip(self._names[: len(names)], names.tolist(), strict=True))
        added = [f"{renamed[name]}: {part}" for name, _, part in (n.rpartition(": ") for n in own)]
        return np.array([*names.tolist(), *added], dtype=object)
