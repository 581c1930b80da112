"""Scaling of features and targets: planned from public numbers, estimated within a budget.

_bounds      what users declare, and the maps it gives
_choice      public numbers -> ScalingPlan, priced before data are read
_cells       which values are alike: noisy counts of cells
_curves      which columns bend a linear model: one noisy histogram (``_curve_plan``) -> Expansion
_run         ScalingPlan, data -> Scales, by noised sums (``_columns``: the guarantee)
_maps        Scales: the fixed maps of features and target
_calibration what is found after training: the scale of a classifier's raw predictions
             (``_temperature``, ``_factor``), the level of a quantile's
"""

from skdpfl.scaling._calibration import (
    Below,
    Calibrated,
    CalibrationPlan,
    CalibrationRun,
    LabelShares,
    ShiftPlan,
)
from skdpfl.scaling._centre_sums import (
    Bins,
    Box,
    Known,
    Levels,
    LifeTable,
    Magnitudes,
    Means,
    RowMean,
    ScaledMoments,
    SecondMoments,
    Spreads,
    boxes_of,
    cut,
    edges_by,
    quantiles,
)
from skdpfl.scaling._choice import (
    EVERYTHING,
    GIVEN_NOISE,
    TRAINING,
    Look,
    ScalingPlan,
    plan_scaling,
)
from skdpfl.scaling._columns import Columns, Counts, Moments, RowMoments
from skdpfl.scaling._curve_plan import CurvePlan
from skdpfl.scaling._curves import (
    FAR,
    Curve,
    CurveScaling,
    Expansion,
    Histogram,
)
from skdpfl.scaling._magnitudes import ExposureCounts, ExposurePlan, LinearGrid, MagnitudeGrid
from skdpfl.scaling._maps import (
    AffineScaling,
    AffineTarget,
    Array,
    Bounds,
    IdentityScaling,
    RatioTarget,
    Scales,
    SquashScaling,
    affine_from_bounds,
    read_feature_bounds,
    read_target_bounds,
)
from skdpfl.scaling._moments import Boxes, deviations
from skdpfl.scaling._run import (
    FoundMoments,
    ScalingRun,
    doubts_about,
    find_moments,
    run_scaling,
    values_of,
)
from skdpfl.scaling._temperature import Labels, ShrinkPlan, Slopes, TemperaturePlan, rarity
from skdpfl.scaling._value_counts import SHARE, ColumnCounts, ValueCounts, ones, threshold
