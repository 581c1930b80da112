"""Confidence intervals of coefficients from noised sums at a fitted model."""

from skdpfl.inference._fieller import Interval, NewtonStep
from skdpfl.inference._hazards import (
    HazardCurvature,
    HazardMeat,
    HazardScores,
    PersonHazardMeat,
)
from skdpfl.inference._plan import (
    PART,
    Covariance,
    IntervalPlan,
    IntervalRun,
    Kind,
    expected_width,
)
from skdpfl.inference._sums import (
    LinearMeat,
    LinearMoments,
    PersonLinearMeat,
    PersonMeat,
    PilotCurvature,
    PilotMeat,
    PilotScores,
    ResidualSize,
)

__all__ = [
    "PART",
    "Covariance",
    "HazardCurvature",
    "HazardMeat",
    "HazardScores",
    "Interval",
    "IntervalPlan",
    "IntervalRun",
    "Kind",
    "LinearMeat",
    "LinearMoments",
    "NewtonStep",
    "PersonHazardMeat",
    "PersonLinearMeat",
    "PersonMeat",
    "PilotCurvature",
    "PilotMeat",
    "PilotScores",
    "ResidualSize",
    "expected_width",
]
