"""Fitted linear and additive models as plain data, which opens anywhere and runs no code.

Predictions are computed from a few numbers, of the columns that ``encoding`` makes of a frame
(version 2; :mod:`skdpfl.encoding`), or of those given (version 1)::

    z = x                                     map "none"
    z = min(max(x, low), high)                map "limits", column by column
    z = a / sqrt(4 + a^2),  a = asinh(x)      map "squash"
    raw = z @ coef.T + intercept
    labels     two: classes[raw > 0], more: classes[argmax raw]
    numbers    raw; exp(raw) for losses with a log link ("poisson", "gamma", "tweedie",
               "negative_binomial"); within target_bounds where they clip
    times      x @ coef.T the log hazard ratio; exp(intercept) the hazards per horizon

In an additive model z are the columns of its curves less their means (:class:`Expansion`).

Reading checks every field, so that a damaged file raises an error.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from skdpfl import __version__
from skdpfl.encoding import Encoding
from skdpfl.estimators._intervals import FittedIntervals
from skdpfl.estimators._noise_error import NoiseError
from skdpfl.losses import NAMED
from skdpfl.models import LinearModel, OneSlope
from skdpfl.privacy.spending.report import (
    finite_numbers,
    keys,
    listed,
    one_of,
    refusing_damage,
    require,
    text_or_none,
    whole,
)
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.scaling import (
    AffineScaling,
    Bounds,
    Curve,
    CurveScaling,
    Expansion,
    IdentityScaling,
    SquashScaling,
)

SCHEMA, ADDITIVE = "skdpfl.LinearModel", "skdpfl.AdditiveModel"
#: of models of numbers, and of models with an encoding
VERSION, ENCODED = 1, 2
#: parameters that predictions depend on, beside the loss
PARAMETERS = ("clip_features", "silo_column", "target_bounds", "breaks")
#: one that only those have that protect persons
PERSONS = "person_column"
KEYS = {
    "schema", "version", "library", "estimator", "loss", "parameters", "classes", "n_features",
    "feature_names", "dtype", "coef", "intercept", "map", "limits", "silo_ids",
    "privacy_spent",
}  # fmt: skip
#: the most levels of a column in a file
MOST_LEVELS = 10**6
#: of an additive model, beside those; of one curve
CURVES = {"names", "low", "high", "center", "scale", "pairs", "n_bins", "each", "means"}
CURVE = {"feature", "edges", "shares", "knots", "heights", "cuts", "bins"}


def to_plain(model: Any) -> dict[str, Any]:
    """Return a fitted model as lists, strings and numbers."""
    if not isinstance(model.model_, LinearModel | OneSlope):
        raise ValueError(
            f"Only linear models can be written as plain data; got {type(model.model_).__name__}. "
            "Pickle it, or take an MLP's weights from coefs_ and intercepts_."
        )
    loss = model._loss()
    names_of = {kind: name for name, kind in NAMED.items()}
    if type(loss) not in names_of:
        raise ValueError(
            f"Plain data name the loss, and {model.loss!r} is a user-defined one. Pickle the model "
            "instead."
        )
    names = getattr(model, "feature_names_in_", None)
    scaling, curves = model.scaling_, {}
    if isinstance(scaling, CurveScaling):
        curves, scaling = {"curves": _plain_curves(scaling)}, scaling.inner
    limits: Any = (getattr(scaling, "low", None), getattr(scaling, "high", None))
    if limits[0] is not None:  # features that are ignored have none; JSON has no infinity
        most = float(np.finfo(np.asarray(model.coef_).dtype).max)
        limits = tuple(np.clip(limit, -most, most) for limit in limits)
    squashed = isinstance(scaling, SquashScaling)
    encoding = getattr(model, "schema_", None)
    more = curves if encoding is None else curves | {"encoding": encoding.to_dict()}
    if (intervals := vars(model).get("_intervals")) is not None:
        more = more | {"intervals": intervals.to_plain()}
    if vars(model).get("_has_exposure"):
        more = more | {"exposure": True}
    return {
        "schema": ADDITIVE if curves else SCHEMA,
        "version": VERSION if encoding is None else ENCODED,
        "library": f"skdpfl {__version__}",
        "estimator": type(model).__name__,
        "loss": names_of[type(loss)],
        "parameters": {n: _plain(getattr(model, n)) for n in PARAMETERS if hasattr(model, n)}
        | ({} if getattr(model, PERSONS, None) is None else {PERSONS: _plain(model.person_column)})
        | _fields_of(loss, model),
        "classes": _plain(getattr(model, "classes_", None)),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "dtype": str(np.asarray(model.coef_).dtype),
        "coef": np.atleast_2d(model.coef_).tolist(),
        "intercept": np.atleast_1d(model.intercept_).tolist(),
        "map": "squash" if squashed else "none" if limits[0] is None else "limits",
        "limits": None if limits[0] is None else [_plain(limit) for limit in limits],
        "silo_ids": _plain(model.silo_ids_),
        "privacy_spent": model.privacy_spent_.to_dict(),
    } | _plain(more)


def _plain_curves(scaling: CurveScaling) -> dict[str, Any]:
    """Return the columns of an additive model."""
    curves = scaling.curves
    numbers = {name: getattr(curves, name) for name in ("low", "high", "center", "scale", "pairs")}
    each = [
        {"feature": curve.column} | {name: getattr(curve, name) for name in CURVE - {"feature"}}
        for curve in curves.curves
    ]
    more = {"names": scaling.names, "n_bins": curves.n_bins, "each": each, "means": curves.offset}
    return _plain(numbers | more)


def _fields_of(loss: Any, model: Any) -> dict[str, Any]:
    """Return the fields of a loss that is a parameter, as its parameters; infinite ones are left.

    JSON has no infinity, which is the default of each of them.
    """
    fields = asdict(loss).items() if hasattr(model, "loss") else ()
    return {f"loss__{field}": value for field, value in fields if value != np.inf}


@refusing_damage("The saved model")
def from_plain(kind: Any, plain: dict[str, Any]) -> Any:
    """Return a fitted estimator of a class; raise if the data do not describe one."""
    curved = isinstance(plain, dict) and plain.get("schema") == ADDITIVE
    encoded = isinstance(plain, dict) and "encoding" in plain
    more = ({"curves"} if curved else set()) | ({"encoding"} if encoded else set())
    more |= {"intervals", "exposure"} & set(plain) if isinstance(plain, dict) else set()
    keys(plain, KEYS | more, "model")
    schema, version = ADDITIVE if curved else SCHEMA, ENCODED if encoded else VERSION
    for name, expected in (("schema", schema), ("version", version), ("estimator", kind.__name__)):
        one_of(plain, name, (expected,), "model")
    text_or_none(plain, "library")
    loss, known = NAMED[one_of(plain, "loss", kind._losses, "model")](), kind._get_param_names()
    model = kind(loss=loss) if "loss" in known else kind(target_bounds=(0, 1))
    own = set(_fields_of(loss, model)) | (set(PARAMETERS) & set(known))
    parameters = plain["parameters"]
    optional = {"loss__largest"} | ({PERSONS} & set(known))
    keys(parameters, own | (optional & set(parameters)), "parameters")
    model.set_params(**parameters)
    if model._is_classifier() and loss.one_slope:
        model.classes = listed(plain, "classes", "model")
    model._check()
    model.n_features_in_ = d = whole(plain, "n_features", "model", 1)
    if plain["feature_names"] is not None:
        names = listed(plain, "feature_names", "model")
        require(len(names) == d, "feature_names", f"are {len(names)}, not {d}")
        model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    model.schema_ = _encoding(plain["encoding"], d) if encoded else None
    d = d if model.schema_ is None else len(model.schema_.names())
    outputs = 1
    if model._is_classifier():
        classes = listed(plain, "classes", "model")
        labels = {label for label in classes if isinstance(label, str | int | float)}
        require(len(labels) == len(classes) > 1, "classes", "must be two labels or more")
        model.classes_ = np.asarray(classes)
        outputs = 1 if len(classes) == 2 else len(classes)
    slopes = outputs
    if loss.one_slope:
        outputs, slopes = model._n_outputs(), 1
    if hasattr(model, "breaks"):
        model.breaks_ = model._cuts()[1]
    dtype = np.dtype(one_of(plain, "dtype", ("float32", "float64"), "model"))
    rows = listed(plain, "coef", "model")
    require(len(rows) == slopes, "coef", f"has {len(rows)} rows, not {slopes}")
    curves = _read_curves(plain["curves"], d) if curved else None
    width = d if curves is None else curves.width
    coef = np.array([finite_numbers(row, "coef", width) for row in rows]).astype(dtype)
    intercept = finite_numbers(plain["intercept"], "intercept", outputs).astype(dtype)
    model.model_ = LinearModel(width, outputs, model.fit_intercept)
    model.coef_, model.intercept_ = coef, intercept
    if not model._is_classifier():
        model.coef_, model.intercept_ = coef[0], intercept[0]
    if loss.one_slope:
        model.model_, model.intercept_ = OneSlope(width, outputs), intercept
    model.scaling_, model._ranges = _scaling(plain, width), None
    model._has_exposure = plain.get("exposure", False)
    require(isinstance(model._has_exposure, bool), "exposure", "must be true or false")
    if curves is not None:
        _set_curves(model, plain["curves"], curves)
    model._noise_error = NoiseError("plain data do not contain noise errors")
    ids = listed(plain, "silo_ids", "model")
    require(
        all(isinstance(each, str | int | float | list) for each in ids), "silo_ids", "are no ids"
    )
    pairs = [tuple(each) if isinstance(each, list) else each for each in ids]
    model.silo_ids_ = pd.Index(pairs, tupleize_cols=False).to_numpy()
    model.privacy_spent_ = PrivacySpent.from_dict(plain["privacy_spent"])
    model._told_of_silos = []
    if "intervals" in plain:
        FittedIntervals.from_plain(plain["intervals"], model).set_on(model)
        model.inference = "intervals"
    return model


def _encoding(plain: Any, n_columns: int) -> Encoding:
    """Return the encoding of a frame."""
    require(isinstance(plain, list) and len(plain) == n_columns, "encoding", "is not a list")
    encoding = Encoding.from_dict(plain)
    for column in encoding.columns:
        levels, ends = column.levels or (), column.range or ()
        fine = len(set(levels)) == len(levels) <= column.width <= MOST_LEVELS
        require(fine, "levels", "are not different labels of at most the width")
        finite_numbers(list(ends), "range")  # without scales it may lack one
        finite_numbers([column.start], "start")
        require(column.kind != "category" or column.is_known, "encoding", "lacks levels")
    return encoding


def _set_curves(model: Any, plain: dict[str, Any], curves: Expansion) -> None:
    """Make a linear model an additive one with these columns."""
    names = tuple(map(str, listed(plain, "names", "curves")))
    require(len(names) == curves.width, "names", f"are {len(names)}, not {curves.width}")
    blocks = tuple(curve.whitened(curves.n_bins) for curve in curves.curves)
    model.model, model._ranges = "additive", Bounds(curves.low, curves.high)
    model.scaling_ = CurveScaling(curves, model.scaling_, blocks, 0.0, names)


def _read_curves(plain: Any, d: int) -> Expansion:
    """Return the columns of an additive model."""
    keys(plain, CURVES, "curves")
    curves = []
    for part in listed(plain, "each", "curves"):
        keys(part, CURVE, "each")
        names = CURVE - {"feature", "bins"}
        sizes = {name: len(listed(part, name, "each")) for name in names}
        floats: dict[str, Any] = {n: finite_numbers(part[n], n, size) for n, size in sizes.items()}
        require(bool((floats["shares"] >= 0).all()), "shares", "are below 0")
        bins = np.array(_wholes(part["bins"], "bins"), np.int64)
        curves.append(Curve(column=whole(part, "feature", "each", 0), bins=bins, **floats))
    pairs = [_wholes(pair, "pairs") for pair in listed(plain, "pairs", "curves")]
    require(all(len(pair) == 2 for pair in pairs), "pairs", "are not pairs of two features")
    numbers = {
        name: finite_numbers(plain[name], name, d) for name in ("low", "high", "center", "scale")
    }
    expansion = Expansion(
        curves=tuple(curves),
        n_bins=whole(plain, "n_bins", "curves", 0),
        pairs=np.array(pairs, np.int64).reshape(-1, 2),
        **numbers,
    )
    expansion.check(d)
    means = finite_numbers(plain["means"], "means", expansion.width)
    vars(expansion)["offset"] = means  # to the last bit
    return expansion


def _wholes(values: Any, where: str) -> list[int]:
    """Return a list of integers."""
    fine = isinstance(values, list) and all(type(value) is int for value in values)
    require(fine, where, "is not a list of integers")
    return list(values)


def _scaling(plain: dict[str, Any], d: int) -> Any:
    """Return the features' map."""
    word = one_of(plain, "map", ("none", "limits", "squash"), "model")
    pair = plain["limits"]
    fine = isinstance(pair, list) and len(pair) == 2 if word == "limits" else pair is None
    require(fine, "limits", "must be a pair for map 'limits', and null for others")
    if word == "limits":
        low, high = (finite_numbers(part, "limits", d) for part in plain["limits"])
        return AffineScaling(np.zeros(d), np.ones(d), low=low, high=high)
    return SquashScaling() if word == "squash" else IdentityScaling()


def _plain(value: Any) -> Any:
    """Return arrays as lists."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
