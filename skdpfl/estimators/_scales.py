"""How a fit finds the scales of features and target: from bounds, from the data, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl.estimators._facts import Facts
from skdpfl.preprocessing._bounds import (
    affine_from_bounds,
    feature_bounds_of,
    target_bounds_of,
    target_from_bounds,
)
from skdpfl.preprocessing._scaling import AffineTarget, IdentityScaling, Scales, SquashScaling
from skdpfl.privacy.events import Composition
from skdpfl.silos import Silos


@dataclass(frozen=True, eq=False)
class ScalingStep:
    """Scales that are known before any data are read."""

    scales: Scales
    setup: Composition = ()

    def find(self, X: np.ndarray, y: np.ndarray, silos: Silos, streams: Any) -> Scales:
        """Return the scales."""
        return self.scales


def plan_scales(estimator: Any, facts: Facts) -> ScalingStep:
    """Decide, from public numbers, where scales come from."""
    target = AffineTarget()
    if getattr(estimator, "target_bounds", None) is not None:
        target = target_from_bounds(target_bounds_of(estimator.target_bounds))
    if estimator.scaling is None:
        return ScalingStep(Scales(IdentityScaling()))
    if estimator.feature_bounds is not None:
        names = getattr(estimator, "feature_names_in_", None)
        bounds = feature_bounds_of(estimator.feature_bounds, facts.n_features, names)
        return ScalingStep(Scales(affine_from_bounds(bounds), target))
    return ScalingStep(Scales(SquashScaling(), target))
