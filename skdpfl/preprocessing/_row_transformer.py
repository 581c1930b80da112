"""A transformer that runs a user's function one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skdpfl._apart import digest, shared_state
from skdpfl._arguments import refuse_sparse
from skdpfl._compat import as_frame
from skdpfl._kinds import typed
from skdpfl._surface import DocLinks
from skdpfl._warnings import warnings_off
from skdpfl.preprocessing._frames import output_kind

#: rows that are run once more, in the opposite order
_AGAIN = 50


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
        again = first[:: -max(1, len(first) // _AGAIN)]
        for i, row in zip(again, self._run(X, again), strict=True):
            if not _same(row, outputs[of_row[i]]):
                raise ValueError(
                    f"func returns another result for row {i} when it is called again, so it keeps "
                    "state and mixes rows, or is random."
                )
        if (digest(self.func), shared_state(self.func)) != before:
            raise ValueError(
                "func changes state that it keeps between rows (a closure variable, a global, a "
                "default, an attribute), so one row could affect another: it mixes rows. Let it "
                "compute each row from that row and from constants."
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
                "func returns different columns for different rows. They must be the same for any "
                "row: name them all, as categories of a public list."
            )
        columns = list(zip(*(values for _, values in rows), strict=True))
        own = next(iter(names), None)
        if self.feature_names_out is not None:
            own = tuple(self.get_feature_names_out())
            if rows and len(own) != len(columns):
                raise ValueError(
                    f"feature_names_out has {len(own)} names, but func returns {len(columns)} "
                    "columns."
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
        "func must return one row, of shape (1, n_features_out), or one value, for one row; got "
        f"shape {shape}."
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
