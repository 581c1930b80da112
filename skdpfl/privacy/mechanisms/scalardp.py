r"""ScalarDP: a number in [0, C], rounded at random to a level, which is then randomised.

For r in [0, C], k + 1 levels and ``x = k r / C``::

    J = floor(x) + Bernoulli(x - floor(x))                                  E J = x
    Jhat = J     with probability P = e^eps / (e^eps + k)
           j     with probability q = 1 / (e^eps + k), each other level j
    r_hat = (C / k) (Jhat - q k (k+1) / 2) / (P - q)                        E r_hat = r
    s_hat = (C / k)^2 (Jhat^2 - q k (k+1) (2k+1) / 6) / (P - q)             E s_hat = E (C J / k)^2

The square's estimate is unbiased at the levels; between them rounding adds ``(C/k)^2 f (1 - f)``,
f the fractional part of x: at most C^2 / (4 k^2).

Formal guarantee
----------------
Given J, Jhat has probability P at J and q elsewhere, ``P / q = exp(eps)``; given r its distribution
is a mixture of two such. Every ratio of probabilities between two inputs is at most exp(eps), with
equality between two levels: pure eps-DP, exactly.

References
----------
.. [1] Bhowmick, Duchi, Freudiger, Kapoor & Rogers, "Protection against reconstruction and its
   applications in private federated learning", arXiv:1812.00984, section 4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: Uniforms used for one number: rounding, keeping, the other level.
N_UNIFORMS = 3


@dataclass(frozen=True)
class ScalarDP:
    """The randomiser of numbers in [0, ``bound``].

    Parameters
    ----------
    epsilon : float
        Pure privacy of one release, in (0, 20].
    bound : float
        C, the largest number.
    n_levels : int, optional
        k, the number of steps; by default ``ceil(exp(epsilon / 3))``, which balances the errors of
        rounding and noise.
    """

    epsilon: float
    bound: float
    n_levels: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon <= 20.0:
            raise ValueError(f"epsilon must be in (0, 20], got {self.epsilon!r}.")
        if not 0.0 < self.bound < math.inf:
            raise ValueError(f"bound must be positive and finite, got {self.bound!r}.")
        if self.n_levels < 0:
            raise ValueError(f"n_levels must be at least 1, got {self.n_levels!r}.")
        if not self.n_levels:
            object.__setattr__(self, "n_levels", math.ceil(math.exp(self.epsilon / 3)))

    @property
    def step(self) -> float:
        """C / k, the distance between two levels."""
        return self.bound / self.n_levels

    @property
    def other(self) -> float:
        """q, the probability of each level that is not J."""
        return 1.0 / (math.exp(self.epsilon) + self.n_levels)

    @property
    def contrast(self) -> float:
        """P - q."""
        return math.expm1(self.epsilon) * self.other

    @cached_property
    def transition(self) -> np.ndarray:
        """P[Jhat = j | J = i], shape (k + 1, k + 1)."""
        n = self.n_levels + 1
        return np.full((n, n), self.other) + self.contrast * np.eye(n)

    @cached_property
    def numbers(self) -> np.ndarray:
        """r_hat of each level, shape (k + 1,)."""
        levels = np.arange(self.n_levels + 1.0)
        return self.step * (levels - self.other * levels.sum()) / self.contrast

    @cached_property
    def squares(self) -> np.ndarray:
        """s_hat of each level, shape (k + 1,)."""
        squares = np.arange(self.n_levels + 1.0) ** 2
        return self.step**2 * (squares - self.other * squares.sum()) / self.contrast

    def randomise(self, values: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Return the private levels of ``values`` (M,), given uniforms (M, 3).

        Numbers outside [0, C] are clipped.
        """
        x = np.clip(np.asarray(values, dtype=float) / self.step, 0.0, self.n_levels)
        level = np.floor(x)
        level = (level + (uniforms[:, 0] < x - level)).astype(np.int64)
        # the k other levels, as offsets 1..k modulo k + 1
        offset = 1 + np.floor(uniforms[:, 2] * self.n_levels).astype(np.int64)
        moved = (level + offset) % (self.n_levels + 1)
        keep = uniforms[:, 1] < self.other + self.contrast
        return np.where(keep, level, moved)

    def second_moment(self, values: np.ndarray) -> np.ndarray:
        """Return E r_hat^2 for true values in [0, C], any shape."""
        at_level = self.transition @ self.numbers**2
        x = np.clip(np.asarray(values, dtype=float) / self.step, 0.0, self.n_levels)
        return np.interp(x, np.arange(self.n_levels + 1.0), at_level)
