"""Scaling objects: fixed maps of features and targets to the scale of training.

::

    affine   z = (x - center) / scale               per feature; scale = inf ignores it (z = 0)
    squash   z = (s(x) - center) / scale,  s(x) = a / sqrt(4 + a^2),  a = asinh(x)   in (-1, 1)
    target   t = (y - center) / scale

A linear model on ``z`` is a linear model on ``x``: with ``coef`` (k, d) and ``intercept`` (k,)::

    coef_x = coef / scale,     intercept_x = intercept - coef_x @ center

Outlying values are clipped only if the map has limits: declared bounds (``clip_features=True``), or
some scales from the centers if scales were estimated without bounds. Clipped gradients protect the
records for any features. Without limits the decision function is affine in ``x`` everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


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
    """Map each value into (-1, 1), whatever its scale, then center and scale the results.

    With ``a = asinh(x)``, which is linear near 0 and logarithmic for large values,
    ``s(x) = a / sqrt(4 + a^2)`` distinguishes magnitudes from 1e-3 to 1e9 and depends on no data.
    The map is not affine, so coefficients refer to ``transform(X)``.

    Parameters
    ----------
    center, scale : ndarray of shape (d,), optional
        Center and scale of the squashed features; None: neither.
    spread : ndarray of shape (d,), optional
        Root mean square of each transformed feature, from public or released numbers.
    """

    center: Array | None = None
    scale: Array | None = None
    spread: Array | None = field(default=None, repr=False)
    affine: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "SquashScaling()"

    def transform(self, X: Array, out: Array | None = None) -> Array:
        """Map rows ``X`` (n, d)."""
        out = squash(as_floats(X), out)
        if self.center is not None:
            out -= self.center.astype(out.dtype)
        if self.scale is not None:
            out /= self.scale.astype(out.dtype)
        return out


def squash(X: Array, out: Array | None = None) -> Array:
    """``a / sqrt(4 + a^2)`` with ``a = asinh(X)``: an odd, increasing map onto (-1, 1)."""
    out = np.arcsinh(X, out=out)
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

    From released moments: ``coarse_target``, whether the target's scale is too large;
    ``target_error``, the standard deviation of the error of the target's mean, in half boxes (0 if
    it was not released); and ``missed_features``, those with many values beyond their declared
    bounds. From released counts: ``wide_features``, those that spread over many powers of ten;
    ``far_features``, those with many values beyond the grid, whose scales are not found; and
    ``unseen_features``, whether nearly all values are zero, or too small to be distinguished from
    zero.
    """

    features: Scaling
    target: AffineTarget | RatioTarget = AffineTarget()
    coarse_target: bool = False
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
