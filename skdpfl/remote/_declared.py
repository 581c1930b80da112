"""The classes that are sent between machines; user-defined ones are declared on both sides."""

import dataclasses
from typing import Any

from skdpfl import algorithms, federation, inference, losses, models, scaling
from skdpfl._codec import declare, pack, unpack
from skdpfl.algorithms import theory
from skdpfl.privacy import sampling
from skdpfl.privacy.events import Guarantee
from skdpfl.privacy.mechanisms import (
    LearntClip,
    PrivUnitMessages,
    SharedGradients,
    SharedMessages,
    SiloGradients,
    SiloMessages,
)

__all__ = ["declare", "pack", "unpack"]


def _is_sent(kind: Any) -> bool:
    """Whether this is a class with fields, and not only a base class."""
    bases = algorithms.Algorithm, algorithms.GradientMethod
    return (dataclasses.is_dataclass(kind) and kind not in bases) or hasattr(kind, "_fields")


declare(*losses.LOSSES)
declare(models.LinearModel, models.OneSlope, models.Network, models.Start)
declare(models.TemperedSigmoid, *map(type, models.ACTIVATIONS.values()))
declare(*filter(_is_sent, (getattr(algorithms, name) for name in algorithms.__all__)))
declare(theory.Stage, theory.Phase)
declare(
    sampling.Everyone,
    sampling.PoissonSampling,
    sampling.WithoutReplacement,
    sampling.WithReplacement,
)
declare(sampling.Disjoint, sampling.Halving)
declare(SiloGradients, SiloMessages, PrivUnitMessages, LearntClip)
declare(SharedGradients, SharedMessages)
declare(Guarantee)
_OF_SCALING = (
    "Bins ExposureCounts Known Levels LifeTable Magnitudes Means Spreads ValueCounts ScaledMoments "
    "Columns SecondMoments Boxes LinearGrid MagnitudeGrid Counts Moments RowMoments Labels Slopes "
    "Below AffineScaling AffineTarget IdentityScaling RatioTarget SquashScaling Curve CurveScaling "
    "Expansion Histogram"
)
_OF_SUMS = (
    "Accuracy BalancedAccuracy Closeness Confusion R2 D2Poisson RocAuc AveragePrecision "
    "Concordance CalibrationError SiloBudgets SumPlan"
)
declare(*(getattr(scaling, name) for name in _OF_SCALING.split()))
declare(*(getattr(federation, name) for name in _OF_SUMS.split()))
declare(inference.PilotScores, inference.PilotCurvature, inference.PilotMeat)
declare(inference.HazardScores, inference.HazardCurvature, inference.HazardMeat)
declare(inference.LinearMoments, inference.LinearMeat, inference.ResidualSize)
declare(inference.PersonMeat, inference.PersonHazardMeat, inference.PersonLinearMeat)
