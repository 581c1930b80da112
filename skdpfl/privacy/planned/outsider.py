"""What someone who sees the released models only can learn from a plan's rounds."""

from __future__ import annotations

import numpy as np

from skdpfl.privacy.public_numbers import PublicNumbers


def outsider_multipliers(plan: PublicNumbers) -> np.ndarray | None:
    """Return the multipliers that someone faces who sees the cohorts' sums only; None: no credit.

    Sound only where a round releases nothing but the sum of the cohort's fresh gradients (one local
    step, no state that mixes old noise into new sums). Then silo i, whose noise in the sum has std
    s_i = w_i z_i C / (q_i n_i), is hidden by sqrt(sum_j s_j^2) over the cohort: z_i is multiplied
    by sqrt(sum_j s_j^2) / s_i, at its smallest over the rounds it was in.

    This counts sums as real numbers. Each silo's own guarantee is exact in floating point, since
    its noise and its sum share a grid; the grids of several silos need not agree, and what the last
    bits of their sum tell about single summands is not counted here.
    """
    one_step = all(k <= 1 for k in plan.steps)
    if (plan.unit, plan.trust) != ("record", "silo") or not (plan.gradients_only and one_step):
        return None
    squares = (plan.record_shares * plan.noise_multiplier) ** 2
    if plan.schedule is None:
        return np.sqrt(squares.sum()) / plan.record_shares
    least = np.full(plan.n_silos, np.inf)
    for silos in plan.schedule:
        least[silos] = np.minimum(least[silos], squares[silos].sum())
    return np.sqrt(np.where(np.isfinite(least), least, squares)) / plan.record_shares
