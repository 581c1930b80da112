"""A transformer that runs a user's function one row at a time.

Other transformers here pass the columns of silos and persons through ``transform``. These are no
features: they are removed before validation and put back, unchanged and at their positions, into
the output, which then is a frame of the same type as the input. Without them the output is an
array, unless ``set_output`` was called.

``limit_rows`` limits the number of rows per person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpfl._apart import digest, shared_state
from skdpfl._arguments import check_count, refuse_sparse
from skdpfl._compat import as_frame
from skdpfl._surface import DocLinks
from skdpfl._warnings import warnings_off
from skdpfl.encoding import typed
from skdpfl.table import read_new


class PassesSilos:
    """Mixin with ``transform``; must precede TransformerMixin, which does not handle such columns.

    The transformer defines ``_read(features, reset)``, which validates, ``_map(X, inverse)`` on
    what that returns and, unless features keep their names, ``_names_out``; ``fit`` sets
    ``_passed`` by :meth:`_owners_in`. Frames of ``_flags_out`` hold True and False, which an
    estimator knows to be indicators.
    """

    silo_column: Any
    person_column: Any
    _flags_out = False
    #: the columns that were passed through in the fit, and the number of features before each
    _passed: tuple[tuple[Any, int], ...] = ()

    def transform(self, X: Any) -> Any:
        """Transform the features.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            With or without the columns of silos and persons.

        Returns
        -------
        array or DataFrame
            A DataFrame if X is one whose columns of silos or persons are passed through.
        """
        return self._transformed(X, inverse=False)

    def fit_transform(
        self, X: Any, y: Any = None, *, silos: Any = None, persons: Any = None
    ) -> Any:
        """Fit, then transform the same records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : None
            Ignored.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo id.
        persons : array-like of shape (n_samples,), default=None
            With ``unit="person"``: each record's person.

        Returns
        -------
        array or DataFrame
        """
        fitted = self.fit(X, y, silos=silos, persons=persons)  # type: ignore[attr-defined]
        return fitted.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns, including those of silos and persons.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X; None: those seen in ``fit``.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if input_features is not None:
            input_features = [name for name in input_features if name not in self._owners]
        names = self._names_of(input_features)
        if not self._passed:
            return names
        places = [self._place(position) for _, position in self._passed]
        return np.insert(names.astype(object), places, [column for column, _ in self._passed])

    @property
    def _owners(self) -> list[Any]:
        """The columns that say whose a row is."""
        return [each for each in (self.silo_column, self.person_column) if each is not None]

    def _owners_in(self, X: Any) -> tuple[tuple[Any, int], ...]:
        """Return those of a frame, in its order, and the number of features before each."""
        columns = list(getattr(X, "columns", ()))
        owners = [column for column in columns if column in self._owners]
        return tuple((column, columns.index(column) - i) for i, column in enumerate(owners))

    def _names_of(self, input_features: Any = None) -> np.ndarray:
        """Names of the output features."""
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return self._names_out(names)

    def _names_out(self, names: np.ndarray) -> np.ndarray:
        """Names of the output columns for features with these names."""
        return names

    def _place(self, position: int) -> int:
        """The number of output columns of the first ``position`` features."""
        return position

    def _transformed(self, X: Any, inverse: bool) -> Any:
        check_is_fitted(self)
        X = as_frame(X)
        checked = partial(self._read, reset=False)  # type: ignore[attr-defined]
        values = read_new(X, validate=checked, without=self._owners)
        values = self._map(values, inverse)  # type: ignore[attr-defined]
        known = dict(self._passed)
        passed = [each for each in self._owners_in(X) if each[0] in known]
        kind = output_kind(self)
        if kind == "default" and not passed:
            return values
        values = values.astype(bool) if self._flags_out and not inverse else values
        if kind == "default":
            kind = "pandas" if isinstance(X, pd.DataFrame) else "polars"
        places = [
            (column, self._place(position) + i) for i, (column, position) in enumerate(passed)
        ]
        return _frame(kind, values, self._names_of(), X, places)


def output_kind(transformer: Any) -> str:
    """Return the output format of ``set_output`` or scikit-learn's configuration."""
    own = getattr(transformer, "_sklearn_output_config", {})
    return own.get("transform", get_config()["transform_output"])


def _frame(
    kind: str, values: np.ndarray, names: np.ndarray, X: Any, passed: list[tuple[Any, int]]
) -> Any:
    """Return a frame of the features, and of X's columns that are passed to these positions."""
    if kind == "polars":
        import polars as pl

        # columns of a mixed array have types of their own
        columns = values.T.tolist() if values.dtype == object else values
        frame = pl.DataFrame(columns, schema=[str(name) for name in names])
        for column, position in passed:
            frame.insert_column(position, pl.Series(str(column), _plain(X[column])))
        return frame
    index = X.index if isinstance(X, (pd.DataFrame, pd.Series)) else None
    result = pd.DataFrame(values, index=index, columns=names).infer_objects()
    for column, position in passed:
        ids = X[column]
        result.insert(position, column, ids if isinstance(ids, pd.Series) else _plain(ids))
    return result


def _plain(ids: Any) -> Any:
    """Return ids as a list if they come from another kind of frame."""
    return ids.to_list() if isinstance(ids, pd.Series) or hasattr(ids, "to_list") else ids


def limit_rows(people: Any, most: int) -> np.ndarray:
    """Return a mask of rows so that nobody has more than ``most`` of them.

    A record is one row, and epsilon protects one record. If people have several rows, in one silo
    or in several, and ``unit="person"`` is not available, keep at most k of each and report
    ``privacy_spent_.group(k)``;
    :func:`skdpfl.privacy.epsilon_per_record` gives the budget beforehand.

    Parameters
    ----------
    people : array-like of shape (n_samples,)
        The id of each row's person, across all silos. Ids are public: who has rows, where and how
        many.
    most : int
        The limit k.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
        Each person's **first** ``most`` rows, in the order given: in a panel the first years. To
        keep others, shuffle the rows by a seed before, or sort them by something public (a visit's
        number, not its result).

    See Also
    --------
    skdpfl.privacy.epsilon_per_record : The budget of a record, from that of a person.

    Notes
    -----
    **Formal guarantee.** The kept rows depend on ids and on the order of rows only. So if the
    content of all rows of a person is replaced, at most k kept records change, and what is
    (epsilon, delta)-DP for k records together is so for a person.

    Examples
    --------
    >>> from skdpfl.preprocessing import limit_rows
    >>> limit_rows(["ann", "bob", "ann", "ann"], 2)
    array([ True,  True,  True, False])
    """
    check_count("most", most)
    if isinstance(people, str) or not np.iterable(people):
        raise ValueError(f"people must be one id for each row; got {people!r}.")
    ids = pd.Series(list(people), dtype=object)
    if ids.isna().any():
        raise ValueError(
            f"people has {int(ids.isna().sum())} missing value(s); give each row a person."
        )
    try:
        earlier = ids.groupby(ids, sort=False).cumcount()
    except TypeError:  # what has no hash
        raise ValueError("people must be ids that can be compared: text or numbers.") from None
    return (earlier < most).to_numpy()


#: rows that are run once more, in the opposite order
_ROWS_REVERSED = 50


@dataclass(eq=False, repr=False)
class RowTransformer(DocLinks, TransformerMixin, BaseEstimator):
    """Run any function on one row at a time, so that it costs no privacy.

    A :class:`~sklearn.preprocessing.FunctionTransformer` passes all records to its function, which
    may mix them, as ``lambda D: D.fillna(D.mean())`` does. Here the function sees one row at a
    time.

    Parameters
    ----------
    func : callable
        A function of a table with one row (an array or a DataFrame, as X is; its numbers are
        float64, everything else but dates are objects), that
        returns one row: an array or a DataFrame of shape (1, n_features_out), or one value.
        Functions for FunctionTransformer that treat each row by itself work here.
    feature_names_out : None, "one-to-one", list of str or callable, default=None
        The names of the output columns. A callable gets this transformer and the names of X's
        columns. None: those of the frames that ``func`` returns.
    kw_args : dict, default=None
        Additional arguments of ``func``.

    Attributes
    ----------
    n_features_in_ : int
        The number of features of a record.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X is a DataFrame.

    See Also
    --------
    DPSimpleImputer : Fills missing values, within a budget.
    DPOneHotEncoder : Encodes categories, within a budget.

    Notes
    -----
    **Formal guarantee.** ``fit`` reads the number and the names of the columns only. An output row
    is a function of one record: ``func`` is called with a copy of that record's row, whose types no
    other record decides, and must not keep anything for the next one. What it reaches (closure,
    defaults, globals, attributes) is compared before and after a run, and a change is an error, as
    are rows whose output differs when they are run again. Each value is converted separately:
    numbers to float64, anything else stays an object. So the transformer costs no privacy, and
    :func:`skdpfl.privacy_spent` counts it as free.

    Python cannot keep a function from writing files, or from changing a library's variables: that
    it keeps nothing is yours to vouch for.

    Equal rows of a DataFrame are run once. 100,000 rows of an array take one to two seconds,
    100,000 different rows of a DataFrame six to fifteen.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpfl.preprocessing import RowTransformer
    >>> visits = pd.DataFrame({"height": [1.6, 1.8], "weight": [64.0, 81.0]})
    >>> def bmi(visit):
    ...     return visit[["weight"]] / visit[["height"]].to_numpy() ** 2
    >>> RowTransformer(bmi, feature_names_out=["bmi"]).fit_transform(visits)
        bmi
    0  25.0
    1  25.0
    """

    func: Any
    _: KW_ONLY
    feature_names_out: Any = None
    kw_args: Any = None

    def fit(self, X: Any, y: Any = None) -> RowTransformer:
        """Check the function, and store the columns; no value of X is used.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        if not callable(self.func):
            raise TypeError(f"func must be a function; got {type(self.func).__name__}.")
        self._table(X, reset=True)
        return self

    def transform(self, X: Any) -> Any:
        """Return the function's output for each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features_out)
            The output; a DataFrame if the function returns DataFrames.
        """
        X = self._table(X, reset=False)
        first, of_row = _kinds(X)
        before = digest(self.func), shared_state(self.func)
        outputs = self._run(X, first)
        again = first[:: -max(1, len(first) // _ROWS_REVERSED)]
        for i, row in zip(again, self._run(X, again), strict=True):
            if not _same(row, outputs[of_row[i]]):
                raise ValueError(
                    f"func returns another result for row {i} when it is called again, so it keeps "
                    "state and mixes rows, or is random."
                )
        if (digest(self.func), shared_state(self.func)) != before:
            raise ValueError(
                "func changes state that it keeps between rows (a closure variable, a global, a "
                "default, an attribute), so one row could affect another: it mixes rows."
            )
        out = self._together([outputs[kind] for kind in of_row], X)
        kind = output_kind(self)
        if self.feature_names_out is not None or kind == "default":
            return out  # with names, scikit-learn makes the frame
        out = out if isinstance(out, pd.DataFrame) else pd.DataFrame(out).add_prefix("x")
        return out if kind == "pandas" else _polars(out)

    def set_output(self, *, transform: Any = None) -> RowTransformer:
        """Set the output format of ``transform``.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            "default": a DataFrame if the function returns DataFrames, else an array. None:
            unchanged.

        Returns
        -------
        self : object
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @available_if(lambda self: self.feature_names_out is not None)
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X; None: those seen in ``fit``.

        Returns
        -------
        ndarray of str
        """
        names = self.feature_names_out
        if input_features is None:
            default = [f"x{i}" for i in range(self.n_features_in_)]
            input_features = getattr(self, "feature_names_in_", default)
        if isinstance(names, str) and names == "one-to-one":
            return np.asarray(input_features, dtype=object)
        if callable(names):
            return np.asarray(names(self, input_features), dtype=object)
        return np.asarray(names, dtype=object)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return X as an array or a pandas frame; check its columns."""
        refuse_sparse(X)
        X = typed(as_frame(X), plain=True)
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns; got an array of {X.ndim} axes.")
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def _run(self, X: Any, which: Sequence[int]) -> list[Any]:
        """Return the function's output for some rows, one by one."""
        func, words = self.func, self.kw_args or {}
        table = X if isinstance(X, np.ndarray) else X.reset_index(drop=True)
        rows = []
        with warnings_off(), np.errstate(all="ignore"):  # warnings follow from single rows
            for i in which:
                row = table[i : i + 1].copy()
                if isinstance(row, pd.DataFrame):
                    row.attrs, row.index = {}, _FIRST
                rows.append(self._called(func, row, words, i))
        return rows

    @staticmethod
    def _called(func: Any, row: Any, words: dict[str, Any], i: int) -> Any:
        """Return the function's output for a row; errors, which may quote the row, are hidden."""
        try:
            output = func(row, **words)
        except Exception as error:
            kind = type(error).__name__
        else:
            return _one_row(output)
        raise ValueError(f"func raised {kind} on row {i}; call it with that row to see why.")

    def _together(self, rows: list[Any], X: Any) -> Any:
        """Return rows as one array or frame."""
        names = {names for names, _ in rows}
        if len(names) > 1 or len({len(values) for _, values in rows}) > 1:
            raise ValueError(
                "func returns different columns for different rows: name all that there may be."
            )
        columns = list(zip(*(values for _, values in rows), strict=True))
        own = next(iter(names), None)
        if self.feature_names_out is not None:
            own = tuple(self.get_feature_names_out())
            if rows and len(own) != len(columns):
                raise ValueError(
                    f"feature_names_out has {len(own)} names, func {len(columns)} columns."
                )
        arrays = [_column(values) for values in columns]
        if isinstance(X, pd.DataFrame) and own is not None:
            return pd.DataFrame(dict(zip(own, arrays, strict=True)), index=X.index)
        return np.column_stack(arrays) if arrays else np.empty((len(rows), 0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


_FIRST = pd.RangeIndex(1)


def _polars(frame: pd.DataFrame) -> Any:
    """Return a frame of Polars."""
    import polars as pl

    return pl.DataFrame({str(name): column.tolist() for name, column in frame.items()})


def _kinds(X: Any) -> tuple[list[int], list[int]]:
    """Return the first of each set of equal rows, and the number of each row's set.

    Rows are equal if they agree to the last bit; if that is unknown, each row is its own set. So
    are rows of arrays, since finding equal ones would take as long as most functions.
    """
    keys = []
    for j in range(X.shape[1]) if isinstance(X, pd.DataFrame) else ():
        column = X.iloc[:, j]
        if column.dtype == object:
            listed = [None if type(v) is float and v != v else v for v in column]
            if not set(map(type, listed)) <= {str, bool, type(None)}:
                break
            keys.append(listed)
        elif isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufmM":
            keys.append(column.to_numpy().copy().view(f"V{column.dtype.itemsize}").tolist())
        else:
            break
    if not keys or len(keys) < X.shape[1]:
        return list(range(len(X))), list(range(len(X)))
    kinds: dict[Any, int] = {}
    of_row = [kinds.setdefault(key, len(kinds)) for key in zip(*keys, strict=True)]
    first = dict(zip(reversed(of_row), range(len(of_row) - 1, -1, -1), strict=True))
    return [first[kind] for kind in range(len(kinds))], of_row


def _one_row(output: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...]]:
    """Return the column names of a function's output, if any, and its values."""
    names = None
    if isinstance(output, pd.DataFrame):
        names = tuple(output.columns)
        if len(output) != 1:
            raise _other_shape(output.shape)
        return names, tuple(_alone(value) for value in output.to_numpy(dtype=object)[0])
    output = output.toarray() if hasattr(output, "toarray") else np.asarray(output)
    if output.ndim > 2 or (output.ndim > 0 and output.shape[0] != 1):
        raise _other_shape(output.shape)
    values = output.reshape(-1)
    plain = values.tolist() if values.dtype.kind not in "mM" else list(values)
    return names, tuple(_alone(value) for value in plain)


def _other_shape(shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"func must return one row, (1, n_features_out), or one value; got shape {shape}."
    )


def _alone(value: Any) -> Any:
    """Return an output value, converted independently of other rows: numbers become floats.

    Complex numbers become gaps: as objects they would change the type of their column.
    """
    if isinstance(value, complex | np.complexfloating):
        return np.nan
    return float(value) if isinstance(value, int | float | np.number | np.bool_) else value


def _column(values: tuple[Any, ...]) -> np.ndarray:
    """Return a column's values: floats, or objects if there is anything else."""
    if all(type(value) is float for value in values):
        return np.array(values, dtype=float)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _same(a: Any, b: Any) -> bool:
    """Return whether two rows are the same, missing values included."""
    if a[0] != b[0] or len(a[1]) != len(b[1]):
        return False
    return all(v is w or v == w or (v != v and w != w) for v, w in zip(a[1], b[1], strict=True))
