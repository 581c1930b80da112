r"""PrivUnit: a private direction, drawn from a cap of the sphere with increased probability.

For a unit vector ``u`` in R^d draw ``V`` on the unit sphere S^(d-1)::

    with probability p      uniformly on the cap         {v : <v, u> >= gamma},  of mass q
    otherwise               uniformly on the complement  {v : <v, u> <  gamma},  of mass 1 - q
    send                    V / m,       m = E <V, u>

With ``a = (d - 1) / 2`` and ``x = (1 - gamma) / 2`` the mass is ``q = I_x(a, a)``, the regularised
incomplete beta function, since ``(1 - <v, u>) / 2`` is Beta(a, a) for ``v`` uniform, and ::

    m   = (4 x (1 - x))^a / ((d - 1) B(1/2, a)) * (p / q - (1 - p) / (1 - q))
    eps = log(p / (1 - p)) + log((1 - q) / q)
    E V / m = u,      E |V / m - u|^2 = 1 / m^2 - 1

Formal guarantee
----------------
``V`` has density p/q on the cap and (1-p)/(1-q) on its complement, relative to the uniform law. For
two directions the ratio of densities at any v is therefore 1, ``exp(eps)`` or ``exp(-eps)``, and
``exp(eps)`` is attained wherever one cap does not cover the other: the release is pure eps-DP for
any two inputs, and eps is exact. ``p`` is computed last, from the mass of the cap that is sampled,
so the rounding of gamma costs nothing. The released ``V`` is rounded to a power-of-two grid of
about 2^-10 / sqrt(d): this is post-processing, and hides the last bits of the floating-point
arithmetic except with probability about d * 1e-12. For each message the implementation may differ
from the proof by that total variation. The price, which is pure and holds for real numbers, does
not include it: with d in the millions it is 1e-6, and the release is then not purely
private.

References
----------
.. [1] Bhowmick, Duchi, Freudiger, Kapoor & Rogers, "Protection against reconstruction and its
   applications in private federated learning", arXiv:1812.00984.
.. [2] Asi, Feldman & Talwar, "Optimal algorithms for mean estimation under local differential
   privacy", ICML 2022: for a given eps the best (gamma, p) is optimal among all randomisers.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln, expit, logit

from skdpfl._arguments import check_count, check_number

#: Uniforms used for one direction: which side, and which height.
N_UNIFORMS = 2


@dataclass(frozen=True)
class PrivUnit:
    """The randomiser of unit vectors in ``dimension`` dimensions, created by :func:`privunit`.

    Attributes
    ----------
    dimension : int
        d, the number of coordinates.
    epsilon : float
        The exact pure privacy parameter of one release.
    probability : float
        p, the probability of the cap around the input.
    cap : float
        x = (1 - gamma) / 2, half the height of the cap.
    mass : float
        q, the share of the sphere that the cap covers.
    scale : float
        m, the mean of <V, u>: messages are divided by it.
    """

    dimension: int
    epsilon: float
    probability: float
    cap: float
    mass: float
    scale: float

    @property
    def gamma(self) -> float:
        """The smallest inner product of a point of the cap with the input."""
        return 1.0 - 2.0 * self.cap

    @property
    def mean_squared_error(self) -> float:
        """E |V/m - u|^2, the same for every unit vector u."""
        return 1.0 / self.scale**2 - 1.0

    @property
    def grid(self) -> float:
        """The power of two to which V is rounded."""
        return 2.0 ** (-10 - math.ceil(0.5 * math.log2(self.dimension)))

    def randomise(
        self, directions: np.ndarray, uniforms: np.ndarray, normals: np.ndarray
    ) -> np.ndarray:
        """Return V / m (M, d), of norm 1 / m up to rounding, for unit vectors (M, d).

        A row of zeros means "no direction": its message is uniform. ``uniforms`` (M, 2) in [0, 1)
        and standard ``normals`` (M, d) are independent.
        """
        below = self._half_height(uniforms)[:, None]
        inner = np.einsum("ij,ij->i", normals, directions)[:, None]
        across = normals - inner * directions
        length = np.linalg.norm(across, axis=1, keepdims=True)
        across /= np.where(length > 0.0, length, 1.0)
        points = (1.0 - 2.0 * below) * directions + 2.0 * np.sqrt(below * (1.0 - below)) * across
        aimless = ~directions.any(axis=1)
        points[aimless] = across[aimless]
        return np.rint(points / self.grid) * (self.grid / self.scale)

    def _half_height(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw (1 - <V, u>) / 2 from uniforms (M, 2), by inverting its distribution function."""
        a = (self.dimension - 1) / 2
        inside = uniforms[:, 0] < self.probability
        up = 1.0 - uniforms[:, 1]  # in (0, 1]: V = u is never drawn
        if self.dimension == 1:  # two points; the cap is {u}
            return np.where(inside, 0.0, 1.0)
        near = betaincinv(a, a, up * self.mass)
        far = 1.0 - betaincinv(a, a, up * (1.0 - self.mass))
        return np.where(inside, np.minimum(near, self.cap), np.maximum(far, self.cap))


@lru_cache(maxsize=1024)
def privunit(epsilon: float, dimension: int) -> PrivUnit:
    """Return the eps-DP cap with the smallest error: that which maximises m.

    ``epsilon`` is in (0, 20]: beyond, 53-bit uniforms are too coarse. ``dimension`` is from 1
    (where this is randomised response) to 10 million, for which double precision is accurate.
    """
    check_number("epsilon", epsilon, low=0, high=20, open_low=True)
    check_count("dimension", dimension, high=10**7)
    if dimension == 1:
        p = float(expit(epsilon))
        return PrivUnit(1, epsilon, p, 0.5, 0.5, 2.0 * p - 1.0)
    # the free parameter is the part of eps that the coin uses, log(p / (1 - p))
    grid = np.linspace(0.0, epsilon, 65)
    best = int(np.argmin([-_log_scale(epsilon, dimension, t) for t in grid]))
    found = minimize_scalar(
        lambda t: -_log_scale(epsilon, dimension, t),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, 64)]),
        method="bounded",
        options={"xatol": 1e-9 * epsilon},
    )
    coin = float(found.x)
    p, x, q = _parts(epsilon, dimension, coin)
    return PrivUnit(dimension, epsilon, p, x, q, math.exp(_log_scale(epsilon, dimension, coin)))


def _parts(epsilon: float, dimension: int, coin: float) -> tuple[float, float, float]:
    """Return (p, x, q) with log(p / (1 - p)) about ``coin``, and eps exact."""
    a = (dimension - 1) / 2
    x = float(betaincinv(a, a, expit(coin - epsilon)))
    q = float(betainc(a, a, x))
    return float(expit(epsilon + logit(q))), x, q


def _log_scale(epsilon: float, dimension: int, coin: float) -> float:
    """Return log m, from logarithms: its factors overflow or underflow for large d."""
    a = (dimension - 1) / 2
    p, x, q = _parts(epsilon, dimension, coin)
    # p/q - (1-p)/(1-q) = (1-p)/(1-q) * (exp(eps) - 1)
    ratio = math.log1p(-p) - math.log1p(-q) + math.log(math.expm1(epsilon))
    height = a * (math.log(4.0 * x) + math.log1p(-x))
    return height - math.log(dimension - 1) - float(betaln(0.5, a)) + ratio
