"""The papers' step sizes, round counts and schedules, as printed or as their proofs give them.

Constants like the smoothness, the distance to the optimum or the variance of gradients are
properties of the records: compute them from public or synthetic data, or from public bounds (a
clipping norm is a Lipschitz constant, ``radius`` bounds a distance). The estimators' ``"auto"``
does not use these functions; they reproduce the papers and test the solvers.
"""

from skdpfl.algorithms.theory._accelerated import (
    lowy2023_accelerated_rounds,
    lowy2023_multistage_rounds,
    lowy2023_one_pass_rounds,
    lowy2023_regularisation,
    lowy2023_smoothing,
)
from skdpfl.algorithms.theory._acsa import (
    Stage,
    acsa_bound,
    acsa_scale,
    acsa_weights,
    gradient_variance,
    multistage,
)
from skdpfl.algorithms.theory._fedavg import (
    StepSizes,
    chang2022_steps,
    noble2022_fedavg_steps,
    noble2022_local_step,
    noble2022_scaffold_steps,
)
from skdpfl.algorithms.theory._minibatch import (
    effective_silos,
    lowy2023_bound,
    lowy2023_rounds,
    lowy2023_step,
)
from skdpfl.algorithms.theory._strongly_convex import (
    StepSchedule,
    stich2019_bound,
    stich2019_schedule,
)
from skdpfl.privacy.published import chang2022_conditions, chang2022_variances

__all__ = [
    "Stage",
    "StepSchedule",
    "StepSizes",
    "acsa_bound",
    "acsa_scale",
    "acsa_weights",
    "chang2022_conditions",
    "chang2022_steps",
    "chang2022_variances",
    "effective_silos",
    "gradient_variance",
    "lowy2023_accelerated_rounds",
    "lowy2023_bound",
    "lowy2023_multistage_rounds",
    "lowy2023_one_pass_rounds",
    "lowy2023_regularisation",
    "lowy2023_rounds",
    "lowy2023_smoothing",
    "lowy2023_step",
    "multistage",
    "noble2022_fedavg_steps",
    "noble2022_local_step",
    "noble2022_scaffold_steps",
    "stich2019_bound",
    "stich2019_schedule",
]
