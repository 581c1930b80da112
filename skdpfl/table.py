"""The only door for data: arrays, frames, silos and persons, read and checked once.

``Table.read`` is what every fit reads its records by. It refuses sparse tables, converts those of
pyarrow, takes the columns of silos and persons out, lets the caller validate what is left, and
reads one id per row. What comes out are numbers (or values by kind, :mod:`skdpfl.encoding`), owners
of rows, and public facts of the columns. ``read_new`` reads what a fitted model predicts for.

Frames are converted once, into C order, in which batches are read: scikit-learn would make an array
in Fortran order, which a fit would have to copy again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils.validation import _num_samples, check_array

from skdpfl import _warnings
from skdpfl._arguments import advising, refuse_dates, refuse_sparse
from skdpfl._compat import as_frame, with_names
from skdpfl.encoding import Encoding, Kind, kind_of, kinds_of
from skdpfl.federation import in_rows
from skdpfl.models import ExpandedTable
from skdpfl.silos import (
    Persons,
    Silos,
    read_persons,
    read_silos,
    split_column,
    without_column,
)

#: tables with fewer numbers are left as they are
SMALL_TABLE = 2**17
#: dtypes that are not converted
FLOATS = [np.float64, np.float32]


@dataclass(frozen=True, eq=False)
class Table:
    """The records of all silos, as a fit reads them.

    Attributes
    ----------
    X : ndarray or ExpandedTable of shape (n, d)
        Validated features; those of a frame with an encoding take a byte a column beside numbers.
    y : ndarray of shape (n,) or None
        Validated targets.
    silos : Silos
        Each row's silo; ``silos.sizes`` counts rows.
    persons : Persons or None
        Each row's person, if persons were given. With ``unit="person"`` rows are secret:
        :meth:`units` has what takes the place of ``silos.sizes`` in all that is public.
    features : DataFrame or array
        The features as given, without the columns of silos and persons.
    encoding : Encoding or None
        What they became X by, if they are not numbers only.
    """

    X: np.ndarray | ExpandedTable
    y: Any
    silos: Silos
    persons: Persons | None
    features: Any
    encoding: Encoding | None = None

    @classmethod
    def read(
        cls,
        X: Any,
        y: Any = None,
        silos: Any = None,
        *,
        validate: Callable[[Any, Any], tuple[np.ndarray, Any]],
        persons: Any = None,
        silo_column: Any = None,
        person_column: Any = None,
        encoding: Callable[[Any], Encoding | None] | None = None,
        warn: bool = False,
    ) -> Table:
        """Read and check the records of a fit; raise if they are not as they have to be.

        Parameters
        ----------
        X, y : array-like or DataFrame
            As ``fit`` was given them.
        silos, persons : array-like of shape (n,), default=None
            Each row's silo and person. Without silos all rows are one; without persons
            ``table.persons`` is None.
        validate : callable
            Gets features and targets, without the columns of silos and persons, and returns arrays;
            its errors quote no value of a record.
        silo_column, person_column : str, default=None
            The columns of X that hold them, instead of the arguments.
        encoding : callable, default=None
            Gets the features, and returns the encoding of a frame that holds not only numbers;
            ``validate`` then gets the encoded numbers.
        warn : bool, default=False
            Whether to warn of columns whose names are those of people's ids.

        Returns
        -------
        Table
        """
        refuse_sparse(X)
        X = as_frame(X)
        features, silos = split_column(X, silos, silo_column, "silo")
        features, persons = split_column(features, persons, person_column, "person")
        schema = None if encoding is None else encoding(features)
        table = None
        if schema is not None:
            table = ExpandedTable.of_parts(schema.parts(features), schema, _num_samples(features))
        if schema is None:
            refuse_dates(features)
        numbers = features if table is None else table.stored[0]
        if table is not None and len(numbers) < 2:  # an error names the features' shape
            numbers = np.zeros(features.shape)
        with advising(numbers, y, declares=encoding is not None):
            values, y = validate(numbers, y)
        if warn:
            _warnings.warn_of_people(features)
        owners = read_silos(silos, len(values), X), read_persons(persons, len(values), X)
        return cls(values if table is None else table, y, *owners, features, schema)

    def units(self, silos_per_person: int = 1) -> tuple[np.ndarray | None, np.ndarray]:
        """Return each row's contribution (None: its own), and the silos' numbers of contributions.

        Raise if a person is in more silos than declared. Ids are secret, and this error depends on
        them: it is a help for simulations, where all records are in one process.
        """
        return contributions(self.persons, self.silos, silos_per_person)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of the columns, from their dtypes."""
        return kinds_of(self.features if hasattr(self.features, "columns") else self.X)

    @property
    def indicators(self) -> np.ndarray | None:
        """Which columns (d,) have a bool dtype, and so lie in [0, 1]; None if none has."""
        return indicators_of(self.features)


def read_new(
    X: Any,
    *,
    validate: Callable[[Any], Any],
    without: Sequence[Any] = (),
    encodes: bool = False,
) -> Any:
    """Return the features of new records; columns in ``without`` (silos, persons) are left out.

    ``encodes``: whether an encoding makes numbers of them, so that only columns are validated.
    """
    refuse_sparse(X)
    X = as_frame(X)
    for column in without:
        X = without_column(X, column)
    X = with_names(X)
    if encodes:
        return validate(X)
    with advising(X):
        values = validate(X)
    refuse_dates(X)
    return values


def contributions(
    persons: Persons | None, silos: Silos, silos_per_person: int = 1
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return each row's contribution and the silos' numbers of them, as :meth:`Table.units`."""
    if persons is None:
        return None, silos.sizes
    most = persons.most_silos(silos)
    if most > silos_per_person:
        raise ValueError(
            f"A person has rows in {most} silos, more than silos_per_person={silos_per_person}: "
            f"give silos_per_person={most}, whose price covers that, or score silos one by one. "
            "(This error depends on the ids, which the guarantee does not cover.)"
        )
    return persons.in_silos(silos)


class Owners(NamedTuple):
    """Each row's silo and contribution (None: its own), and the silos' numbers of these."""

    silos: Silos
    of_row: np.ndarray | None
    sizes: np.ndarray

    @classmethod
    def read(cls, X: Any, silos: Any, persons: Any, last: Any) -> Owners:
        """Read whose the rows are, as the estimator ``last`` will, before other steps."""
        n, column = _num_samples(X), getattr(last, "person_column", None)
        _, own = split_column(X, silos, last.silo_column, "silo")
        read = read_silos(own, n, X)
        check_persons(last.unit, persons, column, known=hasattr(last, "contribution"))
        _, who = split_column(X, persons, column, "person")
        most = getattr(last, "silos_per_person", 1)
        return cls(read, *contributions(read_persons(who, n, X), read, most))

    @property
    def units(self) -> Silos:
        """Each contribution's silo."""
        if self.of_row is None:
            return self.silos
        return Silos(np.repeat(np.arange(len(self.sizes)), self.sizes), self.silos.ids)


def check_persons(unit: str, persons: Any, person_column: Any, *, known: bool = True) -> None:
    """Raise unless persons are given if, and only if, they are protected.

    ``known``: whether there is a unit "person" here at all.
    """
    has_persons = persons is not None or person_column is not None
    if unit == "person" and not has_persons:
        raise ValueError(
            'unit="person" needs the person of each row: pass persons=..., or set person_column.'
        )
    if has_persons and unit != "person":
        what = "persons" if persons is not None else "person_column"
        remedy = 'set unit="person", or leave it out'
        if not known:
            remedy = "this estimator protects whole silos, with all persons in them: leave it out"
        raise ValueError(f"{what} was given, but unit={unit!r} does not protect persons: {remedy}.")


def public_columns(X: Any, *owners: Any) -> dict[str, Any]:
    """Return a table's public facts: how many features, names, kinds, which are indicators.

    ``owners`` are the columns of silos and persons, if there are some.
    """
    X = as_frame(X)
    for column in owners:
        X = without_column(X, column)
    names = list(getattr(X, "columns", []))
    named = names if names and all(isinstance(name, str) for name in names) else None
    indicators = indicators_of(X)
    facts = {"n_features": np.shape(X)[1], "feature_names": named, "indicators": indicators}
    plain = hasattr(X, "columns") or np.asarray(X).dtype.kind in "biuf"
    kinds = [kind_of(dtype) for dtype in X.dtypes] if hasattr(X, "columns") else ["number"]
    if not plain or None in kinds:
        return facts
    each = names if hasattr(X, "columns") else range(np.shape(X)[1])
    return facts | {"columns": dict(zip(each, kinds if names else kinds * len(each), strict=True))}


def indicators_of(X: Any) -> np.ndarray | None:
    """Return which columns (d,) have a bool dtype, and so lie in [0, 1]; None if none has."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None:
        return np.ones(X.shape[1:2], bool) if getattr(X, "dtype", None) == np.dtype(bool) else None
    flags = np.array([str(dtype).lower().startswith("bool") for dtype in dtypes])
    return flags if flags.any() else None


def numbers_in_rows(X: Any) -> Any:
    """Return X in C order where scikit-learn would copy it into columns; else as it is.

    These are frames (pandas or polars) whose columns have several dtypes, are integers, or are not
    stored in one array, and arrays of integers in another order. Frames keep their column names.
    Values and dtype are those that scikit-learn would give.
    """
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or shape[0] * shape[1] <= SMALL_TABLE:
        return X
    if isinstance(X, np.ndarray):
        as_read = X.flags.c_contiguous or X.dtype.kind not in "iub"
        return X if as_read else in_rows(X, np.dtype(np.float64))
    if isinstance(X, pd.DataFrame):
        if not _are_numbers(X.dtypes.tolist()) or _is_one_table(X):
            return X
        table = in_rows(X, _dtype_of(X[:1]), lambda rows: X.iloc[rows].to_numpy())
        return pd.DataFrame(table, index=X.index, columns=X.columns, copy=False)
    if type(X).__module__.partition(".")[0] == "polars" and _holds_numbers(X):
        table = in_rows(X, _dtype_of(X[:1]), _reader(X))
        return pd.DataFrame(table, columns=list(X.columns), copy=False)
    return X


def _dtype_of(sample: Any) -> np.dtype:
    """Return the dtype to which scikit-learn converts a frame."""
    read: np.ndarray = check_array(sample, dtype=FLOATS, ensure_all_finite=False)
    return read.dtype


def _are_numbers(dtypes: Sequence[Any]) -> bool:
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "iubf" for dtype in dtypes)
    return plain and all(dtype.itemsize <= 8 for dtype in dtypes)


def _is_one_table(X: pd.DataFrame) -> bool:
    """Whether a frame is a view of one array of floats, which needs no copy."""
    first = X.iloc[:1].to_numpy()
    return first.dtype in FLOATS and np.may_share_memory(first, X.iloc[:, -1].to_numpy())


def _reader(X: Any) -> Callable[[slice], np.ndarray]:
    """Return the function that reads rows of a polars frame, without a copy for floats."""
    kinds = {str(dtype) for dtype in X.dtypes}
    if kinds not in ({"Float32"}, {"Float64"}) or max(X.n_chunks("all")) > 1:
        return lambda rows: np.asarray(X[rows].to_numpy())
    columns = [column.to_numpy(allow_copy=False) for column in X.get_columns()]
    return lambda rows: np.stack([column[rows] for column in columns], axis=1)


def _holds_numbers(X: Any) -> bool:
    """Whether a polars frame has only numbers, without missing values."""
    dtypes = X.dtypes
    plain = all(d.is_float() or d.is_integer() or str(d) == "Boolean" for d in dtypes)
    return plain and not sum(X.null_count().row(0))
