"""Scaling of features and targets: planned from public numbers, estimated within a budget.

_maps        what users declare, and the fixed maps of features and target
_choice      public numbers -> ScalingPlan, priced before data are read
_magnitudes  ranges from noisy counts of octaves, by a library of shapes
_moments     sums over columns (the guarantee), and the means and spreads that they show
_run         ScalingPlan, data -> Scales
_curves      which columns bend a linear model: one noisy histogram -> Expansion
_calibration what is found after training: the scale of a classifier's raw predictions, the
             level of a quantile's
_centre_sums, _value_counts
             sums of columns with gaps and words, for transformers and looks
"""

from skdpfl.scaling._calibration import (
    Below,
    Calibrated,
    CalibrationPlan,
    CalibrationRun,
    Events,
    EventsPlan,
    Labels,
    LabelShares,
    ShiftPlan,
    ShrinkPlan,
    Slopes,
    TemperaturePlan,
    first_log_hazard,
    first_raw_prediction,
    rarity,
)
from skdpfl.scaling._centre_sums import (
    Bins,
    Known,
    Levels,
    LifeTable,
    Magnitudes,
    Means,
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
from skdpfl.scaling._curves import (
    PRODUCT_DEVIATIONS,
    Curve,
    CurvePlan,
    CurveScaling,
    Expansion,
    Histogram,
)
from skdpfl.scaling._magnitudes import ExposureCounts, ExposurePlan, LinearGrid, MagnitudeGrid
from skdpfl.scaling._maps import (
    SURE_DEVIATIONS,
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
from skdpfl.scaling._moments import Boxes, Columns, Counts, Moments, RowMoments, deviations
from skdpfl.scaling._run import (
    LearntMoments,
    ScalingRun,
    doubts_about,
    find_moments,
    run_scaling,
    values_of,
)
from skdpfl.scaling._value_counts import SHARE, ColumnCounts, ValueCounts, ones, threshold
