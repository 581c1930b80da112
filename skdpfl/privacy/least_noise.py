"""The least noise with which a plan's price is within a budget.

Formal guarantee
----------------
What :func:`least_noise` returns was priced: every group of silos (:func:`groups_of`), with its own
noise, releases and delta, costs at most the least budget in it. The search before that only looks
at the silos that should cost most.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from skdpfl.privacy.calibration import MANY_BUDGETS, Search, calibrate, shared_budgets
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.silo_releases import cells_of, composition_of, costliest_silos, groups_of

#: By how much noise that costs too much is raised: at least, how often, and at once by its excess.
_MORE, _MOST_TIMES, _AT_ONCE = 1e-4, 40, 1.01


def allowed(plan: PublicNumbers, mechanism: Mechanism, z: float | np.ndarray) -> np.ndarray:
    """Return ``z``, at least the smallest multiplier of the plan's mechanism."""
    if plan.unit == "silo":  # who pays is secret: all messages are noised alike
        return np.full(plan.n_silos, max(np.max(z), mechanism.least_noise), dtype=float)
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
        excess = _excess_of(plan, mechanism, z, budgets)
        if excess.max() <= 1.0:
            return z
        if not np.ptp(budgets):  # all alike for one budget
            excess = np.full_like(excess, excess.max())
        more = np.maximum(1.0 + _MORE * 2**k, np.minimum(excess, _AT_ONCE))
        z = allowed(plan, mechanism, z * np.where(excess > 1.0, more, 1.0))
    raise ValueError(f"epsilon={epsilon!r} cannot be met: its price does not fall with the noise.")


def _excess_of(
    plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray, budgets: np.ndarray
) -> np.ndarray:
    """Return each silo's price of noise ``z`` over the least budget of its group."""
    groups = groups_of(plan, mechanism, z)
    least = np.full(len(groups.first), np.inf)
    np.minimum.at(least, groups.of_silo, budgets)
    price = [
        price_epsilon(composition, float(plan.delta[i]), plan.neighbours)
        for composition, i in zip(groups.compositions, groups.first.tolist(), strict=True)
    ]
    with np.errstate(invalid="ignore"):
        share = np.where(np.array(price) <= least, 0.0, np.array(price) / least)
    return np.asarray(share[groups.of_silo])


def _first_noise(
    plan: PublicNumbers, mechanism: Mechanism, budgets: np.ndarray
) -> float | np.ndarray:
    """Return noise by the silos that should cost most."""
    if plan.unit == "silo":
        return _of_silo(plan, mechanism, 0, budgets.min())
    if not np.ptp(budgets):
        return _alike(plan, mechanism, float(budgets[0]))
    budgets = shared_budgets(budgets)
    cell, costliest = cells_of(plan, mechanism)
    keys, of_silo = np.unique(np.column_stack([cell, budgets]), axis=0, return_inverse=True)
    silos = costliest[keys[:, 0].astype(int)]
    if len(keys) <= MANY_BUDGETS:
        wanted = zip(silos.tolist(), keys[:, 1].tolist(), strict=True)
        needed = np.array([_of_silo(plan, mechanism, i, e) for i, e in wanted])
    else:
        needed = _in_turn(plan, mechanism, silos, keys[:, 1])
    return needed[of_silo.ravel()]


def _in_turn(
    plan: PublicNumbers, mechanism: Mechanism, silos: np.ndarray, budgets: np.ndarray
) -> np.ndarray:
    """Return each silo's noise; each search starts where the noise of larger budgets leads."""
    needed = np.zeros(len(silos))
    start, last, slope = mechanism.search.start, (0.0, 0.0), -1.0
    for k in np.lexsort((-budgets, plan.rates[silos])).tolist():
        e = float(budgets[k])
        if e == np.inf:
            continue
        if last[0] > 0.0:
            start = last[0] * min(5.0, max(0.2, (e / last[1]) ** slope))
        z = _of_silo(plan, mechanism, int(silos[k]), e, replace(mechanism.search, start=start))
        if last[0] not in (0.0, z) and last[1] != e:
            slope = math.log(z / last[0]) / math.log(e / last[1])
        needed[k], last = z, (z, e)
    return needed


def _alike(plan: PublicNumbers, mechanism: Mechanism, epsilon: float) -> np.ndarray:
    """Return one multiplier for all silos, or one noise if the mechanism shares it."""
    exposure = mechanism.exposure(plan)
    exposure = np.ones(plan.n_silos) if exposure is None else exposure
    silos = costliest_silos(plan, 1 / exposure)
    return max(_of_silo(plan, mechanism, i, epsilon) * float(exposure[i]) for i in silos) / exposure


def _of_silo(
    plan: PublicNumbers,
    mechanism: Mechanism,
    silo: int,
    epsilon: float,
    search: Search | None = None,
) -> float:
    if epsilon == np.inf:
        return 0.0
    return calibrate(
        lambda z: composition_of(plan, mechanism, silo, z),
        float(epsilon),
        float(plan.delta[silo]),
        plan.neighbours,
        search or mechanism.search,
    )
