"""The least noise with which a plan's price is within a budget.

Formal guarantee
----------------
What :func:`least_noise` returns was priced: every group of silos (:func:`groups_of`), with its own
noise, releases and delta, costs at most the least budget in it. The search before that only looks
at the silos that should cost most.
"""

from __future__ import annotations

import math

import numpy as np

from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.silo_releases import (
    cells_of,
    composition_of,
    costliest_silos,
    groups_of,
)

#: More budgets than this share noise multipliers, whose prices differ by this share.
_MANY, _RUNG = 64, 8e-3

#: By how much noise that costs too much is raised: at least, how often, and at once by its excess.
_MORE, _MOST_TIMES, _AT_ONCE = 1e-4, 40, 1.01


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
        return _of_silo(plan, mechanism, 0, budgets[0])
    if not np.ptp(budgets):
        return _alike(plan, mechanism, float(budgets[0]))
    cell, costliest = cells_of(plan, mechanism)
    needed = np.zeros(plan.n_silos)
    for c, silo in enumerate(costliest.tolist()):
        inside = cell == c
        distinct, of_silo = np.unique(budgets[inside], return_inverse=True)
        find = _on_a_ladder if len(distinct) > _MANY else _one_by_one
        needed[inside] = find(plan, mechanism, silo, distinct)[of_silo]
    return needed


def _one_by_one(
    plan: PublicNumbers, mechanism: Mechanism, silo: int, budgets: np.ndarray
) -> np.ndarray:
    return np.array([_of_silo(plan, mechanism, silo, e) for e in budgets.tolist()])


def _on_a_ladder(
    plan: PublicNumbers, mechanism: Mechanism, silo: int, budgets: np.ndarray
) -> np.ndarray:
    """Return for each of many budgets (they increase) a noise whose price is known and within it.

    From the largest budget's noise on, noise is raised in steps that each lower the price by
    ``_RUNG``; a budget gets the noise of the next lower price.
    """

    def price(z: float) -> float:
        composition = composition_of(plan, mechanism, silo, z)
        return price_epsilon(composition, float(plan.delta[silo]), plan.neighbours)

    finite = budgets[np.isfinite(budgets)]
    z = _of_silo(plan, mechanism, silo, finite[-1])
    _of_silo(plan, mechanism, silo, finite[0])  # or an error that says why not
    noise, prices, slope = [z], [price(z)], -4.0  # the first step is short
    while prices[-1] > finite[0]:
        z = noise[-1] * math.exp(-_RUNG / slope)
        cost = price(z)
        slope = math.log(cost / prices[-1]) / math.log(z / noise[-1]) if cost > 0.0 else slope
        slope = min(-0.1, max(-20.0, slope))
        noise, prices = [*noise, z], [*prices, cost]
    rungs = np.argsort(prices)
    place = np.searchsorted(np.array(prices)[rungs], finite, side="right") - 1
    return np.append(np.array(noise)[rungs[place]], np.zeros(len(budgets) - len(finite)))


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
