"""The public encoding of a frame: what each column holds, and the numbers that it becomes.

A column's kind follows from its declaration or its dtype, its columns of numbers from the kind and
from public ranges and levels::

    number     age   -> age, age_missing
    category   ward  -> ward_heart, ward_lung, ..., ward_missing
    flag       smoker -> smoker, smoker_missing
    date       seen  -> seen_days, seen_weekday_1..7, seen_month_1..12, seen_missing

A gap is the middle of the column's range, and 1 in its ``_missing``. A level that is not among the
column's is 0 in all of them. All columns but numbers and days are 0 or 1.

**Formal guarantee.** A row's numbers are a function of that row and of the encoding: each value is
read by itself, and no value raises an error or gives a warning. The number of columns follows from
kinds, declared levels and ``max_categories``, never from records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._kinds import Kind, Label, canonical, column_values, kind_of_labels, places_of

#: what a date's columns are called, after its name
_OF_DATE = (
    "days",
    *(f"weekday_{day}" for day in range(1, 8)),
    *(f"month_{month}" for month in range(1, 13)),
)
#: days from 1970-01-01, a Thursday, back to a Monday
_MONDAY = 3


@dataclass(frozen=True)
class EncodedColumn:
    """One column of a frame: its kind, and its public range or levels.

    Attributes
    ----------
    name : str or int
        The column's name; its number in tables without names.
    kind : {"number", "category", "flag", "date"}
        What it holds.
    range : tuple of two floats, or None
        The range of a number, or of a date's days after ``start``; None: not known yet.
    levels : tuple or None
        The levels of a category, sorted by type and value; None: not known yet.
    width : int
        The number of columns for levels.
    start : int
        The day that a date's days are counted from, in days since 1970.
    paid : bool
        Whether range or levels are not declared, but found within the budget.
    """

    name: Any
    kind: Kind
    range: tuple[float, float] | None = None
    levels: tuple[Label, ...] | None = None
    width: int = 0
    start: int = 0
    paid: bool = False

    @property
    def is_known(self) -> bool:
        """Whether its range or levels are known."""
        known: Any = self.levels if self.kind == "category" else self.range
        return self.kind == "flag" or known is not None

    @property
    def is_ignored(self) -> bool:
        """Whether it is a number or a date whose range is one point."""
        return self.range is not None and self.range[0] == self.range[1]

    @property
    def kind_of_levels(self) -> Kind:
        """The kind by which values are compared with levels."""
        return "category" if self.paid else kind_of_labels(self.levels or ())

    def names(self) -> list[str]:
        """Return the names of its columns of numbers."""
        name = self.name if isinstance(self.name, str) else f"x{self.name}"
        parts = {"date": list(_OF_DATE), "category": []}.get(self.kind, [""])
        if self.kind == "category":
            known = list(self.levels or ())
            parts = [str(level) for level in known]
            parts += [f"unused{k}" for k in range(len(known), self.width)]
        return [f"{name}_{part}" if part else name for part in [*parts, "missing"]]

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return its columns (n, width) for values (n,)."""
        if self.kind == "category":
            return self._levels(values)
        numbers = canonical(values, self.kind)
        gaps = ~np.isfinite(numbers)
        low, high = self.range or ((0.0, 1.0) if self.kind == "flag" else (0.0, 0.0))
        filled = np.where(gaps, low / 2 + high / 2, numbers - self.start)
        if self.kind != "date":
            return np.column_stack([filled, gaps])
        days = np.where(gaps, 0, numbers).astype(np.int64)
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
        weekdays = ((days + _MONDAY) % 7)[:, None] == np.arange(7)
        of_year = months[:, None] == np.arange(12)
        return np.column_stack([filled, weekdays & ~gaps[:, None], of_year & ~gaps[:, None], gaps])

    def _levels(self, values: np.ndarray) -> np.ndarray:
        kind = self.kind_of_levels
        own = canonical(values, kind)
        codes = places_of(own, self.levels or (), kind)
        codes = np.where(pd.isna(own), self.width, codes)
        return (codes[:, None] == np.arange(self.width + 1)).astype(np.float64)

    def ranges(self) -> np.ndarray:
        """Return the ranges (width, 2) of its columns, NaN where they are not known yet.

        Those of columns for which no level was found are one point.
        """
        ends = np.tile([0.0, 1.0], (len(self.names()), 1))
        if self.levels is not None:
            ends[len(self.levels) : self.width] = 0.0
        if self.kind in ("number", "date"):
            ends[0] = (np.nan, np.nan) if self.range is None else self.range
        return ends * (not self.is_ignored) + np.where(self.is_ignored, ends[0, 0], 0.0)

    def indicators(self) -> np.ndarray:
        """Return which of its columns (width,) are 0 or 1."""
        flags = np.full(len(self.names()), not self.is_ignored)
        flags[0] &= self.kind in ("category", "flag")
        return flags


@dataclass(frozen=True)
class Encoding(Mapping[Any, EncodedColumn]):
    """The columns of a frame in their order, a mapping from name to :class:`EncodedColumn`.

    Attributes
    ----------
    columns : tuple of EncodedColumn
        The columns.

    See Also
    --------
    skdpfl.federation.Schema : Public facts of the data of silos elsewhere.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpfl import ISRLDPClassifier
    >>> frame = pd.DataFrame({"age": [50, None] * 100, "ward": ["heart", "lung"] * 100})
    >>> declared = {"age": (18, 100), "ward": ["heart", "lung"]}
    >>> clf = ISRLDPClassifier(epsilon=2.0, feature_bounds=declared, random_state=0)
    >>> schema = clf.fit(frame, [0, 1] * 100).schema_
    >>> schema["ward"].kind, schema.names()
    ('category', ['age', 'age_missing', 'ward_heart', 'ward_lung', 'ward_missing'])
    >>> schema.encode(frame[:2])
    array([[50.,  0.,  1.,  0.,  0.],
           [59.,  1.,  0.,  1.,  0.]])
    """

    columns: tuple[EncodedColumn, ...]

    def __getitem__(self, name: Any) -> EncodedColumn:
        return self.columns[self._names.index(name)] if name in self._names else {}[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def _names(self) -> list[Any]:
        return [column.name for column in self.columns]

    @property
    def is_known(self) -> bool:
        """Whether all ranges and levels are known, so that frames can be encoded."""
        return all(column.is_known for column in self.columns)

    def names(self) -> list[str]:
        """Return the names of the columns of numbers, each once."""
        names = dict[str, None]()
        for column in self.columns:
            for name in column.names():
                while name in names:  # a level called "missing"
                    name += "_"
                names[name] = None
        return list(names)

    def unknown(self, *kinds: Kind) -> Encoding:
        """Return the columns of some kinds whose range or levels are not known yet.

        Parameters
        ----------
        *kinds : str
            The kinds.

        Returns
        -------
        Encoding
        """
        asked = (column for column in self.columns if column.kind in kinds)
        return Encoding(tuple(column for column in asked if not column.is_known))

    def typed(self, frame: Any) -> np.ndarray:
        """Return a frame's values (n, n_columns) as objects, each in the form of its kind.

        Parameters
        ----------
        frame : DataFrame or array-like of shape (n, n_columns)
            Records.

        Returns
        -------
        ndarray of objects
        """
        table = np.empty((len(frame), len(self)), dtype=object)
        for j, (column, own) in enumerate(zip(self.columns, self._columns_of(frame), strict=True)):
            table[:, j] = canonical(own, column.kind)
        return table

    def encode(self, frame: Any) -> np.ndarray:
        """Return the numbers (n, width) of a frame, or of an array of values, with these columns.

        Parameters
        ----------
        frame : DataFrame or array-like of shape (n, n_columns)
            Records; other types of values than in the fit are read as the column's kind.

        Returns
        -------
        ndarray of float64
            The numbers, in the order of :meth:`names`.
        """
        pairs = list(zip(self.columns, self._columns_of(frame), strict=True))
        ends = np.cumsum([0, *(len(column.names()) for column in self.columns)])
        table = np.empty((len(frame), int(ends[-1])))
        for (column, values), start, stop in zip(pairs, ends, ends[1:], strict=False):
            table[:, start:stop] = column.encode(values)
        return table

    def _columns_of(self, frame: Any) -> Iterator[np.ndarray]:
        """Yield the columns of a frame by name, of an array by position.

        Values of lists stay as they are: the dtype of their array would depend on all of them.
        """
        names = self._names
        if not hasattr(frame, "columns"):
            table = np.asarray(frame, None if hasattr(frame, "__array__") else object).T
            yield from table if len(table) == len(names) else (table[j] for j in names)
            return
        there = list(frame.columns)
        if missing := [name for name in names if name not in there]:
            raise ValueError(f"The frame lacks the column(s) {missing[:5]!r}.")
        yield from (column_values(frame[name]) for name in names)

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and highest values (width,), NaN where they are not known yet."""
        ends = np.concatenate([column.ranges() for column in self.columns])
        return ends[:, 0].copy(), ends[:, 1].copy()

    def indicators(self) -> np.ndarray:
        """Return which columns of numbers (width,) are 0 or 1."""
        return np.concatenate([column.indicators() for column in self.columns])

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the columns as plain data."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_dict(cls, plain: Sequence[Mapping[str, Any]]) -> Encoding:
        """Return the encoding of :meth:`to_dict`, also from a JSON file.

        Parameters
        ----------
        plain : sequence of mappings
            The columns.

        Returns
        -------
        Encoding
        """

        def column(**fields: Any) -> EncodedColumn:
            return EncodedColumn(**fields)

        def read(value: Any) -> Any:
            return tuple(value) if isinstance(value, list) else value

        return cls(tuple(column(**{k: read(v) for k, v in each.items()}) for each in plain))

    def found(self, ranges: Mapping[Any, Any], levels: Mapping[Any, Any]) -> Encoding:
        """Return the encoding with ranges and levels that were found.

        Parameters
        ----------
        ranges, levels : mapping
            By column.

        Returns
        -------
        Encoding
        """
        return Encoding(
            tuple(
                replace(
                    column,
                    range=ranges.get(column.name, column.range),
                    levels=levels.get(column.name, column.levels),
                )
                for column in self.columns
            )
        )
