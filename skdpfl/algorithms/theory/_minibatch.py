"""ISRL-DP minibatch SGD: the step and the rounds for convex losses.

M silos of n records, d parameters, R rounds, batches of K, budget (epsilon, delta), losses
L-Lipschitz and beta-smooth, domain of diameter D; with
ln ln = ln(2.5 R K / (delta n)) ln(2/delta), so that the theory's noise has variance
sigma^2 = 256 L^2 R lnln / (epsilon n)^2 (Lowy and Razaviyayn 2023, convex, heterogeneous or not)::

    excess(eta) <= D^2 / (2 eta R) + eta (L^2/2 + 128 d L^2 R lnln / (M n^2 epsilon^2)
                                          + 2 L^2 R / (n M))
    eta = min{1/beta, D / (L sqrt R) min{1, epsilon n sqrt M / sqrt(256 R d lnln),
                                         sqrt(n M / (4 R))}}
    R   = max{beta D sqrt M / L min{sqrt n, epsilon n / sqrt(d ln(1/delta))},
              min{n M, epsilon^2 n^2 M / (d ln(1/delta))}}

The three terms are the optimisation error with the sampling noise, the privacy noise
d sigma^2 / (2 M), and the generalisation error by stability.
"""

from __future__ import annotations

import math

import numpy as np

from skdpfl._arguments import check_count, check_positive, check_share
from skdpfl.algorithms.theory._accelerated import condition, private_records


def lowy2023_step(
    *,
    lipschitz: float,
    smoothness: float,
    diameter: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    n_rounds: int,
    batch: int,
    epsilon: float,
    delta: float,
) -> float:
    """Return the constant step of noisy minibatch SGD for convex losses.

    Parameters
    ----------
    lipschitz, smoothness, diameter : float
        L (the clipping norm), beta and D.
    n_records : int
        Records n of a silo.
    n_silos : float
        Silos M of a round (:func:`effective_silos` where their number is random).
    n_parameters, n_rounds, batch : int
        d, R and K.
    epsilon, delta : float
        A silo's budget.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_step
    >>> step = lowy2023_step(lipschitz=1, smoothness=1, diameter=2, n_records=1000, n_silos=25,
    ...                      n_parameters=10, n_rounds=35, batch=100, epsilon=1, delta=1e-6)
    >>> round(step, 4)
    0.3381
    """
    L, D = check_positive("lipschitz", lipschitz), check_positive("diameter", diameter)
    terms = _terms(n_records, n_silos, n_parameters, n_rounds, batch, epsilon, delta)
    best = [D / (L * math.sqrt(2 * n_rounds * term)) for term in terms]
    return min(1 / check_positive("smoothness", smoothness), *best)


def lowy2023_bound(
    step: float,
    *,
    lipschitz: float,
    diameter: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    n_rounds: int,
    batch: int,
    epsilon: float,
    delta: float,
) -> float:
    """Return the bound on the excess population loss at a step of at most 1 / smoothness.

    Parameters
    ----------
    step : float
        The constant step eta.
    lipschitz, diameter, n_records, n_silos, n_parameters, n_rounds, batch, epsilon, delta
        As in :func:`lowy2023_step`.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_bound
    >>> bound = lowy2023_bound(0.1, lipschitz=1, diameter=2, n_records=1000, n_silos=25,
    ...                        n_parameters=10, n_rounds=35, batch=100, epsilon=1, delta=1e-6)
    >>> round(bound, 4)
    0.6633
    """
    step, L = check_positive("step", step), check_positive("lipschitz", lipschitz)
    terms = _terms(n_records, n_silos, n_parameters, n_rounds, batch, epsilon, delta)
    distance = check_positive("diameter", diameter) ** 2 / (2 * step * n_rounds)
    return distance + step * L**2 * sum(terms)


def lowy2023_rounds(
    *,
    lipschitz: float,
    smoothness: float,
    diameter: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    epsilon: float,
    delta: float,
) -> int:
    """Return the number of rounds of noisy minibatch SGD beyond which its bound does not improve.

    Parameters
    ----------
    lipschitz, smoothness, diameter, n_records, n_silos, n_parameters, epsilon, delta
        As in :func:`lowy2023_step`.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_rounds
    >>> lowy2023_rounds(lipschitz=1, smoothness=1, diameter=2, n_records=100, n_silos=4,
    ...                 n_parameters=10, epsilon=1, delta=1e-4)
    400
    """
    n, M = check_count("n_records", n_records), check_positive("n_silos", n_silos)
    private = private_records(n_records, n_parameters, epsilon, delta)
    slow = condition(lipschitz, smoothness, diameter) * math.sqrt(M) * min(math.sqrt(n), private)
    return math.ceil(max(slow, min(n * M, private**2 * M)))


def effective_silos(counts: np.ndarray) -> tuple[float, float]:
    """Return the effective numbers of silos M and M' where a random number is available.

    Parameters
    ----------
    counts : array-like of shape (n_draws,)
        Equally likely numbers of silos of a round, each at least 1.

    Returns
    -------
    M, M_prime : float
        1 / E[1/M_r], which replaces M in convex bounds, and 1 / sqrt(E[1/M_r^2]).

    Examples
    --------
    >>> from skdpfl.algorithms.theory import effective_silos
    >>> M, M_prime = effective_silos([2, 6])
    >>> M, round(M_prime, 4)
    (3.0, 2.6833)
    """
    silos = np.asarray(counts, dtype=np.float64)
    if silos.size == 0 or not np.all(silos >= 1):
        raise ValueError(f"counts={counts!r} is not valid; give numbers of at least 1.")
    inverse = 1 / silos
    return float(1 / inverse.mean()), float(1 / np.sqrt(np.square(inverse).mean()))


def _terms(
    n_records: int,
    n_silos: float,
    n_parameters: int,
    n_rounds: int,
    batch: int,
    epsilon: float,
    delta: float,
) -> tuple[float, float, float]:
    """Return the factors of eta L^2 in the bound: sampling, privacy noise, stability."""
    n, M = check_count("n_records", n_records), check_positive("n_silos", n_silos)
    d, R = check_count("n_parameters", n_parameters), check_count("n_rounds", n_rounds)
    K, delta = check_count("batch", batch, high=n), check_share("delta", delta)
    logs = math.log(2.5 * R * K / (delta * n)) * math.log(2 / delta)
    privacy = 128 * d * R * logs / (M * n**2 * check_positive("epsilon", epsilon) ** 2)
    return 0.5, privacy, 2 * R / (n * M)
