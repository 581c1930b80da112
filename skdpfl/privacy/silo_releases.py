"""What each silo of a plan releases over all rounds, which silos to price, what outsiders see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skdpfl.privacy.events import Composition, Exact, compose
from skdpfl.privacy.mechanisms import Mechanism
from skdpfl.privacy.public_numbers import PublicNumbers


class Groups(NamedTuple):
    """Silos that released the same things at the same delta, once each.

    ``of_silo`` (n_silos,) is each silo's group; ``first`` names one silo of each group.
    """

    of_silo: np.ndarray
    first: np.ndarray
    compositions: list[Composition]


def groups_of(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> Groups:
    """Return what was released at noise multipliers ``z``, group by group."""
    z = np.broadcast_to(z, (plan.n_silos,))
    if plan.unit == "silo":
        everyone, first = np.zeros(plan.n_silos, dtype=int), np.zeros(1, dtype=int)
        return Groups(everyone, first, [composition_of(plan, mechanism, 0, z[0])])
    keys = np.column_stack([z, plan.rates, plan.delta, plan.levels[1]])
    if (keys == keys[0]).all():
        first, group = np.zeros(1, dtype=int), np.zeros(plan.n_silos, dtype=int)
    else:
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    compositions = [composition_of(plan, mechanism, i, z[i]) for i in first.tolist()]
    return Groups(group.ravel(), first, compositions)


def composition_of(plan: PublicNumbers, mechanism: Mechanism, silo: int, z: float) -> Composition:
    """Return what one silo releases at noise multiplier ``z``, setup and training."""
    if z == 0:  # this silo's own budget is infinite
        return ((Exact(), 1),)
    factors, counts = plan.levels
    pairs = zip(factors.tolist(), counts[silo].tolist(), strict=True)
    levels = [(float(z) * f, int(c)) for f, c in pairs]
    n = int(plan.known_sizes[silo]) if plan.unit == "record" else 0
    training = mechanism.composition(plan, z, n, levels)
    return compose([*plan.setup, *training])


def costliest(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> list[Composition]:
    """Return the compositions at noise multipliers ``z`` that may cost most."""
    return [composition_of(plan, mechanism, i, z[i]) for i in costliest_silos(plan, z)]


def costliest_silos(plan: PublicNumbers, z: np.ndarray) -> list[int]:
    """Return silos of which one costs most, at noise multipliers proportional to ``z``.

    A price grows in every count and in the rate and falls in z and delta, so a silo that another
    one dominates in all of them need not be priced.
    """
    terms = np.column_stack([-z, plan.rates, plan.levels[1], -np.log(plan.delta)])
    terms, first = np.unique(np.round(terms, 12), axis=0, return_index=True)
    kept: list[int] = []
    for i in range(len(terms) - 1, -1, -1):
        if not kept or not (terms[kept] >= terms[i]).all(axis=1).any():
            kept.append(i)
    return [int(first[i]) for i in kept]


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
