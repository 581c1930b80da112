"""Where a fit takes the scales of features and target from: bounds, a part of the budget, or none.

Private scales are released before training, as ``setup`` of the plan: they are priced with it, and
training gets the rest of the budget. Noise is added in the silo (``trust="silo"``) or once to the
sum (``trust="server"``); the guarantee is in :mod:`skdpfl.scaling`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skdpfl._warnings import warn
from skdpfl.choosing._request import Request
from skdpfl.federation import Federation
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import (
    Scales,
    ScalingPlan,
    affine_from_bounds,
    doubts_about,
    plan_scaling,
    run_scaling,
    values_of,
)

#: the warning after the scales have been found
_COARSE = (
    "What was found within the budget shows that the target varies far less than {:.1g}, or lies "
    "elsewhere than expected, so predictions may be far off. Give target_bounds=(low, high), a "
    "range that is public knowledge and that the target fills."
)
#: the warning where the target's mean is not found
_UNKNOWN = (
    "The noise will drown the target: its mean was found with an error of {:.2g} times half its "
    "range, so predictions may be worse than the target's mean. Give target_bounds=(low, high) "
    "that the target fills, if you can. "
)
#: the warning where released counts show features over many powers of ten
_WIDE = (
    "{} spread over many powers of ten. The largest values will dominate predictions, and "
    "probabilities of such records may be far off. Take logarithms of these features, give "
    "feature_bounds, or set clip_features=True."
)
#: values further from their center are clipped where clip_features=True and there are no bounds
_REACH = 4.0
#: larger errors are said: most such fits end below the mean (benchmarks/auto/warned.py)
_DROWNED = 0.15
#: mean square of a value uniform on [-1, 1], and of a squashed one: expected of public maps
_MEAN_SQUARE = 1 / 3


@dataclass(frozen=True, eq=False)
class ScalingStep:
    """How scales are found before training; decided without data.

    ``remedies`` says what helps against noise that is so many times too large; None: a target that
    drowns in noise is not warned of.
    """

    plan: ScalingPlan
    shifts_target: bool = True
    clips: bool = False
    remedies: Callable[[float], str] | None = None

    @property
    def squared_row(self) -> float:
        """The expected mean square norm of a scaled row, from public numbers."""
        features, bounds = self.plan.features, self.plan.feature_bounds
        if features == "bounds" and bounds is not None and not self.plan.centred:
            return float(affine_from_bounds(bounds, centred=False).row_norm or 0.0) ** 2
        if features in ("bounds", "squash"):
            return _MEAN_SQUARE * float(self._n_used)
        return float(self._n_used)

    @property
    def _n_used(self) -> int:
        bounds = self.plan.feature_bounds
        return self.plan.n_features if bounds is None else int(bounds.used.sum())

    def find(self, federation: Federation, streams: Streams) -> Scales:
        """Return the scales; warn if the budget does not suffice to find them."""
        if self.plan.advice:
            warn(self.plan.advice)
        scales = run_scaling(self.plan, federation, streams)
        for doubt in doubts_about(scales.far_features, scales.unseen_features):
            warn(doubt)
        if not self.shifts_target:
            scales = scales.without_shift()
        if self.clips and self.plan.feature_bounds is not None:
            scales = scales.clipped(self.plan.feature_bounds.low, self.plan.feature_bounds.high)
        elif self.clips:
            scales = scales.clipped_around(_REACH)
        elif scales.wide_features:
            warn(_WIDE.format(values_of(scales.wide_features)))
        if scales.coarse_target:
            warn(_COARSE.format(scales.target.scale))
        elif self.remedies is not None and scales.target_error > _DROWNED:
            helps = self.remedies(scales.target_error / _DROWNED)
            warn(_UNKNOWN.format(scales.target_error) + helps)
        return scales


def plan_scales(request: Request, mu: np.ndarray) -> ScalingStep:
    """Decide, from public numbers, where scales come from.

    ``mu`` are the budgets of the whole fit: one per silo, shape (n_silos,), or one for all, (1,).
    """
    facts, promise = request.facts, request.guarantee
    sizes = np.ones(facts.n_silos) if facts.public_sizes is None else facts.public_sizes
    return ScalingStep(
        plan_scaling(
            silo_sizes=sizes,
            n_features=facts.n_features,
            mu=mu,
            scaling=request.scaling,  # type: ignore[arg-type]
            feature_bounds=request.feature_bounds,
            target_bounds=request.target_bounds,
            has_target=not facts.is_classifier,
            unit=promise.unit,
            trust=promise.trust,
            neighbours=promise.neighbours,
            centred=request.fit_intercept,
        ),
        shifts_target=request.loss.link != "log",
        clips=request.clips_features,
    )
