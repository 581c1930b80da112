"""Drawing batches: which of a silo's records a step uses, and where they are.

Each silo and step has a stream of its own, so a batch is the same however silos are put together:
in groups (:mod:`skdpfl.federation._groups`) or in stacks (:mod:`skdpfl.federation._stacks`).
"""

from __future__ import annotations

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._data import Rows, SiloData
from skdpfl.privacy.release import Precision
from skdpfl.privacy.sampling import Disjoint


class Batches:
    """The silos of one data set, under one sampling.

    ``squared_norms`` (n,) are the records'; ``dtype`` is what products are computed in.
    """

    def __init__(
        self, data: SiloData, squared_norms: np.ndarray, work: Work, precision: Precision | None
    ) -> None:
        self.data, self.squared_norms, self.work = data, squared_norms, work
        self.dtype = work.dtype if precision is None else precision.products
        self.chunk = 1 if precision is None else precision.chunk
        self.sampling = work.plan.sampling
        self._parts: dict[int, tuple[np.ndarray, int]] = {}

    def draw(self, silo: int, step: int) -> Rows:
        """Draw a batch, counting within the silo."""
        n = int(self.data.starts[silo + 1] - self.data.starts[silo])
        streams = self.work.streams
        if not isinstance(self.sampling, Disjoint):
            return self.sampling.draw(streams.stream("batch", silo, step), n, 1)[0]
        if silo not in self._parts:
            self._parts[silo] = self.sampling.deal(streams.stream("batch", silo), n), 0
        parts, used = self._parts[silo]
        self._parts[silo] = parts, used + 1
        return parts[used]

    def drawn(self, silo: int, step: int) -> Rows:
        """Draw a batch, as rows of the data."""
        return self.data.rows_of(silo, self.draw(silo, step))
