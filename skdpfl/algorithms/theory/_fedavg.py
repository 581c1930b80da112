"""Step sizes of SCAFFOLD and FedAvg: Noble et al. (2022) and Chang et al. (2022).

M silos, a fraction l of them a round, K local steps on a fraction s of the records, losses of
smoothness nu, gradients with (1/M) sum |grad F_i|^2 <= G^2 + B^2 |grad F|^2::

    SCAFFOLD     eta_g = sqrt(l M),  eta_l = l^(2/3) / (24 nu K eta_g)        (convex)
    FedAvg       eta_g = sqrt(l M),  eta_l = 1 / (8 (1 + B^2) nu K eta_g)
    experiments  eta_g = 1,          eta_l = eta_0 / (s K)

The drift-control paper's step minimises its convergence bound (see
:func:`skdpfl.privacy.published.chang2022_convergence`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdpfl._arguments import check_count, check_not_negative, check_positive, check_rate
from skdpfl.privacy.published import ConvergenceBound


@dataclass(frozen=True)
class StepSizes:
    """A pair of learning rates.

    Attributes
    ----------
    global_step : float
        eta_g: the server's step along the mean of the silos' updates.
    local_step : float
        eta_l: a silo's step along its mean gradient.
    """

    global_step: float
    local_step: float


def noble2022_scaffold_steps(
    *, smoothness: float, n_silos: int, silo_rate: float, local_steps: int
) -> StepSizes:
    """Return the steps of the convergence theorem of DP-SCAFFOLD, convex losses.

    Parameters
    ----------
    smoothness : float
        nu: Lipschitz constant of the gradients.
    n_silos : int
        M.
    silo_rate : float
        l, the fraction of silos of a round, in (0, 1].
    local_steps : int
        K.

    References
    ----------
    M. Noble, A. Bellet and A. Dieuleveut, "Differentially Private Federated Learning on
    Heterogeneous Data", AISTATS 2022.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_scaffold_steps
    >>> steps = noble2022_scaffold_steps(smoothness=0.5, n_silos=32, silo_rate=0.125,
    ...                                  local_steps=10)
    >>> steps.global_step, round(steps.local_step, 5)
    (2.0, 0.00104)
    """
    smoothness, global_step, steps = _common(smoothness, n_silos, silo_rate, local_steps)
    local = silo_rate ** (2 / 3) / (24 * smoothness * steps * global_step)
    return StepSizes(global_step, local)


def noble2022_fedavg_steps(
    *,
    smoothness: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    dissimilarity: float = 0.0,
) -> StepSizes:
    """Return the steps of the convergence theorem of DP-FedAvg.

    Parameters
    ----------
    smoothness, n_silos, silo_rate, local_steps
        As in :func:`noble2022_scaffold_steps`.
    dissimilarity : float, default=0.0
        B, of the bounded-dissimilarity assumption above.

    References
    ----------
    M. Noble, A. Bellet and A. Dieuleveut, "Differentially Private Federated Learning on
    Heterogeneous Data", AISTATS 2022.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_fedavg_steps
    >>> noble2022_fedavg_steps(smoothness=0.5, n_silos=16, silo_rate=0.25, local_steps=10)
    StepSizes(global_step=2.0, local_step=0.0125)
    """
    smoothness, global_step, steps = _common(smoothness, n_silos, silo_rate, local_steps)
    spread = 1 + check_not_negative("dissimilarity", dissimilarity) ** 2
    return StepSizes(global_step, 1 / (8 * spread * smoothness * steps * global_step))


def noble2022_local_step(*, step: float, record_rate: float, local_steps: int) -> float:
    """Return the local step of the paper's experiments, eta_0 / (s K).

    Parameters
    ----------
    step : float
        eta_0, the number the paper tunes.
    record_rate : float
        s, the fraction of records of a local step, in (0, 1].
    local_steps : int
        K.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_local_step
    >>> noble2022_local_step(step=1.0, record_rate=0.2, local_steps=50)
    0.1
    """
    step = check_positive("step", step)
    rate = check_rate("record_rate", record_rate)
    return step / (rate * check_count("local_steps", local_steps))


def chang2022_steps(bound: ConvergenceBound, *, global_step: float, local_steps: int) -> StepSizes:
    """Return the learning rates behind the effective step of a drift-control bound.

    Parameters
    ----------
    bound : ConvergenceBound
        From :func:`skdpfl.privacy.published.chang2022_convergence`.
    global_step : float
        The eta_g given there, at least 1.
    local_steps : int
        The local steps tau given there.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import chang2022_steps
    >>> from skdpfl.privacy.published import ConvergenceBound
    >>> bound = ConvergenceBound(factor=4.0, effective_step=0.5, local_step=0.05, gap=4.0)
    >>> chang2022_steps(bound, global_step=2.0, local_steps=5)
    StepSizes(global_step=2.0, local_step=0.05)
    """
    global_step = check_positive("global_step", global_step)
    steps = check_count("local_steps", local_steps)
    return StepSizes(global_step, bound.effective_step / (steps * global_step))


def _common(
    smoothness: float, n_silos: int, silo_rate: float, local_steps: int
) -> tuple[float, float, int]:
    """Check the arguments; return the smoothness, sqrt(l M) and K."""
    smoothness = check_positive("smoothness", smoothness)
    taking_part = check_rate("silo_rate", silo_rate) * check_count("n_silos", n_silos)
    return smoothness, math.sqrt(taking_part), check_count("local_steps", local_steps)
