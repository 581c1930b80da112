"""``DPOneHotEncoder``: one column for each category, declared or found within a budget.

:class:`Vocabulary` finds the values of columns without declared categories. A silo's releases, and
their cost, are in :mod:`skdpfl.scaling._value_counts`.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import starmap
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_count, is_auto
from skdpfl.encoding import Kind, canonical, in_order, is_label, kind_of_labels
from skdpfl.federation import Named, SiloBudgets, SumPlan
from skdpfl.preprocessing._paying import Learning, PayingTransformer, SiloSource, shared_docs
from skdpfl.privacy.calibration import calibrate
from skdpfl.privacy.events import Approximate, Composition, Gaussian
from skdpfl.privacy.spending.ledger import PAID_FOR, TRIED
from skdpfl.scaling import SHARE, ColumnCounts, ValueCounts, ones, threshold


def _unnamed(sent: Named) -> list[ColumnCounts]:
    """Return the columns' values and counts."""
    ends = np.cumsum([len(values) for values in sent.names])[:-1]
    return list(starmap(ColumnCounts, zip(sent.names, np.split(sent.values, ends), strict=True)))


def beside_threshold(budgets: SiloBudgets, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the mu for noise within (epsilon, delta), and the threshold's delta."""
    failure = SHARE * delta
    if math.isinf(epsilon):
        return math.inf, failure

    k = min(budgets.silos_per_person, budgets.n_silos)
    share = 1.0 if budgets.shares_noise else budgets.event_share  # silos count apart, see below

    def build(multiplier: float) -> Composition:
        return (Gaussian(multiplier), k), (Approximate(0.0, failure), k)

    multiplier = calibrate(build, epsilon, delta, budgets.neighbours)
    return budgets.change / (multiplier * share), failure


class Vocabulary:
    """The values of some columns, found with a Gaussian budget and a threshold's delta.

    Silos that otherwise share noise each add the full noise here, since a set of values is not a
    sum.
    """

    def __init__(
        self,
        budgets: SiloBudgets,
        used: np.ndarray,
        kinds: tuple[Kind, ...],
        mu: float | np.ndarray,
        failure: float,
    ) -> None:
        if budgets.shares_noise:
            budgets = budgets.trusting("silo", spare=0)
        self.budgets = budgets
        self.what = ValueCounts(used, int(budgets.summed.max()), kinds)
        each = (np.broadcast_to(np.asarray(mu, np.float64), budgets.n_silos).copy(),)
        if budgets.as_one:  # one noise, for the smallest budget
            each = (np.full(budgets.n_silos, each[0].min()),)
        self.plan = SumPlan(budgets, "vocabulary", each, failure=failure)
        self.std = float(self.plan.noised(0, self.what).std.max())
        self.threshold = threshold(self.std, self.what.d, failure, ones(budgets))

    def find(self, source: SiloSource) -> list[pd.Series]:
        """Return each column's values with their noisy counts, the most frequent first.

        Counts are summed over the silos that released the value; a trusted server has one sum.
        """
        return self.together(self.each(source), source)

    def each(self, source: SiloSource) -> list[list[ColumnCounts]]:
        """Return each silo's values and counts per column; exact ones for a trusted server."""
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
    """Return the sum of counts by value, sorted by type and value."""
    totals = dict[Any, float]()
    for values, counts in counted:
        for value, count in zip(values, counts.tolist(), strict=True):
            totals[value] = totals.get(value, 0.0) + count
    names = sorted(totals, key=in_order)
    return ColumnCounts(tuple(names), np.array([totals[name] for name in names], float))


def by_frequency(counted: ColumnCounts) -> pd.Series:
    """Return the values with positive counts, the most frequent first."""
    names = pd.Index(list(counted.names), dtype=object, tupleize_cols=False)
    totals = pd.Series(counted.counts, index=names)
    return totals[totals > 0].sort_values(ascending=False, kind="stable")


#: a category that has to be this share of the largest silo to be found is warned about
_RARE = 0.1
#: columns of one feature, at most
_MOST_COLUMNS = 1_000_000


@shared_docs
@dataclass(eq=False, repr=False)
class DPOneHotEncoder(PayingTransformer):
    """Encode categories as columns of 0 and 1; categories are declared, or found privately.

    Declared categories are public and cost nothing. Unknown ones are found by noisy counts: a value
    is released if its noisy count exceeds a threshold, so that the values of single records stay
    secret. Values outside the categories, and missing ones, become rows of zeros.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy budget for all columns with unknown categories; ``inf`` uses all values, without
        privacy.
    categories : "auto", list or mapping, default="auto"
        The categories of each column: a list with one entry per column, or a mapping from column to
        entry. An entry is a list of values, which must not be computed from the data, or "auto".
        "auto" alone: the categories of all columns are unknown.
    [delta]
    max_categories : int, default=None
        The number of output columns for each column with unknown categories: the most frequent ones
        found, padded by columns of zeros. The number of columns is then public, so that later steps
        of a pipeline have a tighter price. None: as many as were found.
    [running]

    Attributes
    ----------
    categories_ : list of ndarray
        Each column's categories: as declared, or the most frequent first.
    counts_ : list of ndarray or None
        Their noisy counts if they were found; None if they were declared.
    threshold_ : float
        The noisy count that a value needs in a silo (with ``trust="server"``: in total) to be
        found.
    width_is_public_ : bool
        Whether the number of output columns was known beforehand.
    [cost]
    [fitted]

    See Also
    --------
    DPSimpleImputer : Missing values.
    sklearn.preprocessing.OneHotEncoder : The same for declared categories, without silos.

    Notes
    -----
    **Formal guarantee.** The messages of a silo are (epsilon, delta)-differentially private for its
    records, for any data of the others: noisy counts of values that other records also have are a
    Gaussian mechanism, and a value that a single record adds or removes is released with
    probability at most delta / 100. Proved in :mod:`skdpfl.scaling._value_counts`. With declared
    categories the output depends on no record.

    A record with a value in each of d columns changes 2 d counts, so noise grows with sqrt(d):
    declare categories where possible.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.preprocessing import DPOneHotEncoder
    >>> X = np.repeat([["rural"], ["urban"], ["Atlantis"]], [400, 600, 1], axis=0)
    >>> encoder = DPOneHotEncoder(delta=1e-5, random_state=0).fit(X)
    >>> encoder.categories_
    [array(['urban', 'rural'], dtype=object)]
    >>> encoder.transform([["rural"], ["Atlantis"]])
    array([[0., 1.],
           [0., 0.]])
    >>> DPOneHotEncoder(categories=[["rural", "urban"]]).fit(X).privacy_spent_.epsilon
    0.0
    """

    _flags_out = True

    epsilon: float = 1.0
    _: KW_ONLY
    categories: Any = "auto"
    max_categories: int | None = None
    neighbours: str = "auto"
    keep_silo_column: bool = True

    @property
    def all_declared(self) -> bool:
        """Whether every column's categories are declared, so that nothing is learnt or spent."""
        categories = self.categories
        if isinstance(categories, str):
            return False
        return not any(
            is_auto(e)
            for e in (categories.values() if isinstance(categories, Mapping) else categories)
        )

    def _check(self) -> None:
        super()._check()
        if self.max_categories is not None:
            check_count("max_categories", self.max_categories, high=_MOST_COLUMNS)
        categories = self.categories
        if isinstance(categories, str) and not is_auto(categories):
            raise ValueError(
                f'categories must be "auto", a list with one entry per column, or a mapping from '
                f"column to entry; got {categories!r}."
            )

    def _plan(self, budgets: SiloBudgets, delta: float) -> Learning:
        self._declared = self._entries()
        unknown = np.array([entry is None for entry in self._declared])
        self.width_is_public_ = not unknown.any() or self.max_categories is not None
        self._release = None
        tried = TRIED in vars(self).get(PAID_FOR, ())  # the charge takes it off
        self._most_levels = 0 if tried else self.max_categories
        self.threshold_ = math.nan
        if not unknown.any():
            return Learning(())
        self._release = Vocabulary(
            budgets,
            unknown,
            self._kinds,
            *beside_threshold(budgets, float(self.epsilon), delta),
        )
        self.threshold_, budgets = self._release.threshold, self._release.budgets
        most = float(budgets.summed.max())
        if self.threshold_ > most:
            where = "" if budgets.as_one else " in the largest silo"
            raise ValueError(
                f"No category can be found: it would need a noisy count of {self.threshold_:.3g}, "
                f"with n_samples={most:.0f}{where}. {_REMEDY}"
            )
        small, advice = budgets.summed < self.threshold_, ""
        if self.threshold_ > _RARE * most:
            advice = (
                f"Only categories with at least {self.threshold_:.0f} records are found; the "
                f"largest silo has {most:.0f}. {_REMEDY}"
            )
        elif small.any():
            advice = (
                f"{int(small.sum())} of {small.size} silos have fewer records than the "
                f"{self.threshold_:.0f} that a category needs in a silo. {_REMEDY}"
            )
        return Learning((self._release.plan,), self._release.what, advice)

    def _entries(self) -> list[np.ndarray | None]:
        """Return each column's declared categories; None if unknown."""
        categories, n = self.categories, self.n_features_in_
        if isinstance(categories, str):
            return [None] * n
        if isinstance(categories, Mapping):
            names = list(getattr(self, "feature_names_in_", range(n)))
            missing = [name for name in names if name not in categories]
            if missing:
                raise ValueError(
                    f'categories has no entry for {missing[0]!r}; give a list of values, or "auto".'
                )
            entries = [categories[name] for name in names]
        elif not np.iterable(categories):
            raise ValueError(
                f'categories must be "auto", or have one entry per column; got {categories!r}.'
            )
        else:
            entries = list(categories)
        if len(entries) != n:
            raise ValueError(
                f"categories must have one entry per column: X has {n}, categories {len(entries)}."
            )
        return [None if is_auto(entry) else declared_values(entry) for entry in entries]

    def _learn(self, source: SiloSource) -> str:
        release = self._release
        self._release = None  # silos' sizes
        every = iter([] if release is None else release.find(source))
        self.categories_: list[np.ndarray] = []
        self.counts_: list[np.ndarray | None] = []
        for declared in self._declared:
            if declared is not None:
                self.categories_.append(declared)
                self.counts_.append(None)
                continue
            counts = next(every).iloc[: self._most_levels]
            self.categories_.append(declared_values(list(counts.index)))
            self.counts_.append(counts.to_numpy())
        nothing = [j for j, categories in enumerate(self.categories_) if not len(categories)]
        if not nothing:
            return ""
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        return f"No category was found in {[*names[nothing]]!r}. {_REMEDY}"

    def _map(self, X: np.ndarray, inverse: bool) -> np.ndarray:
        blocks = []
        for j, categories in enumerate(self.categories_):
            learnt = self.counts_[j] is not None
            kind = self._kinds[j] if learnt else kind_of_labels(categories.tolist())
            known = pd.Index(canonical(categories, kind))
            codes = known.get_indexer_for(canonical(X[:, j], kind))
            blocks.append((codes[:, None] == np.arange(self._width(j))).astype(np.float64))
        return np.concatenate(blocks, axis=1)

    def _width(self, j: int) -> int:
        """The number of output columns of column j."""
        learnt = self.counts_[j] is not None and self.max_categories is not None
        return int(self.max_categories) if learnt else len(self.categories_[j])  # type: ignore

    def _place(self, position: int) -> int:
        return sum(self._width(j) for j in range(position))

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        out: list[str] = []
        for j, name in enumerate(names):
            known = [f"{name}_{value}" for value in self.categories_[j]]
            out += known
            out += [f"{name}_unused{k}" for k in range(len(known), self._width(j))]
        return np.array(out, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


_REMEDY = (
    "Declare the categories if they are public, raise epsilon, or encode fewer columns at once."
)


def declared_values(entry: Any) -> np.ndarray:
    """Return categories as an array of objects, as they are; raise for what no value can be."""
    several = isinstance(entry, Iterable) and not isinstance(entry, (str, bytes))
    several = several and getattr(entry, "ndim", 1) == 1
    listed = list(entry) if several else []
    if not several or not all(isinstance(each, Hashable) for each in listed):
        raise ValueError(
            f'An entry of categories must be a list of values or "auto"; got {entry!r}.'
        )
    if strange := [each for each in listed if not is_label(each)]:
        raise ValueError(f"Categories are text, numbers, or True and False; got {strange[0]!r}.")
    values = np.empty(len(listed), dtype=object)
    values[:] = listed
    twice = values[pd.Index(canonical(values, kind_of_labels(listed))).duplicated()]
    if twice.size:
        raise ValueError(f"categories has {twice[0]!r} twice for one column.")
    return values
