"""Steps, rounds and smoothing of ISRL-DP SGD: Lowy and Razaviyayn (2023).

M of N silos of n records a round, d parameters, R rounds, batches of K, budget (epsilon, delta),
losses L-Lipschitz, beta-smooth, mu-strongly convex or on a domain of diameter D.

Minibatch SGD, convex, heterogeneous or not; with lnln = ln(2.5 R K / (delta n)) ln(2/delta), so
that the theory's noise has variance sigma^2 = 256 L^2 R lnln / (epsilon n)^2::

    excess(eta) <= D^2 / (2 eta R) + eta (L^2/2 + 128 d L^2 R lnln / (M n^2 epsilon^2)
                                          + 2 L^2 R / (n M))
    eta = min{1/beta, D / (L sqrt R) min{1, epsilon n sqrt M / sqrt(256 R d lnln),
                                         sqrt(n M / (4 R))}}
    R   = max{beta D sqrt M / L min{sqrt n, epsilon n / sqrt(d ln(1/delta))},
              min{n M, epsilon^2 n^2 M / (d ln(1/delta))}}

The three terms are the optimisation error with the sampling noise, the privacy noise
d sigma^2 / (2 M), and the generalisation error by stability.

Accelerated SGD, with e = epsilon n / sqrt(d ln(1/delta))::

    convex            R = max{(beta D sqrt M e / L)^(1/2), e^2 / K}
    strongly convex   R = max{sqrt(beta/mu) ln(Delta mu M epsilon^2 n^2 / (L^2 d)), e^2 / K}
    one pass          R = (beta D sqrt M e / L)^(2/5), batches of floor(n / R)
    penalty           s / (2 D sqrt R)
    smoothing         b = (L/D) sqrt(M) min{sqrt n, e},  strongly convex  mu M min{n, e^2}

without the term e^2 / K where every round uses every record (M K = N n). These are the paper's
orders of magnitude with constants 1.
"""

import math

import numpy as np

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_share,
    naming_no_values,
)


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
    noise: float | None = None,
) -> float:
    """Return the bound on the excess population loss at a step of at most 1 / smoothness.

    Parameters
    ----------
    step : float
        The constant step eta.
    lipschitz, diameter, n_records, n_silos, n_parameters, n_rounds, batch, epsilon, delta
        As in :func:`lowy2023_step`.
    noise : float, optional
        sigma in place of the theorem's, such as that for a shuffler. If silos have different
        weights p_i, budgets and sizes: the root of the mean of (N p_i sigma_i)^2, with the
        Lipschitz constant L max N p_i and the smallest number of records.

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
    if noise is not None:
        private = n_parameters * check_not_negative("noise", noise) ** 2 / (2 * n_silos * L**2)
        terms = terms[0], private, terms[2]
    distance = check_positive("diameter", diameter) ** 2 / (2 * step * n_rounds)
    return distance + step * L**2 * sum(terms)


def lowy2023_rate(
    *,
    lipschitz: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    epsilon: float,
    diameter: float | None = None,
    strong_convexity: float | None = None,
    delta: float | None = None,
    noise_by: str = "silo",
    empirical: bool = False,
) -> float:
    """Return the order of the least excess loss, with constant 1 (the paper's table of rates).

    s + min{1, e} with e = sqrt(d) / (epsilon n sqrt(M)) where silos add the noise, sqrt(d) /
    (epsilon n M) where one trusted server or a shuffler does, sqrt(d) / (epsilon sqrt(n M)) where
    each record does, and s = 1 / sqrt(n M). Convex: times L D. Strongly convex: L^2 / mu times
    s^2 + min{1, e^2}.

    Parameters
    ----------
    lipschitz, n_records, n_silos, n_parameters, epsilon
        As in :func:`lowy2023_step`.
    diameter : float, optional
        D, for convex losses.
    strong_convexity : float, optional
        mu, for strongly convex ones. Give exactly one of the two.
    delta : float, optional
        If given, the order that algorithms reach: d is multiplied by ln(1/delta), and e may be
        above 1. If None, the order of the lower bound.
    noise_by : {"silo", "server", "record"}, default="silo"
        Who adds the noise.
    empirical : bool, default=False
        The loss over the given records (s = 0) in place of the population's.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_rate
    >>> for trusted in "record", "silo", "server":
    ...     lowy2023_rate(lipschitz=1, n_records=10_000, n_silos=100, n_parameters=100, epsilon=1,
    ...                   diameter=1, noise_by=trusted, empirical=True)
    0.01
    0.0001
    1e-05
    """
    d, n = check_count("n_parameters", n_parameters), check_count("n_records", n_records)
    M, L = check_positive("n_silos", n_silos), check_positive("lipschitz", lipschitz)
    sent = {"silo": n * math.sqrt(M), "server": n * M, "record": math.sqrt(n * M)}
    logs = 1.0 if delta is None else math.log(1 / check_share("delta", delta))
    e = math.sqrt(d * logs) / (
        check_positive("epsilon", epsilon) * sent[check_choice("noise_by", noise_by, tuple(sent))]
    )
    e, s = e if delta is not None else min(1.0, e), 0.0 if empirical else 1 / math.sqrt(n * M)
    scale, power = loss_scale(L, diameter, strong_convexity)
    return scale * (s**power + e**power)


def loss_scale(
    L: float, diameter: float | None, strong_convexity: float | None
) -> tuple[float, int]:
    """Return L D and 1, or L^2 / mu and 2."""
    if (diameter is None) == (strong_convexity is None):
        raise ValueError(
            f"diameter={diameter!r} and strong_convexity={strong_convexity!r} are not valid"
            " together; give exactly one."
        )
    if diameter is not None:
        return L * check_positive("diameter", diameter), 1
    return L**2 / check_positive("strong_convexity", strong_convexity), 2


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


def lowy2023_stability(
    *, lipschitz: float, strong_convexity: float, n_records: int, n_silos: float
) -> float:
    """Return a bound on the population loss minus that of the records, strongly convex losses.

    4 L^2 / (mu (n M - 1)): what the strongly convex bound has in place of the last term of
    :func:`lowy2023_bound`, on top of the excess over the records (:func:`stich2019_bound`).

    Parameters
    ----------
    lipschitz, strong_convexity : float
        L and mu.
    n_records : int
        Records n of a silo.
    n_silos : float
        Silos M; with at least two records in total.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_stability
    >>> lowy2023_stability(lipschitz=1, strong_convexity=0.5, n_records=100, n_silos=10)
    0.008008008008008008
    """
    L, mu = (
        check_positive("lipschitz", lipschitz),
        check_positive("strong_convexity", strong_convexity),
    )
    records = check_count("n_records", n_records) * check_positive("n_silos", n_silos)
    return 4 * L * L / (mu * (check_number("n_silos * n_records", records, low=2) - 1))


def effective_silos(counts: np.ndarray) -> tuple[float, float]:
    """Return the effective numbers of silos M and M' if a random number is available.

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
    with naming_no_values(counts, "counts"):
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


def lowy2023_accelerated_rounds(
    *,
    lipschitz: float,
    smoothness: float,
    diameter: float,
    n_records: int,
    n_silos: int,
    silos_per_round: int,
    n_parameters: int,
    batch: int,
    epsilon: float,
    delta: float,
) -> int:
    """Return the rounds of accelerated noisy minibatch SGD, convex losses.

    Parameters
    ----------
    lipschitz, smoothness, diameter : float
        L, beta and D.
    n_records, n_silos, silos_per_round, n_parameters, batch : int
        n records a silo, N silos, M of them a round, d, K.
    epsilon, delta : float
        A silo's budget.

    Notes
    -----
    An order of magnitude, as in the paper; constants are 1 here.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_accelerated_rounds
    >>> lowy2023_accelerated_rounds(
    ...     lipschitz=1, smoothness=1, diameter=2, n_records=1000, n_silos=25,
    ...     silos_per_round=25, n_parameters=10, batch=100, epsilon=1, delta=1e-6)
    73
    """
    private = private_records(n_records, n_parameters, epsilon, delta)
    scale = condition(lipschitz, smoothness, diameter)
    fast = math.sqrt(scale * math.sqrt(silos_per_round) * private)
    return math.ceil(max(fast, _noise_rounds(private, n_records, n_silos, silos_per_round, batch)))


def lowy2023_multistage_rounds(
    *,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    excess: float,
    n_records: int,
    n_silos: int,
    silos_per_round: int,
    n_parameters: int,
    batch: int,
    epsilon: float,
    delta: float,
) -> int:
    """Return the total rounds of the multi-stage solver, strongly convex losses.

    Parameters
    ----------
    lipschitz, smoothness, strong_convexity, excess : float
        L, beta, mu and Delta.
    n_records, n_silos, silos_per_round, n_parameters, batch, epsilon, delta
        As in :func:`lowy2023_accelerated_rounds`.

    Notes
    -----
    An order of magnitude, as in the paper; constants are 1 here.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_multistage_rounds
    >>> lowy2023_multistage_rounds(
    ...     lipschitz=1, smoothness=4, strong_convexity=1, excess=1, n_records=1000, n_silos=25,
    ...     silos_per_round=25, n_parameters=10, batch=1000, epsilon=1, delta=1e-6)
    30
    """
    mu = check_positive("strong_convexity", strong_convexity)
    private = private_records(n_records, n_parameters, epsilon, delta)
    signal = check_positive("excess", excess) * mu * silos_per_round * (epsilon * n_records) ** 2
    signal /= check_positive("lipschitz", lipschitz) ** 2 * n_parameters
    linear = math.sqrt(check_positive("smoothness", smoothness) / mu) * math.log(max(signal, 1))
    rounds = max(linear, _noise_rounds(private, n_records, n_silos, silos_per_round, batch))
    return max(1, math.ceil(rounds))


def lowy2023_one_pass_rounds(
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
    """Return the rounds of the one-pass accelerated solver; batches are floor(n / R).

    (beta D epsilon n sqrt M / (L sqrt(d ln(1/delta))))^(2/5), within [1, n].

    Parameters
    ----------
    lipschitz, smoothness, diameter : float
        L, beta and D.
    n_records, n_parameters : int
        n records a silo, d.
    n_silos : float
        Silos M of a round.
    epsilon, delta : float
        A silo's budget.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_one_pass_rounds
    >>> lowy2023_one_pass_rounds(lipschitz=1, smoothness=1, diameter=2, n_records=1000,
    ...                          n_silos=25, n_parameters=10, epsilon=1, delta=1e-6)
    15
    """
    private = private_records(n_records, n_parameters, epsilon, delta)
    silos = math.sqrt(check_positive("n_silos", n_silos))
    best = (condition(lipschitz, smoothness, diameter) * silos * private) ** 0.4
    return min(n_records, max(1, round(best)))


def lowy2023_regularisation(*, variance: float, diameter: float, n_rounds: int) -> float:
    """Return the quadratic penalty, s / (2 D sqrt R), that the convex theorem adds.

    Parameters
    ----------
    variance : float
        s^2, see :func:`gradient_variance`.
    diameter : float
        D.
    n_rounds : int
        R.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_regularisation
    >>> lowy2023_regularisation(variance=4.0, diameter=2.0, n_rounds=25)
    0.1
    """
    spread = math.sqrt(check_not_negative("variance", variance))
    rounds = check_count("n_rounds", n_rounds)
    return spread / (2 * check_positive("diameter", diameter) * math.sqrt(rounds))


def lowy2023_smoothing(
    *,
    lipschitz: float,
    n_records: int,
    n_silos: float,
    n_parameters: int,
    epsilon: float,
    delta: float,
    diameter: float | None = None,
    strong_convexity: float | None = None,
) -> float:
    """Return the smoothness b to which non-smooth losses are smoothed (Moreau envelope).

    Convex: (L/D) min{sqrt(n M), epsilon n sqrt M / sqrt(d ln(1/delta))}. Strongly convex:
    mu min{n M, epsilon^2 n^2 M / (d ln(1/delta))}. The envelope is L-Lipschitz, b-smooth and at
    most L^2 / (2 b) below the loss.

    Parameters
    ----------
    lipschitz : float
        L; not used by the strongly convex form.
    n_records, n_parameters : int
        n records a silo, d.
    n_silos : float
        Silos M of a round.
    epsilon, delta : float
        A silo's budget.
    diameter : float, optional
        D, for convex losses.
    strong_convexity : float, optional
        mu, for strongly convex ones. Give exactly one of the two.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_smoothing
    >>> lowy2023_smoothing(lipschitz=1, n_records=100, n_silos=4, n_parameters=10, epsilon=10,
    ...                    delta=1e-4, diameter=2)
    10.0
    """
    L = check_positive("lipschitz", lipschitz)
    scale, power = loss_scale(L, diameter, strong_convexity)
    private = private_records(n_records, n_parameters, epsilon, delta)
    useful = check_positive("n_silos", n_silos) * min(n_records, private**2)
    return L**2 / scale * math.sqrt(useful) ** power


def condition(lipschitz: float, smoothness: float, diameter: float) -> float:
    """Return beta D / L."""
    scale = check_positive("smoothness", smoothness) * check_positive("diameter", diameter)
    return scale / check_positive("lipschitz", lipschitz)


def private_records(n_records: int, n_parameters: int, epsilon: float, delta: float) -> float:
    """Return epsilon n / sqrt(d ln(1/delta)), an effective number of records under privacy."""
    spend = check_count("n_parameters", n_parameters)
    log_inverse = math.log(1 / check_share("delta", delta))
    n = check_count("n_records", n_records)
    return check_positive("epsilon", epsilon) * n / math.sqrt(spend * log_inverse)


def _noise_rounds(
    private: float, n_records: int, n_silos: int, silos_per_round: int, batch: int
) -> float:
    """Return epsilon^2 n^2 / (K d ln(1/delta)), or 0 if every record is used in every round."""
    N = check_count("n_silos", n_silos)
    M = check_count("silos_per_round", silos_per_round, high=N)
    K = check_count("batch", batch, high=n_records)
    return private**2 / K if N * n_records > M * K else 0.0
