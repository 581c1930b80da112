"""Batches of persons: persons are drawn, and all of their rows are read.

A batch has the rows of persons with one row, which are summed as records are, and beside them those
of persons with several, whose gradients are combined before they are clipped.

**Formal guarantee.** A person's rows are in one part of a batch, so they give one contribution. How
many terms a sum has, and how many partial sums it is formed from, is bounded by public numbers as
for records (:mod:`skdpfl.privacy.release.precision`): with c persons in a product, a silo of n
persons is cut into K parts of whole multiples of c persons, part k of c m_k. Its two sums have at
most m_k products each, or m_k + 1 together, and are added up; so a person's term goes through at
most c + m_k + K - 1 <= c + ceil(n / c) operations. No number of rows enters.
"""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from skdpfl.federation._batches import KEPT, Batches, GroupBatches
from skdpfl.federation._gradient import Batch, Draw, Several
from skdpfl.models import Records


class PersonBatches(GroupBatches):
    """Batches of the persons of several silos at once."""

    def __init__(self, batches: Batches, clip: np.ndarray | None) -> None:
        super().__init__(batches, clip)
        self._most = batches.data.sizes  # rows, whose number decides what is held at once
        self._read_often = self._in_place or self._keeps
        self._before: dict[int, tuple[np.ndarray, list[Batch]]] = {}

    def of(self, silos: np.ndarray, steps: range, stop: int) -> list[Draw]:
        if self._everybody:
            return [partial(self._of_everybody, silos)] * len(steps)
        drawn = [[np.asarray(self._batches.draw(s, t)) for s in silos.tolist()] for t in steps]
        return [partial(self._of_drawn, silos, persons) for persons in drawn]

    def _of_everybody(self, silos: np.ndarray) -> Iterable[Batch]:
        """Return all persons of the silos; kept for the next step if they can be read in place."""
        whose, parts = self._before.get(int(silos[0]), (None, []))
        if whose is silos:
            return parts
        counts = self._batches.data.units[silos].tolist()
        batches = self._of_drawn(silos, [np.arange(n) for n in counts])
        if not self._read_often or len(self._batches.data.y) > 2**6 * KEPT:
            return batches
        parts = list(batches)
        self._before[int(silos[0])] = silos, parts
        return parts

    def _of_drawn(self, silos: np.ndarray, persons: list[np.ndarray]) -> Iterator[Batch]:
        """Yield the rows of these persons, numbers in their silos; one silo may have many parts."""
        if len(silos) > 1:
            yield self._together(silos, persons)
            return
        data, chunk = self._batches.data, self._batches.chunk
        rows = int(data.sizes[silos[0]]) / int(data.units[silos[0]])
        at_once = max(1, int(self._at_once / rows) // chunk) * chunk
        for start in range(0, max(1, len(persons[0])), at_once):
            yield self._together(silos, [persons[0][start : start + at_once]])

    def _together(self, silos: np.ndarray, persons: list[np.ndarray]) -> Batch:
        """Return one batch of these persons."""
        data = self._batches.data
        assert data.people is not None
        starts, n_rows = data.people.starts[silos].tolist(), data.people.rows
        alone = [n_rows[a + each] == 1 for a, each in zip(starts, persons, strict=True)]
        one = [each[mask] for each, mask in zip(persons, alone, strict=True)]
        rows, ends, _ = data.of_persons(silos, one)
        batch = self._as_group(Records(data.X, rows, ends))
        if all(mask.all() for mask in alone):
            return batch
        more = [each[~mask] for each, mask in zip(persons, alone, strict=True)]
        rows, ends, edges = data.of_persons(silos, more)
        group = self._as_group(Records(data.X, rows, ends))
        several = Several(group.records, group.y, group.squared_norms, edges)
        return batch._replace(several=several)
