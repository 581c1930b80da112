"""What each silo of a plan releases over all rounds, and which silos need to be priced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skdpfl.privacy.events import Composition, Exact, compose

if TYPE_CHECKING:
    from skdpfl.privacy.plan import PrivacyPlan


class Groups(NamedTuple):
    """Silos that released the same things at the same delta, once each.

    ``of_silo`` (n_silos,) is each silo's group; ``first`` names one silo of each group.
    """

    of_silo: np.ndarray
    first: np.ndarray
    compositions: list[Composition]


def levels_of(plan: PrivacyPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct factors (L,) and how often each silo met each of them (n_silos, L)."""
    if plan.unit == "silo":  # one message a round, in the worst case in every round
        return np.ones(1), np.full((plan.n_silos, 1), _most_rounds(plan), dtype=np.int64)
    values, codes = np.unique(np.concatenate(plan.factors), return_inverse=True)
    per_round = np.zeros((plan.n_rounds, len(values)), dtype=np.int64)
    np.add.at(per_round, (np.repeat(np.arange(plan.n_rounds), plan.steps), codes), 1)
    if plan.schedule is None:
        total = per_round.sum(axis=0)
        return values, np.broadcast_to(total, (plan.n_silos, len(values)))
    counts = np.zeros((plan.n_silos, len(values)), dtype=np.int64)
    for silos, row in zip(plan.schedule, per_round, strict=True):
        counts[silos] += row
    return values, counts


def _most_rounds(plan: PrivacyPlan) -> int:
    """Return the most rounds one silo can take part in, whatever the secret draw was."""
    if plan.cohort != "balanced" or plan.silo_fraction >= 1:
        return plan.n_rounds
    per_round = max(1, round(plan.silo_fraction * plan.n_silos))
    return min(plan.n_rounds, -(-plan.n_rounds * per_round // plan.n_silos))


def groups_of(plan: PrivacyPlan, z: np.ndarray) -> Groups:
    """Return what was released at noise multipliers ``z``, group by group."""
    z = np.broadcast_to(z, (plan.n_silos,))
    if plan.unit == "silo":
        everyone, first = np.zeros(plan.n_silos, dtype=int), np.zeros(1, dtype=int)
        return Groups(everyone, first, [composition_of(plan, 0, z[0])])
    keys = np.column_stack([z, plan.rates, plan.delta, plan.levels[1]])
    if (keys == keys[0]).all():
        first, group = np.zeros(1, dtype=int), np.zeros(plan.n_silos, dtype=int)
    else:
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return Groups(group.ravel(), first, [composition_of(plan, i, z[i]) for i in first.tolist()])


def composition_of(plan: PrivacyPlan, silo: int, z: float) -> Composition:
    """Return what one silo releases at noise multiplier ``z``, setup and training."""
    if z == 0:  # this silo's own budget is infinite
        return ((Exact(), 1),)
    factors, counts = plan.levels
    pairs = zip(factors.tolist(), counts[silo].tolist(), strict=True)
    levels = [(float(z) * f, int(c)) for f, c in pairs]
    n = int(plan.known_sizes[silo]) if plan.unit == "record" else 0
    training = plan.mechanism.composition(plan, z, n, levels)
    return compose([*plan.setup, *training])


def dearest(plan: PrivacyPlan, z: np.ndarray) -> list[Composition]:
    """Return the compositions at multipliers ``z`` that may cost most."""
    return [composition_of(plan, i, z[i]) for i in dearest_silos(plan, z)]


def dearest_silos(plan: PrivacyPlan, z: np.ndarray) -> list[int]:
    """Return silos among which the dearest is, at multipliers proportional to ``z``.

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
