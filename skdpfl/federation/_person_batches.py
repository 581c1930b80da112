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

from skdpfl.federation._batches import Batches, GroupBatches
from skdpfl.federation._gradient import Batch, Draw, Several
from skdpfl.models import Records

#: batches of more rows are gathered anew in each step
MOST_KEPT = 2**23


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
        drawn = [[self._drawn(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts_of_persons, silos, persons) for persons in drawn]

    def _drawn(self, silo: int, step: int) -> np.ndarray:
        """Draw a batch of persons, by their numbers, and return them in the data's order."""
        people = self._batches.data.people
        assert people is not None
        return np.sort(people.places[people.starts[silo] + self._batches.draw(silo, step)])

    def _of_everybody(self, silos: np.ndarray) -> Iterable[Batch]:
        """Return all persons of the silos; kept for the next step if they can be read in place."""
        whose, parts = self._before.get(int(silos[0]), (None, []))
        if whose is silos:
            return parts
        people = self._batches.data.people
        assert people is not None
        ends = zip(people.starts[silos].tolist(), people.starts[silos + 1].tolist(), strict=True)
        batches = self._in_parts_of_persons(silos, [np.arange(*each) for each in ends])
        if not self._read_often or len(self._batches.data.y) > MOST_KEPT:
            return batches
        parts = list(batches)
        self._before[int(silos[0])] = silos, parts
        return parts

    def _in_parts_of_persons(self, silos: np.ndarray, persons: list[np.ndarray]) -> Iterator[Batch]:
        """Yield the rows of these persons of each silo; a large silo, alone, has many parts.

        Where they are cut depends on the silo's own rows only, as their sum's last bits do.
        """
        data, chunk, first = self._batches.data, self._batches.chunk, int(silos[0])
        if len(persons) > 1 or data.sizes[first] <= self._at_once:
            yield self._together(persons)
            return
        (alone,), rows = persons, data.sizes[first] / data.units[first]
        at_once = max(1, int(self._at_once / rows) // chunk) * chunk
        for start in range(0, max(1, len(alone)), at_once):
            yield self._together([alone[start : start + at_once]])

    def _together(self, persons: list[np.ndarray]) -> Batch:
        """Return one batch of these persons."""
        data = self._batches.data
        assert data.people is not None
        one = [data.people.rows[each] == 1 for each in persons]
        pairs = list(zip(persons, one, strict=True))
        rows, ends, _ = data.of_persons([each[mask] for each, mask in pairs])
        batch = self._as_group(Records(data.X, rows, ends))
        if all(mask.all() for mask in one):
            return batch
        rows, ends, edges = data.of_persons([each[~mask] for each, mask in pairs])
        group = self._as_group(Records(data.X, rows, ends))
        several = Several(group.records, group.y, group.squared_norms, edges)
        return batch._replace(several=several)
