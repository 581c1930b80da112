"""What cannot be read, with what to do about it that learns nothing from the records.

scikit-learn's own advice for missing values is an imputer; one that reads a mean off the records
would cost privacy that nothing pays for. Whether a column holds numbers is public, and so is, by
the error itself, that a value is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._silo_warnings import person_like, silo_like


@contextmanager
def advising(X: Any, y: Any = None) -> Iterator[None]:
    """Explain an error that text, missing values or missing labels caused; leave others alone."""
    try:
        yield
    except (TypeError, ValueError) as error:
        advice = _advice(X, y, error)
        if advice is None:
            raise
        raise ValueError(advice) from error


def refuse_dates(X: Any) -> None:
    """Raise for columns of dates or times, which NumPy takes for counts of nanoseconds."""
    columns = zip(X.columns, X.dtypes, strict=True) if hasattr(X, "dtypes") else ()
    times = ("date", "time", "duration")  # pandas' and polars' names of types, in small letters
    if names := [name for name, dtype in columns if str(dtype).lower().startswith(times)]:
        raise ValueError(
            f"X has column(s) {names[:5]!r} of dates or times. Count days from a public date: "
            f"(X[{names[0]!r}] - date).dt.days."
        )


def _advice(X: Any, y: Any, error: Exception) -> str | None:
    """Return what to do, or None where the error speaks for itself."""
    said = str(error)
    names = [] if said.startswith("The feature names") else getattr(X, "columns", [])
    if strange := [name for name in names if not _holds_numbers(X[name])]:
        return (
            f"X has column(s) {strange[:5]!r} that hold no numbers. Leave them out, or encode them "
            "by categories that are public: OneHotEncoder(categories=[...], sparse_output=False). "
            "skdpfl.preprocessing.DPOneHotEncoder finds and pays for those that are not."
            + _ids_hint(strange)
        )
    if "X contains NaN" in said:
        return (
            "Input X contains NaN. Fill missing values with constants that are public, "
            'SimpleImputer(strategy="constant", fill_value=...), or leave such rows out. A mean or '
            "a median is learnt from the records: skdpfl.preprocessing.DPSimpleImputer pays for it."
        )
    of_labels = isinstance(error, TypeError) or "NaN" in said or "label type" in said
    if y is not None and of_labels and np.any(pd.isna(_flat(y))):
        return "Input y contains NaN: rows without a label or target must be left out."
    unlike = isinstance(error, TypeError) and "not supported between" in said
    if y is not None and (unlike or said.startswith("Unknown label type: unknown")):
        kinds = sorted({type(label).__name__ for label in _flat(y)})
        one = kinds[0] if len(kinds) == 1 else "str"
        if np.asarray(y).dtype == object and (len(kinds) > 1 or not unlike):
            return (
                f"Unknown label type: y holds labels of type {' and '.join(kinds)} as objects; "
                f"make them of one plain type: y.astype({one})."
            )
    of_y = y is not None and np.asarray(X).dtype.kind not in "OUS"
    if of_y and said.startswith("could not convert string to float"):
        return "y holds no numbers: a regressor needs some; for labels there are classifiers."
    return None


def _ids_hint(names: list[Any]) -> str:
    """Return what else to do where one of the columns may hold ids of silos or of people."""
    if silos := silo_like(names):
        return f" If {silos[0]!r} says who holds a record: silo_column={silos[0]!r}."
    if people := person_like(names):
        return (
            f" If {people[0]!r} says whose row it is, leave it out; where people have several "
            f"rows, limit them first: skdpfl.preprocessing.limit_rows(X[{people[0]!r}], k)."
        )
    return ""


def _holds_numbers(column: Any) -> bool:
    """Tell whether a frame's column can be read as numbers, missing ones apart."""
    if getattr(column, "ndim", 1) != 1:
        return True  # two columns of one name are none of our business
    present = pd.Series(column.to_numpy()).dropna().to_numpy()
    if present.dtype.kind in "mM":
        return False
    try:
        present.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _flat(y: Any) -> np.ndarray:
    """Return targets as objects, whatever holds them."""
    return np.asarray(y, dtype=object).ravel()
