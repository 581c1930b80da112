"""What is declared of a frame's columns: ranges, levels and kinds, in ``feature_bounds``.

::

    {"age": (18, 100),                       a tuple: a range
     "ward": ["heart", "lung"],              a list or set: levels
     "plan": {3, 7},
     "seen": ("2015-01-01", "2020-12-31"),   two dates: a range of days
     "code": "category"}                     a word: a kind

Declarations and dtypes are public. No value of a record is read here.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd

from skdpfl.encoding import (
    EncodedColumn,
    Encoding,
    Kind,
    Label,
    canonical,
    column_values,
    in_order,
    is_label,
    kind_of,
    kind_of_labels,
    kinds_of,
)

KINDS: tuple[str, ...] = get_args(Kind)
#: the most columns of a category without declared levels
DEFAULT_CATEGORIES = 20


def encoding_of(
    X: Any, declared: Any, max_categories: int = DEFAULT_CATEGORIES, others: Sequence[Any] = ()
) -> Encoding | None:
    """Return the encoding of a frame; None for tables of numbers without declared kinds or levels.

    Parameters
    ----------
    X : DataFrame or array
        Of which names and dtypes are read.
    declared : mapping, pair or None
        The parameter ``feature_bounds``.
    max_categories : int
        The number of columns of a category without declared levels.
    others : sequence
        Names that may be declared beside those of X, such as the silo column's.
    """
    entries = declared if isinstance(declared, Mapping) else {}
    if not hasattr(X, "columns") and not _names_kinds(entries):
        return None
    if not hasattr(X, "columns") and np.ndim(X) != 2:
        return None  # which validation refuses
    names = list(X.columns) if hasattr(X, "columns") else list(range(np.shape(X)[1]))
    kinds = dict(zip(names, map(kind_of, _dtypes_of(X)), strict=True))
    refuse_unknown_names(entries, [*names, *others])
    if not _has_dtypes(X) and (silent := [name for name in names if name not in entries]):
        raise ValueError(
            f"X is a list, which does not say what its columns hold: declare {silent!r} in "
            'feature_bounds, too ("number", "flag", "category", "date", a range or levels), or '
            "give a frame or an array."
        )
    for name in names:
        refuse_two_numbers(name, entries.get(name), kinds[name])
    if hasattr(X, "columns") or (_is_encoded(entries, kinds) and _has_dtypes(X)):
        kinds_of(X)  # which refuses columns without a kind
    return encoding_for(kinds, declared, max_categories)


def _has_dtypes(X: Any) -> bool:
    """Whether a table is a frame or an array; the dtype of a list's array would follow from it."""
    return hasattr(X, "columns") or hasattr(X, "__array__")


def _dtypes_of(X: Any) -> list[Any]:
    """Return the columns' dtypes; floats for lists, in which each column has to be declared."""
    if hasattr(X, "columns"):
        return list(X.dtypes)
    return [np.asarray(X).dtype if _has_dtypes(X) else np.dtype(np.float64)] * np.shape(X)[1]


def encoding_for(
    kinds: Mapping[Any, Any], declared: Any, max_categories: int = DEFAULT_CATEGORIES
) -> Encoding | None:
    """Return the encoding of columns with these kinds, by name, and declarations; or None."""
    if not _is_encoded(declared if isinstance(declared, Mapping) else {}, kinds):
        return None
    columns = []
    for name, kind in kinds.items():
        if isinstance(declared, Mapping):
            entry = declared.get(name)
        else:
            entry = _common_range(declared) if kind == "number" else None
        columns.append(_column(name, kind, entry, max_categories))
    return Encoding(tuple(columns))


def encoding_elsewhere(
    columns: Mapping[Any, Any], ranges: Any = None, max_categories: int = DEFAULT_CATEGORIES
) -> Encoding:
    """Return the encoding of silos' frames, whose columns all have a declared kind.

    ``columns`` has each column's kind, range or levels in their order, ``ranges`` what an
    estimator's ``feature_bounds`` say in addition.
    """
    more = ranges if isinstance(ranges, Mapping) else {}
    refuse_unknown_names(more, list(columns))
    entries = {name: more.get(name, entry) for name, entry in columns.items()}
    if not isinstance(ranges, Mapping | None):
        raise ValueError("feature_bounds of silos' frames must be a mapping from column.")
    parsed = (_column(name, "number", e, max_categories) for name, e in entries.items())
    return Encoding(tuple(parsed))


def as_declared(frame: Any, declared: Any) -> tuple[Any, Any]:
    """Return a pandas frame whose columns have the types of their kinds, and the ranges alone.

    Dates become days since 1970. Polars frames are converted only if they have dates or declared
    kinds. Other tables are returned as they are.
    """
    if hasattr(frame, "columns") and not isinstance(frame, pd.DataFrame):
        frame = _in_pandas(frame, declared)
    if not isinstance(frame, pd.DataFrame) or not frame.columns.is_unique:
        return frame, declared
    entries = dict(declared) if isinstance(declared, Mapping) else {}
    columns = {}
    for name in frame.columns:
        kind, entry = kind_of(frame[name].dtype), entries.get(name)
        says = isinstance(entry, str) or _are_days(entry) or _are_levels(entry)
        if kind is None or not (says or kind == "date"):
            continue
        column = _column(name, kind, entry, 1)
        entries.pop(name, None)
        if column.range is not None:
            entries[name] = tuple(column.start + end for end in column.range)
        columns[name] = _typed(canonical(column_values(frame[name]), column.kind), column.kind)
    if not columns:
        return frame, declared
    return frame.assign(**columns), entries if isinstance(declared, Mapping) else declared


def _in_pandas(frame: Any, declared: Any) -> Any:
    """Return a frame of polars in pandas, if types of its columns have to change."""
    kinds = {name: kind_of(frame[name].dtype) for name in frame.columns}
    named = isinstance(declared, Mapping) and _names_kinds(declared)
    if None in kinds.values() or not (named or "date" in kinds.values()):
        return frame
    columns = {}
    for name, kind in kinds.items():
        if kind == "number":
            columns[name] = pd.Series(frame[name].to_numpy())
            continue
        values = column_values(frame[name])
        values = _typed(canonical(values, "flag"), "flag") if kind == "flag" else values
        columns[name] = pd.Series(values, dtype=object if kind == "category" else None)
    return pd.DataFrame(columns)


def _typed(values: np.ndarray, kind: Kind) -> Any:
    """Return values in the form of their kind as a column with a dtype of that kind."""
    if kind != "flag":
        return values
    return pd.arrays.BooleanArray(np.nan_to_num(values).astype(bool), np.isnan(values))


def refuse_unknown_names(entries: Mapping[Any, Any], names: Sequence[Any]) -> None:
    """Raise for declarations of columns that do not exist."""
    names = [name for name in names if name is not None]
    if unknown := [name for name in entries if name not in names]:
        raise ValueError(
            f"feature_bounds names {unknown[:5]!r}, which X does not have; its columns are "
            f"{names[:10]!r}."
        )


def refuse_two_numbers(name: Any, entry: Any, kind: Kind | None) -> None:
    """Raise for a list of two numbers for a column of numbers: a range, or two levels?"""
    listed = not isinstance(entry, tuple | set | frozenset) and _are_levels(entry)
    if kind != "number" or not listed or len(values := list(entry)) != 2:
        return
    if all(isinstance(v, numbers.Real) and not isinstance(v, bool | np.bool_) for v in values):
        low, high = values
        raise ValueError(
            f"feature_bounds[{name!r}]={entry!r} can be read as a range or as two levels. Give a "
            f"tuple for a range, ({low!r}, {high!r}), or a set for levels, {{{low!r}, {high!r}}}."
        )


def _is_encoded(entries: Mapping[Any, Any], kinds: Mapping[Any, Any]) -> bool:
    """Whether a table with these declarations and kinds is not one of numbers only."""
    return _names_kinds(entries) or bool({"category", "date"} & set(kinds.values()))


def _names_kinds(entries: Mapping[Any, Any]) -> bool:
    """Whether a declaration is a kind, levels, or a range of days."""
    return any(
        isinstance(entry, str) or _are_levels(entry) or _are_days(entry)
        for entry in entries.values()
    )


def _are_levels(entry: Any) -> bool:
    return isinstance(entry, Iterable) and not isinstance(entry, str | bytes | tuple | Mapping)


def _are_days(entry: Any) -> bool:
    """Whether a declaration is a tuple of two dates."""
    if not isinstance(entry, tuple) or any(isinstance(each, numbers.Real) for each in entry):
        return False
    return len(entry) == 2 and bool(np.isfinite(_days(entry)).all())


def _days(entry: tuple[Any, ...]) -> np.ndarray:
    each = np.empty(len(entry), dtype=object)
    each[:] = entry
    return canonical(each, "date")


def _column(name: Any, kind: Kind, entry: Any, max_categories: int) -> EncodedColumn:
    """Return a column from its kind by dtype and its declaration."""
    if isinstance(entry, str):
        if entry not in KINDS:
            raise ValueError(
                f"feature_bounds[{name!r}]={entry!r} must be one of "
                f"{', '.join(map(repr, KINDS))}, a range as a tuple, or levels as a list."
            )
        kind, entry = entry, None  # type: ignore[assignment]
    if entry is None:
        width = max_categories if kind == "category" else 0
        return EncodedColumn(name, kind, width=width, paid=kind != "flag")
    if kind == "date" and not _are_days(entry):
        raise ValueError(
            f"feature_bounds[{name!r}]={entry!r}: a column of dates needs a tuple of two dates, "
            '("2015-01-01", "2020-12-31").'
        )
    if _are_levels(entry):
        levels = read_levels(name, entry)
        return EncodedColumn(name, "category", levels=levels, width=len(levels))
    if _are_days(entry):
        first, last = _days(entry).tolist()
        _check_range(name, entry, first, last)
        return EncodedColumn(name, "date", range=(0.0, last - first), start=int(first))
    low, high = _numbers(name, entry)
    _check_range(name, entry, low, high)
    return EncodedColumn(name, "number", range=(low, high))


def read_levels(name: Any, entry: Iterable[Any]) -> tuple[Label, ...]:
    """Return declared levels, each once, sorted by type and value."""
    listed = list(entry)
    strange = [each for each in listed if not is_label(each)]
    if strange or not listed:
        what = f"{strange[0]!r} of type {type(strange[0]).__name__}" if strange else "none"
        raise ValueError(
            f"feature_bounds[{name!r}]: levels are text, numbers, or True and False; got {what}."
        )
    values = np.empty(len(listed), dtype=object)
    values[:] = listed
    twice = pd.Index(canonical(values, kind_of_labels(listed))).duplicated()
    if twice.any():
        raise ValueError(
            f"feature_bounds[{name!r}] has the level {listed[twice.argmax()]!r} twice."
        )
    return tuple(sorted(map(_plain, listed), key=in_order))


def _plain(level: Any) -> Label:
    """Return a level as Python's own type."""
    if isinstance(level, bool | np.bool_):
        return bool(level)
    if isinstance(level, numbers.Integral):
        return int(level)
    return str(level) if isinstance(level, str) else float(level)


def _numbers(name: Any, entry: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in entry)
    except (TypeError, ValueError):
        raise ValueError(
            f"feature_bounds[{name!r}]={entry!r} must be a range as a tuple (low, high) of two "
            f"numbers or two dates, levels as a list or set, or one of "
            f"{', '.join(map(repr, KINDS))}."
        ) from None
    return low, high


def _check_range(name: Any, entry: Any, low: float, high: float) -> None:
    if not (np.isfinite([low, high]).all() and low <= high):
        raise ValueError(
            f"feature_bounds[{name!r}] must be finite with low <= high; got {entry!r}."
        )


def _common_range(declared: Any) -> Any:
    """Return the range of all columns of numbers, declared as one pair of numbers."""
    if declared is None:
        return None
    if (
        isinstance(declared, tuple | list)
        and len(declared) == 2
        and not any(map(np.ndim, declared))
    ):
        return tuple(declared)
    raise ValueError(
        "feature_bounds of a frame with text, dates or declared kinds must be a mapping from "
        "column to its range or levels, or one pair of numbers for all columns of numbers."
    )
