r"""A whole message under pure local privacy: its direction by PrivUnit, its norm by ScalarDP.

For a silo's message ``x`` in R^d with ``D = clip_C(x)``, ``u = D / |D|`` and ``r = |D|``::

    V / m     from PrivUnit(u; eps_direction)        E V / m = u
    r_hat     from ScalarDP(r; eps_norm)             E r_hat = r,  independent of V
    c         = r_hat V / m                          E c = D
    E |c - D|^2 = E r_hat^2 / m^2 - r^2
    s_hat     from the same level as r_hat           E s_hat = r^2 + rounding, see ScalarDP

A zero message has no direction: V is then uniform, and ``E r_hat = 0`` keeps c unbiased. A message
that is not finite counts as zero. s_hat is the server's estimate of |D|^2: |c|^2 is larger by a
factor of about ``1 / m^2``, and its bias is not a constant.

Formal guarantee
----------------
V is eps_direction-DP and the level eps_norm-DP for any two messages, and they are drawn
independently given the message: together pure (eps_direction + eps_norm)-DP by basic composition,
attained when direction and norm both change. (In floating point up to a total variation of about
d * 1e-12 a message, which is not priced: :mod:`skdpfl.privacy.mechanisms.cap`.) Clipping comes
before and c, s_hat after. This holds for any replacement of a silo's data, against everyone outside
the silo.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from skdpfl.privacy.mechanisms import cap as _cap
from skdpfl.privacy.mechanisms import scalardp
from skdpfl.privacy.mechanisms.cap import PrivUnit, privunit
from skdpfl.privacy.mechanisms.scalardp import ScalarDP

__all__ = [
    "N_UNIFORMS",
    "PrivUnit",
    "PrivUnitMechanism",
    "PrivateMessages",
    "largest_error",
    "privunit",
    "split_epsilon",
]

#: Uniforms used for one message.
N_UNIFORMS = _cap.N_UNIFORMS + scalardp.N_UNIFORMS


class PrivateMessages(NamedTuple):
    """The silos' ``messages`` (M, d), and ``squared_norms`` (M,), the s_hat of each."""

    messages: np.ndarray
    squared_norms: np.ndarray


@dataclass(frozen=True)
class PrivUnitMechanism:
    """Clip each silo's message and release it under pure local privacy.

    Parameters
    ----------
    epsilon_direction, epsilon_norm : float
        Pure privacy of direction and norm, each in (0, 20]; see :func:`split_epsilon`.
    clip_norm : float
        C, the norm messages are clipped to.
    """

    epsilon_direction: float
    epsilon_norm: float
    clip_norm: float

    @cached_property
    def norm_randomiser(self) -> ScalarDP:
        """The randomiser of |D|."""
        return ScalarDP(self.epsilon_norm, self.clip_norm)

    def direction_randomiser(self, dimension: int) -> PrivUnit:
        """Return the randomiser of D / |D|."""
        return privunit(self.epsilon_direction, dimension)

    def randomise(
        self, vectors: np.ndarray, uniforms: np.ndarray, normals: np.ndarray
    ) -> PrivateMessages:
        """Return the silos' private messages, from exact ones (M, d), which are clipped here.

        ``uniforms`` (M, ``N_UNIFORMS``) in [0, 1) and standard ``normals`` (M, d) are independent.
        The messages, and the estimates of squared norms, are unbiased for clipped messages.
        """
        direction = self.direction_randomiser(vectors.shape[1])
        directions, norms = _polar(vectors)
        points = direction.randomise(directions, uniforms[:, : _cap.N_UNIFORMS], normals)
        levels = self.norm_randomiser.randomise(norms, uniforms[:, _cap.N_UNIFORMS :])
        points *= self.norm_randomiser.numbers[levels, None]
        return PrivateMessages(points, self.norm_randomiser.squares[levels])

    def mean_squared_error(self, norms: np.ndarray, dimension: int) -> np.ndarray:
        """Return E |c - D|^2 of messages with the given norms (at most C), any shape."""
        scale = self.direction_randomiser(dimension).scale
        return self.norm_randomiser.second_moment(norms) / scale**2 - np.square(norms)


def _polar(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return directions (M, d) and norms (M,); zeros for rows that are zero or not finite."""
    rows = np.asarray(vectors, dtype=np.float64)
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    # in two steps, so that the squares of tiny or huge entries do not underflow or overflow
    largest = np.abs(rows).max(axis=1, initial=0.0)[:, None]
    directions = rows / np.where(largest > 0.0, largest, 1.0)
    lengths = np.linalg.norm(directions, axis=1)[:, None]
    directions /= np.where(lengths > 0.0, lengths, 1.0)
    with np.errstate(over="ignore"):  # an infinite norm is clipped, too
        return directions, (largest * lengths)[:, 0]


def largest_error(epsilon_direction: float, epsilon_norm: float, dimension: int) -> float:
    """Return the largest E |c - D|^2 / C^2 over all messages."""
    mechanism = PrivUnitMechanism(epsilon_direction, epsilon_norm, 1.0)
    # between levels the error is concave in the norm: nine points give it within 1 %
    norms = np.linspace(0.0, 1.0, 8 * mechanism.norm_randomiser.n_levels + 1)
    return float(mechanism.mean_squared_error(norms, dimension).max())


@lru_cache(maxsize=1024)
def split_epsilon(epsilon: float, dimension: int) -> tuple[float, float]:
    """Divide a message's pure budget, in (0, 20], between its direction and its norm.

    The split minimises the largest mean squared error of a message of ``dimension`` coordinates: a
    function of public numbers.
    """
    if not 0.0 < epsilon <= 20.0:
        raise ValueError(f"epsilon must be in (0, 20], got {epsilon!r}.")
    # the number of levels is not continuous in the norm's share: a grid, then a search in a cell
    shares = np.linspace(0.02, 0.98, 49)

    def error(share: float) -> float:
        return largest_error((1.0 - share) * epsilon, share * epsilon, dimension)

    best = int(np.argmin([error(s) for s in shares]))
    bounds = shares[max(best - 1, 0)], shares[min(best + 1, len(shares) - 1)]
    found = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    share = float(found.x) if found.fun < error(shares[best]) else float(shares[best])
    return (1.0 - share) * epsilon, epsilon - (1.0 - share) * epsilon
