"""The least noise with which a plan's price is within a budget."""

from __future__ import annotations

import numpy as np

from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.silo_releases import composition_of, costliest_silos, groups_of


def allowed(plan: PublicNumbers, mechanism: Mechanism, z: float | np.ndarray) -> np.ndarray:
    """Return ``z``, raised to what the plan's mechanism can run."""
    exposure = mechanism.exposure(plan)
    if exposure is not None:  # one noise for all
        z = (np.broadcast_to(z, exposure.shape) * exposure).max() / exposure
    return np.asarray(np.maximum(z, mechanism.least_noise), dtype=float)


def least_noise(
    plan: PublicNumbers, mechanism: Mechanism, epsilon: float | np.ndarray
) -> float | np.ndarray:
    """Return the noise multipliers: all alike for one budget, each silo's for its own."""
    budgets = np.broadcast_to(np.asarray(epsilon, dtype=float), (plan.n_silos,))
    if plan.unit == "silo":
        return _of_silo(plan, mechanism, 0, budgets[0])
    if not np.ptp(budgets):
        return _alike(plan, mechanism, float(budgets[0]))
    # as if budgets were multipliers: they are equal in a group, too
    groups = groups_of(plan, mechanism, budgets)
    needed = np.array([_of_silo(plan, mechanism, i, budgets[i]) for i in groups.first.tolist()])
    return needed[groups.of_silo]


def _alike(plan: PublicNumbers, mechanism: Mechanism, epsilon: float) -> np.ndarray:
    """Return one multiplier for all silos, or one noise where the mechanism has but one."""
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
