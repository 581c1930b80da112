"""Means and spreads of columns inside known boxes, from noisy first and second moments.

::

    u = clip((x - center) / half, -1, 1)              per value, on a grid of 2^-12; NaN, inf: 0
    phi(record) = weight * (u, A u^2 - A B),          A = 13/8, B = 11/16      (columns, 2)
    m_hat = mean u + s * normal,  q_hat = mean u^2 + (s / A) * normal          s is known

**Sensitivity.** For one column the curve (u, A u^2), |u| <= 1, has diameter 2: with t = |u + u'|,
``|phi - phi'|^2 = (u - u')^2 (1 + A^2 t^2) <= (2 - t)^2 (1 + A^2 t^2) <= 4`` whenever
``A^2 <= min over t of (4 - t) / (t (2 - t)^2) = 2.77``. So second moments come for free: both cost
what the means alone would. Its points have norm at most ``sqrt(1 + A^2 (1 - B)^2) < 1.122``. Over
columns, squares add with the squared weights.

**Shrinkage.** Estimates are drawn towards the columns' common mean, by as much as the known noise
asks for (normal prior; its centre and width are learnt from the noisy moments themselves). When the
noise is too large to tell columns apart, what is left is the typical column, which is still worth
having: bounds are wider than data, usually on one side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skdpfl.preprocessing._scaling import Array

#: second moments are multiplied by A and shifted by A B, exact in binary
A, B = 13 / 8, 11 / 16
#: greatest distance of two columns' points, and greatest norm of one
DIAMETER, RADIUS = 2.0, float(np.hypot(1.0, A * (1 - B)))
#: values are rounded to this grid, so that all sums are exact and their order does not matter
_STEP = 2.0**-12

#: prior centre and width of means, of variances, and the width of their centres' prior
_MEAN, _MEAN_WIDTH, _VARIANCE, _VARIANCE_WIDTH = 0.0, 0.35, 0.12, 0.15
_MEAN_CENTER_WIDTH, _VARIANCE_CENTER_WIDTH = 0.4, 0.1
#: weight of the prior width, in columns
_WIDTH_WEIGHT = 6.0


class Boxes(NamedTuple):
    """One interval per column: center +- half, half > 0."""

    center: Array
    half: Array


class Estimate(NamedTuple):
    """Mean and spread of each column in box units, and the noise of the variance."""

    mean: Array
    variance: Array
    doubt: Array


def contributions(columns: Array, boxes: Boxes) -> Array:
    """Each record's ``phi`` with weights 1, (n, 2, columns); every record's has norm <= RADIUS
    per column whatever its values are."""
    with np.errstate(invalid="ignore", over="ignore"):
        u = (columns - boxes.center) / boxes.half
    u = np.where(np.isfinite(columns), np.clip(u, -1.0, 1.0), 0.0)
    u = np.rint(u / _STEP) * _STEP
    return np.stack([u, A * u * u - A * B], axis=1)


def estimate(noisy: Array, noise: Array, pool: np.ndarray) -> Estimate:
    """Shrunk means and variances from the noisy mean contribution (2, columns).

    ``noise`` (columns,) is the standard deviation of its entries. ``pool`` marks the columns that
    are shrunk towards their common mean; the others are shrunk each towards the prior's centre.
    """
    mean_hat, square_hat = noisy[0], noisy[1] / A + B
    mean = _shrink(mean_hat, noise**2, pool, _MEAN, _MEAN_CENTER_WIDTH, _MEAN_WIDTH)
    mean = np.clip(mean, -1.0, 1.0)
    doubt = noise**2 / A**2 + 4 * mean**2 * noise**2 + 2 * noise**4
    variance = square_hat - mean_hat**2 + noise**2
    variance = _shrink(variance, doubt, pool, _VARIANCE, _VARIANCE_CENTER_WIDTH, _VARIANCE_WIDTH)
    return Estimate(mean, np.clip(variance, 0.0, 1.0), np.sqrt(doubt))


def zoomed(boxes: Boxes, found: Estimate, noise: Array) -> Boxes:
    """Narrower boxes around the means, wide enough for three deviations and the noise."""
    spread = np.sqrt(np.maximum(found.variance, np.maximum(2 * found.doubt, 0.0025)))
    half = np.minimum(3 * np.minimum(spread, 1.0) + 2 * noise, 1.5)
    return Boxes(boxes.center + boxes.half * found.mean, boxes.half * half)


def center_and_scale(boxes: Boxes, found: Estimate, floor: float) -> tuple[Array, Array, Array]:
    """Center and scale in the columns' units, and the spread that scaled columns should have.

    Scales are at least ``floor`` half boxes.
    """
    deviation = np.sqrt(np.maximum(found.variance, floor**2))
    spread = np.sqrt(found.variance) / deviation
    return boxes.center + boxes.half * found.mean, boxes.half * deviation, spread


def _shrink(
    values: Array, noise: Array, pool: np.ndarray, center: float, center_width: float, width: float
) -> Array:
    """Posterior means of a normal hierarchy; ``noise`` are variances."""
    shrunk = center + (values - center) * width**2 / (width**2 + noise)
    if pool.any():
        x, v = values[pool], noise[pool]
        between = _between(x, v, width)
        precision = 1 / (between + v)
        common = (x @ precision + center / center_width**2) / (
            precision.sum() + 1 / center_width**2
        )
        shrunk[pool] = common + (x - common) * between / (between + v)
    return shrunk


def _between(values: Array, noise: Array, width: float) -> float:
    """Variance between columns: what is seen beyond the noise, averaged with the prior's."""
    seen = ((values - values.mean()) ** 2 - noise).sum()
    total = _WIDTH_WEIGHT * width**2 + seen
    return float(max(total / (_WIDTH_WEIGHT + len(values) - 1), (width / 4) ** 2))
