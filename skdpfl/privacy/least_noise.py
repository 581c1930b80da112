"""The least noise with which a plan's price is within a budget.

Formal guarantee
----------------
What :func:`least_noise` returns was priced: every group of silos (:func:`groups_of`), with its own
noise, releases and delta, costs at most the least budget in it. The search before that only looks
at the silos that should cost most.
"""

from __future__ import annotations

import numpy as np

from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.silo_releases import composition_of, costliest_silos, groups_of

#: By how much noise that costs too much is raised: at first, and how often.
_MORE, _MOST_TIMES = 1e-4, 40


def allowed(plan: PublicNumbers, mechanism: Mechanism, z: float | np.ndarray) -> np.ndarray:
    """Return ``z``, at least the smallest multiplier of the plan's mechanism."""
    exposure = mechanism.exposure(plan)
    if exposure is not None:  # one noise for all
        z = (np.broadcast_to(z, exposure.shape) * exposure).max() / exposure
    return np.asarray(np.maximum(z, mechanism.least_noise), dtype=float)


def least_noise(
    plan: PublicNumbers, mechanism: Mechanism, epsilon: float | np.ndarray
) -> np.ndarray:
    """Return the noise multipliers: equal for one budget, separate for separate budgets."""
    budgets = np.broadcast_to(np.asarray(epsilon, dtype=float), (plan.n_silos,))
    z = allowed(plan, mechanism, _first_noise(plan, mechanism, budgets))
    for k in range(_MOST_TIMES):
        z = np.broadcast_to(z, (plan.n_silos,))
        over = _over_budget(plan, mechanism, z, budgets)
        if not over.any():
            return z
        raised = over if np.ptp(budgets) else np.ones_like(over)  # all alike for one budget
        z = allowed(plan, mechanism, z * np.where(raised, 1.0 + _MORE * 2**k, 1.0))
    raise ValueError(f"epsilon={epsilon!r} cannot be met: its price does not fall with the noise.")


def _over_budget(
    plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray, budgets: np.ndarray
) -> np.ndarray:
    """Tell for which silos noise ``z`` costs more than a budget of their group."""
    groups = groups_of(plan, mechanism, z)
    least = np.full(len(groups.first), np.inf)
    np.minimum.at(least, groups.of_silo, budgets)
    price = [
        price_epsilon(composition, float(plan.delta[i]), plan.neighbours)
        for composition, i in zip(groups.compositions, groups.first.tolist(), strict=True)
    ]
    return (np.array(price) > least)[groups.of_silo]


def _first_noise(
    plan: PublicNumbers, mechanism: Mechanism, budgets: np.ndarray
) -> float | np.ndarray:
    """Return noise by the silos that should cost most."""
    if plan.unit == "silo":
        return _of_silo(plan, mechanism, 0, budgets[0])
    if not np.ptp(budgets):
        return _alike(plan, mechanism, float(budgets[0]))
    # as if budgets were multipliers: they are equal in a group, too
    groups = groups_of(plan, mechanism, budgets)
    needed = np.array([_of_silo(plan, mechanism, i, budgets[i]) for i in groups.first.tolist()])
    return needed[groups.of_silo]


def _alike(plan: PublicNumbers, mechanism: Mechanism, epsilon: float) -> np.ndarray:
    """Return one multiplier for all silos, or one noise if the mechanism shares it."""
    exposure = mechanism.exposure(plan)
    exposure = np.ones(plan.n_silos) if exposure is None else exposure
    silos = costliest_silos(plan, 1 / exposure)
    return max(_of_silo(plan, mechanism, i, epsilon) * float(exposure[i]) for i in silos) / exposure


def _of_silo(plan: PublicNumbers, mechanism: Mechanism, silo: int, epsilon: float) -> float:
    if epsilon == np.inf:
        return 0.0
    return calibrate(
        lambda z: composition_of(plan, mechanism, silo, z),
        float(epsilon),
        float(plan.delta[silo]),
        plan.neighbours,
        mechanism.search,
    )
