"""The papers' step sizes, round counts and schedules, as printed or as their proofs give them.

Constants like the smoothness, the distance to the optimum or the variance of gradients are
properties of the records: compute them from public or synthetic data, or from public bounds (a
clipping norm is a Lipschitz constant, ``radius`` bounds a distance). The estimators' ``"auto"``
does not use these functions; they reproduce the papers and test the solvers.

References
----------
S. Ghadimi and G. Lan, "Optimal Stochastic Approximation Algorithms for Strongly Convex Stochastic
Composite Optimization" I and II, SIAM J. Optim. 2012 and 2013 (acsa, multistage).
A. Lowy and M. Razaviyayn, "Private Federated Learning Without a Trusted Server: Optimal Algorithms
for Convex Losses", ICLR 2023 (lowy2023: steps follow the noise of theorem D.8; round counts are
orders of magnitude, constants are 1 here).
M. Noble, A. Bellet and A. Dieuleveut, "Differentially Private Federated Learning on Heterogeneous
Data", AISTATS 2022.
S. U. Stich, "Unified Optimal Analysis of the (Stochastic) Gradient Method", 2019, lemma 3.
"""

from skdpfl.algorithms.theory._average_noise import (
    Rounds,
    average_covariance,
    average_responses,
    rounds_of,
)
from skdpfl.algorithms.theory._local_steps import (
    Excess,
    StepSizes,
    local_steps_excess,
    noble2022_fedavg_steps,
    noble2022_local_step,
    noble2022_scaffold_steps,
    noble2022_weights,
)
from skdpfl.algorithms.theory._lower import lowy2023_lower_bound
from skdpfl.algorithms.theory._lowy2023 import (
    effective_silos,
    lowy2023_accelerated_rounds,
    lowy2023_bound,
    lowy2023_multistage_rounds,
    lowy2023_one_pass_rounds,
    lowy2023_rate,
    lowy2023_regularisation,
    lowy2023_rounds,
    lowy2023_smoothing,
    lowy2023_stability,
    lowy2023_step,
)
from skdpfl.algorithms.theory._rates import noble2022_fedavg_bound, noble2022_scaffold_bound
from skdpfl.algorithms.theory._schedules import (
    Stage,
    StepSchedule,
    acsa_bound,
    acsa_scale,
    gradient_variance,
    multistage,
    stich2019_bound,
    stich2019_schedule,
)
