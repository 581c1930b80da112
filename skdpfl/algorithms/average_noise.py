"""The noise in an average of late iterates, from the released rounds alone.

With known noise of standard deviation s in each coordinate of every released gradient g_t, and near
the point where the iterates settle::

    g_t = J (x_t - x*) + noise,      v_t = m v_(t-1) + g_t,      x_(t+1) = x_t - eta v_t

the average of the last half of the x_t (or of other last ones) is linear in the noise. In an
eigenvector of J with value lambda its variance is ``s^2 sum_r c_r(lambda)^2``, c_r the response of
the average to one unit of noise in round r. Only J is unknown. It is estimated by a regression of
g_t on x_t, which were released, so this has no privacy cost:

1. J is the second derivative of the objective, and symmetric. Its least-squares estimate has the
   entries ``(c_ij + c_ji) / (a_i + a_j)`` in the eigenvectors of sum x x^T, whose values are a_i;
   c is sum g x^T there (centred, after the first quarter). Their variance is ``s^2 / (a_i + a_j)``,
   twice that on the diagonal.
2. They are shrunk towards h I: J = h I + D, where D has independent normal entries, too, of
   variance tau^2, twice that on the diagonal; tau maximises the marginal likelihood.
3. As in every autoregression, steps look as if they contracted more than they do. With the rate
   ``k = eta / (1 - m)`` and n rounds in the regression, the expected error of ``1 - k lambda`` is
   ``-(1 + 3 (1 - k lambda)) / n`` (Kendall, 1954), by which eigenvalues are corrected.
4. An eigenvalue of which this takes half or more is not known: noise in its direction hardly
   contracts within the rounds. Then the covariance is too small, by a factor of two or more. So is
   it if the same holds for the direction in which the models moved most, before shrinking, which
   hides that a single direction is flat.

If rounds sample records or silos, the sampling is additional noise, with a covariance Sigma that is
not released. It is estimated from the residuals of the regression, shrunk towards its mean
variance. The covariance of the average is then ``c(lambda_i)^T c(lambda_j) Sigma_ij`` in the
eigenvectors of J.

Rows are assumed to have similar norms. The noise of coefficients of rare binary columns is larger
than the estimate, by up to a half for a column with 1 % of ones.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: tau, over the standard error of the best-known entry of J
_TAUS = (0.0, *(0.125 * 2**k for k in range(11)))


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


def average_covariance(
    rounds: Rounds, noise: float | None, n_last: int | None = None
) -> tuple[NDArray, float]:
    """Return the covariance (P, P) that the noise gives the average of the last models.

    Beside it is the largest share of a slope that its correction takes, see above: from a half on,
    the covariance is too small.

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
    covariance : ndarray of shape (P, P)
        The covariance.
    corrected : float
        The share.

    Examples
    --------
    >>> path = np.cumsum(np.random.default_rng(0).normal(size=(41, 2)), axis=0)
    >>> covariance, corrected = average_covariance(rounds_of(path, 0.1, 0.5), noise=1.0)
    >>> covariance.shape, corrected > 0.5
    ((2, 2), True)
    """
    size, known = len(rounds.models), noise is not None
    if noise is None:
        seen = np.trace(rounds.slopes) / np.trace(rounds.models)
        left = np.trace(rounds.gradients) - seen * np.trace(rounds.slopes)
        noise = math.sqrt(max(float(left), 1e-300) / (size * _counted(rounds)))
    J, n_fitted, widest = _curvature(rounds, noise)
    drawing = noise**2 * np.eye(size) if known else _residual(rounds, J, n_fitted / size)
    values, vectors = np.linalg.eigh(J)
    rate, slopes = rounds.rate / (1 - rounds.momentum), np.append(values, widest)
    bias = np.maximum(0, 1 + 3 * (1 - rate * slopes)) / (rate * _counted(rounds))
    responses = average_responses(values - bias[:-1], *rounds[:3], n_last)
    both = (vectors.T @ drawing @ vectors) * (responses.T @ responses)
    corrected = float((bias / np.maximum(slopes, 1e-300)).max())
    return np.asarray(vectors @ both @ vectors.T), corrected


def classes_covariance(
    rounds: Rounds, noise: float | None, n_last: int | None, n_classes: int
) -> tuple[NDArray, float]:
    """Return the same for a softmax, whose parameters alternate between classes.

    What is added to all classes changes no probability: each gradient sums to 0 over classes, and
    noise in the sum never contracts.

    Examples
    --------
    >>> path = np.cumsum(np.random.default_rng(0).normal(size=(41, 6)), axis=0)
    >>> classes_covariance(rounds_of(path, 0.1, 0.5), 1.0, None, 3)[0].shape
    (6, 6)
    """
    size = len(rounds.models) // n_classes
    basis = np.linalg.svd(np.ones((1, n_classes)))[2].T
    shared, apart = (np.kron(np.eye(size), b) for b in (basis[:, :1], basis[:, 1:]))
    own = (apart.T @ moments @ apart for moments in rounds[3:])
    covariance, corrected = average_covariance(Rounds(*rounds[:3], *own), noise, n_last)
    if noise is None:
        seen = float(np.trace(shared.T @ rounds.gradients @ shared))
        noise = math.sqrt(seen / (size * _counted(rounds)))
    walk = average_responses(np.zeros(1), *rounds[:3], n_last)
    steady = noise**2 * float(np.square(walk).sum()) * (shared @ shared.T)
    return np.asarray(apart @ covariance @ apart.T + steady), corrected


def _curvature(rounds: Rounds, noise: float) -> tuple[NDArray, float, float]:
    """Return the estimate of J (P, P), and how many of its entries were fitted, after shrinking.

    The third is the slope in the direction in which models moved most, before shrinking.
    """
    spread, basis = np.linalg.eigh(rounds.models)
    spread = np.maximum(spread, 1e-12 * spread[-1])
    cross = basis.T @ rounds.slopes @ basis
    both = spread[:, None] + spread
    entries, variances, mean = (cross + cross.T) / both, noise**2 / both, np.eye(len(spread))
    taus = np.square(_TAUS) * variances.min()
    fits = [_likelihood(entries, variances + tau) for tau in taus]
    best = int(np.argmax([likelihood for likelihood, _ in fits]))
    shrunk = taus[best] / (taus[best] + variances)
    mean *= fits[best][1]
    J = basis @ (mean + shrunk * (entries - mean)) @ basis.T
    return J, float(np.triu(shrunk).sum()), float(entries[-1, -1])


def _likelihood(entries: NDArray, variances: NDArray) -> tuple[float, float]:
    """Return the log marginal likelihood of J's entries, up to a constant, and their mean h."""
    size = len(entries)
    weights = 1 / (variances * (1 + np.eye(size)))
    known = np.diag(weights)
    h = float(known @ np.diag(entries) / known.sum())
    fit = weights * np.square(entries - h * np.eye(size)) - np.log(weights)
    return -float(np.triu(fit).sum() + math.log(known.sum())) / 2, h


def _counted(rounds: Rounds) -> int:
    """Return the degrees of freedom of the moments: the number of rounds minus one."""
    return rounds.n_rounds - rounds.n_rounds // 4 - 1


def _residual(rounds: Rounds, J: NDArray, fitted: float) -> NDArray:
    """Return the shrunk covariance of the residuals; ``fitted``: slopes of a row."""
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
    n, m, eta, slopes = n_rounds, momentum, rate, settled(slopes, rate, momentum)
    each: Any = slopes.item() if len(slopes) == 1 else slopes  # numbers are faster than arrays
    x, v, moved = 0.0, 1.0, np.zeros((n + 1, len(slopes)))
    for k in range(n):
        v = m * v + each * x if k else v
        x = x - eta * v
        moved[k + 1] = x
    after = np.add.accumulate(moved)  # what noise has moved the models by, added up
    first, sent = n // 2 if n_last is None else max(0, n - n_last), np.arange(n)
    responses = after[n - sent] - after[np.maximum(0, first - sent)]
    return np.asarray(responses / (n - first))


def settled(slopes: NDArray, rate: float, momentum: float) -> NDArray:
    """Return slopes (P,) in which rounds settle: cut to 3/4 of those in which they diverge.

    Examples
    --------
    >>> settled(np.array([1.0, 100.0]), rate=0.5, momentum=0.0)
    array([1., 3.])
    """
    return np.clip(slopes, 0, 1.5 * (1 + momentum) / rate)
