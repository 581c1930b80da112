"""Scaling objects: fixed maps of features and targets to the scale of training.

::

    affine   z = (x - center) / scale               per feature; scale = inf ignores it (z = 0)
    squash   z = a / sqrt(4 + a^2),  a = asinh(x)   in (-1, 1)
    target   t = (y - center) / scale

A linear model on ``z`` is a linear model on ``x``: with ``coef`` (k, d) and ``intercept`` (k,)::

    coef_x = coef / scale,     intercept_x = intercept - coef_x @ center

Outlying values are clipped only if the map has limits: declared bounds (``clip_features=True``), or
some scales from the centers if scales were estimated without bounds. Clipped gradients protect the
records for any features. Without limits the decision function is affine in ``x`` everywhere.

Declared bounds, which are public, have affine maps to [-1, 1]::

    center = (low + high) / 2,    scale = (high - low) / 2      values within bounds: [-1, 1]

So each feature is mapped to the size of the intercept's 1, instead of rows to norm 1: intercept and
coefficients then converge at the same rate for any number of features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpfl.models import ExpandedTable

Array = NDArray[np.floating]
#: rows of numbers that are mapped at once
_ROWS_AT_ONCE = 2**14


class Scaling(ABC):
    """A fixed, public map of feature rows."""

    #: whether the map is affine, so that coefficients can be given in the original units
    affine: ClassVar[bool]

    @property
    def row_norm(self) -> float | None:
        """Root mean square norm of a transformed row, where a ``spread`` is known; else None."""
        spread = getattr(self, "spread", None)
        return None if spread is None else float(np.linalg.norm(spread))

    @property
    def largest_square(self) -> float | None:
        """A bound of the mean square of a row in any direction; None: unknown."""
        return None if self.row_norm is None else self.row_norm**2

    @abstractmethod
    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Map rows ``X`` (n, d); float32 stays float32, ``out`` may be ``X`` itself."""

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients (k, d) and intercepts (k,) in the original units if possible."""
        return np.asarray(coef), np.asarray(intercept)

    def rescale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Undo :meth:`unscale`; columns that are ignored keep their coefficients."""
        return np.asarray(coef), np.asarray(intercept)

    def within(self, X: Array) -> Array:
        """Return ``X`` with values clipped to the limits, if there are any."""
        return X

    def mapped(self, table: ExpandedTable) -> ExpandedTable:
        """Map a frame's rows, which stay values and cells: the former, and the columns of cells."""
        values, cells = table.stored
        own, values = self.of_columns(table.numbers), values.copy()
        for i in range(0, len(values) if table.numbers.size else 0, _ROWS_AT_ONCE):
            values[i : i + _ROWS_AT_ONCE] = own.transform(values[i : i + _ROWS_AT_ONCE])
        return ExpandedTable(values, cells, table.columns.mapped(self.transform))

    def of_columns(self, columns: np.ndarray) -> Scaling:
        """Return the map of some columns."""
        each = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        own = {name: value[columns] for name, value in each.items() if np.ndim(value) == 1}
        return replace(self, **own)  # type: ignore[type-var]


@dataclass(frozen=True)
class IdentityScaling(Scaling):
    """No scaling; nothing is known about the features."""

    affine: ClassVar[bool] = True

    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Return ``X``, or a copy in ``out``."""
        X = as_floats(X)
        if out is None:
            return X
        if out is not X:
            np.copyto(out, X)
        return out


@dataclass(frozen=True, eq=False)
class AffineScaling(Scaling):
    """Map ``x`` to ``(x - center) / scale``, feature by feature.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
        ``scale`` is positive; ``inf`` ignores the feature (it becomes 0, its coefficient too).
    radius : float, default=inf
        A bound on the norm of a transformed row within the declared bounds; ``inf`` without
        bounds. Rows beyond the bounds may have a larger norm.
    spread : ndarray of shape (d,), optional
        Root mean square of each transformed feature, from public or released numbers.
    low, high : ndarray of shape (d,), optional
        Limits that values are clipped to before they are mapped; None: no clipping.
    """

    center: Array
    scale: Array
    radius: float = np.inf
    spread: Array | None = field(default=None, repr=False)
    low: Array | None = field(default=None, repr=False)
    high: Array | None = field(default=None, repr=False)
    affine: ClassVar[bool] = True

    def __post_init__(self) -> None:
        center, scale = np.array(self.center, np.float64), np.array(self.scale, np.float64)
        if center.ndim != 1 or scale.shape != center.shape:
            raise ValueError(
                f"center and scale must be vectors of one length; got shapes {center.shape} "
                f"and {scale.shape}."
            )
        if not np.isfinite(center).all() or not (scale > 0).all():
            raise ValueError("center must be finite and scale positive in every feature.")
        spread = None if self.spread is None else np.array(self.spread, np.float64)
        for name, value in [("center", center), ("scale", scale), ("spread", spread)]:
            if value is not None:
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"AffineScaling({self.center.size} features)"

    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Map rows ``X`` (n, d); subtracts first, so that large offsets cost no precision."""
        X = self.within(as_floats(X))
        out = np.empty(X.shape, X.dtype) if out is None else out
        flat, wide, center, factor = in_long_rows(X, out, self.center, 1.0 / self.scale)
        np.subtract(flat, center, out=wide)
        wide *= factor
        return out

    def within(self, X: Array) -> Array:
        """Return ``X`` with values clipped to the limits, if there are any."""
        if self.low is None or self.high is None:
            return X
        out = np.empty(X.shape, X.dtype)
        flat, wide, low, high = in_long_rows(X, out, self.low, self.high)
        np.minimum(np.maximum(flat, low, out=wide), high, out=wide)
        return out

    def inverse(self, Z: Array) -> Array:
        """Undo :meth:`transform`; ignored features are set to their center."""
        Z = as_floats(Z)
        return Z * np.where(np.isinf(self.scale), 0, self.scale).astype(Z.dtype) + (
            self.center.astype(Z.dtype)
        )

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts that give the same decision function on the raw rows."""
        coef = np.asarray(coef) / self.scale
        return coef, np.asarray(intercept) - coef @ self.center

    def rescale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts that give the same decision function on mapped rows."""
        used = np.where(np.isinf(self.scale), 0, self.scale)
        return np.asarray(coef) * used, np.asarray(intercept) + np.asarray(coef) @ self.center


@dataclass(frozen=True, eq=False)
class SquashScaling(Scaling):
    """Map each value into (-1, 1), whatever its scale.

    With ``a = asinh(x)``, which is linear near 0 and logarithmic for large values,
    ``s(x) = a / sqrt(4 + a^2)`` distinguishes magnitudes from 1e-3 to 1e9 and depends on no data.
    The map is not affine, so coefficients refer to ``transform(X)``.
    """

    affine: ClassVar[bool] = False

    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Map rows ``X`` (n, d) by an odd, increasing function."""
        out = np.arcsinh(as_floats(X), out=out)
        out /= np.sqrt(4 + out * out)
        return out


@dataclass(frozen=True)
class AffineTarget:
    """Map a regression target ``y`` to ``(y - center) / scale``."""

    center: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.center) and 0 < self.scale < np.inf):
            raise ValueError(
                f"center must be finite and scale positive and finite; got {self.center} and "
                f"{self.scale}."
            )

    def __repr__(self) -> str:
        return f"AffineTarget({self.center:.3g}, {self.scale:.3g})"

    def transform(self, y: Array) -> Array:
        """Map targets; float32 stays float32."""
        y = as_floats(y)
        return (y - y.dtype.type(self.center)) / y.dtype.type(self.scale)

    def inverse(self, t: Array) -> Array:
        """Map predictions back to the target's own units."""
        return np.asarray(t) * self.scale + self.center

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts for ``y``, from those for ``t``."""
        return np.asarray(coef) * self.scale, self.inverse(intercept)

    def rescale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts for ``t``, from those for ``y``."""
        return np.asarray(coef) / self.scale, (np.asarray(intercept) - self.center) / self.scale


@dataclass(frozen=True)
class RatioTarget:
    """Map a target ``y`` with means exp(raw) to ``y / scale``: raw loses log(scale).

    Means per unit of exposure become means per ``exposure``: raw gains its logarithm.
    """

    scale: float = 1.0
    exposure: float = 1.0

    def __repr__(self) -> str:
        return f"RatioTarget({self.scale:.3g})"

    @property
    def _moves(self) -> float:
        return float(np.log(self.scale) - np.log(self.exposure))

    def transform(self, y: Array) -> Array:
        """Map targets; float32 stays float32."""
        y = as_floats(y)
        return y / y.dtype.type(self.scale)

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts of log means of ``y``, from those of ``y / scale``."""
        return np.asarray(coef), np.asarray(intercept) + self._moves

    def rescale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts of log means of ``y / scale``, from those of ``y``."""
        return np.asarray(coef), np.asarray(intercept) - self._moves


@dataclass(frozen=True, eq=False)
class Scales:
    """The maps of features and of the target (the identity in classifiers).

    From released moments: ``coarse_target``, whether the target's scale may be too large;
    ``target_error``, the standard deviation of the error of the target's mean, in half boxes (0 if
    it was not released); and ``missed_features``, those with many values beyond their declared
    bounds. From released counts: ``narrow_target``, whether whole silos' target may vary by
    less than its scale can be; ``wide_features``, those that spread over many powers of ten;
    ``far_features``, those with many values beyond the grid, whose scales are not found; and
    ``unseen_features``, whether nearly all values are zero, or too small to be distinguished from
    zero.
    """

    features: Scaling
    target: AffineTarget | RatioTarget = AffineTarget()
    coarse_target: bool = False
    narrow_target: bool = False
    target_error: float = 0.0
    wide_features: tuple[int, ...] = ()
    far_features: tuple[int, ...] = ()
    unseen_features: bool = False
    missed_features: tuple[int, ...] = ()

    @property
    def features_map(self) -> Scaling | None:
        """The map of the features; None: no scaling."""
        return None if isinstance(self.features, IdentityScaling) else self.features

    @property
    def target_map(self) -> AffineTarget | RatioTarget | None:
        """The map of the target; None: no scaling."""
        return None if self.target == AffineTarget() else self.target

    def clipped(self, low: Array, high: Array) -> Scales:
        """Return scales of features whose values are clipped to [low, high] first."""
        features = self.features
        if isinstance(features, IdentityScaling):
            features = AffineScaling(np.zeros_like(low), np.ones_like(low))
        assert isinstance(features, AffineScaling)  # with bounds scales are affine
        return replace(self, features=replace(features, low=low, high=high))

    def clipped_around(self, n_scales: float) -> Scales:
        """Return scales that clip features at a number of scales from their centers.

        Squashed features are bounded anyway.
        """
        if not isinstance(self.features, AffineScaling):
            return self
        center, reach = self.features.center, n_scales * self.features.scale
        return self.clipped(center - reach, center + reach)

    def without_shift(self, exposure: float = 1.0) -> Scales:
        """Return scales for a log link: targets divided by their root mean square."""
        size = float(np.hypot(self.target.scale, getattr(self.target, "center", 0.0)))
        return replace(self, target=RatioTarget(size, exposure))


#: the most rows that are joined into one
_ROWS_AS_ONE = 64


def in_long_rows(X: Array, out: Array, *each: Array) -> tuple[Array, ...]:
    """Return views of two tables (n, d) with several rows joined, and vectors (d,) to match.

    NumPy's overhead for each row exceeds the time for 20 numbers.
    """
    n, d = X.shape
    several = min(n & -n, _ROWS_AS_ONE)
    if several < 2 or not (X.flags.c_contiguous and out.flags.c_contiguous):
        return X, out, *(vector.astype(X.dtype) for vector in each)
    shape = n // several, several * d
    return (
        X.reshape(shape),
        out.reshape(shape),
        *(np.tile(vector.astype(X.dtype), several) for vector in each),
    )


def as_floats(X: Array) -> Array:
    """``X`` as floats: float32 and float64 unchanged, anything else as float64."""
    X = np.asarray(X)
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


#: root mean square of a value uniform on [-1, 1], expected if only bounds are known
_UNIFORM_SPREAD = 1 / np.sqrt(3)


class Bounds(NamedTuple):
    """Intervals [low, high], one per feature; low == high: the feature is ignored."""

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

    def edges(self, n_bins: int) -> np.ndarray:
        """The edges (d, n_bins + 1) of equal bins."""
        return np.linspace(self.low, self.high, n_bins + 1, axis=-1)


#: deviations of the noise by which a value surely exceeds a limit
SURE_DEVIATIONS = 4.0


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
            bounds = {
                name: (low, high) for name, low, high in ends if np.isfinite((low, high)).all()
            }
            feature_bounds = bounds | dict(feature_bounds)
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
        pairs = feature_bounds
        if n_features == 2 and isinstance(pairs, list) and [*map(type, pairs)] == [tuple, tuple]:
            raise ValueError(
                f"feature_bounds={pairs!r} can be read as (lows, highs) or as one pair for each of "
                "the two columns. Give a tuple (lows, highs), or a mapping column -> (low, high)."
            )
        if feature_names is not None and isinstance(pairs, (tuple, list)):
            pairs = type(pairs)([_by_label(value, names) for value in pairs])
        low, high = _pair(pairs, "feature_bounds", " or of arrays, one value per feature")
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
