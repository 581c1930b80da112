r"""The releases of describe and its kin: noised sums over the columns of a table.

::

    magnitudes   counts of 1, 2, 4, ... of columns without bounds; their boxes follow
    spreads      number, mean and mean square of a column's values inside its box
    bins         counts between edges of the box; quantiles and histograms follow
    known        how many records have a value, of columns of words
    levels       counts of declared values
    lives        counts of the cells of life tables, by groups: declared values
    products     products of columns in their own units, in a ball; correlations follow
    words        counts of the values of columns of words, above a threshold

A look computes some of these, each once; later ones may depend on earlier results. With a budget
mu, part k over d_k columns gets mu_k^2 ~ a_k sqrt(d_k): these shares minimise the sum of squared
errors, since the variance of the noise is d_k / mu_k^2.

Formal guarantee
----------------
Each part is a :class:`skdpfl.federation.BoundedSum`, a Gaussian mechanism of mu_k for its silo's
records (:mod:`skdpfl.federation._sums`); radius and diameter are proved in
:mod:`skdpfl.scaling._centre_sums` and, with the threshold's delta,
:mod:`skdpfl.scaling._value_counts`. Parts compose adaptively, with sum mu_k^2 = mu^2.
Everything computed from them, including errors, is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdpfl import preprocessing, scaling
from skdpfl._arguments import check_flags
from skdpfl._declarations import as_declared
from skdpfl.federation import BoundedSum, Federation, Schema, SiloBudgets, SumPlan

#: how much a part's error matters
_WEIGHTS = {
    "magnitudes": 1.0,
    "spreads": 1.0,
    "bins": 1.5,
    "known": 0.25,
    "levels": 1.0,
    "lives": 1.0,
    "products": 4.0,
    "words": 1.5,
}
#: rows, in deviations of their columns, are cut to this norm times the root of their length
_ROW_NORM = 1.5


class Lives(NamedTuple):
    """Intervals in shares of the horizon, the column of groups, and targets of local silos."""

    cuts: tuple[float, ...]
    horizon: float
    by: Any = None
    targets: Any = None


class Sums(NamedTuple):
    """Noisy sums of the silos (n_silos, *shape), or of all (1, *shape), and their noise."""

    each: np.ndarray
    std: float

    def of(self, silo: int | None) -> Sums:
        """Return the sum of one silo, or of all."""
        if silo is not None:
            return Sums(self.each[silo], self.std)
        return Sums(self.each.sum(axis=0), self.std * math.sqrt(len(self.each)))


@dataclass(eq=False, repr=False)
class FirstLook(preprocessing.PayingTransformer):
    """Noised sums over the columns of a table; ``parts`` names them.

    After a fit ``found`` has the sums of each part, ``used`` its columns, ``box`` their ranges.
    """

    epsilon: float = 1.0
    _: KW_ONLY
    called: str = "look"
    parts: tuple[str, ...] = ()
    n_bins: int | None = None
    levels: tuple[Any, ...] = ()
    single: bool = False
    lives: Lives | None = None
    feature_bounds: Any = None
    neighbours: str = "auto"

    @property
    def _entry_name(self) -> str:
        return self.called

    def at(
        self, table: Any, silos: Any, persons: Any, facts: Schema | None, by_silo: bool
    ) -> FirstLook:
        """Run the sums on a table, or on remote silos."""
        check_flags(by_silo=by_silo)
        if by_silo and self.trust != "silo":
            raise ValueError(
                f"by_silo=True is for trust='silo': with {self.trust!r} silos add too little noise."
            )
        if not isinstance(table, Federation):
            table, self.feature_bounds = as_declared(as_table(table), self.feature_bounds)
            return self.fit(table, silos=silos, persons=persons)  # type: ignore[no-any-return]
        arguments = silos, persons, self.silo_column, self.person_column
        if facts is None or any(each is not None for each in arguments):
            raise ValueError(
                "Remote silos need facts=Schema(...), instead of silos, persons or their columns."
            )
        return self.fit_federation(table, facts)  # type: ignore[no-any-return]

    @property
    def names(self) -> np.ndarray:
        """The names of the columns, or their numbers."""
        return np.array(
            getattr(self, "feature_names_in_", range(self.n_features_in_)), dtype=object
        )

    def _plan(self, budgets: SiloBudgets, delta: float) -> preprocessing.Learning:
        self.budgets, self.box, self.sums = budgets, self._boxes(), dict[str, Sums]()
        self.lost = np.zeros(self.n_features_in_, dtype=bool)
        columns = dict.fromkeys(_WEIGHTS, ~self.words & ~(self.box.low == self.box.high))
        columns["bins"] = columns["spreads"] & ~self._are("flag")
        columns["magnitudes"] = columns["spreads"] & np.isnan(self.box.low)
        columns |= {"known": self.words, "words": self.words | (self.parts == ("words",))}
        columns["levels"] = np.ones(self.n_features_in_, dtype=bool)
        columns["lives"] = self._column_of_groups()
        self.used = {part: columns[part] for part in self.parts if columns[part].any()}
        if not set(self.used) - {"magnitudes"}:
            raise ValueError(
                f"None of the columns {self.names.tolist()[:5]!r} has a type of use here."
            )
        if self.single and (several := self.names[self.used[self.parts[-1]]]).size > 1:
            raise ValueError(f"Give one column; got {several.tolist()[:5]!r}.")
        amounts = {part: _WEIGHTS[part] * math.sqrt(u.sum()) for part, u in self.used.items()}
        self.numbers = {p: i for i, p in enumerate(p for p in amounts if p != "words")}
        mu, failure, masked, whole = float(budgets.mu[0]), 0.0, 1.0, sum(amounts.values())
        if "words" in self.used:
            mu, failure = preprocessing.beside_threshold(budgets, float(self.epsilon), delta)
            if budgets.shares_noise:  # words are never masked, nor asked again
                masked = budgets.event_share
                whole += budgets.spare * max((amounts[p] for p in self.numbers), default=0.0)
        mus = {p: np.full(budgets.n_silos, mu * math.sqrt(a / whole)) for p, a in amounts.items()}
        plans, first = list[SumPlan](), None
        if self.numbers:
            each = tuple(mus[part] / masked for part in self.numbers)
            self.plan = SumPlan(budgets, "look", each)
            plans, asked = [self.plan], next(iter(self.numbers))
            first = None if asked == "bins" else self._asked(asked)
        if "words" in mus:
            self.vocabulary = preprocessing.Vocabulary(
                budgets, self.used["words"], self._kinds, float(mus["words"][0]), failure
            )
            plans.append(self.vocabulary.plan)
            first = first if self.numbers else self.vocabulary.what
        return preprocessing.Learning(tuple(plans), first)

    def _column_of_groups(self) -> np.ndarray:
        """Return which column has the groups of life tables; the first, if there are no groups."""
        names, by = self.names.tolist(), None if self.lives is None else self.lives.by
        if by is not None and by not in names:
            raise ValueError(f"by={by!r} is not among the silos' columns: {names[:8]!r}.")
        return np.arange(len(names)) == (0 if by is None else names.index(by))

    def _targets(self, n: int) -> np.ndarray:
        return super()._targets(n) if self.lives is None else self.lives.targets

    def _are(self, kind: str) -> np.ndarray:
        """Return which columns are of a kind."""
        return np.array([each == kind for each in self._kinds])

    def _boxes(self) -> scaling.Bounds:
        """Return the declared bounds, NaN where there are none; set which columns are text."""
        low, high = np.full((2, self.n_features_in_), np.nan)
        low[self._are("flag")], high[self._are("flag")] = 0.0, 1.0
        self.words, ranges, names = self._are("category"), self.feature_bounds, self.names.tolist()
        if isinstance(ranges, Mapping):
            known = [j for j, name in enumerate(names) if ranges.get(name) is not None]
            bounds = scaling.read_feature_bounds(ranges, len(known), [names[j] for j in known])
            low[known], high[known] = bounds.low, bounds.high
            self.words &= [name not in ranges for name in names]
        elif ranges is not None:
            named = getattr(self, "feature_names_in_", None)
            bounds = scaling.read_feature_bounds(ranges, len(low), named)
            low[:], high[:] = bounds.low, bounds.high
        return scaling.Bounds(low, high)

    def _learn(self, source: preprocessing.SiloSource) -> str:
        advice = ""
        for part, number in self.numbers.items():
            what = self._asked(part)
            each = self.plan.question(number, what).each(source.federation, source.streams)
            self.sums[part] = Sums(each, float(self.plan.noised(number, what).std.max()))
            if part == "magnitudes":
                advice = self._read_magnitudes()
        if "words" in self.used:
            self.words_of_each = self.vocabulary.each(source)
            self.words_of_all = self.vocabulary.together(self.words_of_each, source)
            advice = f"{advice} {self._words_without_levels()}".strip()
        return advice

    def _words_without_levels(self) -> str:
        """Return a warning about text columns without a released value."""
        none = [not len(counts) for counts in self.words_of_all]
        if not any(none):
            return ""
        where = "in all" if self.budgets.as_one else "in a silo"
        names = self.names[self.used["words"]][none].tolist()
        return (
            f"No value of {names!r} is frequent enough to be released, which needs "
            f"{self.vocabulary.threshold:.0f} records {where}. Raise epsilon, or declare them."
        )

    def _asked(self, part: str) -> Any:
        """Return the next sum."""
        used, largest = self.used[part], int(self.budgets.summed.max())
        if part == "magnitudes":
            return scaling.Magnitudes(used, largest)
        if part == "known":
            return scaling.Known(used, largest)
        if part == "levels":
            return scaling.Levels(used, largest, self.levels)
        if part == "lives":
            assert self.lives is not None
            own = self.lives.cuts, self.lives.horizon
            return scaling.LifeTable(used, largest, self.levels, *own)
        if part == "bins":
            self.edges = self._edges(used)
            return scaling.Bins(used, largest, self.edges)
        if part == "spreads":
            low, high = self.box_of("spreads")
            return scaling.Spreads(used, largest, low, high, self.budgets.neighbours == "replace")
        _, mean, std = self.spread(None)
        scale, fine = np.zeros(len(used)), np.isfinite(mean)
        low, high = self.box_of("spreads")
        std = np.where(std > 0, std, (high / 2 - low / 2) / 3)  # units change noise, nothing else
        if not fine.any():
            raise ValueError(f"Noise dominates all columns. {_MORE}")
        center, at = scale.copy(), np.flatnonzero(used)[fine]
        center[at], scale[at] = mean[fine], std[fine]
        norm, n_silos = _ROW_NORM * math.sqrt(used.sum()), self.budgets.n_silos
        self.products = scaling.ScaledMoments(center, norm, False, n_silos, scale=scale)
        return self.products

    def box_of(self, part: str) -> scaling.Bounds:
        """Return the ranges of a part's columns; arbitrary ones for columns without a range."""
        low, high = self.box.low[self.used[part]], self.box.high[self.used[part]]
        lost = np.isnan(low)
        return scaling.Bounds(np.where(lost, -1.0, low), np.where(lost, 1.0, high))

    def _edges(self, used: np.ndarray) -> np.ndarray:
        """Return edges of bins: equally spaced, or denser where magnitudes have more values."""
        box, n_bins = self.box_of("bins"), self.n_bins or self._enough_bins(used)
        edges = box.edges(n_bins)
        if self.n_bins is None and "magnitudes" in self.sums:
            counts, std = self.sums["magnitudes"].of(None)
            here = self.used["magnitudes"][used]
            edges[here] = scaling.edges_by(
                counts, std, scaling.Bounds(box.low[here], box.high[here]), n_bins
            )
        return edges

    def _enough_bins(self, used: np.ndarray) -> int:
        """Return the number of bins for a small error of a quantile's rank; from public numbers."""
        n, largest = float(self.budgets.units.sum()), int(self.budgets.summed.max())
        number, n_sums = self.numbers["bins"], 1 if self.budgets.as_one else self.budgets.n_silos

        def noise(what: BoundedSum) -> float:
            return float(self.plan.noised(number, what).std[0]) * math.sqrt(n_sums)

        return preprocessing.enough_bins(used, largest, noise, n)

    def _read_magnitudes(self) -> str:
        """Set the ranges that were not declared; return a warning about those not found."""
        used, (counts, std) = self.used["magnitudes"], self.sums["magnitudes"].of(None)
        box, far = scaling.boxes_of(counts, std)
        one = box.high == box.low  # all zeros, or all ones
        self.box.low[used], self.box.high[used] = box.low - one, box.high + one
        self.lost[used] = np.isnan(box.low) | far
        if not self.lost.any():
            return ""
        return f"The range of {self.names[self.lost].tolist()!r} could not be estimated. {_MORE}"

    # ---- from sums to statistics: post-processing ----------------------------------------------

    def spread(self, silo: int | None, normals: np.ndarray | float = 0.0) -> np.ndarray:
        """Return number, mean and deviation (..., 3, d) of columns; NaN: too few values.

        ``normals`` (..., 3, d) are added to the sums, to estimate the error due to noise.
        """
        what, (sums, std) = self._asked("spreads"), self.sums["spreads"].of(silo)
        n, mean, square = what.means(sums + std * normals, std)
        mean = np.clip(mean, -1.0, 1.0)
        deviation = np.sqrt(np.clip(square - mean**2, 0.0, 1.0))
        center, half = what.low / 2 + what.high / 2, what.high / 2 - what.low / 2
        few = (n < 2 * std / what.a) | self.lost[self.used["spreads"]]
        mean = np.where(few, np.nan, center + half * mean)
        deviation = np.where(few, np.nan, half * deviation)
        return np.stack([np.clip(n, 0.0, self.size(silo)), mean, deviation], axis=-2)

    def quantiles(self, silo: int | None, shares: np.ndarray, normals: Any = 0.0) -> np.ndarray:
        """Return quantiles (..., d, n_shares) of columns; NaN: too few values."""
        counts, std = self.sums["bins"].of(silo)
        counts = counts + std * normals
        few = counts.sum(axis=-1) < 2 * std * math.sqrt(counts.shape[-1])
        few = few | self.lost[self.used["bins"]]
        return np.where(few[..., None], np.nan, scaling.quantiles(counts, self.edges, shares))

    def correlations(self, normals: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the correlations (d, d) of columns; NaN: too little spread."""
        sums, std = self.sums["products"].of(None)
        _, second = self.products.unpacked(sums + std * normals)
        spread, used = np.diag(second).copy(), self.used["products"]
        spread[spread < 2 * std] = np.nan
        matrix = np.full((int(used.sum()),) * 2, np.nan)
        here = np.flatnonzero(self.products.used[used])
        matrix[np.ix_(here, here)] = np.clip(second / np.sqrt(np.outer(spread, spread)), -1.0, 1.0)
        return matrix

    def squares(self) -> np.ndarray:
        """Return the sum of each column's squares, in squared deviations; NaN: not read."""
        _, second = self.products.unpacked(self.sums["products"].of(None).each)
        squares = np.full(int(self.used["products"].sum()), np.nan)
        squares[self.products.used[self.used["products"]]] = np.diag(second)
        return squares

    def counts_of_words(self, silo: int | None) -> list[pd.Series]:
        """Return noisy counts of the values of each text column."""
        if silo is None:
            return self.words_of_all
        return [preprocessing.by_frequency(counts) for counts in self.words_of_each[silo]]

    def count_noise(self, silo: int | None) -> float:
        """Return the noise of a number of values."""
        return float(self.sums["spreads"].of(silo).std / self._asked("spreads").a)

    def words_noise(self, silo: int | None) -> float:
        """Return the largest noise of a value's count."""
        alone = silo is not None or self.budgets.as_one
        return self.vocabulary.std * (1.0 if alone else math.sqrt(self.budgets.n_silos))

    def size(self, silo: int | None) -> int:
        """Return the number of records, which is public."""
        sizes = self.budgets.silo_sizes
        return int(sizes.sum() if silo is None else sizes[silo])


_MORE = "Give feature_bounds if they are public, raise epsilon, or use fewer columns at once."


def as_table(values: Any) -> Any:
    """Return a frame or a table; a single column becomes a table of one."""
    if hasattr(values, "columns"):
        return values
    if hasattr(values, "to_frame"):
        return values.to_frame()
    table = np.asarray(values)
    return table[:, None] if table.ndim == 1 else table
