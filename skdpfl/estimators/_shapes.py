"""The curves and products of a fitted additive model, as frames."""

from typing import Any

import numpy as np
import pandas as pd

from skdpfl.estimators._noise_error import coef_names
from skdpfl.models import Additive
from skdpfl.privacy.spending.spent import SIMULATION
from skdpfl.scaling import FAR, CurveScaling


def shape_functions(model: Any) -> dict[Any, pd.DataFrame]:
    """Return each feature's curve: what it adds to the decision function, piece by piece.

    A row is a piece, from "from" up to "to", where the curve is straight: "value" is that in its
    middle, "slope" what one unit more adds, "noise error" the standard deviation of the value over
    fits on the same records with new noise, where that is known. Beyond its bounds a curve stays at
    its end. Of an indicator, a row is a value, 0 or 1.
    """
    _check(model)
    names, ranges = coef_names(model)[: model.n_features_in_], model._ranges
    each = zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)
    scaling, parts = model.scaling_, []
    numbers = {}
    if isinstance(scaling, CurveScaling):
        numbers = {curve.column: n for n, curve in enumerate(scaling.curves.curves)}
    for j, (low, high) in enumerate(each):
        if j in numbers:
            parts.append(_of_curve(scaling, numbers[j]))
        elif numbers and (low, high) == (0, 1):
            parts.append(_line(model, j, np.array([0.0, 1.0]), np.array([0.0, 1.0])))
        else:
            parts.append(_line(model, j, np.array([low]), np.array([high])))
    basis = np.concatenate([values for _, values, _ in parts])
    values, errors = _combined(model, basis)
    slopes, _ = _combined(model, np.concatenate([slopes for _, _, slopes in parts]), False)
    frames, start = {}, 0
    for name, (pieces, own, _) in zip(names, parts, strict=True):
        rows = slice(start, start := start + len(own))
        frame = pd.DataFrame(pieces, columns=["from", "to"])
        frames[name] = _with(frame, model, rows, value=values, slope=slopes, noise=errors)
    return frames


def interactions(model: Any) -> pd.DataFrame:
    """Return the coefficients of products, one row a pair of features.

    A product is of both values less a center in units of a scale, cut at "most": these are in
    ``attrs["coded"]``, by feature.
    """
    _check(model)
    scaling, names = model.scaling_, coef_names(model)
    pairs, coded = np.zeros((0, 2), int), {}
    if isinstance(scaling, CurveScaling):
        curves = scaling.curves
        pairs, each = curves.pairs, zip(curves.center.tolist(), curves.scale.tolist(), strict=True)
        coded = dict(zip(names, each, strict=False)) | {"most": FAR}
    basis = np.eye(len(names))[len(names) - len(pairs) :]
    values, errors = _combined(model, basis)
    index = [(names[a], names[b]) for a, b in pairs.tolist()]
    frame = pd.DataFrame(index=pd.MultiIndex.from_tuples(index, names=["feature", "by"]))
    frame = _with(frame, model, slice(None), coefficient=values, noise=errors)
    frame.attrs["coded"] = coded
    return frame


def _check(model: Any) -> None:
    """Raise an AttributeError for what is no fitted additive model."""
    asked = isinstance(model.model, Additive) or model.model in ("additive", "auto")
    if not asked or getattr(model, "_ranges", None) is None:
        raise AttributeError(
            'Curves are fitted with model="additive" (or "auto") and feature_bounds.'
        )


def _of_curve(scaling: CurveScaling, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pieces (m, 2), and the columns (m, width) of their middles and of their slopes."""
    curves = scaling.curves
    curve, places = curves.curves[number], curves.places(number)
    ends = np.unique(np.concatenate([curve.edges[[0, -1]], curve.knots, curve.cuts]))
    low, high = ends[:-1], ends[1:]
    middles = low / 2 + high / 2
    values, slopes = np.zeros((2, len(low), curves.width))
    values[:, places] = curve.columns(middles, curves.n_bins) - curves.offset[places]
    slopes[:, places[0]] = 1.0
    slopes[:, places[1]] = (curve.rank(high) - curve.rank(low)) / (high - low)
    return np.column_stack([low, high]), values, slopes


def _line(
    model: Any, feature: int, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same of a feature without a curve."""
    values, slopes = np.zeros((2, len(low), np.atleast_2d(model.coef_).shape[1]))
    values[:, feature] = low / 2 + high / 2
    slopes[:, feature] = low < high
    return np.column_stack([low, high]), values, slopes


def _combined(
    model: Any, basis: np.ndarray, with_errors: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return combinations (m, k) of coefficients, and their noise errors if they are known."""
    values = basis @ np.atleast_2d(model.coef_).T
    if not with_errors:
        return values, None
    beside = np.column_stack([basis, np.zeros(len(basis))])  # nothing of the intercept
    errors = model._noise_error.of_coefficients(beside)
    return values, None if errors is None else errors.reshape(values.shape[1], -1).T


def _with(
    frame: pd.DataFrame,
    model: Any,
    rows: slice,
    *,
    noise: np.ndarray | None,
    slope: np.ndarray | None = None,
    **values: np.ndarray,
) -> pd.DataFrame:
    """Return a frame with columns of values, slopes and noise errors, for each class."""
    ((word, found),) = values.items()
    given = {word: found, "slope": slope, "noise error": noise}
    for kind, numbers in given.items():
        if numbers is None:
            continue
        for c in range(numbers.shape[1]):
            name = kind if numbers.shape[1] == 1 else f"{kind} of {model.classes_[c]}"
            frame[name] = numbers[rows, c]
    if model.privacy_spent_.simulation:
        frame.columns.name = frame.attrs["simulation"] = SIMULATION
    return frame
