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

What enters: the kinds of a table's columns, and each value in the one form of its kind.
----------------------------------------------------------------------------------------
A column's kind is declared, or follows from its dtype, which is public; never from its values:

========  ===========================  =========================================================
kind      dtypes                       a value becomes
========  ===========================  =========================================================
number    integers, floats             float64
flag      bool                         0.0 or 1.0
category  text, objects, categoricals  text; whole numbers have no decimal point, dates are ISO 8601
date      dates and times              days since 1970
========  ===========================  =========================================================

Categoricals of dates are dates.

A value that does not fit its column's kind is a gap (NaN, in categories None), as a missing one is.
Text of a flag is true, false, yes, no, 1 or 0; text of a date is in ISO 8601 (2015-01-31); a number
in a column of dates is a day since 1970. Times with a zone are read in UTC.

**Formal guarantee.** A value's form is a function of the value and of its column's kind. It does
not depend on other records, and no value raises an error or gives a warning. Columns with other
dtypes are refused by name, for which no value is read.
"""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from skdpfl._codec import from_plain

Kind = Literal["number", "flag", "category", "date"]
Label = bool | int | float | str
#: integers beyond are not distinguished from missing values: Python limits the digits of its text
_LARGEST_INTEGER = 2**63
_FLAGS = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
#: days from 1970 beyond which a date is a gap; the ordinal of 1970-01-01
_LAST_DAY, _EPOCH = 10_000_000, date(1970, 1, 1).toordinal()


def kind_of(dtype: Any) -> Kind | None:
    """Return the kind of columns with a dtype of NumPy, pandas or polars; None: there is none."""
    name = str(dtype).lower()
    if name.startswith("bool"):
        return "flag"
    own = getattr(dtype, "is_numeric", None)  # polars
    if callable(own) and own():
        return "number"
    if name.startswith(("datetime", "date", "timestamp")):
        return "date"
    if isinstance(dtype, pd.CategoricalDtype):  # of intervals, as pd.cut makes: none
        of = "category" if dtype.categories is None else kind_of(dtype.categories.dtype)
        return of if of in ("date", None) else "category"
    if name == "str" or name.startswith(_TEXTS):
        return "category"
    is_real = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)
    return "number" if is_real else None


_TEXTS = ("object", "string", "<u", ">u", "|u", "large_string", "cat", "dict", "enum", "utf8",
          "null")  # fmt: skip


def kinds_of(X: Any) -> tuple[Kind, ...]:
    """Return the kinds of the columns of a frame or array; raise for those without one."""
    if hasattr(X, "columns"):
        dtypes = list(X.dtypes)
        names = list(X.columns)
    else:
        dtypes = [np.asarray(X).dtype] * np.shape(X)[1]
        names = list(range(len(dtypes)))
    return tuple(map(_known_kind, names, dtypes))


def _known_kind(name: Any, dtype: Any) -> Kind:
    """Return the kind of a column; raise if there is none."""
    if (kind := kind_of(dtype)) is None:
        pandas_own = isinstance(dtype, pd.CategoricalDtype)
        of = f" of {dtype.categories.dtype}" if pandas_own else ""
        raise ValueError(
            f"The column {name!r} has dtype {dtype}{of}. Columns hold numbers, True and False, "
            "text, or dates: convert it to one of these, or leave it out."
        )
    return kind


def canonical(values: Any, kind: Kind) -> np.ndarray:
    """Return a column (n,) with each value in the form of its kind.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpfl.encoding import canonical
    >>> canonical(np.array([1, 1.0, "a", (1,), None], dtype=object), "category")
    array(['1', '1', 'a', None, None], dtype=object)
    >>> canonical(np.array([1, "1.5", "a", None], dtype=object), "number")
    array([1. , 1.5, nan, nan])
    """
    values = np.asarray(values)
    if kind == "category":
        return _as_text(values)
    if values.dtype.kind in "biuf":
        read = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    elif values.dtype.kind == "M":
        read = values.astype("datetime64[D]").astype(np.float64)
        read = read if kind == "date" else np.full(len(read), np.nan)
    elif kind == "date":
        read = np.array([_day_of(value) for value in values.tolist()], np.float64)
    else:
        read = np.array([_as_number(value, kind) for value in values.tolist()], np.float64)
    if kind == "date":
        return np.where(np.abs(read) <= _LAST_DAY, np.floor(read), np.nan)
    return np.where(np.isin(read, (0.0, 1.0)), read, np.nan) if kind == "flag" else read


def places_of(values: np.ndarray, labels: Sequence[Any], kind: Kind) -> np.ndarray:
    """Return the place among labels of each value in the form of its kind, -1 for none.

    The first of several labels with the same form counts: a server may send both 1 and "1".
    """
    objects = np.empty(len(labels), dtype=object)
    objects[:] = labels
    known = pd.Index(canonical(objects, kind))
    first = np.flatnonzero(~known.duplicated())
    places = known[first].get_indexer(values)
    return np.append(first, -1)[places]


def _as_text(values: np.ndarray) -> np.ndarray:
    listed = values.tolist()
    plain = set(map(type, listed)) <= {str, type(None)}
    if plain and all(value is None or value.isascii() for value in listed):
        return values.astype(object)
    words = np.empty(len(listed), dtype=object)
    words[:] = [_word(value) for value in listed]
    return words


def _word(value: Any) -> str | None:
    """Return a value as text; None if it is missing, or neither text nor a number or time."""
    try:
        return _text_of(value)
    except Exception:  # of a class of its own, whose words may be the record's
        return None


def _text_of(value: Any) -> str | None:
    if isinstance(value, str):
        return str(value) if value.isascii() or _is_unicode(value) else None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return str(whole) if abs(whole) < _LARGEST_INTEGER else None
    if isinstance(value, date | time | timedelta):
        return str(value) if value == value else None  # not NaT
    value = _as_number(value, "number") if isinstance(value, Decimal) else value
    if isinstance(value, float | np.floating) and value == value:
        real = float(value)
        whole = abs(real) < _LARGEST_INTEGER and real.is_integer()
        return str(int(real)) if whole else repr(real)
    return None


def _is_unicode(value: str) -> bool:
    """Whether text can be encoded: pandas takes halves of a character for other text, or raises."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_number(value: Any, kind: Kind) -> float:
    """Return a number, or text of one, as a float; NaN if it is neither."""
    if isinstance(value, str) and (kind == "flag" or value in ("True", "False")):
        return _FLAGS.get(value.lower(), np.nan)  # a column of objects has True as text
    real = bool | np.bool_ | numbers.Integral | float | np.floating | Decimal
    if not isinstance(value, str | real):
        return np.nan
    try:
        return float(value) + 0.0
    except Exception:  # as in _word
        return np.nan


def _day_of(value: Any) -> float:
    """Return a date or time, or text of one, as days since 1970; NaN if it is neither."""
    try:
        value = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        if isinstance(value, datetime) and value == value:  # not NaT
            value = value.astimezone(UTC) if value.tzinfo is not None else value
    except Exception:  # as in _word
        return np.nan
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[D]").astype(np.float64))
    if isinstance(value, date) and value == value:
        return float(value.toordinal() - _EPOCH)
    real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    return _as_number(value, "number") if real else np.nan


def column_values(column: Any) -> np.ndarray:
    """Return a frame's column (n,) as an array, in which gaps are None or NaN."""
    if not isinstance(column, pd.Series):  # polars
        plain = column.dtype.is_numeric() or column.dtype.is_temporal()
        column = column.cast(_polars_float()) if column.dtype.is_numeric() else column
        return np.asarray(column.to_numpy() if plain else np.array(column.to_list(), dtype=object))
    kind, own = kind_of(column.dtype), isinstance(column.dtype, np.dtype)
    if kind in ("number", "flag") and not own:
        return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
    if kind == "date" and not own:
        column = pd.to_datetime(column, utc=True).dt.tz_localize(None)
    if kind == "category":
        column = column.astype(object)
    return np.asarray(column.to_numpy())


def coded(column: Any) -> tuple[np.ndarray, Any]:
    """Return values of a frame's column, and the index of each record's among them.

    A Categorical has each category once, and a gap in the last place: its code is -1.
    """
    kind = column.dtype
    if not isinstance(kind, pd.CategoricalDtype) or len(kind.categories) >= len(column):
        return column_values(column), slice(None)
    each = pd.Categorical.from_codes([*range(len(kind.categories)), -1], dtype=kind)
    return column_values(pd.Series(each)), column.cat.codes.to_numpy()


def _polars_float() -> Any:
    import polars as pl

    return pl.Float64


def read_values(values: np.ndarray, kinds: Sequence[Kind]) -> np.ndarray:
    """Return a table of columns of these kinds: float64, or objects if one is of categories."""
    if values.dtype == np.float64 and set(kinds) == {"number"}:
        return values
    columns = [canonical(values[:, j], kind) for j, kind in enumerate(kinds)]
    if "category" not in kinds:
        return np.column_stack(columns)
    table = np.empty(values.shape, dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column
    return table


def typed(X: Any, untouched: Collection[Any] = (), *, plain: bool = False) -> Any:
    """Return a table whose types no record decides: whole numbers are float64, levels objects.

    One missing value turns pandas' integers into floats, and a Categorical has all records' levels.
    Columns in ``untouched``, which hold silos or persons, stay as they are. With ``plain`` the
    result is a pandas frame or an array, all numbers are float64, and flags are objects.
    """
    if not hasattr(X, "columns"):
        return _typed_array(np.asarray(X), plain) if plain or hasattr(X, "dtype") else X
    if not isinstance(X, pd.DataFrame) and not plain:
        return _typed_polars(X, untouched)
    pandas = isinstance(X, pd.DataFrame)
    columns = [X.iloc[:, j] if pandas else X[c] for j, c in enumerate(X.columns)]
    parts = [
        column if name in untouched else _typed_column(column, dtype, plain)
        for name, column, dtype in zip(X.columns, columns, X.dtypes, strict=True)
    ]
    index = X.index if pandas else pd.RangeIndex(len(X))
    frame = pd.DataFrame(dict(enumerate(parts)), index=index, copy=False)
    return frame.set_axis(X.columns, axis=1)


def _typed_array(X: np.ndarray, plain: bool) -> np.ndarray:
    if X.dtype.kind in "iu" or (plain and X.dtype.kind == "f"):
        return X.astype(np.float64, copy=False)
    return X.astype(object) if plain and X.dtype.kind in "bOUS" else X


def _typed_column(column: Any, dtype: Any, plain: bool) -> Any:
    """Return a column of a frame as a Series or array with a type that no record decides."""
    kind, own = kind_of(dtype), isinstance(dtype, np.dtype)
    as_it_is = kind == "flag" or (kind == "number" and own and dtype.kind == "f")
    if (as_it_is and not plain) or (kind == "date" and own):
        return column
    values = column if isinstance(column, pd.Series) else pd.Series(column.to_list(), dtype=object)
    if kind == "number":
        return values.to_numpy(np.float64, na_value=np.nan)
    if kind == "date":
        if isinstance(dtype, pd.CategoricalDtype):
            return values.astype(dtype.categories.dtype)
        return values if isinstance(column, pd.Series) else pd.to_datetime(values)
    listed = values.astype(object)
    return listed.where(listed.notna(), np.nan)


def _typed_polars(X: Any, untouched: Collection[Any]) -> Any:
    import polars as pl

    whole = [c for c, t in X.schema.items() if t.is_integer() and c not in untouched]
    levels = (pl.Categorical, pl.Enum)
    words = [c for c, t in X.schema.items() if t in levels and c not in untouched]
    return X.with_columns(pl.col(whole).cast(pl.Float64), pl.col(words).cast(pl.String))


def label_of(value: Any, kind: Kind) -> bool | int | float | str:
    """Return the public name of a value in canonical form: Python's own bool, int, float or str."""
    if kind == "flag":
        return bool(value)
    if kind == "category":
        return str(value)
    real = float(value)
    return int(real) if real.is_integer() and abs(real) < _LARGEST_INTEGER else real


def is_label(value: Any) -> bool:
    """Whether a declared level is text, a number, or True or False."""
    return not isinstance(value, bytes) and canonical(_one(value), "category")[0] is not None


def _one(value: Any) -> np.ndarray:
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


def in_order(label: Any) -> tuple[str, Any]:
    """Return the key by which labels are sorted: their type, then their value."""
    return type(label).__name__, label


def kind_of_labels(labels: Sequence[Any]) -> Kind:
    """Return the kind of a column with these declared levels; text unless all are of one type."""
    if labels and all(isinstance(each, bool | np.bool_) for each in labels):
        return "flag"
    real = numbers.Integral | float | np.floating
    is_number = [isinstance(e, real) and not isinstance(e, bool | np.bool_) for e in labels]
    return "number" if labels and all(is_number) else "category"


#: names of a date's columns, after its own
_OF_DATE = (
    "days",
    *(f"weekday_{day}" for day in range(1, 8)),
    *(f"month_{month}" for month in range(1, 13)),
)
#: days from 1970-01-01, a Thursday, back to a Monday
_MONDAY = 3


#: the cell of what is 0 in all columns of a part, which has columns for no more levels
_NONE = 255
#: values that are encoded at once
_VALUES_AT_ONCE = 2**16


class EncodedPart(NamedTuple):
    """Columns of numbers: cells (n,) of bytes, each cell's columns, and what the first has instead.

    That are numbers (n,), in columns of numbers and dates; None: nothing.
    """

    numbers: np.ndarray | None
    cells: np.ndarray
    rows: np.ndarray

    def dense(self) -> np.ndarray:
        """Return the columns."""
        table = np.zeros((_NONE + 1, self.rows.shape[1]))
        table[: len(self.rows)] = self.rows
        table = table[self.cells]
        if self.numbers is not None:
            table[:, 0] = self.numbers
        return table


def _levels(places: np.ndarray, width: int) -> EncodedPart:
    """Return the columns of at most so many levels as a part has."""
    most = min(width, _NONE)
    cells = np.where((places >= 0) & (places < most), places, _NONE)
    return EncodedPart(None, cells.astype(np.uint8), np.eye(most))


#: a flag and its gap: False, True, missing
_OF_FLAG = np.array([[0, 0], [1, 0], [0.5, 1]])
#: the day, its weekday, its month, and the gap: of each weekday's months, then missing
_OF_DAYS = np.array(
    [*(np.eye(21)[1 + i // 12] + np.eye(21)[8 + i % 12] for i in range(84)), np.eye(21)[20]]
)


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
        return np.concatenate([part.dense() for part in self.parts(values)], axis=1)

    @property
    def n_parts(self) -> int:
        """The number of parts for values."""
        return 1 + self.width // _NONE

    def parts(self, values: np.ndarray) -> list[EncodedPart]:
        """Return its columns for values (n,): numbers, and a byte for all that is 0 or 1."""
        kind = self.kind_of_levels if self.kind == "category" else self.kind
        own = canonical(values, kind)
        if self.kind == "category":
            places = np.where(pd.isna(own), self.width, places_of(own, self.levels or (), kind))
            starts = range(0, self.width + 1, _NONE)
            return [_levels(places - i, self.width + 1 - i) for i in starts]
        gaps = ~np.isfinite(own)
        if kind == "flag":
            return [EncodedPart(None, np.where(gaps, 2, own).astype(np.uint8), _OF_FLAG)]
        low, high = self.range or (0.0, 0.0)
        filled = np.where(gaps, low / 2 + high / 2, own - self.start)
        if kind == "number":
            return [EncodedPart(filled, gaps.astype(np.uint8), np.diag([0.0, 1.0]))]
        days = np.where(gaps, 0, own).astype(np.int64)
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
        cells = np.where(gaps, len(_OF_DAYS) - 1, (days + _MONDAY) % 7 * 12 + months)
        return [EncodedPart(filled, cells.astype(np.uint8), _OF_DAYS)]

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
        pairs = zip(self.columns, self._columns_of(frame), strict=True)
        for j, (column, (values, codes)) in enumerate(pairs):
            table[:, j] = canonical(values, column.kind)[codes]
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
        for (column, (values, codes)), start, stop in zip(pairs, ends, ends[1:], strict=False):
            table[:, start:stop] = column.encode(values)[codes]
        return table

    @property
    def n_parts(self) -> tuple[int, int]:
        """The numbers of parts with numbers, and of all."""
        numbers = sum(column.kind in ("number", "date") for column in self.columns)
        return numbers, sum(column.n_parts for column in self.columns)

    def parts(self, frame: Any) -> Iterator[EncodedPart]:
        """Yield the same in parts: a byte for all columns of 0 or 1 of up to 255 levels.

        Parameters
        ----------
        frame : DataFrame or array-like of shape (n, n_columns)
            Records.

        Yields
        ------
        EncodedPart
        """
        for column, (values, codes) in zip(self.columns, self._columns_of(frame), strict=True):
            starts = range(0, max(1, len(values)), _VALUES_AT_ONCE)
            blocks = [column.parts(values[i : i + _VALUES_AT_ONCE]) for i in starts]
            for each in zip(*blocks, strict=True):
                numbers, cells, rows = zip(*each, strict=True)
                joined = None if numbers[0] is None else np.concatenate(numbers)[codes]
                yield EncodedPart(joined, np.concatenate(cells)[codes], rows[0])

    def _columns_of(self, frame: Any) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield the columns of a frame by name, of an array by position, as `coded` values.

        Values of lists stay as they are: the dtype of their array would depend on all of them.
        """
        names = self._names
        if not hasattr(frame, "columns"):
            table = np.asarray(frame, None if hasattr(frame, "__array__") else object).T
            own = table if len(table) == len(names) else (table[j] for j in names)
            yield from ((values, slice(None)) for values in own)
            return
        there = list(frame.columns)
        if missing := [name for name in names if name not in there]:
            raise ValueError(f"The frame lacks the column(s) {missing[:5]!r}.")
        for name in names:
            column = frame[name]
            _known_kind(name, column.dtype)
            yield coded(column)

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
        columns = from_plain(tuple[EncodedColumn, ...], list(plain), "encoding")
        pairs = ((each, each.name) for each in columns)  # JSON has lists for names of several parts
        return cls(tuple(replace(c, name=tuple(n)) if isinstance(n, list) else c for c, n in pairs))

    def complete(self, ranges: Mapping[Any, Any], levels: Mapping[Any, Any]) -> Encoding:
        """Return the encoding with learnt ranges and levels.

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
