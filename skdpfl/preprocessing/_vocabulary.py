r"""Values of columns whose vocabulary nobody has declared: noisy counts above a threshold.

::

    c_v     = how many of the silo's records (server: of all) have value v in the column
    noisy_v = c_v + N(0, sigma^2)                  for every v with c_v >= 1, and for no other
    given out: (v, noisy_v) of those with noisy_v >= tau
    q       = P[N(0, sigma^2) >= tau - 1]          tau such that 1 - (1 - q)^d <= delta_0

d columns; a missing value is no value. tau is 1 + sigma times a quantile of the normal, so a value
that one record has is given out with probability q at most.

Formal guarantee
----------------
Let D and D' differ in one record (replaced, or its contribution set to zero), hence in the counts
of one group. Call a value of a column *common* if both D and D' have it there, and *own* if one of
them has it only; the other's count is then 0, its own 1, and each has at most one own value in each
column. The noises are independent, so the output is a pair of independent parts:

- *Common values.* They are the same set under D and D'. Their counts move by at most 1 each, by 1
  in at most two of them in each column (one if zeroed): sqrt(2 d) in Euclidean norm (sqrt(d)).
  Noisy counts are a Gaussian mechanism of ``mu = sqrt(2 d) / sigma``; dropping those below tau is
  post-processing.
- *Own values.* D gives one out with probability ``a = 1 - (1 - q)^J``, J <= d its number of own
  values; D' never does, but others with ``a' = 1 - (1 - q)^J'``. "None" has probability 1 - a and
  1 - a'. So for every set of outputs P(S) - P'(S) is at most ``a + max(0, a' - a)``, which is
  ``max(a, a') <= 1 - (1 - q)^d <= delta_0``. This part is (0, delta_0)-DP.

Two independent mechanisms on the same records compose: ``Gaussian`` and ``Approximate(0, delta_0)``
are what the accountant is told. With silos apart, neighbours differ in one silo's message.

*Which of equal values.* 0.0 and -0.0, or 1, 1.0 and True, count as one value; which of them is
given out must not follow from the record that happens to come first. So zeros lose their sign,
texts and numbers are given out as Python's own, and equal values of several kinds in a column are
an error, which is visible, as that of a missing label is.

Counts are integers and added to integer noise on one grid (:mod:`skdpfl.privacy.release`). That
noise is normal but for a relative error below 1e-4 of a tail's probability out to where it is cut
off; q is taken 1 % larger, plus 1e-20, for this, for the grid and for rounding tau.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from skdpfl.preprocessing._sums import Held
from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Approximate, Composition, Exact, Gaussian, change_of
from skdpfl.privacy.release import DOUBLE, grid_for, noise_for, relative_error, snapped_release

#: the part of delta that pays for the threshold: the rest of a pipeline has the same delta, and for
#: a group of records it counts several times
SHARE = 0.01
#: q is larger by this factor, and by this number
_FACTOR, _ROUNDING = 1.01, 1e-20


class Vocabulary(NamedTuple):
    """A release of values with noisy counts: its noise, its threshold, and what it costs."""

    mu: float
    change: float
    std: float
    threshold: float
    composition: Composition

    @classmethod
    def planned(cls, held: Held, n_columns: int, epsilon: float, delta: float) -> Vocabulary:
        """Return the release of ``n_columns`` columns' values within (epsilon, delta)."""
        if math.isinf(epsilon):
            return cls(math.inf, 0.0, 0.0, 1.0, ((Exact(), 1),))
        change = math.sqrt(change_of(held.neighbours) * n_columns)
        failure = SHARE * delta

        def build(multiplier: float) -> Composition:
            return (Gaussian(multiplier), 1), (Approximate(0.0, failure), 1)

        multiplier = calibrate(build, epsilon, delta, held.neighbours)
        mu = change_of(held.neighbours) / multiplier
        most = float(held.groups.max())
        apart = relative_error((2, DOUBLE)) * most * change
        std = float(noise_for(np.array([mu]), change, 2 * n_columns, np.array([apart]))[0])
        return cls(mu, change, std, threshold(std, n_columns, failure), build(multiplier))

    def found(self, column: np.ndarray, held: Held, number: int) -> pd.Series:
        """Return a column's values with their noisy counts, the most frequent first.

        Counts are added up over the groups that gave the value out.
        """
        codes, values = pd.factorize(_of_one_kind(column), use_na_sentinel=True)
        known, n_groups = codes >= 0, held.groups.size
        flat = np.bincount(
            held.group_of[known] * len(values) + codes[known], minlength=n_groups * len(values)
        )
        counts = flat.reshape(n_groups, len(values)).astype(np.float64)
        given = np.zeros_like(counts)
        for group in range(n_groups):
            here = np.flatnonzero(counts[group])
            noisy = self._noisy(counts[group, here], held, group, number)
            out = noisy >= self.threshold
            given[group, here[out]] = noisy[out]
        totals = pd.Series(given.sum(axis=0), index=pd.Index(values, tupleize_cols=False))
        totals = totals[totals > 0]
        by_name = sorted(totals.index, key=lambda v: (type(v).__name__, v))
        return totals.loc[by_name].sort_values(ascending=False, kind="stable")

    def _noisy(self, counts: np.ndarray, held: Held, group: int, number: int) -> np.ndarray:
        if not self.std or not counts.size:
            return counts
        grid = grid_for(self.std, float(held.groups.max()))
        stream = held.streams.stream("vocabulary", group, number)
        return snapped_release(counts, stream.units(counts.shape, np.float64), grid)


#: kinds of values, and what makes one of them of any that are equal to it
_KINDS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (bool, bool),
    (np.bool_, bool),
    (numbers.Integral, int),
    (numbers.Real, lambda x: float(x) + 0.0),
    (str, str),
)


def _of_one_kind(column: np.ndarray) -> np.ndarray:
    """Return a column in which equal values are the same; raise if some are of several kinds."""
    if column.dtype.kind == "f":
        return column + 0.0  # -0.0 + 0.0 is 0.0
    if column.dtype != object:
        return column
    kinds = list(map(type, column.tolist()))
    if set(kinds) <= {str, type(None)}:
        return column
    rest = np.flatnonzero([kind is not str for kind in kinds])  # no text is equal to a number
    values, names = np.empty(len(rest), object), np.empty(len(rest), object)
    for i, value in enumerate(column[rest].tolist()):
        kind, made = next((k for k in _KINDS if isinstance(value, k[0])), (type(value), None))
        names[i], values[i] = kind.__name__.strip("_"), value if made is None else made(value)
    codes = pd.factorize(values, use_na_sentinel=True)[0]
    known = codes >= 0
    each = pd.factorize(names[known])[0]
    first = np.zeros(codes.max(initial=-1) + 1, int)
    first[codes[known][::-1]] = each[::-1]
    if (first[codes[known]] != each).any():
        raise ValueError(
            "A column has equal values of several kinds, such as 1, 1.0 and True: make them one."
        )
    out = column.copy()
    out[rest] = values
    return out


def threshold(std: float, n_columns: int, failure: float) -> float:
    """Return tau, at which values of one record are given out with probability ``failure``."""
    # 1 - (1 - q)^d = failure
    q = -math.expm1(math.log1p(-failure) / n_columns)
    least = (q - _ROUNDING) / _FACTOR
    if least <= 0:
        raise ValueError(
            f"delta={failure / SHARE:.3g} is too small for a threshold on counts: declare the "
            "categories."
        )
    return 1.0 - std * float(ndtri(least)) * (1 + 1e-12)
