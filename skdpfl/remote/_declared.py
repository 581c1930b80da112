"""The classes that are sent between machines; user-defined ones are declared on both sides."""

import dataclasses
from typing import Any

from skdpfl import algorithms, federation, inference, losses, models, scaling
from skdpfl._codec import declare, pack, unpack
from skdpfl.algorithms import theory
from skdpfl.privacy import events, mechanisms, sampling

__all__ = ["declare", "pack", "unpack"]


def _is_sent(kind: Any) -> bool:
    """Whether this is a class with fields, and not only a base class."""
    bases = algorithms.Algorithm, algorithms.GradientMethod
    return (dataclasses.is_dataclass(kind) and kind not in bases) or hasattr(kind, "_fields")


declare(*losses.LOSSES, *map(type, models.ACTIVATIONS.values()))
declare(*filter(_is_sent, (getattr(algorithms, name) for name in algorithms.__all__)))
_NAMES = {
    models: "LinearModel OneSlope Network Start TemperedSigmoid",
    theory: "Stage Phase",
    events: "Guarantee",
    sampling: "Everyone PoissonSampling WithoutReplacement WithReplacement Disjoint Halving",
    mechanisms: "SiloGradients SiloMessages PrivUnitMessages LearntClip SharedGradients "
    "SharedMessages",
    scaling: "Bins ExposureCounts Known Levels LifeTable Magnitudes Means Spreads ValueCounts "
    "ScaledMoments Columns SecondMoments Boxes LinearGrid MagnitudeGrid Counts Moments RowMoments "
    "Labels Events Slopes Below AffineScaling AffineTarget IdentityScaling RatioTarget "
    "SquashScaling Curve CurveScaling Expansion Histogram",
    federation: "Accuracy BalancedAccuracy Closeness Confusion R2 D2Poisson RocAuc "
    "AveragePrecision Concordance CalibrationError SiloBudgets SumPlan",
    inference: "PilotScores PilotCurvature HazardScores HazardCurvature LinearMoments LinearMeat "
    "ResidualSize",
}
for _module, _names in _NAMES.items():
    declare(*(getattr(_module, name) for name in _names.split()))
