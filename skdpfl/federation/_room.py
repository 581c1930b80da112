"""How much of data in mixed order may be copied: a fit takes at most its data once more.

Handed in are X, a target and an id (counted as ID bytes) for each record. Beside them a fit holds

    the copy  +  each record's target and squared norm  +  PER_SILO for each silo  +  work

where work is what a batch takes on its way: raw predictions, slopes and factors, and its features,
where products do not take those of the copy as they are. The copy gets what is left. Records that
it has no room for are gathered whenever they are read, and their features count as work.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skdpfl.federation._base import Work
from skdpfl.federation._batches import GROUP, PART, PIECE, PIECE_GATHERED
from skdpfl.federation._data import SiloData
from skdpfl.models import Records, converts

#: bytes of a record's id: a 64-bit number, or a pointer to a string
ID = 8
#: bytes that plan, ids and starts hold for a silo, and noise and model for a stack's parameter
PER_SILO, PER_PARAMETER = 185, 20
#: data of so few bytes are copied whatever else there is
SMALL = 2**22


class Batches(NamedTuple):
    """How batches are taken: the dtype of products, threads of large silos, numbers in a stack.

    ``threads`` 0: all silos are stacked. ``whole``: all records of all silos, in turn.
    """

    products: np.dtype
    threads: int
    stack: int
    whole: bool


def room_for_copy(data: SiloData, work: Work, batches: Batches) -> float:
    """Return the bytes that a copy of X, and the row numbers of what it lacks, may take."""
    if data.X.nbytes <= SMALL:
        return math.inf
    n, m = len(data.y), len(data.sizes)
    room: float = data.X.nbytes + n * (ID - work.dtype.itemsize) - PER_SILO * m
    room -= _intermediate(data, work, batches)
    at_hand = _at_hand(data, work, batches)
    if at_hand and room >= data.X.nbytes:
        return room
    return room - _gathered(data, work, batches, at_hand)


def _at_hand(data: SiloData, work: Work, batches: Batches) -> bool:
    """Return whether products take the features of the copy where they are."""
    if not batches.threads:
        even = data.sizes.min() == data.sizes.max()
        return bool(even) and batches.whole and data.X.dtype == batches.products
    silo = Records(data.X, [slice(0, 0)])
    return batches.whole and converts(silo, batches.products, work.model.n_outputs)


def _intermediate(data: SiloData, work: Work, batches: Batches) -> float:
    """Return the bytes of raw predictions, slopes, factors and noise."""
    model = work.model
    records = max(batches.threads, 1) * PIECE // (model.n_features + model.n_outputs)
    a_record = 3 * model.n_outputs + (6 if batches.threads else 8)  # measured
    numbers = min(len(data.y), records) * a_record
    parameters = model.size * min(len(data.sizes), _at_once(data, work, batches))
    return numbers * batches.products.itemsize + PER_PARAMETER * parameters


def _gathered(data: SiloData, work: Work, batches: Batches, at_hand: bool) -> float:
    """Return the bytes of features that are gathered at once, and of row numbers and weights."""
    longest = int(data.sizes.max())
    if batches.threads:
        alone = longest * work.model.n_features > PART
        numbers = batches.threads * (PART if alone else GROUP)
        records = 0 if batches.whole else numbers // work.model.n_features
    else:
        numbers = PIECE_GATHERED if at_hand else PIECE
        records = 0 if at_hand else longest * _at_once(data, work, batches)
    row = 3 * np.dtype(np.intp).itemsize + batches.products.itemsize
    return min(data.X.size, numbers) * batches.products.itemsize + min(records, len(data.y)) * row


def _at_once(data: SiloData, work: Work, batches: Batches) -> int:
    """Return how many of the largest silos are in a stack."""
    model, longest = work.model, int(data.sizes.max())
    per_silo = longest * (model.n_features + model.n_outputs) + 4 * model.size
    return max(1, batches.stack // per_silo)
