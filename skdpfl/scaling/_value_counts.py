r"""Values of columns without declared categories: noisy counts above a threshold.

::

    c_v     = how many of the silo's records (server: of all) have value v in the column
    noisy_v = c_v + N(0, sigma^2)                  for every v with c_v >= 1, and for no other
    given out: (v, noisy_v) of those with noisy_v >= tau
    q       = P[N(0, sigma^2) >= tau - 1]          tau such that 1 - (1 - q)^d <= delta_0

There are d columns; missing values are not counted. tau is 1 + sigma times a normal quantile, so a
value that a single record has is released with probability at most q.

Formal guarantee
----------------
Let D and D' differ in one record (replaced, or its contribution set to zero), hence in the counts
of one group. Call a value of a column *common* if both D and D' have it there, and *own* if only
one of them has it; the other's count is then 0, its own 1, and each has at most one own value in
each column. The noises are independent, so the output is a pair of independent parts:

- *Common values.* They are the same set under D and D'. Their counts change by at most 1 each, in
at most two of them in each column (one if zeroed): sqrt(2 d) in Euclidean norm (sqrt(d)).
  Noisy counts are a Gaussian mechanism of ``mu = sqrt(2 d) / sigma``; dropping those below tau is
  post-processing.
- *Own values.* D releases one with probability ``a = 1 - (1 - q)^J``, J <= d its number of own
values; D' never does, but releases its own with ``a' = 1 - (1 - q)^J'``. "None" has probability 1 -
a and
  1 - a'. So for every set of outputs P(S) - P'(S) is at most ``a + max(0, a' - a)``, which is
  ``max(a, a') <= 1 - (1 - q)^d <= delta_0``. This part is (0, delta_0)-DP.

*A person.* The mean over rows does not bound how many names a person brings. So one row of each is
drawn, at random from the person's own rows, with a draw by number that no row decides
(:attr:`skdpfl.federation.People.places`). For any draws the counts are those of records, one for
each person, and the two neighbours' differ in one; mixtures over draws keep both bounds. In one sum
over k silos of a person an own value counts up to k, which replaces the 1 in tau, there are up to k
J of them, and failures add: the price has the releases of k silos.

Two independent mechanisms on the same records compose: the accountant gets ``Gaussian`` and
``Approximate(0, delta_0)``. With several silos, neighbours differ in one silo's message.

*Names.* A name is a bool, int, float or text that :mod:`skdpfl.encoding` makes of a value by its
column's kind, which is part of the question; so equal values have one name, whichever records have
them, and any other object is a missing value. Names are sorted by type and value before noise is
added, so their order depends on their set alone.

Counts are integers and added to integer noise on one grid (:mod:`skdpfl.privacy.release`). That
noise is normal up to a relative error below 1e-4 of a tail's probability, as far as it is not cut
off; q is increased by 1 % plus 1e-20, for this, for the grid and for rounding tau.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skdpfl.encoding import Kind, canonical, in_order, label_of
from skdpfl.federation import Named, SiloBudgets, SiloData, SumQuestion
from skdpfl.privacy import release
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._centre_sums import CentreSum

#: the part of delta that pays for the threshold: the rest of a pipeline has the same delta, and for
#: a group of records it counts several times
SHARE = 0.01
#: q is larger by this factor, and by this number
_FACTOR, _ROUNDING = 1.01, 1e-20


@dataclass(frozen=True, eq=False)
class ValueCounts(CentreSum):
    """The values of the columns, with noisy counts above a threshold; ``kinds`` are those of all.

    All silos have the same noise.
    """

    kinds: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (2 * self.d,)  # the counts of two records' values

    @property
    def radius(self) -> float:
        return math.sqrt(self.d)

    @property
    def diameter(self) -> float:
        return math.sqrt(2 * self.d)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        if len(self.kinds) != n_features or not set(self.kinds) <= set(get_args(Kind)):
            raise ValueError(f"kinds must have one of {get_args(Kind)!r} for each column.")

    def noised(self, budgets: SiloBudgets, mu: np.ndarray) -> release.NoisedSum:
        if budgets.unit == "silo":
            raise ValueError("A silo may be the only one with a value, which its name would tell.")
        if budgets.shares_noise:
            raise ValueError("A set of values is not a sum: each silo adds all of its noise.")
        delta = self.diameter if budgets.neighbours == "replace" else self.radius
        most = float(max(self.largest, budgets.summed.max()))
        apart = np.full(len(mu), release.relative_error((2, release.DOUBLE)) * most * delta)
        std = release.noise_for(mu, delta, 2 * self.d, apart)
        return release.NoisedSum(
            std, np.array([release.grid_for(s, most) if s else 0.0 for s in std.tolist()])
        )

    def answers(
        self, question: SumQuestion, data: SiloData, streams: Streams
    ) -> Iterator[tuple[np.ndarray, Any]]:
        if question.plan.budgets.unit == "person":
            data = _one_row_each(data, streams, question)
        used = np.flatnonzero(self.used)
        columns = [CodedColumn(data.X[:, j], self.kinds[j]) for j in used]  # type: ignore[arg-type]
        give = None if question.plan.budgets.as_one else self.giver(question, streams)
        for silo in np.flatnonzero(data.sizes).tolist():
            rows = data.rows_of(silo, slice(None))
            counted = [column.counts(rows) for column in columns]
            if give is not None:
                counted = [give(silo, counts, j) for j, counts in enumerate(counted)]
            values = np.concatenate([np.zeros(0), *(each.counts for each in counted)])
            yield np.array([silo]), [Named(values, tuple(each.names for each in counted))]

    def giver(
        self, question: SumQuestion, streams: Streams
    ) -> Callable[[int, ColumnCounts, int], ColumnCounts]:
        """Return the function that releases a column's noisy counts, by silo and column."""
        plan, noised = question.plan, self.noised(question.plan.budgets, question.mu)
        most = ones(plan.budgets)
        least = [threshold(std, self.d, plan.failure, most) for std in noised.std.tolist()]

        def give(silo: int, counted: ColumnCounts, column: int) -> ColumnCounts:
            names, counts = counted
            if noised.std[silo] and len(counts):
                units = streams.units_block(
                    plan.purpose, (silo,), column, counts.shape, np.float64
                )[0]
                counts = release.snapped_release(counts, units, float(noised.grid[silo]))
            enough = counts >= least[silo]
            return ColumnCounts(tuple(compress(names, enough)), counts[enough])

        return give


class ColumnCounts(NamedTuple):
    """A column's values and their counts, sorted by type and value."""

    names: tuple[Any, ...]
    counts: np.ndarray


class CodedColumn:
    """A column of all silos' records; missing values are not counted."""

    def __init__(self, column: np.ndarray, kind: Kind) -> None:
        codes, values = pd.factorize(canonical(column, kind), use_na_sentinel=True)
        labels = [label_of(value, kind) for value in values.tolist()]
        order = sorted(range(len(labels)), key=lambda i: in_order(labels[i]))
        self._labels = [labels[i] for i in order]
        rank = np.empty(len(labels) + 1, dtype=np.intp)
        rank[order], rank[-1] = np.arange(len(labels)), -1
        self._codes = rank[codes]

    def counts(self, rows: np.ndarray | slice) -> ColumnCounts:
        """Count the values of some records."""
        codes = self._codes[rows]
        used, counts = np.unique(codes[codes >= 0], return_counts=True)
        names = tuple(self._labels[code] for code in used.tolist())
        return ColumnCounts(names, counts.astype(np.float64))


def ones(budgets: SiloBudgets) -> int:
    """Return the largest count, in one sum, of a value that one unit alone has."""
    return min(budgets.silos_per_person, budgets.n_silos) if budgets.as_one else 1


def _one_row_each(data: SiloData, streams: Streams, question: SumQuestion) -> SiloData:
    """Return one row of each person, drawn from the silo's own stream.

    The prefix keeps this stream apart from the noise's, whatever purpose a server chooses.
    """
    assert data.people is not None
    purpose, number = f"rows of persons: {question.purpose}", question.number
    here = np.flatnonzero(data.people.counts).tolist()
    rows = [
        streams.stream(purpose, silo, number).random(int(data.people.counts[silo])) for silo in here
    ]
    return data.one_row_each(np.concatenate([np.zeros(0), *rows]))


@lru_cache(maxsize=64)
def threshold(std: float, n_columns: int, failure: float, n_ones: int = 1) -> float:
    """Return tau, at which values of one unit are released with probability ``failure``."""
    if not std:
        return 1.0  # without privacy
    # 1 - (1 - q)^d = failure
    q = -math.expm1(math.log1p(-failure) / n_columns)
    least = (q - _ROUNDING) / _FACTOR
    if least <= 0:
        raise ValueError(
            f"delta={failure / SHARE:.3g} is too small for a threshold on counts: declare the "
            "categories."
        )
    return n_ones - std * float(ndtri(least)) * (1 + 1e-12)
