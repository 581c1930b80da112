"""``DPSplineTransformer``: the columns of an additive model as a step of a pipeline."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from skdpfl._arguments import check_count, is_auto
from skdpfl.federation import Federation, Schema, SiloBudgets
from skdpfl.preprocessing import _paying
from skdpfl.privacy.events import SecureAggregation
from skdpfl.scaling import Array, CurvePlan, doubts_about, read_feature_bounds
from skdpfl.table import indicators_of

#: pieces of a curve, the most of them, and pieces for each quantile that is a bin
_KNOTS, _MOST_KNOTS, _PER_BIN = 8, 64, 2


@_paying.shared_docs
@dataclass(eq=False, repr=False)
class DPSplineTransformer(_paying.PayingTransformer):
    """Add ranks and bins of each column, so that linear models of them are non-linear.

    Each column is expanded to its value, mapped to [-1, 1] by its bounds; its rank, piecewise
    linear through quantiles of one noisy histogram, in [-1, 1]; and indicator columns of bins:
    cells with much of the mass are separate bins, the rest is split at quantiles. Unused bins are 0
    everywhere, so that the number of columns is public. All columns are in [-1, 1], which a later
    estimator in a pipeline uses as bounds. Columns of dtype bool are passed through, need no
    bounds, and cost nothing.

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
    delta: Any = "auto"
    feature_bounds: Any = None
    trust: str | SecureAggregation = "silo"
    silo_column: Any = None
    random_state: Any = None

    def fit_federation(self, federation: Federation, facts: Schema) -> Any:
        """Learn from remote silos, which add the noise themselves.

        Parameters
        ----------
        federation : Federation
            The silos.
        facts : Schema
            Public facts of their data.

        Returns
        -------
        self : object
        """
        indicators = facts.indicators
        self._indicators = None if indicators is None else np.asarray(indicators, bool)
        return super().fit_federation(federation, facts)

    def _check(self) -> None:
        super()._check()
        if not is_auto(self.knots):
            check_count("knots", self.knots, low=2, words=' (or "auto")')
            if self.knots > _MOST_KNOTS:
                raise ValueError(f"knots must be at most {_MOST_KNOTS}; got {self.knots!r}.")

    def _checked(self, features: Any, *, reset: bool, **how: Any) -> Array:
        if reset:
            self._indicators = indicators_of(features)
        return super()._checked(features, reset=reset, dtype=_paying.FLOATS)

    def _plan(self, budgets: SiloBudgets, delta: float) -> _paying.Learning:
        d, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        indicators = np.zeros(d, bool) if self._indicators is None else self._indicators
        if self.feature_bounds is None and not indicators.all():
            raise ValueError(
                "Give feature_bounds=(low, high), public ranges of the columns: the histogram "
                "needs them."
            )
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
        self._names, self._coded = plan.names, plan.bounds.used.copy()
        if self._indicators is not None:
            self._coded &= ~self._indicators
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
