"""Scaling of features and targets: planned from public numbers, estimated within a budget.

_bounds      what users declare, and the maps it gives
_choice      public numbers -> ScalingPlan, priced before data are read
_run         ScalingPlan, data -> Scales, by noisy messages (``_messages``: the guarantee)
_maps        Scales: the fixed maps of features and target
_temperature the scale of a classifier's raw predictions, found after training (``_slopes`` asks)
"""

from skdpfl.scaling._ball import Ball
from skdpfl.scaling._bounds import (
    Bounds,
    affine_from_bounds,
    read_feature_bounds,
    read_target_bounds,
)
from skdpfl.scaling._choice import EVERYTHING, plan_scaling
from skdpfl.scaling._contributions import CountsOn, MomentsIn, RowsIn
from skdpfl.scaling._magnitudes import MagnitudeGrid
from skdpfl.scaling._maps import (
    AffineScaling,
    AffineTarget,
    Array,
    IdentityScaling,
    RatioTarget,
    Scales,
    SquashScaling,
)
from skdpfl.scaling._messages import Messages, scales_question
from skdpfl.scaling._moments import Boxes, deviations
from skdpfl.scaling._run import find_moments, run_scaling
from skdpfl.scaling._scaling_plan import Release, ScalingPlan
from skdpfl.scaling._setting import Setting
from skdpfl.scaling._slopes import Slope, find_factor, slope_question
from skdpfl.scaling._target_bins import LinearGrid
from skdpfl.scaling._temperature import TemperaturePlan

__all__ = [
    "EVERYTHING",
    "AffineScaling",
    "AffineTarget",
    "Array",
    "Ball",
    "Bounds",
    "Boxes",
    "CountsOn",
    "IdentityScaling",
    "LinearGrid",
    "MagnitudeGrid",
    "Messages",
    "MomentsIn",
    "RatioTarget",
    "Release",
    "RowsIn",
    "Scales",
    "ScalingPlan",
    "Setting",
    "Slope",
    "SquashScaling",
    "TemperaturePlan",
    "affine_from_bounds",
    "deviations",
    "find_factor",
    "find_moments",
    "plan_scaling",
    "read_feature_bounds",
    "read_target_bounds",
    "run_scaling",
    "scales_question",
    "slope_question",
]
