"""The part of its records that a silo uses in a step (sampling "disjoint").

    part(silo, step) = the steps of the silo's earlier rounds + the step's place in its round

Formal guarantee. A silo uses each part in one step at most, so a record enters one step at most,
which is what is priced. *Proof.* Let a silo take part in the rounds r_1 < r_2 < ... of the public
schedule, and let round r have K_r steps. Step k of round r_j has the number
K_(r_1) + ... + K_(r_(j-1)) + k with 0 <= k < K_(r_j): these intervals are disjoint, so two steps
never share a number. The number is a function of schedule and steps only, both public: it is the
same after a silo was saved and restored. The deal is part of the saved state. Rounds that the silo
is not scheduled in have no part and are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Parts:
    """The numbers of the parts, from a plan's steps and schedule (None: all silos, every round)."""

    def __init__(self, steps: Sequence[int], schedule: Sequence[np.ndarray] | None) -> None:
        self._n_rounds, self._starts = len(steps), np.cumsum([0, *steps])
        self._everyone = schedule is None
        if schedule is None:
            return
        silos = np.concatenate([np.zeros(0, np.int64), *schedule])
        rounds = np.repeat(np.arange(len(schedule)), [len(cohort) for cohort in schedule])
        # the rounds of each silo, silo by silo
        keys = silos * self._n_rounds + rounds
        order = np.argsort(keys)
        self._keys, taken = keys[order], np.asarray(steps)[rounds[order]]
        before = np.cumsum(taken) - taken
        owner = self._keys // max(1, self._n_rounds)
        first = np.searchsorted(owner, owner)
        self._before = before - before[first]

    def of(self, silo: int, step: int) -> int:
        """Return the part that a silo uses in a step, counted over all rounds."""
        if self._everyone:
            return step
        round = int(np.searchsorted(self._starts, step, "right")) - 1
        key = silo * self._n_rounds + round
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            raise ValueError(f"Silo number {silo} is not scheduled in round {round}.")
        return int(self._before[place] + step - self._starts[round])
