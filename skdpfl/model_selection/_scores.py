"""Exact scores of fitted estimators, silo by silo or relative; no privacy budget covers them."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing

from skdpfl._compat import as_frame
from skdpfl._silo_warnings import new_silos_expected
from skdpfl.silos import read_silos, split_silo_column


def silo_scores(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    silos: Any = None,
    scoring: Any = None,
    silo_column: str | None = None,
) -> pd.Series:
    """Score a fitted estimator on the records of each silo.

    An average over all records can hide a small silo with a bad score. The scores are exact and not
    covered by a privacy budget: use public records, or keep them secret.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator, or any object that `scoring` accepts.
    X : array-like of shape (n_records, n_features)
        The data.
    y : array-like of shape (n_records,)
        The target.
    silos : array-like of shape (n_records,), default=None
        The silo of each record.
    scoring : str, callable or None, default=None
        A scorer as in scikit-learn; None: the estimator's `score`.
    silo_column : str or None, default=None
        The column of the DataFrame X with the silos, which is passed to the estimator. By default
        the estimator's own `silo_column`, also inside a pipeline, if X has such a column.

    Returns
    -------
    scores : Series of shape (n_silos,)
        One score for each silo; the index are the silo ids.

    See Also
    --------
    make_silo_scorer : The same as one number, for cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skdpfl.model_selection import silo_scores
    >>> X, y = np.zeros((6, 1)), np.array([0, 0, 0, 0, 1, 1])
    >>> model = DummyClassifier().fit(X, y)
    >>> silo_scores(model, X, y, silos=["a", "a", "a", "b", "b", "b"])
    a    1.000000
    b    0.333333
    Name: score, dtype: float64
    """
    X = as_frame(X)
    scorer = check_scoring(estimator, scoring)
    if silos is None and silo_column is None:
        silo_column = _own_column(estimator, X)
    _, given = split_silo_column(X, silos, silo_column)
    if given is None:
        raise ValueError(
            "scores of silos need the silo of each record: pass silos=... (in cross-validation "
            "with metadata routing enabled), or use silo_column=... and a DataFrame"
        )
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    codes, ids = read_silos(given, n_rows, X)[:2]
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    with new_silos_expected():
        scores = [scorer(estimator, _safe_indexing(X, r), _safe_indexing(y, r)) for r in rows]
    return pd.Series(scores, index=pd.Index(ids.tolist()), name="score", dtype=float)


def _own_column(estimator, X) -> str | None:
    """Return the ``silo_column`` of the estimator, or of one inside it, if X has it."""
    columns = list(getattr(X, "columns", ()))
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    named = {v for k, v in params.items() if k.split("__")[-1] == "silo_column" and v in columns}
    return named.pop() if len(named) == 1 else None


def neg_relative_rmse(estimator: Any, X: Any, y: Any, *, reference: float | None = None) -> float:
    """Score a regressor by its negative relative root mean squared error.

    ``-sqrt(sum_j (y_j - prediction_j)^2 / sum_j (y_j - reference)^2)``: -1 is as bad as the
    constant ``reference``, 0 is perfect. It can be used as `scoring` in scikit-learn. The score is
    exact and not covered by a privacy budget.

    Parameters
    ----------
    estimator : estimator
        A fitted regressor.
    X : array-like of shape (n_records, n_features)
        The data.
    y : array-like of shape (n_records,)
        The target.
    reference : float, default=None
        The constant, such as the mean of the training targets, set by `functools.partial`. None
        is the mean of `y`; the score is then ``-sqrt(1 - R^2)``.

    Returns
    -------
    score : float
        Greater is better; NaN if all targets are equal to the reference.

    See Also
    --------
    make_silo_scorer : The same for each silo: ``make_silo_scorer(neg_relative_rmse)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> from skdpfl.model_selection import neg_relative_rmse
    >>> X, y = np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0])
    >>> neg_relative_rmse(DummyRegressor().fit(X, y), X, y)
    -1.0
    """
    y = np.asarray(y, dtype=float)
    predicted = np.asarray(estimator.predict(X), dtype=float)
    constant = y.mean() if reference is None else reference
    of_constant = float(np.square(y - constant).sum())
    if of_constant == 0:
        return float("nan")
    return -float(np.sqrt(np.square(y - predicted).sum() / of_constant))
