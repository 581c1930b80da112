"""Before a fit: how many columns a budget supports, and how much silos differ.

``affordable_features`` reads public numbers only::

    s          noise of the whole fit on each coordinate of the mean gradient, in clip norms
    affordable the largest d with  s (d + 1) <= limit

With standardised columns, the noise of d + 1 coefficients changes a prediction by about s (d + 1)
times the clip norm over the norm of a row, whatever ``fit`` does. By experiment
a fit at the limit loses about 0.05 of R2 to the noise. Products or curves
of columns have to gain more than that to be worth their noise. Classification allows more, since
only the sign, or the largest, of the raw predictions matters.

``heterogeneity`` is the variance of silos' gradients, computed without privacy. With silo weights
p_i that sum to 1 (1/N for "uniform", n_i / n for "size") and silo objectives
F_i(w) = mean of the silo's losses + alpha/2 |w|^2, F = sum_i p_i F_i::

    upsilon^2(w) = sum_i p_i |grad F_i(w) - grad F(w)|^2
                 = sum_i p_i |grad F_i(w)|^2 - |grad F(w)|^2

At the optimum of F the second term is 0. Shapes: gradients (n_silos, P), P = (d + intercept) k.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_X_y

from skdpfl import _arguments
from skdpfl._pipelines import private_step
from skdpfl._warnings import warn, warnings_off
from skdpfl.choosing import noise_of_plan
from skdpfl.losses import NAMED, Loss
from skdpfl.models import LinearModel
from skdpfl.privacy.calibration import largest
from skdpfl.silos import read_silos

#: the largest s (d + 1), for numbers and for labels
_NUMBERS, _LABELS = 0.2, 0.5
#: the most columns that are looked at
_MOST_COLUMNS = 2**14
#: the minimisation has converged if |grad F|^2 is at most this share of the mean |grad F_i|^2
TOLERANCE = 1e-8


def affordable_features(estimator: Any, *, silo_sizes: Any, n_classes: int = 2) -> int:
    """Return the number of columns above which noise costs too much accuracy.

    The number is public: it follows from the estimator's parameters and the sizes, reads no records
    and costs nothing. Use it to choose among groups of features that were fixed beforehand, such as
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
        The number of columns of the estimator's input, without the silo column; at least 1. For
        fits without privacy, which have no limit, it is ``2**14``.

    See Also
    --------
    skdpfl.model_selection.DPRandomizedSearchCV : Chooses by noisy scores, within a budget.

    Notes
    -----
    The largest d with s (d + 1) at most 0.2 for regressors, 0.5 for classifiers, s being the noise
    of the fit on each coordinate of the mean gradient, in clip norms: 2 sqrt(M) / (mu N) for N
    records in M silos with ``trust="silo"``, a factor sqrt(M) less with ``trust="server"``, and
    sqrt(M - t) less with ``"secagg"`` and t colluding silos.

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
        raise ValueError('affordable_features is for linear models with unit="record".')
    known = {"feature_bounds": (-1, 1)} if model.feature_bounds is not None else {}
    model = clone(model).set_params(model="linear", **known)
    limit = _LABELS if is_classifier(model) else _NUMBERS

    def fits(d: int) -> bool:
        with warnings_off():  # about widths that are only tried; fit gives its own
            plan = model.plan_for(silo_sizes=silo_sizes, n_features=d, n_classes=n_classes)
        return noise_of_plan(plan) * (d + 1) <= limit

    return max(1, largest(fits, _MOST_COLUMNS))


@dataclass(frozen=True)
class Heterogeneity:
    """Heterogeneity of silos at a model.

    Attributes
    ----------
    upsilon_squared : float
        Weighted mean of ``per_silo``. Lowy and Razaviyayn's upsilon^2, at this model.
    per_silo : Series
        ``|grad F_i - grad F|^2``, indexed by silo.
    mean_squared_norm : float
        Weighted mean of ``|grad F_i|^2``.
    squared_norm_of_mean : float
        ``|grad F|^2``.
    coef, intercept : ndarray
        The model: shapes (k, d) and (k,), k = 1 for two classes and regression.
    """

    upsilon_squared: float
    per_silo: pd.Series = field(repr=False)
    mean_squared_norm: float
    squared_norm_of_mean: float
    coef: NDArray = field(repr=False)
    intercept: NDArray = field(repr=False)


def heterogeneity(
    X: Any,
    y: Any,
    *,
    silos: Any,
    loss: str | Loss = "squared_error",
    alpha: float = 0.0,
    fit_intercept: bool = True,
    silo_weights: str = "uniform",
    coef: ArrayLike | None = None,
    intercept: ArrayLike | None = None,
) -> Heterogeneity:
    """Compute the heterogeneity of silos, on **public or synthetic** data.

    Records are read without privacy: on sensitive records, the result (and anything chosen from it)
    is a leak that no epsilon covers.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features.
    y : array-like of shape (n,)
        Targets or labels.
    silos : array-like of shape (n,)
        A silo id per row.
    loss : str or Loss, default="squared_error"
        The loss, as in the estimators, or a loss object of :mod:`skdpfl.losses`.
    alpha : float, default=0.0
        Weight of the penalty ``alpha/2 |w|^2``.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    silo_weights : {"uniform", "size"}, default="uniform"
        Weights of the silos in F; the papers weight them equally.
    coef : array-like of shape (d,) or (k, d), optional
        The model. If None, the minimiser of F, computed without noise.
    intercept : float or array-like of shape (k,), optional
        The intercept that belongs to ``coef``; None: 0.

    Returns
    -------
    Heterogeneity
        ``upsilon_squared`` and its parts.

    Warns
    -----
    ConvergenceWarning
        If no minimiser was found (there may be none: separable classes and alpha 0).

    See Also
    --------
    skdpfl.datasets.split_into_silos : Silos with a chosen heterogeneity.

    References
    ----------
    A. Lowy and M. Razaviyayn, "Private Federated Learning Without a Trusted Server: Optimal
    Algorithms for Convex Losses", ICLR 2023. M. Noble, A. Bellet and A. Dieuleveut,
    "Differentially Private Federated Learning on Heterogeneous Data", AISTATS 2022.

    Examples
    --------
    Two silos with the means 0 and 2, and the common mean 1:

    >>> from skdpfl.inspection import heterogeneity
    >>> result = heterogeneity([[0.0]] * 4, [-1.0, 1.0, 1.0, 3.0], silos=["a", "a", "b", "b"])
    >>> round(result.upsilon_squared, 6), result.intercept.round(6).tolist()
    (1.0, [1.0])
    """
    objective = (
        loss if isinstance(loss, Loss) else NAMED[_arguments.check_choice("loss", loss, NAMED)]()
    )
    _arguments.check_flags(fit_intercept=fit_intercept)
    with _arguments.advising(X, y):
        X, y = check_X_y(X, y, dtype=np.float64, y_numeric=not objective.is_classifier)
    codes, ids = read_silos(silos, len(X))[:2]
    y, n_outputs = _targets(y, objective)
    model = LinearModel(X.shape[1], n_outputs, fit_intercept)
    weights = _weights(silo_weights, codes)
    penalty = _arguments.check_not_negative("alpha", alpha) * model.penalty_mask()
    if coef is None:
        each_record = (weights / np.bincount(codes))[codes]
        params = optimum(model, X, y, objective, each_record, penalty)
    else:
        params = _point(model, coef, intercept)
    rows = [codes == i for i in range(len(ids))]
    sums = [model.gradient_sum(params, X[r], y[r], objective) / r.sum() for r in rows]
    result = _spread(np.array(sums) + penalty * params, weights, ids, model.unpack(params))
    if coef is None and result.squared_norm_of_mean > TOLERANCE * result.mean_squared_norm:
        warn(
            "No minimiser was found: scale the features, or give alpha > 0.",
            ConvergenceWarning,
        )
    return result


def _spread(
    each: NDArray, weights: NDArray, ids: pd.Index, parts: tuple[NDArray, NDArray]
) -> Heterogeneity:
    """Return the heterogeneity from the silos' gradients, shape (n_silos, P)."""
    mean = weights @ each
    apart = np.square(each - mean).sum(axis=1)
    return Heterogeneity(
        float(weights @ apart),
        pd.Series(apart, index=ids, name="squared_distance"),
        float(weights @ np.square(each).sum(axis=1)),
        float(mean @ mean),
        *parts,
    )


def _targets(y: NDArray, loss: Loss) -> tuple[NDArray, int]:
    """Return numbers or class codes, and the number of raw predictions."""
    if not loss.is_classifier:
        with _arguments.naming_no_values(y, "y"):
            return y.astype(np.float64), 1
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has the single class {classes[0]!r}; loss={loss!r} needs two.")
    return codes, loss.n_outputs(len(classes))


def _weights(silo_weights: str, codes: NDArray) -> NDArray:
    """Return p_i, shape (n_silos,)."""
    sizes = np.bincount(codes)
    _arguments.check_choice("silo_weights", silo_weights, ("uniform", "size"))
    return sizes / sizes.sum() if silo_weights == "size" else np.full(len(sizes), 1 / len(sizes))


def _point(model: LinearModel, coef: ArrayLike, intercept: ArrayLike | None) -> NDArray:
    """Return the flat parameters of a given model."""
    with _arguments.naming_no_values(coef, "coef"):
        weights = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    shape = (model.n_outputs, model.n_features)
    if weights.shape != shape:
        raise ValueError(f"coef of shape {weights.shape} is not valid; it must be {shape}.")
    return model.pack(weights, intercept)


def optimum(
    model: LinearModel,
    X: NDArray,
    y: NDArray,
    loss: Loss,
    record_weights: NDArray,
    penalty: NDArray,
) -> NDArray:
    """Return the minimiser of F, computed in coordinates with about equal curvature."""
    if loss.can_be_smoothed:
        raise ValueError(f"loss={loss!r} needs coef, because its gradient is discontinuous.")
    size = np.ones(model.size)
    n_weights = model.n_features * model.n_outputs
    size[:n_weights] = np.repeat(np.square(X).mean(axis=0), model.n_outputs)
    size += penalty
    norms = model.squared_row_norms(X)
    scale = 1 / np.sqrt(np.where(size > 0, size, 1))

    def objective(scaled: NDArray) -> tuple[float, NDArray]:
        params = scaled * scale
        value = record_weights @ loss.value(y, model.raw(params, X), squared_norms=norms)
        gradient = model.gradient_sum(params, X, y, loss, weights=record_weights)
        return value + penalty @ params**2 / 2, (gradient + penalty * params) * scale

    # the first value is the unit, so that tolerances are relative
    unit = max(objective(model.init())[0], np.finfo(float).tiny)

    def in_units(scaled: NDArray) -> tuple[float, NDArray]:
        value, gradient = objective(scaled)
        return value / unit, gradient / unit

    result = minimize(
        in_units,
        model.init(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-7, "maxcor": 30},
    )
    return result.x * scale
