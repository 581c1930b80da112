"""Transformers that pass the columns of silos and persons through ``transform``.

These are no features: they are removed before validation and put back, unchanged and at their
positions, into the output, which then is a frame of the same type as the input. Without them the
output is an array, unless ``set_output`` was called.

``limit_rows`` limits the number of rows per person.
"""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdpfl._arguments import check_count
from skdpfl._compat import as_frame
from skdpfl.table import read_new


class PassesSilos:
    """Mixin with ``transform``; must precede TransformerMixin, which does not handle such columns.

    The transformer defines ``_checked(features, reset)``, which validates, ``_map(X, inverse)`` on
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
        checked = partial(self._checked, reset=False)  # type: ignore[attr-defined]
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
            f"people has {int(ids.isna().sum())} missing value(s); give each row a person, or drop "
            "the rows without one."
        )
    try:
        earlier = ids.groupby(ids, sort=False).cumcount()
    except TypeError:  # what has no hash
        raise ValueError("people must be ids that can be compared: text or numbers.") from None
    return (earlier < most).to_numpy()
