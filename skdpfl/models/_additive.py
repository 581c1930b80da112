"""What is asked of an additive model: curves of columns, and products of pairs of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skdpfl._arguments import check_count, is_auto
from skdpfl.models._base import Architecture, Model
from skdpfl.models._linear import LinearModel

#: the most pieces of a curve that can be asked for
MOST_KNOTS = 64


@dataclass(eq=False, repr=False)
class Additive(Architecture):
    """A sum of curves, one a feature, for the ``model`` of any estimator.

    A tenth of the budget (of mu squared) finds where each column's values lie: one noisy histogram
    of all columns that have bounds. Beside its value a column then has its rank and some bins, and
    pairs of columns have their products; today's linear model of all these is fitted with the rest.
    Where public numbers say that the budget is too small for that, the linear model is fitted.
    Columns of dtype bool are indicators, which need no curve. All others need ``feature_bounds``;
    beyond these a curve stays at its end.

    Parameters
    ----------
    knots : "auto" or int, default="auto"
        The number of pieces of a curve; it has half as many bins. "auto" is 8 where the budget
        affords it. A number asks for curves whatever the budget is.
    interactions : "auto", bool or list of pairs, default="auto"
        Whether products of all pairs of features are added; or the pairs, by name or number.
        "auto" adds them where there are few features and the budget affords it.

    See Also
    --------
    skdpfl.inspection.ShapeDisplay : Draws the curves.
    skdpfl.preprocessing.DPSplineTransformer : The same columns as a step of a pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.models import Additive
    >>> X = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
    >>> y = np.abs(X[:, 0]) + X[:, 1]
    >>> bounds = {"feature_bounds": (-1, 1), "target_bounds": (-1, 2), "random_state": 0}
    >>> linear = ISRLDPRegressor(3.0, **bounds).fit(X, y)
    >>> curved = ISRLDPRegressor(3.0, model=Additive(), **bounds).fit(X, y)
    >>> curved.score(X, y) > linear.score(X, y) + 0.1
    True
    >>> list(curved.shape_functions_)
    ['x0', 'x1']
    """

    knots: Any = "auto"
    interactions: Any = "auto"

    def check(self) -> None:
        """Raise a ValueError for invalid parameters."""
        if not is_auto(self.knots):
            check_count("knots", self.knots, low=2, words=' (or "auto")')
            if self.knots > MOST_KNOTS:
                raise ValueError(f"knots must be at most {MOST_KNOTS}; got {self.knots!r}.")
        given = self.interactions
        if isinstance(given, bool) or is_auto(given):
            return
        pairs = isinstance(given, Sequence) and not isinstance(given, str)
        if not pairs or any(isinstance(p, str) or len(p) != 2 or p[0] == p[1] for p in given):
            raise ValueError(
                'interactions must be "auto", True, False or a list of pairs of two features; got '
                f"{given!r}."
            )

    def build(self, n_features: int, n_outputs: int) -> Model:
        """Return the linear model of so many columns."""
        self.check()
        return LinearModel(n_features, n_outputs)
