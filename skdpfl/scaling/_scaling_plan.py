"""The plan of scaling features and target, and of its releases: fixed before data are read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from skdpfl.privacy.events import Composition, Event, Exact, Gaussian, compose
from skdpfl.privacy.release import DOUBLE, noise_for, relative_error
from skdpfl.scaling._ball import Ball
from skdpfl.scaling._bounds import Bounds
from skdpfl.scaling._magnitudes import MagnitudeGrid
from skdpfl.scaling._maps import Array
from skdpfl.scaling._moments import DIAMETER, RADIUS
from skdpfl.scaling._setting import Setting
from skdpfl.scaling._target_bins import LinearGrid

Features = Literal["none", "bounds", "refined bounds", "private", "squash", "refined squash"]
Target = Literal["none", "refined bounds", "private"]

#: the grid of means of whole silos; all other sums lie on it
STEP = 2.0**-27
#: the weight of the target, which matters more than a feature; a power of two keeps sums exact
TARGET_WEIGHT = 2.0


@dataclass(frozen=True)
class Release:
    """One noisy message from every silo, or one noisy sum over all, spending ``share`` of mu.

    "counts": each record adds a one to its bin, column by column. "moments": it adds its ``phi``;
    with a ``ball``, the features' part is a point of that (:mod:`skdpfl.scaling._ball`). Counts on
    a linear grid are of the target alone.
    Diameter and radius bound the change when a record is replaced, or set to zero, per column of
    weight 1, in L2.
    """

    share: float
    grid: MagnitudeGrid | LinearGrid | None = None
    ball: Ball | None = None

    def __post_init__(self) -> None:
        if self.grid is not None and self.ball is not None:
            raise ValueError("A release is of counts on a grid, or of rows in a ball.")

    @property
    def is_counts(self) -> bool:
        """Whether it counts magnitudes, not moments."""
        return self.grid is not None

    @property
    def is_of_target(self) -> bool:
        """Whether it reads the target alone."""
        return isinstance(self.grid, LinearGrid)

    @property
    def entries(self) -> int:
        """The number of values per column."""
        return self.grid.n_bins if self.grid is not None else 2

    @property
    def diameter(self) -> float:
        """The largest distance between the contributions of two records."""
        return float(np.sqrt(2.0)) if self.is_counts else DIAMETER

    @property
    def radius(self) -> float:
        """The largest norm of a record's contribution."""
        return 1.0 if self.is_counts else RADIUS


@dataclass(frozen=True, eq=False)
class ScalingPlan:
    """The releases for scaling the data, and their cost.

    Attributes
    ----------
    setting : Setting
    features : {"none", "bounds", "refined bounds", "private", "squash", "refined squash"}
        No scaling; by declared bounds; squashed; either of them refined by noisy moments;
        estimated without bounds.
    target : {"none", "refined bounds", "private"}
    counts : Release or None
        Finds the magnitude of columns without bounds.
    target_bins : Release or None
        Finds where in its bounds the target lies.
    moments : tuple of Release
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
    **Formal guarantee.** Each release is a Gaussian mechanism (proof:
    :mod:`skdpfl.scaling._run`) of ``share * mu`` of Gaussian DP; later releases
    depend on earlier ones only through their noisy values (adaptive composition). What
    ``composition(silo)`` lists is what the silo pays: ``share * mu`` of Gaussian DP in all.
    """

    setting: Setting
    n_features: int
    features: Features
    target: Target
    feature_bounds: Bounds | None = None
    target_bounds: Bounds | None = None
    counts: Release | None = None
    moments: tuple[Release, ...] = ()
    floor: float | None = 0.2
    advice: str = field(default="", repr=False)
    centred: bool = True
    target_bins: Release | None = None

    def of_silo(self, i: int) -> ScalingPlan:
        """Return what one silo needs to know of the plan."""
        return replace(self, setting=self.setting.of_silo(i), floor=None, advice="")

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases in order."""
        counted = [r for r in (self.counts, self.target_bins) if r is not None]
        return (*counted, *self.moments)

    @property
    def is_free(self) -> bool:
        """Whether nothing is read from the data."""
        return not self.releases

    @property
    def share(self) -> float:
        """The part of mu that scaling spends; the training keeps ``sqrt(1 - share**2)``."""
        return float(np.sqrt(sum(release.share**2 for release in self.releases)))

    def composition(self, silo: int = 0) -> Composition:
        """The releases of the silo at this position, for the accountant."""
        mu = self.setting.spends[silo]
        factor = 2.0 if self.setting.neighbours == "replace" else 1.0
        parts: list[tuple[Event, int]] = [
            (Gaussian(factor / (r.share * float(mu))) if np.isfinite(mu) else Exact(), 1)
            for r in self.releases
        ]
        return compose(parts)

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
    def is_feature(self) -> np.ndarray:
        """Which of the columns (the features read, then the target) are features."""
        return np.arange(self.features_read.sum() + self.reads_target) < self.features_read.sum()

    @cached_property
    def unbounded(self) -> np.ndarray:
        """Which of the columns have no bounds."""
        return np.where(self.is_feature, self.features == "private", self.target == "private")

    def weights(self, release: Release) -> Array:
        """The weight of each column of a release."""
        weights = np.where(self.is_feature, 1.0, TARGET_WEIGHT)
        if release.is_of_target:
            return weights[~self.is_feature]
        return weights[self.unbounded] if release.is_counts else weights

    def sensitivity(self, release: Release) -> float:
        """The change of the sum (unit "silo": mean) of contributions by one unit's data, in L2."""
        replaced = self.setting.neighbours == "replace"
        each = release.diameter if replaced else release.radius
        if release.ball is None:
            return each * float(np.linalg.norm(self.weights(release)))
        row = release.ball.diameter if replaced else release.ball.norm
        return float(np.hypot(row, each * np.linalg.norm(self.weights(release)[~self.is_feature])))

    def largest_entry(self, release: Release) -> Array:
        """Bound of the entries of each silo's sum, or of the one sum at the server (M,)."""
        setting = self.setting
        units = (
            np.full(setting.n_silos, setting.units.sum()) if setting.at_server else setting.units
        )
        longest = 0.0 if release.ball is None else max(release.ball.radius, release.ball.squares)
        return max(longest, release.radius * self.weights(release).max(initial=0.0)) * units

    def noise_scale(self, release: Release) -> Array:
        """Standard deviation of the noise on each silo's message (M,); 0 for an infinite budget.

        It includes a margin for rounding (:mod:`skdpfl.privacy.release.rounding`). Sums are exact;
        a division by the number of records and one by the grid, and rounding a silo's mean to STEP,
        are not.
        """
        if release not in self._noise_scales:
            self._noise_scales[release] = self._noise_scale(release)
        return self._noise_scales[release]

    @cached_property
    def _noise_scales(self) -> dict[Release, Array]:
        return {}

    def _noise_scale(self, release: Release) -> Array:
        size = self.weights(release).size * release.entries
        error = relative_error((2, DOUBLE)) * self.largest_entry(release)
        if self.setting.unit == "silo":
            error += STEP / 2 * self.weights(release).max(initial=0.0)
        mu = release.share * self.setting.spends
        return noise_for(mu, self.sensitivity(release), size, np.sqrt(size) * error)

    def noise(self, release: Release) -> Array:
        """Standard deviation of the noise in each column's mean contribution (weight 1)."""
        return self.setting.noise_of_mean(self.noise_scale(release)) / self.weights(release)
