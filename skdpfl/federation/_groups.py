"""The batches of groups of large silos.

The batch of a large silo is cut into parts of at most PART numbers; consecutive records are not
copied. Only batches of a single part are grouped with those of other silos.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from skdpfl.federation._batches import Batches
from skdpfl.federation._data import Rows
from skdpfl.federation._gradient import Draw, Group
from skdpfl.models import Records

#: a part of a batch has about this many numbers
PART = 2**20
#: the largest number of bytes of a group
GROUP = 2**23


class Groups:
    """Batches of several large silos at once."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._model = batches, batches.work.model
        self._most = batches.work.plan.largest_batches
        # whole chunks, so that cutting into parts does not change the order of summation
        chunk = batches.chunk
        self._at_once = max(1, PART // (chunk * self._model.n_features)) * chunk

    def cut(self, silos: np.ndarray, jobs: int) -> list[np.ndarray]:
        """Cut large silos into groups of about equal work, a multiple of ``jobs`` of them.

        Silos whose batches are cut into parts are groups of their own.
        """
        model, most = self._model, self._most[silos]
        numbers = most * model.numbers_per_record + 4.0 * model.size
        total = numbers.sum()
        count = jobs * math.ceil(total * self._batches.dtype.itemsize / (GROUP * jobs))
        # by the middle of each silo's share of the cumulative work
        group = (np.cumsum(numbers) - numbers / 2) * count // total
        alone = most > self._at_once
        cut = (np.diff(group) > 0) | alone[1:] | alone[:-1]
        return np.split(silos, np.flatnonzero(cut) + 1)

    def of(self, silos: np.ndarray, steps: range) -> list[Draw]:
        """Return the batches of large silos in some of the fit's steps.

        Batches of more than one part belong to a single silo.
        """
        drawn = [[self._batches.drawn(silo, t) for silo in silos.tolist()] for t in steps]
        return [partial(self._in_parts, rows) for rows in drawn]

    def _in_parts(self, rows: list[Rows]) -> Iterator[Group]:
        if len(rows) > 1:
            yield self._as_group(rows)
            return
        for part in _cut(rows[0], self._at_once):
            yield self._as_group([part])

    def _as_group(self, rows: list[Rows]) -> Group:
        """Return the silos' records; products gather and convert them if it is not done here."""
        batches, data = self._batches, self._batches.data
        records = Records(data.X, rows)
        index = _joined(rows) or (rows[0] if len(rows) == 1 else records.index())
        as_is = data.X.dtype == batches.dtype or self._model.converts_records
        if data.transform is not None or not as_is or not data.is_by_row:
            X = data.at(index, None if as_is else batches.dtype)[0]
            records = Records.in_turn(X, records.lengths)
        return Group(records, data.targets(index), batches.squared_norms[index])


def _joined(rows: list[Rows]) -> slice | None:
    """Return adjacent slices as one, None if they are not adjacent."""
    slices = [part for part in rows if isinstance(part, slice)]
    if len(slices) < len(rows) or any(a.stop != b.start for a, b in pairwise(slices)):
        return None
    return slice(slices[0].start, slices[-1].stop)


def _cut(rows: Rows, most: int) -> Iterator[Rows]:
    """Cut row numbers, or a slice of rows, into parts of at most ``most``; at least one."""
    if isinstance(rows, slice):
        for start in range(rows.start, max(rows.stop, rows.start + 1), most):
            yield slice(start, min(start + most, rows.stop))
    else:
        for start in range(0, max(1, len(rows)), most):
            yield rows[start : start + most]
