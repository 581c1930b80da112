"""Declared bounds, which are public, and their affine maps to [-1, 1].

::

    center = (low + high) / 2,    scale = (high - low) / 2      values within bounds: [-1, 1]

Features are mapped to [-1, 1], the size of the intercept's 1, instead of rows to norm 1: intercept
and coefficients then converge at the same rate for any number of features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.scaling._maps import AffineScaling, AffineTarget, Array

#: root mean square of a value uniform on [-1, 1], expected if only bounds are known
_UNIFORM_SPREAD = 1 / np.sqrt(3)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Public intervals [low, high], one per feature; low == high: the feature is ignored."""

    low: Array
    high: Array

    @property
    def center(self) -> Array:
        """Middle of each interval."""
        return self.low / 2 + self.high / 2

    @property
    def half_range(self) -> Array:
        """Half the length of each interval; 0 where the feature is ignored."""
        return self.high / 2 - self.low / 2

    @property
    def used(self) -> np.ndarray:
        """Which features are not ignored."""
        return self.high > self.low


def deviations_of_all(deviations: float, count: int) -> float:
    """Return deviations of noise that are exceeded by any of ``count`` as rarely as by one.

    For a normal variable P(N > x) < phi(x) / x, and phi(sqrt(z^2 + 2 log k)) = phi(z) / k: so k of
    them exceed the result with probability below phi(z) / z in all, whatever their dependence.
    """
    return float(np.sqrt(deviations**2 + 2 * np.log(max(1, count))))


def read_feature_bounds(
    feature_bounds: Any,
    n_features: int,
    feature_names: Sequence[str] | None = None,
    known: tuple[Array, Array] | None = None,
) -> Bounds:
    """Read the parameter ``feature_bounds``.

    They are scalars or arrays of shape (n_features,), or a mapping column -> (low, high) (with
    column numbers if the features have no names). A Series is matched by its labels, like a
    mapping, if both have names. Entries for other columns are allowed, and a mapping may leave out
    columns whose range is ``known``: (low, high), NaN for others. A ValueError is raised for a
    column without an entry, a wrong shape, a bound that is not finite, low > high; and, for two
    columns, for a list of two tuples, which could mean one pair per column.
    """
    names = list(range(n_features)) if feature_names is None else list(feature_names)
    if isinstance(feature_bounds, Mapping):
        if known is not None:
            ends = zip(names, *known, strict=True)
            found = {
                name: (low, high) for name, low, high in ends if np.isfinite((low, high)).all()
            }
            feature_bounds = found | dict(feature_bounds)
        missing = [name for name in names if name not in feature_bounds]
        if missing:
            raise ValueError(
                f"feature_bounds has no entry for {_some(missing)}; give (low, high) for every "
                "column, (0, 0) to ignore one."
            )
        pairs = [_pair(feature_bounds[name], f"feature_bounds[{name!r}]") for name in names]
        low, high = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
        if low.shape != (n_features,) or high.shape != (n_features,):
            raise ValueError(
                f"feature_bounds as a mapping needs two numbers for each column; got {len(pairs)} "
                f"pairs for {n_features} columns."
            )
    else:
        given = feature_bounds
        if n_features == 2 and isinstance(given, list) and [*map(type, given)] == [tuple, tuple]:
            raise ValueError(
                f"feature_bounds={given!r} can be read as (lows, highs) or as one pair for each of "
                "the two columns. Give a tuple (lows, highs), or a mapping column -> (low, high)."
            )
        if feature_names is not None and isinstance(given, (tuple, list)):
            given = type(given)([_by_label(value, names) for value in given])
        low, high = _pair(given, "feature_bounds", " or of arrays, one value per feature")
        low, high = (_vector(value, n_features) for value in (low, high))
    _check(low, high, names, "feature_bounds")
    return Bounds(low, high)


def read_target_bounds(target_bounds: Any) -> Bounds:
    """Read ``target_bounds=(low, high)``, two numbers with low < high."""
    low, high = _pair(target_bounds, "target_bounds")
    if np.ndim(low) or np.ndim(high):
        raise ValueError(f"target_bounds must be two numbers (low, high); got {target_bounds!r}.")
    _check(low[None], high[None], ["y"], "target_bounds")
    if low == high:
        raise ValueError(f"target_bounds must have low < high; got ({low}, {high}).")
    return Bounds(low[None], high[None])


def affine_from_bounds(bounds: Bounds, centred: bool = True) -> AffineScaling:
    """The map of the bounds onto [-1, 1] (uncentred: into it); ignored features become 0."""
    scale = np.where(bounds.used, bounds.half_range, np.inf)
    spread = np.where(bounds.used, _UNIFORM_SPREAD, 0.0)
    center, radius = bounds.center, float(np.sqrt(bounds.used.sum()))
    if not centred:
        furthest = scale + np.abs(center)
        spread = np.hypot(_UNIFORM_SPREAD * bounds.half_range, center) / furthest
        center, scale = np.zeros_like(center), furthest
    return AffineScaling(center, scale, radius, spread)


def target_from_bounds(bounds: Bounds) -> AffineTarget:
    """The map of the target's bounds onto [-1, 1]."""
    return AffineTarget(float(bounds.center[0]), float(bounds.half_range[0]))


def _by_label(value: Any, names: list[Any]) -> Any:
    """Return a Series' values in the order of the columns; anything else unchanged."""
    if not isinstance(value, pd.Series) or isinstance(value.index, pd.RangeIndex):
        return value
    missing = [name for name in names if name not in value.index]
    if missing:
        raise ValueError(
            f"feature_bounds has no entry for {_some(missing)}: a Series is matched by its labels; "
            "give one for every column."
        )
    return value.loc[names].to_numpy()


def _pair(value: Any, name: str, words: str = "") -> tuple[Array, Array]:
    if isinstance(value, pd.DataFrame):  # unpacking it gives the names of two columns
        raise ValueError(
            f"{name} must be a pair (low, high) of numbers{words}; got a DataFrame. If its rows "
            'are public limits, give (frame.loc["min"], frame.loc["max"]). Limits computed from '
            "the records, as by describe(), would leak."
        )
    try:
        low, high = value
        return np.asarray(low, np.float64), np.asarray(high, np.float64)
    except (TypeError, ValueError) as error:
        if words and _all_pairs(value):
            words += " (tuple(zip(*pairs)) turns a list of pairs, one per feature)"
        raise ValueError(
            f"{name} must be a pair (low, high) of numbers{words}; got {value!r}."
        ) from error


def _all_pairs(value: Any) -> bool:
    """Whether bounds were given as a list of (low, high), one per feature."""
    several = isinstance(value, (tuple, list, np.ndarray)) and np.iterable(value)
    return several and all(np.shape(v) == (2,) for v in value)


def _vector(value: Array, n_features: int) -> Array:
    if value.shape not in ((), (1,), (n_features,)):
        raise ValueError(
            f"feature_bounds must hold numbers or arrays of shape ({n_features},), one value per "
            f"feature; got shape {value.shape}."
        )
    return np.broadcast_to(value, n_features).copy()


def _check(low: Array, high: Array, names: Sequence[Any], parameter: str) -> None:
    infinite = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
    if infinite.size:
        bad = _some([names[int(j)] for j in infinite])
        raise ValueError(f"{parameter} must be finite; those of {bad} are not.")
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        j = int(crossed[0])
        raise ValueError(
            f"{parameter} must have low <= high; got ({low[j]}, {high[j]}) for {names[j]!r}. "
            "A pair is (low, high), each a number or, for features, one number per column."
        )


def _some(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
