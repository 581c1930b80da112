"""The second estimate of moments: whole rows in a ball, which needs far less noise than boxes.

::

    v = clip((x - m) / s, -4, 4)               m, s: what the first look found, NaN: 0
    a = v min(1, R / |v|)                      R^2 = 0.64 d,   a row of d features
    b = q min(1, Q / |q|),  q = min(v^2, 6) / 2        Q^2 = 0.49 d,   entries >= 0
    contribution = (a, b),   and the target's phi in the box m +- 3 s    (d [+ 1], 2)

**Sensitivity.** Replacing a record moves ``a`` by at most 2 R, and ``b`` by at most sqrt(2) Q, as
nonnegative vectors are at right angles at worst; setting it to zero by R and Q. Entries are rounded
towards zero, to multiples of 2^-20, which leaves lengths and signs as they should be.

Reason: the noise for boxes is calibrated to their corners, at a distance of sqrt(d) half ranges.
Deviations from the mean typically have a third or a fifth of that norm, less for wider bounds, and
the first release estimates mean and norm of rows. Norms concentrate, so clipping rows somewhat
below their typical norm shrinks the estimates but hardly changes their direction.

**Shrinkage.** The estimates of the first release, with their errors, are the prior.
"""

from dataclasses import dataclass

import numpy as np

from skdpfl.scaling._maps import Array
from skdpfl.scaling._moments import (
    A,
    B,
    Boxes,
    Estimate,
    levels,
    phi_sums,
    variance_seen,
)

#: the limits of deviations and of squares; the weight of squares; the target's box in deviations
_LONGEST, _SQUARE, HALF, _TARGET = 4.0, 6.0, 0.5, 3.0
#: the least unit of deviations, in half boxes; the second if the target's variance is known better
_FINEST_UNIT, _FINEST_TARGET = 0.15, 0.01
#: the prior's variance of variances, in squares of their error: larger, as the prior may be wrong
_LOOSER = 2.0
#: all entries are multiples of this
_STEP = 2.0**-20
#: lengths are cut slightly below their limits, so that rounding errors do not exceed them
_BELOW = 1 - 2.0**-40


@dataclass(frozen=True)
class RowBall:
    """The set of a row's contributions, by its number of features."""

    n_features: int

    @property
    def radius(self) -> float:
        """R, the length of deviations."""
        return float(np.sqrt(0.64 * self.n_features))

    @property
    def squares(self) -> float:
        """Q, the length of halved squares."""
        return float(np.sqrt(0.49 * self.n_features))

    @property
    def diameter(self) -> float:
        """The largest distance between the contributions of two rows."""
        return float(np.hypot(2 * self.radius, np.sqrt(2.0) * self.squares))

    @property
    def norm(self) -> float:
        """The largest norm of a contribution."""
        return float(np.hypot(self.radius, self.squares))


def boxes_around(boxes: Boxes, found: Estimate, is_feature: np.ndarray) -> Boxes:
    """The intervals m +- s of features, m +- 3 s of the target."""
    return Boxes(boxes.center + boxes.half * found.mean, boxes.half * _units(found, is_feature))


def _units(found: Estimate, is_feature: np.ndarray) -> Array:
    """s of features, 3 s of the target, in half boxes."""
    precise = np.clip(2 * found.variance_error, _FINEST_TARGET**2, _FINEST_UNIT**2)
    finest = np.where(is_feature, _FINEST_UNIT**2, precise)
    return np.sqrt(np.clip(found.variance, finest, 1.0)) * np.where(is_feature, 1.0, _TARGET)


def contributions(columns: Array, boxes: Boxes, ball: RowBall) -> Array:
    """``(a, b)`` of each row (n, d, 2), for any values."""
    both = np.empty((2, *columns.shape))
    v, squares = both
    with np.errstate(invalid="ignore", over="ignore"):
        np.multiply(columns - boxes.center, 1 / boxes.half, out=v)
    np.clip(v, -_LONGEST, _LONGEST, out=v)
    v[np.isnan(v)] = 0.0
    np.multiply(HALF, np.minimum(v * v, _SQUARE), out=squares)
    lengths = np.maximum(np.sqrt(np.einsum("knd,knd->kn", both, both)), 1e-300)
    limits = _BELOW * np.array([ball.radius, ball.squares])[:, None]
    both *= np.minimum(1.0, limits / lengths)[..., None]
    both /= _STEP
    np.trunc(both, out=both)
    both *= _STEP
    return np.moveaxis(both, 0, -1)


def sums_of_rows(columns: Array, first: np.ndarray, boxes: Boxes, ball: RowBall) -> Array:
    """Sums of contributions over the rows from each of ``first`` to the next (m, columns, 2)."""
    d = ball.n_features
    features = contributions(columns[:, :d], Boxes(boxes.center[:d], boxes.half[:d]), ball)
    total = [np.add.reduceat(features, first, axis=0)]
    if columns.shape[1] > d:
        u = levels(columns[:, d:], Boxes(boxes.center[d:], boxes.half[d:]))
        counts = np.diff(np.append(first, len(columns)))[:, None]
        linear, square = (np.add.reduceat(x, first, axis=0) for x in (u, u * u))
        total.append(phi_sums(linear, square, counts).transpose(0, 2, 1))
    return np.concatenate(total, axis=1)


def refine(found: Estimate, noisy: Array, noise: Array, is_feature: np.ndarray) -> Estimate:
    """Update the estimates of the first release by noisy mean contributions (columns, 2).

    ``noise`` (columns,) is the standard deviation of their entries; all estimates are in the units
    of the boxes of the first release.
    """
    unit = _units(found, is_feature)
    shift, noise_of_mean = noisy[:, 0] * unit, noise * unit
    square = np.where(is_feature, noisy[:, 1] / HALF, noisy[:, 1] / A + B) * unit**2
    noise_of_square = noise * np.where(is_feature, 1 / HALF, 1 / A) * unit**2
    prior = found.mean_error**2
    kept = prior / (prior + noise_of_mean**2)
    moved, left = kept * shift, prior * (1 - kept)
    seen, its_noise = variance_seen(square, noise_of_square, moved, left)
    prior = _LOOSER * found.variance_error**2
    kept = prior / (prior + its_noise)
    variance = found.variance + kept * (seen - found.variance)
    mean = np.clip(found.mean + moved, -1.0, 1.0)
    return Estimate(mean, variance, np.sqrt(prior * (1 - kept)), np.sqrt(left))
