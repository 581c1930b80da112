"""A certified upper bound on ``E (S)_+``, S the sum of n independent copies of a bounded X.

Bounds for shuffling need this number (:mod:`skdpfl.privacy.shuffling`). X takes values on a
grid of width h and is 0 otherwise; the distribution of S is computed as the n-th power of a
discrete Fourier transform.

Why it is an upper bound
------------------------
1. :func:`spread` moves mass between two grid points onto them and keeps its mean: a
   mean-preserving spread, hence larger in the convex order. Sums of independent terms preserve this
   order, and ``x -> x_+`` is convex. The variance of X grows by at most h^2 / 4.
2. The transform is periodic. Mass below its range is counted as if it were above, which is too
   large. Mass above it is counted elsewhere; for W the upper end and any theta >= 1/W it is ::

       E (S; S > W)  <=  W exp(-theta W) (E exp(theta X))^n

   since ``x exp(-theta x)`` decreases beyond 1/theta. This is added.
3. A relative error c of each frequency changes the distribution of S by at most ``c |law|_2`` in
the
   Euclidean norm, hence the result by ``W sqrt(size) c |law|_2``, with c a few unit roundoffs times
   ``n + 2 log2(size)``. This is added as well, and negative probabilities count as zero. (Powers
   use repeated squaring: each of the ``n - 1`` products contributes at most ``sqrt(5) / 2``.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft


class GridLaw(NamedTuple):
    """Probabilities ``masses`` of the values ``step * (first + 0, 1, 2, ...)``; 0 has the rest."""

    first: int
    masses: np.ndarray
    step: float

    @property
    def values(self) -> np.ndarray:
        """The values that ``masses`` belong to."""
        return self.step * (self.first + np.arange(len(self.masses)))

    def mirrored(self) -> GridLaw:
        """Return the law of -X."""
        return GridLaw(1 - self.first - len(self.masses), self.masses[::-1], self.step)


def spread(first: int, step: float, masses: np.ndarray, moments: np.ndarray) -> GridLaw:
    """Distribute the mass of cells to their ends.

    Cell i is the interval ``step * [first + i, first + i + 1]``; ``masses`` (cells,) are the
    probabilities of the cells and ``moments`` (cells,) the integrals of the value over them.
    """
    left = step * (first + np.arange(len(masses)))
    upper = np.clip((moments - left * masses) / step, 0.0, masses)
    return GridLaw(first, np.append(masses - upper, 0.0) + np.append(0.0, upper), step)


def positive_part_of_sum(law: GridLaw, n: int, tolerance: float) -> float:
    """Return an upper bound on ``E (X_1 + ... + X_n)_+``, for n terms of this law.

    It is at most ``tolerance`` too large by the finite range.
    """
    upper, beyond = _range(law, n, tolerance)
    lower, _ = _range(law.mirrored(), n, tolerance)
    below, above = math.ceil(lower / law.step), math.ceil(upper / law.step)
    size = next_fast_len(max(below + above, len(law.masses)) + 1, real=True)
    circle = np.zeros(size)
    np.add.at(circle, (law.first + np.arange(len(law.masses))) % size, law.masses)
    circle[0] += 1.0 - law.masses.sum()
    probabilities = irfft(_power(rfft(circle), n), size)
    above = size - below
    total = law.step * float(np.arange(above) @ np.maximum(probabilities[:above], 0.0))
    rounding = 4.0 * np.finfo(float).eps * (n + 2.0 * math.log2(size))
    rounding *= law.step * above * math.sqrt(size) * float(np.linalg.norm(probabilities))
    return total + beyond + rounding


def _power(frequencies: np.ndarray, n: int) -> np.ndarray:
    """Return the n-th power; values below e^-90 are set to zero."""
    matters = np.abs(frequencies) ** 2 > math.exp(-180.0 / n)
    powers = np.zeros_like(frequencies)
    powers[matters] = _integer_power(frequencies[matters], n)
    return powers


def _integer_power(base: np.ndarray, n: int) -> np.ndarray:
    """Return the n-th power by repeated squaring, which overwrites ``base``."""
    power = np.ones_like(base)
    while True:
        if n & 1:
            power *= base
        n >>= 1
        if not n:
            return power
        np.square(base, out=base)


def _range(law: GridLaw, n: int, tolerance: float) -> tuple[float, float]:
    """Return W and a bound on ``E (S; S > W)``, at most the tolerance."""
    values, masses = law.values, law.masses
    deviation = math.sqrt(n * float(masses @ values**2)) or law.step
    largest = max(float(values[-1]), law.step)
    end = max(n * float(masses @ values) + 7.0 * deviation, largest)
    least, most = min(1.0 / end, 1.0 / deviation), min(600.0 / largest, 60.0 / deviation)
    thetas = least * (most / least) ** np.linspace(0.0, 1.0, 10)
    logs = n * np.log1p(_exponential_moments(law, thetas) - masses.sum())
    while True:
        bounds = np.where(thetas * end >= 1.0, math.log(end) + logs - thetas * end, math.inf)
        if float(bounds.min()) <= math.log(tolerance):
            return end, math.exp(float(bounds.min()))
        end *= 1.2


def _exponential_moments(law: GridLaw, thetas: np.ndarray) -> np.ndarray:
    """Return ``sum_i masses_i exp(theta values_i)`` for each theta, from few exponentials.

    Value i lies i' steps below the last one of its block, of B values; blocks end with the law::

        exp(theta value) = exp(theta end of block) exp(-theta i' step),    the latter at most 1
    """
    size = len(law.masses)
    block = math.isqrt(size) + 1
    n_blocks = -(-size // block)
    padded = np.append(np.zeros(n_blocks * block - size), law.masses).reshape(n_blocks, block)
    last = law.first + size - 1
    ends = np.exp(np.outer(thetas, law.step * (last - block * np.arange(n_blocks)[::-1])))
    within = np.exp(np.outer(thetas, -law.step * np.arange(block)[::-1]))
    return np.einsum("ij,ij->i", ends @ padded, within)
