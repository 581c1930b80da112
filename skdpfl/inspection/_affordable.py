"""How many columns a budget can bear, from public numbers.

::

    s          noise of the whole fit on each coordinate of the mean gradient, in clip norms
    affordable the largest d with  s (d + 1) <= limit

With standardised columns the noise of d + 1 coefficients changes a prediction by about s (d + 1)
times the clip norm over the norm of a row, and nothing that ``fit`` can do avoids that. On the
data of benchmarks/auto/curves.py a fit at the limit loses about 0.05 of R2 to the noise. That is
what products or curves of the columns have to bring, to be worth their noise. Labels bear more,
since only the sign of a prediction, or the largest, counts.
"""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.base import clone, is_classifier

from skdpfl._pipelines import private_step
from skdpfl.choosing import noise_of_plan

#: the largest s (d + 1), for numbers and for labels
_NUMBERS, _LABELS = 0.2, 0.5
#: the most columns that are looked at
_MOST = 2**14


def affordable_features(estimator: Any, *, silo_sizes: Any, n_classes: int = 2) -> int:
    """Return the number of columns above which noise costs more than it should.

    A public number, from the parameters of the estimator and the sizes: it reads no records and
    costs nothing. Use it to choose among groups of features that were fixed beforehand, such as
    columns alone, with products, or with splines at public knots.

    Parameters
    ----------
    estimator : estimator or Pipeline
        One of the estimators of this library, or a pipeline that ends in one.
    silo_sizes : mapping or sequence
        Each silo's number of records.
    n_classes : int, default=2
        The number of labels (classifiers only).

    Returns
    -------
    int
        At least 1. It counts the columns that the estimator is given, without the silo column.
        Fits without privacy can bear any number: then ``2**14`` is returned.

    See Also
    --------
    skdpfl.model_selection.DPRandomizedSearchCV : Chooses by noisy scores, within a budget.

    Notes
    -----
    The largest d with s (d + 1) at most 0.2 for regressors, 0.5 for classifiers, s being the noise
    of the fit on each coordinate of the mean gradient, in clip norms: 2 sqrt(M) / (mu N) for N
    records in M silos with ``trust="silo"``, a factor sqrt(M) less with ``trust="server"``.

    Examples
    --------
    >>> from skdpfl import ISRLDPRegressor
    >>> from skdpfl.inspection import affordable_features
    >>> sizes = [268, 268, 267, 268, 267]
    >>> [affordable_features(ISRLDPRegressor(epsilon=e), silo_sizes=sizes) for e in (1, 3, 8)]
    [12, 35, 84]
    """
    model = private_step(estimator)[1]
    if model.unit != "record" or not isinstance(model.model, str):
        raise ValueError(
            "affordable_features knows the noise of linear models that protect records; whole "
            "silos and networks have other limits."
        )
    known = {"feature_bounds": (-1, 1)} if model.feature_bounds is not None else {}
    model = clone(model).set_params(**known)
    limit = _LABELS if is_classifier(model) else _NUMBERS

    def fits(d: int) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of widths that are only tried; fit warns of its own
            plan = model.plan_for(silo_sizes=silo_sizes, n_features=d, n_classes=n_classes)
        return noise_of_plan(plan) * (d + 1) <= limit

    if fits(_MOST):
        return _MOST
    low, high = 1, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
