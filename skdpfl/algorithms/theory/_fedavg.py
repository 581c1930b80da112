"""Step sizes and weights of SCAFFOLD and FedAvg: Noble et al. (2022).

M silos, a fraction l of them a round, K local steps on a fraction s of the records, losses of
smoothness nu, gradients with (1/M) sum |grad F_i|^2 <= G^2 + B^2 |grad F|^2::

    SCAFFOLD     eta_g = sqrt(l M),  eta_l = l^(2/3) / (24 nu K eta_g)        (convex)
                                     or l / (54 mu K eta_g), if smaller       (mu-strongly convex)
    FedAvg       eta_g = sqrt(l M),  eta_l = 1 / (8 (1 + B^2) nu K eta_g)
    experiments  eta_g = 1,          eta_l = eta_0 / (s K)

The constant 54 is from memory and not checked against the paper; the theorem for SCAFFOLD without
noise (Karimireddy et al. 2020) allows steps below l / (15 mu K eta_g).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import check_count, check_not_negative, check_positive, check_rate


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
    *,
    smoothness: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    strong_convexity: float = 0.0,
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
    strong_convexity : float, default=0.0
        mu.

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
    if check_not_negative("strong_convexity", strong_convexity):
        local = min(local, silo_rate / (54 * strong_convexity * steps * global_step))
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


def noble2022_weights(
    steps: StepSizes, *, strong_convexity: float, local_steps: int, n_rounds: int
) -> np.ndarray:
    """Return the weights of the theorem's output for strongly convex losses.

    Proportional to (1 - mu eta_g eta_l K / 2)^-t, as in the proof for SCAFFOLD.

    Parameters
    ----------
    steps : StepSizes
        From :func:`noble2022_scaffold_steps`.
    strong_convexity : float
        mu.
    local_steps, n_rounds : int
        K and T.

    Returns
    -------
    ndarray of shape (n_rounds,)
        The weight, summing to 1, of the parameters *before* each round.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import StepSizes, noble2022_weights
    >>> noble2022_weights(StepSizes(1.0, 0.5), strong_convexity=1.0, local_steps=2, n_rounds=2)
    array([0.33333333, 0.66666667])
    """
    effective = steps.global_step * steps.local_step * check_count("local_steps", local_steps)
    shrink = check_positive("strong_convexity", strong_convexity) * effective / 2
    if shrink >= 1:
        raise ValueError(f"{steps!r} are not valid: mu eta_g eta_l K / 2 = {shrink:.3g} >= 1.")
    from_last = np.arange(1 - check_count("n_rounds", n_rounds), 1)
    weights = np.exp(-from_last * math.log1p(-shrink))
    return weights / weights.sum()


def _common(
    smoothness: float, n_silos: int, silo_rate: float, local_steps: int
) -> tuple[float, float, int]:
    """Check the arguments; return the smoothness, sqrt(l M) and K."""
    smoothness = check_positive("smoothness", smoothness)
    taking_part = check_rate("silo_rate", silo_rate) * check_count("n_silos", n_silos)
    return smoothness, math.sqrt(taking_part), check_count("local_steps", local_steps)
