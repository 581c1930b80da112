"""The error of a regressor relative to that of a constant."""

from typing import Any

import numpy as np


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
