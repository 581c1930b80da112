from skdpfl.inference._fieller import (
    Interval as Interval,
    NewtonStep as NewtonStep,
)
from skdpfl.inference._plan import (
    PART as PART,
    Covariance as Covariance,
    IntervalPlan as IntervalPlan,
    IntervalRun as IntervalRun,
    Kind as Kind,
    expected_width as expected_width,
)
from skdpfl.inference._sums import (
    HazardCurvature as HazardCurvature,
    HazardScores as HazardScores,
    LinearMeat as LinearMeat,
    LinearMoments as LinearMoments,
    PilotCurvature as PilotCurvature,
    PilotScores as PilotScores,
    ResidualSize as ResidualSize,
)
