r"""Coefficients of curves, shrunk where they are not larger than their error.

An additive model has hundreds of coefficients more than a linear one. Where effects are straight,
each of them is only error, of the noise and of the sample, and all together cost accuracy. For an
estimate w of p coefficients, each with variance v, the factor

    max(0, 1 - p v / |w|^2)

of James and Stein has a smaller expected squared error than 1: for p of 3 or more whatever the true
coefficients, for fewer where these are small. The rank and bins of a curve get one factor for each
output, and all products of two columns with curves get one together. Products with indicators are
correlated with the values, so they keep theirs.

Near the settled model, rounds of slope h answer with c_r to one unit in the gradient of round r
(:func:`~skdpfl.algorithms.average_noise.average_responses`). So with noise of deviation s_r in
round r, n records, and G the mean squared derivative of the clipped loss::

    v = sum_r s_r^2 c_r^2 + f G / n (sum_r c_r)^2

h and G follow from the released model, whose raw predictions are taken as normal with deviation
|w|. f is 1 for uncorrelated columns. On tables with correlated ones it was 2 to 4, and accuracy is
about the same for each of these.

Formal guarantee
----------------
The factors are functions of released coefficients and public numbers, so they cost nothing.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from skdpfl.algorithms.average_noise import average_responses
from skdpfl.engine import last_rounds
from skdpfl.federation import Work
from skdpfl.losses import LogLoss, SquaredError
from skdpfl.models import LinearModel
from skdpfl.scaling import CurveScaling, Scales

#: the variance of a sample's coefficients over that of uncorrelated columns
_INFLATED = 2.0
#: deviations of the raw prediction, and their probabilities
_AT = np.linspace(-4.0, 4.0, 801)
_WEIGHTS = np.exp(-_AT * _AT / 2) / np.exp(-_AT * _AT / 2).sum()
#: larger coefficients have squares that overflow
_DIVERGED = 1e50
#: the least slope, and the least share of a target's variance that is left
_FLATTEST, _LEFT = 1e-3, 0.05


class Slope(NamedTuple):
    """The mean slope h of an output's gradient, and the mean G of its squared derivative."""

    h: float
    squared: float


def shrunk(params: NDArray, work: Work, scales: Scales, average: bool | float) -> NDArray:
    """Return the parameters with the coefficients of curves shrunk; as they are without any."""
    columns, plan, step = scales.features, work.plan, work.algorithm.heavy_ball()
    known = isinstance(work.loss, (LogLoss, SquaredError)) and plan.unit != "silo"
    if not (isinstance(columns, CurveScaling) and plan.private and known and step is not None):
        return params
    if not (np.abs(params) < _DIVERGED).all():  # it diverged
        return params
    assert isinstance(work.model, LinearModel)
    n_last = None if average is True else last_rounds(average, plan.n_rounds)
    weights, at_zero = work.model.split(np.array(params, np.float64))
    for number, block in enumerate(columns.blocks):  # columns of 0 have coefficients of noise
        weights[columns.curves.places(number)] *= np.asarray(block.any(axis=0))[:, None]
    if len(at_zero) > 1:  # each class against the others
        at_zero = logit(softmax(at_zero))
    clip = plan.clip_norm / math.hypot(1.0, columns.row_norm or 0.0)
    slope_of = _of_labels if isinstance(work.loss, LogLoss) else _of_numbers
    noise = plan.mechanism.noise_on_mean(plan) * np.concatenate(plan.factors)
    share = float((np.square(plan.weights) / plan.known_sizes).sum())  # 1 / n
    for output, offset in zip(weights.T, at_zero.tolist(), strict=True):
        slope = slope_of(float(np.linalg.norm(output)), offset, clip)
        for places, square in _blocks(columns):
            bend = np.array([slope.h * square])
            response = average_responses(bend, plan.n_rounds, *step, n_last)[:, 0]
            variance = float(np.square(noise * response).sum())
            variance += _INFLATED * slope.squared * square * share * float(response.sum()) ** 2
            squared = float(np.square(output[places]).sum())
            output[places] *= max(0.0, 1.0 - len(places) * variance / max(squared, 1e-300))
    found = np.array(params)
    found[: weights.size] = weights.reshape(-1)
    return found


def _blocks(columns: CurveScaling) -> Iterator[tuple[NDArray, float]]:
    """Yield the indices of the coefficients that get one factor, and a column's mean square."""
    curves = columns.curves
    for number, block in enumerate(columns.blocks):
        places = curves.places(number)[1:][np.flatnonzero(block[:, 1:].any(axis=0))]
        yield places, 1 / max(1, len(places))
    has_curve = np.zeros(curves.low.size, bool)
    has_curve[[curve.column for curve in curves.curves]] = True
    both = np.flatnonzero(has_curve[curves.pairs].all(axis=1))
    yield curves.width - len(curves.pairs) + both, 1.0


def _of_labels(spread: float, offset: float, clip: float) -> Slope:
    """Return those of a label's log loss, for probabilities around the offset's."""
    p = expit(offset + spread * _AT)
    wrong = 1 - p  # the derivative of a positive; that of a negative is p
    slope = p * wrong * (p * (wrong < clip) + wrong * (p < clip))
    squared = p * np.minimum(wrong, clip) ** 2 + wrong * np.minimum(p, clip) ** 2
    return Slope(max(_FLATTEST, float(_WEIGHTS @ slope)), float(_WEIGHTS @ squared))


def _of_numbers(spread: float, offset: float, clip: float) -> Slope:
    """Return those of a standardised target's squared error, with normal residuals."""
    residual = np.abs(_AT) * math.sqrt(max(_LEFT, 1.0 - spread**2))
    inside, squared = _WEIGHTS @ (residual <= clip), _WEIGHTS @ np.minimum(residual, clip) ** 2
    return Slope(max(_FLATTEST, float(inside)), float(squared))
