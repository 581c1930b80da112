"""Values of columns whose vocabulary nobody has declared, found within a budget.

What a silo gives out, and what that costs: :mod:`skdpfl.scaling._value_counts`.
"""

import math
from dataclasses import replace
from itertools import starmap
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.federation import Named, SiloBudgets, SumPlan
from skdpfl.preprocessing._paying import SiloSource
from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Approximate, Composition, Gaussian
from skdpfl.scaling import SHARE, ColumnCounts, ValueCounts, threshold


def _unnamed(sent: Named) -> list[ColumnCounts]:
    """Return the columns' values and counts."""
    ends = np.cumsum([len(values) for values in sent.names])[:-1]
    return list(starmap(ColumnCounts, zip(sent.names, np.split(sent.values, ends), strict=True)))


def beside_threshold(budgets: SiloBudgets, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the mu that is left of (epsilon, delta) for noise, and the threshold's delta."""
    failure = SHARE * delta
    if math.isinf(epsilon):
        return math.inf, failure

    def build(multiplier: float) -> Composition:
        return (Gaussian(multiplier), 1), (Approximate(0.0, failure), 1)

    return budgets.change / calibrate(build, epsilon, delta, budgets.neighbours), failure


class Vocabulary:
    """The values of some columns that are found with a Gaussian budget, and a threshold's delta.

    Silos that share noise add all of their own here: which values there are is no sum of numbers.
    """

    def __init__(self, budgets: SiloBudgets, used: np.ndarray, mu: float, failure: float) -> None:
        if budgets.shares_noise:
            budgets = replace(budgets, trust="silo", colluding=0, spare=0)
        self.budgets = budgets
        self.what = ValueCounts(used, int(budgets.summed.max()))
        each = (np.full(budgets.n_silos, mu),)
        self.plan = SumPlan(budgets, "vocabulary", each, failure=failure)
        self.std = float(self.plan.noised(0, self.what).std[0])
        self.threshold = threshold(self.std, self.what.d, failure)

    def found(self, source: SiloSource) -> list[pd.Series]:
        """Return each column's values with their noisy counts, the most frequent first.

        Counts are added up over the silos that gave the value out; the server has one sum.
        """
        return self.together(self.each(source), source)

    def each(self, source: SiloSource) -> list[list[ColumnCounts]]:
        """Return what each silo gives out of each column; exact counts for a trusted server."""
        question = self.plan.question(0, self.what)
        sent = dict[int, Any]()
        for silos, answers in source.federation.ask(question):
            sent |= dict(zip(silos.tolist(), answers, strict=True))
        return [_unnamed(sent[silo]) for silo in sorted(sent)]

    def together(self, each: list[list[ColumnCounts]], source: SiloSource) -> list[pd.Series]:
        """Return the totals of each column over the silos."""
        totals = [_added(counts) for counts in zip(*each, strict=True)]
        if self.budgets.as_one:
            question = self.plan.question(0, self.what)
            give = self.what.giver(question, source.streams)
            totals = [give(0, counts, j) for j, counts in enumerate(totals)]
        return [by_frequency(counts) for counts in totals]


def _added(counted: tuple[ColumnCounts, ...]) -> ColumnCounts:
    """Return the sum of counts by value and kind, in order of first occurrence."""
    totals = dict[tuple[type, Any], float]()
    for values, counts in counted:
        for value, count in zip(values, counts.tolist(), strict=True):
            key = type(value), value
            totals[key] = totals.get(key, 0.0) + count
    return ColumnCounts(tuple(value for _, value in totals), np.array(list(totals.values()), float))


def by_frequency(counted: ColumnCounts) -> pd.Series:
    """Return the positive ones, the most frequent first."""
    names = pd.Index(list(counted.names), dtype=object, tupleize_cols=False)
    totals = pd.Series(counted.counts, index=names)
    totals = totals[totals > 0]
    if totals.index.has_duplicates:
        raise ValueError(
            "A column has equal values of several kinds, such as 1, 1.0 and True: make them one."
        )
    by_name = sorted(totals.index, key=lambda v: (type(v).__name__, v))
    return totals.loc[by_name].sort_values(ascending=False, kind="stable")
