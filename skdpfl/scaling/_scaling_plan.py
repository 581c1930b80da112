"""The plan of scaling features and target, and of its releases: fixed before data are read."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from skdpfl.federation import SiloBudgets, SumPlan
from skdpfl.privacy.events import Composition
from skdpfl.scaling._bounds import Bounds
from skdpfl.scaling._columns import Columns, ColumnSums
from skdpfl.scaling._maps import Array

Features = Literal["none", "bounds", "refined bounds", "private", "squash", "refined squash"]
Target = Literal["none", "refined bounds", "private"]


class Look(NamedTuple):
    """One noised sum of all silos' records: what is added up, and the share of mu that it costs.

    Boxes, which follow from earlier looks, are not part of it: a sum's noise is the same for all.
    """

    share: float
    what: ColumnSums


@dataclass(frozen=True, eq=False)
class ScalingPlan:
    """The looks at the data that scales are found by, and their cost.

    Attributes
    ----------
    budgets : SiloBudgets
    features : {"none", "bounds", "refined bounds", "private", "squash", "refined squash"}
        No scaling; by declared bounds; squashed; either of them refined by noisy moments;
        estimated without bounds.
    target : {"none", "refined bounds", "private"}
    counts : Look or None
        Finds the magnitude of columns without bounds.
    target_bins : Look or None
        Finds where in its bounds the target lies.
    moments : tuple of Look
        Rounds of means and variances; the second in boxes that the first narrowed, or in a ball.
    floor : float or None
        The smallest scale, in half boxes; None: no floor.
    advice : str
        Text for a UserWarning, "" for none.
    centred : bool
        False for models without an intercept: columns and target are scaled by their root mean
        square.

    Notes
    -----
    **Formal guarantee.** Each look is a Gaussian mechanism of ``share * mu`` of Gaussian DP
    (:mod:`skdpfl.scaling._columns`); later looks depend on earlier ones only through their noisy
    values (adaptive composition). What ``composition(silo)`` lists is what the silo pays:
    ``share * mu`` of Gaussian DP in all.
    """

    budgets: SiloBudgets
    n_features: int
    features: Features
    target: Target
    feature_bounds: Bounds | None = None
    target_bounds: Bounds | None = None
    counts: Look | None = None
    moments: tuple[Look, ...] = ()
    floor: float | None = 0.2
    advice: str = field(default="", repr=False)
    centred: bool = True
    target_bins: Look | None = None

    @property
    def looks(self) -> tuple[Look, ...]:
        """All of them in order."""
        counted = [look for look in (self.counts, self.target_bins) if look is not None]
        return (*counted, *self.moments)

    @property
    def is_free(self) -> bool:
        """Whether nothing is read from the data."""
        return not self.looks

    @property
    def share(self) -> float:
        """The part of mu that scaling spends; the training keeps ``sqrt(1 - share**2)``."""
        return float(np.sqrt(sum(look.share**2 for look in self.looks)))

    @cached_property
    def sums(self) -> SumPlan:
        """What silos are asked for: counts have number 0 (a plan has one kind at most)."""
        counted = self.counts is not None or self.target_bins is not None
        mus = tuple(look.share * self.budgets.spends for look in self.looks)
        return SumPlan(self.budgets, "scales", mus, 0 if counted else 1)

    def composition(self, silo: int = 0) -> Composition:
        """The releases of the silo at this position, for the accountant."""
        return self.sums.composition(silo)

    @cached_property
    def features_read(self) -> np.ndarray:
        """The features that are read: those that are not ignored by their bounds."""
        if self.features == "refined bounds" and self.feature_bounds is not None:
            return self.feature_bounds.used
        return np.full(self.n_features, self.features in ("private", "refined squash"))

    @property
    def reads_target(self) -> bool:
        """Whether the target is read."""
        return self.target != "none"

    @cached_property
    def columns(self) -> Columns:
        """All columns that are read."""
        return Columns(self.features_read, self.reads_target, self.features == "refined squash")

    @cached_property
    def without_bounds(self) -> Columns:
        """Those of them that have no bounds."""
        used = np.full(self.n_features, self.features == "private")
        return Columns(used, self.target == "private")

    @property
    def is_feature(self) -> np.ndarray:
        """Which of the columns (the features read, then the target) are features."""
        return self.columns.is_feature

    @cached_property
    def unbounded(self) -> np.ndarray:
        """Which of the columns have no bounds."""
        return np.where(self.is_feature, self.features == "private", self.target == "private")

    def noise(self, look: Look) -> Array:
        """Standard deviation of the noise in each column's mean contribution (weight 1)."""
        noised = look.what.noised(self.budgets, look.share * self.budgets.spends)
        return self.budgets.noise_of_mean(noised.std) / look.what.columns.weights
