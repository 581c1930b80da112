"""Published schedules of steps and stages, and the noise of an average, by which solvers work.

Constants like the smoothness, the distance to the optimum or the variance of gradients are
properties of the records: they come from public numbers or bounds (a clipping norm is a Lipschitz
constant, ``radius`` bounds a distance). Bounds that only reproduce the papers are in
``benchmarks/papers``.
"""

from skdpfl.algorithms.theory._accelerated import lowy2023_one_pass_rounds, lowy2023_smoothing
from skdpfl.algorithms.theory._acsa import Stage, acsa_scale, multistage
from skdpfl.algorithms.theory._average_noise import Rounds, average_covariance, rounds_of
from skdpfl.algorithms.theory._strongly_convex import StepSchedule, stich2019_schedule

__all__ = [
    "Rounds",
    "Stage",
    "StepSchedule",
    "acsa_scale",
    "average_covariance",
    "lowy2023_one_pass_rounds",
    "lowy2023_smoothing",
    "multistage",
    "rounds_of",
    "stich2019_schedule",
]
