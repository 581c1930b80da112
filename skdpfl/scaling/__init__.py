"""Scaling of features and targets: planned from public numbers, estimated within a budget.

_bounds      what users declare, and the maps it gives
_choice      public numbers -> ScalingPlan, priced before data are read
_run         ScalingPlan, data -> Scales, by noisy messages (``_messages``: the guarantee)
_maps        Scales: the fixed maps of features and target
_calibration what is found after training: the scale of a classifier's raw predictions
             (``_temperature``), the level of a quantile's (``_shift``)
"""

from skdpfl.scaling._ball import Ball
from skdpfl.scaling._bounds import (
    Bounds,
    affine_from_bounds,
    read_feature_bounds,
    read_target_bounds,
)
from skdpfl.scaling._calibration import (
    Below,
    Calibrated,
    CalibrationPlan,
    Slope,
    calibrated,
    calibration_question,
)
from skdpfl.scaling._choice import EVERYTHING, plan_scaling
from skdpfl.scaling._contributions import CountsOn, MomentsIn, RowsIn
from skdpfl.scaling._doubts import doubts_about, values_of
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
from skdpfl.scaling._run import FoundMoments, find_moments, run_scaling
from skdpfl.scaling._scaling_plan import Release, ScalingPlan
from skdpfl.scaling._setting import Setting
from skdpfl.scaling._shift import ShiftPlan
from skdpfl.scaling._target_bins import LinearGrid
from skdpfl.scaling._temperature import TemperaturePlan

__all__ = [
    "EVERYTHING",
    "AffineScaling",
    "AffineTarget",
    "Array",
    "Ball",
    "Below",
    "Bounds",
    "Boxes",
    "Calibrated",
    "CalibrationPlan",
    "CountsOn",
    "FoundMoments",
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
    "ShiftPlan",
    "Slope",
    "SquashScaling",
    "TemperaturePlan",
    "affine_from_bounds",
    "calibrated",
    "calibration_question",
    "deviations",
    "doubts_about",
    "find_moments",
    "plan_scaling",
    "read_feature_bounds",
    "read_target_bounds",
    "run_scaling",
    "scales_question",
    "values_of",
]
