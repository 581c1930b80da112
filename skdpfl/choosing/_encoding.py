"""Levels and ranges of a frame that are not declared, found within the budget.

::

    levels   noisy counts above a threshold             _LEVELS of mu^2, and a part of delta
    ranges   counts of magnitudes, means and variances  _RANGES of mu^2

The shares are fixed; a frame whose columns are all declared pays for neither. A category keeps the
levels with the largest noisy counts, at most as many as it has columns, which are public.

Formal guarantee
----------------
Levels are priced in :mod:`skdpfl.scaling._value_counts`: c columns count as one sum of distance
sqrt(2 c). Ranges are priced in :mod:`skdpfl.scaling._moments`; a gap is a value like any other
there. Both are in ``setup`` of the plan. The encoding is a function of what they released, and of
public numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpfl._warnings import warn
from skdpfl.encoding import EncodedColumn, Encoding, in_order
from skdpfl.federation import Federation, SiloBudgets, SumPlan
from skdpfl.preprocessing import SiloSource, Vocabulary, range_of
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import (
    EVERYTHING,
    SHARE,
    Bounds,
    ScalingPlan,
    ScalingRun,
    find_moments,
    plan_scaling,
)

#: the parts of mu squared for levels, and for ranges
_LEVELS, _RANGES = 0.1, 0.1
_REMEDY = (
    "Declare the levels in feature_bounds if they are public, which costs nothing, raise epsilon, "
    'or let a trusted server add the noise (trust="server").'
)


@dataclass(frozen=True, eq=False)
class EncodingPlan:
    """The sums by which undeclared levels and ranges of a frame are found.

    ``vocabulary`` reads the paid categories, ``ranges`` the paid numbers and days; None: there are
    none.
    """

    encoding: Encoding
    vocabulary: Vocabulary | None
    ranges: ScalingPlan | None
    is_exact: bool

    @property
    def sums(self) -> tuple[SumPlan, ...]:
        """The plans of the sums."""
        levels = () if self.vocabulary is None else (self.vocabulary.plan,)
        return levels if self.ranges is None else (*levels, self.ranges.sums)

    @property
    def share(self) -> float:
        """The share of mu that they spend."""
        squared = _LEVELS * (self.vocabulary is not None) + _RANGES * (self.ranges is not None)
        return math.sqrt(squared)

    def find(self, words: Federation, numbers: Federation, streams: Streams) -> Encoding:
        """Ask silos for the levels of paid categories, and for the ranges of paid numbers.

        Parameters
        ----------
        words, numbers : Federation
            Silos with the columns of ``encoding.unknown("category")``, and of numbers and dates.
        streams : Streams
            The server's.
        """
        levels, ranges = dict[Any, Any](), dict[Any, Any]()
        if self.vocabulary is not None:
            source = SiloSource(words, streams, np.dtype(object))
            counted = self.vocabulary.find(source)
            for column, counts in zip(self._categories, counted, strict=True):
                most = counts.index[: column.width].tolist()
                levels[column.name] = tuple(sorted(most, key=in_order))
            self._warn([name for name, values in levels.items() if not values])
        if self.ranges is not None:
            low, high = self._ranges(numbers, streams)
            for j, column in enumerate(self.encoding.unknown("number", "date").columns):
                ranges[column.name] = float(low[j]), float(high[j])
        return self.encoding.complete(ranges, levels)

    def _ranges(self, numbers: Federation, streams: Streams) -> tuple[np.ndarray, np.ndarray]:
        assert self.ranges is not None
        if self.is_exact:
            X = numbers.data.X  # type: ignore[attr-defined]
            seen = np.isfinite(X)
            low, high = np.where(seen, X, np.inf).min(0), np.where(seen, X, -np.inf).max(0)
            low, high = np.where(low <= high, (low, high), 0.0)
        else:
            low, high = range_of(
                self.ranges, find_moments(self.ranges, ScalingRun(self.ranges, numbers, streams))
            )
        return low, np.where(high > low, high, low + np.maximum(1.0, np.abs(low)))

    @property
    def _categories(self) -> tuple[EncodedColumn, ...]:
        return self.encoding.unknown("category").columns

    def _warn(self, empty: list[Any]) -> None:
        if empty and self.vocabulary is not None:
            warn(
                f"No level of {empty[:5]!r} was found: one needs a noisy count of "
                f"{self.vocabulary.threshold:.0f}. {_REMEDY}"
            )


def plan_encoding(
    encoding: Encoding | None, budget: SiloBudgets, delta: float, *, ranged: bool
) -> EncodingPlan | None:
    """Return the plan of what is not declared of a frame; None if nothing is to be found.

    ``given`` are the budgets of the whole fit, ``delta`` the smallest of its silos; ``ranged``:
    whether ranges of numbers are needed.
    """
    if encoding is None or encoding.is_known:
        return None
    categories, vocabulary, ranges = encoding.unknown("category").columns, None, None
    if categories:
        _refuse_whole_silos(budget, categories)
        used, kinds = np.ones(len(categories), bool), ("category",) * len(categories)
        mu = math.sqrt(_LEVELS) * budget.mu
        vocabulary = Vocabulary(budget, used, kinds, mu, SHARE * delta)  # type: ignore[arg-type]
        _check_threshold(vocabulary, encoding, categories)
    numbers = encoding.unknown("number", "date").columns
    if numbers and ranged:
        part = replace(budget, mu=math.sqrt(_RANGES) * budget.mu)
        ranges = plan_scaling(part, len(numbers), scaling="private", shares=EVERYTHING)
        ranges = replace(ranges, purpose="ranges")
    if vocabulary is None and ranges is None:
        return None
    return EncodingPlan(encoding, vocabulary, ranges, bool(np.isinf(budget.mu).all()))


def _refuse_whole_silos(budget: SiloBudgets, categories: tuple[EncodedColumn, ...]) -> None:
    """Raise where whole silos are protected: one may be the only one with a level."""
    if budget.unit == "silo":
        raise ValueError(
            f'unit="silo" cannot find the levels of {[c.name for c in categories][:5]!r}, since '
            "one silo may be the only one that has a level: declare them in feature_bounds."
        )


def _check_threshold(
    vocabulary: Vocabulary, encoding: Encoding, categories: tuple[EncodedColumn, ...]
) -> None:
    """Raise, or warn, if no silo has as many records as a level needs."""
    most = float(vocabulary.budgets.summed.max())
    if vocabulary.threshold <= most:
        return
    names = [column.name for column in categories]
    message = (
        f"No level of {names[:5]!r} can be found: one needs a noisy count of "
        f"{vocabulary.threshold:.0f}, with {most:.0f} records. {_REMEDY}"
    )
    if len(categories) == len(encoding):
        raise ValueError(message)
    warn(message)


def bounds_of(encoding: Encoding) -> Bounds:
    """Return the bounds of an encoding's columns; (-1, 1) where a range is not known yet."""
    low, high = encoding.ranges()
    return Bounds(np.where(np.isnan(low), -1.0, low), np.where(np.isnan(high), 1.0, high))
