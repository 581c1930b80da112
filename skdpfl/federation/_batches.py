"""Drawing batches: the records of a silo that a step uses, and their rows.

Each silo and step has its own random stream, so batches do not depend on how silos are computed
together: in groups (:mod:`skdpfl.federation._groups`) or stacks (:mod:`skdpfl.federation._stacks`).

The part of its records that a silo uses in a step (sampling "disjoint")::

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

from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import Precision
from skdpfl.privacy.sampling import Disjoint


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


class Batches:
    """The silos of one data set, under one sampling.

    ``squared_norms`` (n,) are those of the records; ``dtype`` is the dtype of products; ``deals``
    are those of silos that were dealt already.
    """

    def __init__(
        self,
        data: SiloData,
        squared_norms: np.ndarray,
        work: Work,
        precision: Precision | None,
        streams: Streams,
        deals: dict[int, np.ndarray],
    ) -> None:
        self.data, self.squared_norms, self.work = data, squared_norms, work
        self.streams, self._deals = streams, deals
        self.dtype = work.dtype if precision is None else precision.products
        self.chunk = 1 if precision is None else precision.chunk
        self.sampling = work.plan.sampling
        if isinstance(self.sampling, Disjoint):
            self._parts = Parts(work.plan.steps, work.plan.schedule)

    def draw(self, silo: int, step: int) -> Rows:
        """Draw a batch, as indices within the silo."""
        n = int(self.data.starts[silo + 1] - self.data.starts[silo])
        if not isinstance(self.sampling, Disjoint):
            return self.sampling.draw(self.streams.stream("batch", silo, step), n, 1)[0]
        part = self._parts.of(silo, step)
        if silo not in self._deals:
            self._deals[silo] = self.sampling.deal(self.streams.stream("batch", silo), n)
        return self._deals[silo][part]

    def drawn(self, silo: int, step: int) -> Rows:
        """Draw a batch, as rows of the data."""
        return self.data.rows_of(silo, self.draw(silo, step))
