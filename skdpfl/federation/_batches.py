"""Drawing batches: the records of a silo that a step uses, and their rows.

Each silo and step has its own random stream, so batches do not depend on how silos are computed
together: in groups (:mod:`skdpfl.federation._groups`) or stacks (:mod:`skdpfl.federation._stacks`).
"""

from __future__ import annotations

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.federation._parts import Parts
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.release import Precision
from skdpfl.privacy.sampling import Disjoint


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
