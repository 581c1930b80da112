"""Read the silo and the person of each row from an argument, or from a column of a frame.

Silo ids and silo sizes are public; with persons, their numbers in each silo are, and the numbers of
their rows are secret. Ids are never guessed: anything but one id for each row is an error.
"""

import hashlib
import secrets
from collections.abc import Hashable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdpfl._compat import as_frame
from skdpfl._warnings import warn

#: secret key of assignment names, never stored
_KEY = secrets.token_bytes(32)
#: texts of missing values
_MISSING = ["nan", "NaN", "None", "<NA>", "NaT"]


class Silos(NamedTuple):
    """Each row's silo: ``codes`` (n,) into ``ids``, which are sorted and all in use.

    ``rows``: the labels of the rows, if the data have an index.
    """

    codes: np.ndarray
    ids: pd.Index
    rows: pd.Index | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records."""
        return np.bincount(self.codes, minlength=len(self.ids))

    def digest(self) -> str:
        """Return a digest of which silo has which record, for files that stay with the records.

        Records are identified by their labels, in any order, or by their position without labels.
        """
        small = self.codes.astype(np.min_scalar_type(len(self.ids)))  # less to hash
        digest = hashlib.blake2b(repr(self.ids.tolist()).encode(), digest_size=16)
        if self.rows is not None:
            labels = pd.util.hash_array(self.rows.to_numpy())
            order = np.argsort(labels, kind="stable")
            small, labels = small[order], labels[order]
            digest.update(labels)
        digest.update(small)
        return digest.hexdigest()

    def assignment(self) -> str:
        """Return a name of this assignment of records; if equal, costs add up silo by silo.

        A cost may be published, and labels of rows may be names of patients: a bare digest would
        reveal one label to whoever knows the others. This name has a random key, drawn in each
        process, so it is independent of the labels; costs from different processes add up as those
        of unknown assignments do.
        """
        return hashlib.blake2b(self.digest().encode(), key=_KEY, digest_size=16).hexdigest()


class Persons(NamedTuple):
    """Whose each row is: ``codes`` (n,) into ``ids``, which are sorted and compared over silos.

    Ids, and how many rows a person has, are secret.
    """

    codes: np.ndarray
    ids: pd.Index

    def in_silos(self, silos: Silos) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's contribution (n,), and the number of persons of each silo (public).

        A contribution is what one person has in one silo. They are numbered from 0, silo by silo.
        """
        pairs = silos.codes.astype(np.int64) * len(self.ids) + self.codes
        used, of_row = np.unique(pairs, return_inverse=True)
        return of_row, np.bincount(used // len(self.ids), minlength=len(silos.ids))

    def most_silos(self, silos: Silos) -> int:
        """Return the largest number of silos that a person has rows in, a secret."""
        pairs = silos.codes.astype(np.int64) * len(self.ids) + self.codes
        return int(np.bincount(np.unique(pairs) % len(self.ids)).max())


def split_silo_column(X: Any, silos: Any, silo_column: Any) -> tuple[Any, Any]:
    """Return X without its silo column, and the silos from the column or the argument."""
    return split_column(as_frame(X), silos, silo_column, "silo")


def split_column(X: Any, ids: Any, column: Any, what: str) -> tuple[Any, Any]:
    """Return a frame without a column of ids, and the ids; ``what``: "silo" or "person"."""
    if column is None:
        return X, ids
    argument = f"{what}_column={column!r}"
    if ids is not None:
        raise ValueError(f"Both {what}s and {argument} were given: give one of the two.")
    if not hasattr(X, "columns"):
        raise ValueError(
            f"{argument} needs a DataFrame, got {type(X).__name__}; earlier steps of a pipeline "
            f'keep frames after set_output(transform="pandas"). Or pass {what}s=...'
        )
    if not isinstance(column, Hashable) or column is pd.NA:
        raise ValueError(f"{what}_column must be the name of a column; got {column!r}.")
    if column not in list(X.columns):
        raise ValueError(
            f"{argument} is not a column of X, which has {list(X.columns)!r}."
            + _prefixed(column, X)
        )
    return without_column(X, column), X[column]


def _prefixed(column: Any, X: Any) -> str:
    """Return advice if an earlier step has renamed or encoded the column."""
    names = [str(name) for name in X.columns]
    if any(name.endswith(f"__{column}") for name in names):
        return " ColumnTransformer(verbose_feature_names_out=False) leaves names as they are."
    if any(name.rpartition("__")[2].startswith(f"{column}_") for name in names):
        return (
            " An earlier step has encoded it: leave it out of what that step selects, "
            f"make_column_selector(pattern=r'^(?!{column}$)', ...), and let it through with "
            'remainder="passthrough".'
        )
    return ""


def without_column(X: Any, column: Any) -> Any:
    """Return a frame without a column of ids; return other inputs unchanged."""
    if column is None or not hasattr(X, "columns") or column not in list(X.columns):
        return X
    return X.drop(columns=column) if isinstance(X, pd.DataFrame) else X.drop(column)


def read_silos(silos: Any, n_rows: int, X: Any = None) -> Silos:
    """Return the silo of each of ``n_rows`` rows; without any, all rows are one silo named 0.

    ``silos`` has one id per row: numbers, strings, a Series or a Categorical, whose unused
    categories are ignored. X is the data as passed: a Series with the labels of X's index in
    another order is refused, since it would be read by position.
    """
    return _read(silos, n_rows, X, "silo")._replace(rows=_labels(X))


def read_persons(persons: Any, n_rows: int, X: Any = None) -> Persons | None:
    """Return the person of each of ``n_rows`` rows, as silos are read; None without any."""
    if persons is None:
        return None
    read = _read(persons, n_rows, X, "person")
    return Persons(read.codes, read.ids)


def _labels(X: Any) -> pd.Index | None:
    """Return a frame's index, unless it only counts the rows."""
    index = X.index if isinstance(X, pd.DataFrame) else None
    if index is None or isinstance(index, pd.MultiIndex) or not index.is_unique:
        return None
    counts = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    return None if counts else index


def _read(ids: Any, n_rows: int, X: Any, what: str) -> Silos:
    """Return codes and ids of ``what`` ("silo" or "person") for each row."""
    if ids is None:
        return Silos(np.zeros(n_rows, dtype=np.intp), pd.RangeIndex(1))
    if isinstance(ids, (str, bytes)):
        raise ValueError(
            f"{what}s must be one id per row, got the string {ids!r}; to name a column of X, set "
            f"{what}_column={ids!r}."
        )
    values = _one_dimensional(ids, what)
    if len(values) != n_rows:
        raise ValueError(
            f"{what}s must have one id per row: X has {n_rows} rows, {what}s {len(values)}."
        )
    check_index(ids, X, f"{what}s")
    if isinstance(values, np.ndarray) and (read := _of_integers(values)) is not None:
        return read
    try:
        codes, distinct = pd.factorize(values, sort=False)
    except TypeError:  # what has no hash
        message = f"{what}s must be ids that can be compared: text or numbers."
        raise ValueError(message) from None
    if (codes < 0).any():
        raise ValueError(
            f"{what}s has {int((codes < 0).sum())} missing value(s); give each row a {what}, or "
            "drop the rows without one."
        )
    named = pd.Index(distinct, tupleize_cols=False)
    if what == "silo":  # public
        _warn_of_missing(named)
        _refuse_alike(named)
    else:
        _refuse_mixed(named)
    return _sorted(codes, named)


def _of_integers(values: np.ndarray) -> Silos | None:
    """Return codes and ids of integers that lie close together; None if they do not."""
    if values.dtype.kind not in "iu" or not values.dtype.isnative or not len(values):
        return None
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) or high > np.iinfo(np.intp).max:
        return None
    places = np.subtract(values, low, dtype=np.intp, casting="unsafe")
    present = np.zeros(high - low + 1, bool)
    present[places] = True
    ids = np.flatnonzero(present) + low
    return Silos((present.cumsum() - 1)[places], pd.Index(ids.astype(values.dtype)))


def _warn_of_missing(ids: pd.Index) -> None:
    """Warn of a silo named like a missing value that was converted to text; ids are public."""
    if ids.dtype.kind not in "biufmM" and (words := ids[ids.isin(_MISSING)].tolist()):
        warn(
            f"silos has the id {str(words[0])!r}, which looks like a missing value converted to "
            "text; its rows count as one silo. If it was missing, give each of these rows a silo, "
            "or drop them."
        )


def _refuse_alike(ids: pd.Index) -> None:
    """Raise for a silo that is read as two, 7 and "7": each would be protected by itself."""
    if ids.dtype.kind not in "biufmM":
        known = dict[str, Any]()
        for each in ids.tolist():
            if (first := known.setdefault(str(each), each)) is not each:
                raise ValueError(
                    f"silos has both {first!r} and {each!r}. If they are one silo, read its ids "
                    "as text; or else rename one of them."
                )


def _refuse_mixed(ids: pd.Index) -> None:
    """Raise for persons some of whose ids are text: 7 and "7" would be protected as two."""
    values = () if ids.dtype.kind in "biufmM" else ids.tolist()
    types = {str if isinstance(each, str) else type(each) for each in values}
    if len(types) > 1 and any(issubclass(each, str | bytes) for each in types):
        raise ValueError(
            "persons has ids of several types, text among them, so that a person could be read as "
            'two, 7 and "7". Read them as text (read_csv(..., dtype={"person": str})).'
        )


def _one_dimensional(ids: Any, what: str) -> Any:
    values: Any
    if isinstance(ids, (pd.Series, pd.Categorical, pd.Index)):
        values = ids
    elif hasattr(ids, "to_list") and hasattr(ids, "dtype") and not hasattr(ids, "shape"):
        values = np.asarray(ids.to_list())
    else:
        values = np.asarray(ids) if hasattr(ids, "__array__") else _from_list(ids, what)
    if getattr(values, "ndim", 1) == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{what}s must be one-dimensional, got shape {values.shape}.")
    return values


def _from_list(ids: Any, what: str) -> np.ndarray:
    try:
        items = list(ids)
    except TypeError:
        items = None
    if items is None or isinstance(ids, (Mapping, Set)):
        raise ValueError(
            f"{what}s must be one id per row, in the order of the rows of X; got {ids!r}."
        )
    mixed = len({type(item) for item in items}) > 1
    values = np.empty(len(items), dtype=object)
    values[:] = items
    return values if mixed else np.asarray(items)


def check_index(values: Any, X: Any, name: str = "silos") -> None:
    """Raise for a Series that has the labels of the rows of X in another order."""
    if not isinstance(values, pd.Series) or not isinstance(X, pd.DataFrame):
        return
    ours, theirs = values.index, X.index
    if ours.equals(theirs) or set(ours) != set(theirs):
        return
    raise ValueError(
        f"{name} is a Series whose index has the labels of X's index in another order; it would be "
        f"read by position. Use {name}.loc[X.index]."
    )


def _sorted(codes: np.ndarray, ids: pd.Index) -> Silos:
    """Number the silos in the order of their ids (of their text where ids do not compare)."""
    try:
        order = np.argsort(np.asarray(ids), kind="stable")
    except TypeError:
        order = np.argsort(np.asarray([f"{type(i).__name__}:{i}" for i in ids]), kind="stable")
    rank = np.empty(len(ids), dtype=np.intp)
    rank[order] = np.arange(len(ids))
    return Silos(rank[codes], ids[order])
