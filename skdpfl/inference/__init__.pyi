from skdpfl.inference._fieller import (
    Interval as Interval,
    NewtonStep as NewtonStep,
)
from skdpfl.inference._hazards import (
    HazardCurvature as HazardCurvature,
    HazardMeat as HazardMeat,
    HazardScores as HazardScores,
    PersonHazardMeat as PersonHazardMeat,
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
    LinearMeat as LinearMeat,
    LinearMoments as LinearMoments,
    PersonLinearMeat as PersonLinearMeat,
    PersonMeat as PersonMeat,
    PilotCurvature as PilotCurvature,
    PilotMeat as PilotMeat,
    PilotScores as PilotScores,
    ResidualSize as ResidualSize,
)
