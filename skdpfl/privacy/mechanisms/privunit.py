r"""Whole messages under pure local privacy: directions by PrivUnit, norms by ScalarDP.

For a silo's message ``x`` in R^d with ``D = clip_C(x)``, ``u = D / |D|`` and ``r = |D|``::

    V / m     from PrivUnit(u; eps_direction)        E V / m = u
    r_hat     from ScalarDP(r; eps_norm)             E r_hat = r,  independent of V
    c         = r_hat V / m                          E c = D
    E |c - D|^2 = E r_hat^2 / m^2 - r^2
    s_hat     from the same level as r_hat           E s_hat = r^2 + rounding, see ScalarDP

A zero message has no direction: V is then
uniform, and ``E r_hat = 0`` keeps c unbiased. A message that is not finite counts as zero. s_hat is
the server's estimate of |D|^2: |c|^2 is larger by a factor of about ``1 / m^2``, and its bias is
not a constant.

**PrivUnit** draws a direction from a cap of the sphere with increased probability. For a unit
vector ``u`` in R^d draw ``V`` on the unit sphere S^(d-1)::

    with probability p      uniformly on the cap         {v : <v, u> >= gamma},  of mass q
    otherwise               uniformly on the complement  {v : <v, u> <  gamma},  of mass 1 - q
    send                    V / m,       m = E <V, u>

With ``a = (d - 1) / 2`` and ``x = (1 - gamma) / 2`` the mass is ``q = I_x(a, a)``, the regularised
incomplete beta function, since ``(1 - <v, u>) / 2`` is Beta(a, a) for ``v`` uniform, and ::

    m   = (4 x (1 - x))^a / ((d - 1) B(1/2, a)) * (p / q - (1 - p) / (1 - q))
    eps = log(p / (1 - p)) + log((1 - q) / q)
    E V / m = u,      E |V / m - u|^2 = 1 / m^2 - 1

Formal guarantee: the direction
-------------------------------
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

Formal guarantee: the message
-----------------------------
V is eps_direction-DP and the level eps_norm-DP for any two messages, and they are drawn
independently given the message: together pure (eps_direction + eps_norm)-DP by basic composition,
attained when direction and norm both change. (In floating point up to a total variation of about
d * 1e-12 a message, which is not priced.) Clipping comes
before and c, s_hat after. This holds for any replacement of a silo's data, against everyone outside
the silo.

**ScalarDP** rounds a number in [0, C] at random to a level, which is then randomised. For r in [0,
C], k + 1 levels and ``x = k r / C``::

    J = floor(x) + Bernoulli(x - floor(x))                                  E J = x
    Jhat = J     with probability P = e^eps / (e^eps + k)
           j     with probability q = 1 / (e^eps + k), each other level j
    r_hat = (C / k) (Jhat - q k (k+1) / 2) / (P - q)                        E r_hat = r
    s_hat = (C / k)^2 (Jhat^2 - q k (k+1) (2k+1) / 6) / (P - q)             E s_hat = E (C J / k)^2

The square's estimate is unbiased at the levels; between them rounding adds ``(C/k)^2 f (1 - f)``,
f the fractional part of x: at most C^2 / (4 k^2).

Formal guarantee: the norm
--------------------------
Given J, Jhat has probability P at J and q elsewhere, ``P / q = exp(eps)``; given r its distribution
is a mixture of two such. Every ratio of probabilities between two inputs is at most exp(eps), with
equality between two levels: pure eps-DP, exactly.

References
----------
.. [1] Bhowmick, Duchi, Freudiger, Kapoor & Rogers, "Protection against reconstruction and its
   applications in private federated learning", arXiv:1812.00984, section 4.2.
.. [2] Asi, Feldman & Talwar, "Optimal algorithms for mean estimation under local differential
   privacy", ICML 2022: for a given eps the best (gamma, p) is optimal among all randomisers.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaincinv, betaln, expit, logit

from skdpfl._arguments import check_count, check_number, check_positive
from skdpfl.privacy.events import Approximate, Composition, compose
from skdpfl.privacy.mechanisms.base import Senders, Statistics
from skdpfl.privacy.mechanisms.whole_silos import WholeMessages, within
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.release import DOUBLE, NoisedSum
from skdpfl.privacy.sampling import Levels

#: Uniforms used for one direction: which side, and which height.
CAP_UNIFORMS = 2


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
    least = minimize_scalar(
        lambda t: -_log_scale(epsilon, dimension, t),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, 64)]),
        method="bounded",
        options={"xatol": 1e-9 * epsilon},
    )
    coin = float(least.x)
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


#: Uniforms used for one number: rounding, keeping, the other level.
NORM_UNIFORMS = 3


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
        check_number("epsilon", self.epsilon, low=0, high=MOST_EPSILON, open_low=True)
        check_positive("bound", self.bound)
        check_count("n_levels", self.n_levels, low=0, words=" (0: chosen)")
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


#: Uniforms used for one message.
N_UNIFORMS = CAP_UNIFORMS + NORM_UNIFORMS


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
        """Return the silos' private messages.

        Exact ``vectors`` (M, d) are clipped here; ``uniforms`` (M, ``N_UNIFORMS``) in [0, 1) and
        standard ``normals`` (M, d) are independent. Both results are unbiased for clipped messages.
        """
        direction = self.direction_randomiser(vectors.shape[1])
        directions, norms = _polar(vectors)
        points = direction.randomise(directions, uniforms[:, :CAP_UNIFORMS], normals)
        levels = self.norm_randomiser.randomise(norms, uniforms[:, CAP_UNIFORMS:])
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
    check_number("epsilon", epsilon, low=0, high=MOST_EPSILON, open_low=True)
    # the number of levels is not continuous in the norm's share: a grid, then a search in a cell
    shares = np.linspace(0.02, 0.98, 49)

    def error(share: float) -> float:
        return largest_error((1.0 - share) * epsilon, share * epsilon, dimension)

    best = int(np.argmin([error(s) for s in shares]))
    bounds = shares[max(best - 1, 0)], shares[min(best + 1, len(shares) - 1)]
    least = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    share = float(least.x) if least.fun < error(shares[best]) else float(shares[best])
    return (1.0 - share) * epsilon, epsilon - (1.0 - share) * epsilon


#: the largest epsilon per message that PrivUnit and ScalarDP support
MOST_EPSILON = 20.0


@dataclass(frozen=True)
class PrivUnitMessages(WholeMessages):
    """Server not trusted, pure local privacy: direction by PrivUnit, norm by ScalarDP.

    The noise multiplier is the reciprocal of a message's epsilon. In addition to the message, a
    silo sends two functions of the private level of its norm: unbiased estimates of its square, and
    of whether it is at the highest level. From these the clip norm is learnt at no privacy cost.
    """

    gaussian = False
    serves = ("silo", "silo")
    least_noise = 1 / MOST_EPSILON

    def composition(self, plan: PublicNumbers, z: float, n: int, levels: Levels) -> Composition:
        return compose((Approximate(1 / level), count) for level, count in levels)

    def noised(self, plan: PublicNumbers, clip_norm: float, size: int) -> NoisedSum:
        return NoisedSum(0.0, 0.0, clip_norm)

    def randomiser(self, plan: PublicNumbers, size: int, clip_norm: float) -> PrivUnitMechanism:
        """Return the randomiser of a round's messages."""
        return PrivUnitMechanism(*split_epsilon(self._epsilon(plan), size), clip_norm)

    def _epsilon(self, plan: PublicNumbers) -> float:
        return min(MOST_EPSILON, 1 / float(plan.noise_multiplier[0]))

    def send(self, plan: PublicNumbers, kept: np.ndarray, by: Senders) -> np.ndarray:
        randomiser = self.randomiser(plan, kept.shape[-1], by.clip_norm)
        uniforms = by.keys.uniform_block("message level", by.silos, by.round, (N_UNIFORMS,))
        normals = by.keys.normal_block("message", by.silos, by.round, kept.shape[1:], DOUBLE)
        messages, squares = randomiser.randomise(kept, uniforms, normals)
        extra = [squares] if self.squared_norms else []
        if self.clipping is not None:
            extra.append(1 - _at_top(squares, randomiser.norm_randomiser))
        return np.column_stack([messages, *extra])

    def statistics(self, plan: PublicNumbers, extra: np.ndarray, clip_norm: float) -> Statistics:
        norm = within(float(extra[0]), clip_norm) if self.squared_norms else float("nan")
        return Statistics(norm, float("nan") if self.clipping is None else float(extra[-1]))

    def noise_norm(self, plan: PublicNumbers, size: int) -> float:
        each = largest_error(*split_epsilon(self._epsilon(plan), size), size)
        each *= float(np.square(plan.weights).sum()) / plan.silo_fraction
        return plan.clip_norm * float(np.sqrt(each))

    def noise_on_share(self, plan: PublicNumbers) -> float:
        # the level is wrong with probability k / (e^eps + k); the split of epsilon hardly
        # depends on the number of coordinates
        norms = self.randomiser(plan, 100, 1.0).norm_randomiser
        variance = norms.other * (1 - norms.other) / norms.contrast**2
        return float(np.sqrt(variance * np.square(plan.weights).sum() / plan.silo_fraction))


def _at_top(squares: np.ndarray, norms: ScalarDP) -> np.ndarray:
    """Return unbiased estimates of whether norms were rounded to the highest level."""
    top = squares == norms.squares[-1]
    return (top - norms.other) / norms.contrast
