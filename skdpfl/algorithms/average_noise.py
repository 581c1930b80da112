"""The noise in an average of late iterates, from the released rounds alone.

With known noise of standard deviation s in each coordinate of every released gradient g_t, and near
the point where the iterates settle::

    g_t = J (x_t - x*) + noise,      v_t = m v_(t-1) + g_t,      x_(t+1) = x_t - eta v_t

the average of the last half of the x_t (or of other last ones) is linear in the noise. In an
eigenvector of J with value lambda its variance is ``s^2 sum_r c_r(lambda)^2``, c_r the response of
the average to one unit of noise in round r. Only J is unknown. It is estimated by a regression of
g_t on x_t, which were released, so this has no privacy cost:

1. The mean slope h = sum <g_t, x_t> / sum |x_t|^2 (centred, after the first quarter) is biased
   upwards, as in every autoregression. It is replaced by the slope with that mean in simulations.
2. J = h I + D, where D has independent normal entries of deviation tau, chosen by the marginal
   likelihood. Variances are averaged over draws of D from its posterior.

If rounds sample records or silos, the sampling is additional noise, with a covariance Sigma that is
not released. It is estimated from the residuals of the regression, shrunk towards its mean
variance. The covariance of the average is then ``c(lambda_i)^T c(lambda_j) Sigma_ij`` in the
eigenvectors of J.

Rows are assumed to have similar norms. The noise of coefficients of rare binary columns is larger
than the estimate, by up to a half for a column with 1 % of ones.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: draws of D; tau is looked for among these multiples of the slope
_DRAWS, _TAUS = 30, (0.0, 0.1, 0.2, 0.4, 0.7, 1.2, 2.0)
#: slopes that are simulated, over that which settles within a fit; numbers of a simulation
_SLOPES, _NUMBERS = (0.0, *(0.25 * 2**k for k in range(9))), 240


class Rounds(NamedTuple):
    """Statistics of rounds: their number, the step, and centred second moments of the models.

    ``models`` (P, P) is the sum of x x^T, ``slopes`` (P, P) that of g x^T, ``gradients`` that of
    g g^T, over the last three quarters of the rounds.
    """

    n_rounds: int
    rate: float
    momentum: float
    models: NDArray
    slopes: NDArray
    gradients: NDArray


def rounds_of(path: NDArray, rate: float, momentum: float) -> Rounds:
    """Return the statistics of a path of models (n_rounds + 1, P), including the start.

    Examples
    --------
    >>> rounds_of(np.array([[0.0], [-0.1], [-0.15]]), rate=0.1, momentum=0.0).n_rounds
    2
    """
    x = np.asarray(path, np.float64)
    velocity = -np.diff(x, axis=0) / rate
    gradients = velocity - momentum * np.vstack([np.zeros_like(x[:1]), velocity[:-1]])
    n = len(gradients)
    return Rounds(n, rate, momentum, *_moments(x[:n], gradients))


def average_covariance(rounds: Rounds, noise: float | None, n_last: int | None = None) -> NDArray:
    """Return the covariance (P, P) that the noise gives the average of the last models.

    Parameters
    ----------
    rounds : Rounds
        The statistics of the released rounds.
    noise : float or None
        The standard deviation of the noise on each coordinate of a round's gradient; None if it is
        unknown, because rounds sample records or silos.
    n_last : int or None, default=None
        The number of last models that are averaged; None: half of them.

    Returns
    -------
    ndarray of shape (P, P)
        The covariance.

    Examples
    --------
    >>> path = np.cumsum(np.random.default_rng(0).normal(size=(41, 2)), axis=0)
    >>> average_covariance(rounds_of(path, rate=0.1, momentum=0.5), noise=1.0).shape
    (2, 2)
    """
    models, slopes = rounds.models, rounds.slopes
    size, trace = len(models), float(np.trace(models))
    seen = float(np.trace(slopes)) / trace
    mean = _unbiased(seen, rounds, size)
    spread, basis = np.linalg.eigh(models)
    cross = (slopes - seen * models) @ basis
    known = noise is not None
    if noise is None:
        left = np.trace(rounds.gradients) - seen * np.trace(slopes)
        noise = math.sqrt(max(float(left), 1e-300) / (size * _counted(rounds)))
    tau = max(_TAUS, key=lambda t: _likelihood(t * abs(seen), cross, spread, noise)) * abs(seen)
    shrunk = tau**2 / (noise**2 + tau**2 * spread)
    fitted = float(spread @ shrunk)
    drawing = None if known else _residual(rounds, seen, cross * shrunk @ basis.T, fitted)
    rng, total = np.random.default_rng(0), np.zeros((size, size))
    for _ in range(_DRAWS if tau else 1):
        drawn = cross * shrunk + noise * np.sqrt(shrunk) * rng.normal(size=(size, size))
        J = drawn @ basis.T
        J = mean * np.eye(size) + (J + J.T) / 2
        values, vectors = np.linalg.eigh(J)
        responses = average_responses(values, *rounds[:3], n_last)
        if drawing is None:
            total += (vectors * np.square(responses).sum(axis=0)) @ vectors.T
        else:
            both = (vectors.T @ drawing @ vectors) * (responses.T @ responses)
            total += vectors @ both @ vectors.T
    return (noise**2 if known else 1.0) * total / (_DRAWS if tau else 1)


def _counted(rounds: Rounds) -> int:
    """Return the degrees of freedom of the moments: the number of rounds minus one."""
    return rounds.n_rounds - rounds.n_rounds // 4 - 1


def _residual(rounds: Rounds, seen: float, deviation: NDArray, fitted: float) -> NDArray:
    """Return the shrunk covariance of the residuals; ``fitted``: slopes of a row."""
    J = seen * np.eye(len(deviation)) + deviation
    fit = J @ rounds.slopes.T
    left = rounds.gradients - fit - fit.T + J @ rounds.models @ J.T
    freedom = max(1.0, _counted(rounds) - fitted)
    covariance, share = left / freedom, min(1.0, len(J) / _counted(rounds))
    typical = np.eye(len(J)) * np.trace(covariance) / len(J)
    return np.asarray((1 - share) * covariance + share * typical)


def _moments(x: NDArray, g: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return the centred sums of x x^T, g x^T and g g^T after the first quarter."""
    x, g = x[len(x) // 4 :], g[len(g) // 4 :]
    x, g = x - x.mean(axis=0), g - g.mean(axis=0)
    return x.T @ x, g.T @ x, g.T @ g


def _likelihood(tau: float, cross: NDArray, spread: NDArray, noise: float) -> float:
    """Return the log marginal likelihood of tau, up to a constant."""
    total = 1 + tau**2 / noise**2 * spread
    fit = np.square(cross) * (tau / noise**2) ** 2 / total
    return float(fit.sum() - len(cross) * np.log(total).sum()) / 2


def average_responses(
    slopes: NDArray, n_rounds: int, rate: float, momentum: float, n_last: int | None = None
) -> NDArray:
    """Return what one unit of noise in a round does to the average of the last models.

    Parameters
    ----------
    slopes : ndarray of shape (P,)
        The slopes of the gradient.
    n_rounds, rate, momentum : int, float, float
        The number of rounds, the step and the momentum.
    n_last : int or None, default=None
        The number of last models that are averaged; None: half of them.

    Returns
    -------
    ndarray of shape (n_rounds, P)
        The response c_r to noise in each round, for each slope.

    Examples
    --------
    >>> average_responses(np.array([1.0]), n_rounds=2, rate=0.5, momentum=0.0, n_last=1)
    array([[-0.25],
           [-0.5 ]])
    """
    n, m, eta = n_rounds, momentum, rate
    slopes = np.clip(slopes, 0, 1.5 * (1 + m) / eta)
    x, v = np.zeros_like(slopes), np.ones_like(slopes)
    after = np.zeros((n + 1, len(slopes)))  # what noise has moved the models by, added up
    for k in range(n):
        v = m * v + slopes * x if k else v
        x = x - eta * v
        after[k + 1] = after[k] + x
    first, sent = n // 2 if n_last is None else max(0, n - n_last), np.arange(n)
    responses = after[n - sent] - after[np.maximum(0, first - sent)]
    return np.asarray(responses / (n - first))


@lru_cache(maxsize=32)
def _simulated(n: int, rate: float, m: float, size: int) -> tuple[NDArray, NDArray]:
    """Return slopes, and the mean of their estimates in simulated rounds."""
    slopes = np.array(_SLOPES) * (1 - m) / (rate * n)
    slopes = slopes[slopes < 1.5 * (1 + m) / rate]
    noise = np.random.default_rng(0).normal(size=(n, max(4, _NUMBERS // size), size))
    shown = []
    for slope in slopes:
        x, v = np.zeros_like(noise[0]), np.zeros_like(noise[0])
        path, gradients = np.empty_like(noise), np.empty_like(noise)
        for t in range(n):
            path[t], gradients[t] = x, slope * x + noise[t]
            v = m * v + gradients[t]
            x = x - rate * v
        x, g = path[n // 4 :], gradients[n // 4 :]
        x, g = x - x.mean(axis=0), g - g.mean(axis=0)
        shown.append((x * g).sum(axis=(0, 2)) / (x * x).sum(axis=(0, 2)))
    return slopes, np.mean(shown, axis=1)


def _unbiased(seen: float, rounds: Rounds, size: int) -> float:
    """Return the slope whose mean estimate in simulated rounds is ``seen``."""
    slopes, shown = _simulated(rounds.n_rounds, rounds.rate, rounds.momentum, size)
    if seen > shown[-1]:
        return float(slopes[-1] + seen - shown[-1])
    return float(np.interp(seen, np.maximum.accumulate(shown), slopes))
