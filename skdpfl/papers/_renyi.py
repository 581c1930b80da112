"""Renyi curves as the papers compute them.

A curve is an array of shape (..., A): its entries are the Renyi divergences e(a) at the integer
orders a = 2, ..., A + 1; leading axes are different mechanisms.

Sampling a fraction g without replacement, replace-one, for a mechanism without a pure epsilon
(Wang, Balle and Kasiviswanathan 2019, theorem 9)::

    e'(a) = 1/(a-1) ln( 1 + g^2 C(a,2) min{4 (exp(e(2)) - 1), 2 exp(e(2))}
                          + 2 sum_{j=3..a} g^j C(a,j) exp((j-1) e(j)) )

Conversion (Mironov 2017): epsilon = min_a e(a) + ln(1/delta) / (a-1). Integer orders suffice:
with the cumulant (a-1) e(a) interpolated linearly between integers, as the papers do for real
orders, the objective is m + (c + ln(1/delta)) / (a-1) on each segment, hence monotone there.
"""

import math
from collections.abc import Callable

import numpy as np

#: the largest order that is tried
LARGEST_ORDER = 1024


def orders(n_orders: int) -> np.ndarray:
    """Return the orders 2, ..., n_orders + 1, shape (A,)."""
    return np.arange(2, n_orders + 2)


def gaussian_curve(y: np.ndarray | float, n_orders: int) -> np.ndarray:
    """Return e(a) = a y for each y, shape (..., A); y = sensitivity^2 / (2 variance)."""
    return np.asarray(y, dtype=np.float64)[..., None] * orders(n_orders)


def wang_sampled(curve: np.ndarray, rate: float) -> np.ndarray:
    """Return the curve of the mechanism run on a fraction ``rate`` of the records.

    At rate 1 the curve is returned unchanged (the theorem would give a much larger one).
    """
    if rate == 1:
        return curve
    terms = _log_terms(curve, rate)
    amplified = np.empty_like(curve)
    log_factorials = np.array([math.lgamma(k + 1) for k in range(curve.shape[-1] + 2)])
    for i, a in enumerate(orders(curve.shape[-1])):
        j = np.arange(2, a + 1)
        log_binomials = log_factorials[a] - log_factorials[j] - log_factorials[a - j]
        log_sum = np.logaddexp.reduce(terms[..., : i + 1] + log_binomials, axis=-1)
        amplified[..., i] = np.logaddexp(0.0, log_sum) / (a - 1)
    return amplified


def _log_terms(curve: np.ndarray, rate: float) -> np.ndarray:
    """Logarithms of the theorem's terms without their binomials, j = 2, ..., A + 1."""
    j = orders(curve.shape[-1])
    terms = j * math.log(rate) + math.log(2) + (j - 1) * curve
    second = curve[..., 0]
    # ln(4 (exp(e) - 1)), exact for small and for large e
    with np.errstate(divide="ignore"):
        moment = math.log(4) + second + np.log(-np.expm1(-second))
    terms[..., 0] = 2 * math.log(rate) + np.minimum(moment, math.log(2) + second)
    return terms


def smallest_epsilon(curve_of: Callable[[int], np.ndarray], delta: float) -> tuple[float, int]:
    """Return (epsilon, its order) by Mironov's conversion.

    ``curve_of(n_orders)`` returns the total curve, shape (A,).
    """
    log_inverse = -math.log(delta)
    least, order = _largest(lambda a: -curve_of(len(a)) - log_inverse / (a - 1))
    return -least, order


def most_repeats(curve_of: Callable[[int], np.ndarray], epsilon: float, delta: float) -> int:
    """Return the largest T with min_a T e(a) + ln(1/delta)/(a-1) <= epsilon."""
    log_inverse = -math.log(delta)
    most, _ = _largest(lambda a: (epsilon - log_inverse / (a - 1)) / curve_of(len(a)))
    return max(0, math.floor(most))


def _largest(values_at: Callable[[np.ndarray], np.ndarray]) -> tuple[float, int]:
    """Return the largest value and its order; orders are doubled until the last is not the best."""
    n_orders = 64
    while True:
        a = orders(n_orders)
        values = values_at(a)
        best = int(np.argmax(values))
        if best < n_orders - 1 or n_orders >= LARGEST_ORDER:
            return float(values[best]), int(a[best])
        n_orders *= 2
