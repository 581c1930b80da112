"""Steps, round counts and bounds of Lowy and Razaviyayn (ICLR 2023), Lan and Stich, as printed.

M of N silos of n records a round, d parameters, R rounds, batches of K, budget (epsilon, delta),
losses L-Lipschitz, beta-smooth, mu-strongly convex or on a domain of diameter D;
e = epsilon n / sqrt(d ln(1/delta)) and lnln = ln(2.5 R K / (delta n)) ln(2/delta), so that the
theory's noise has variance sigma^2 = 256 L^2 R lnln / (epsilon n)^2::

    minibatch    excess(eta) <= D^2 / (2 eta R) + eta (L^2/2 + 128 d L^2 R lnln / (M n^2 epsilon^2)
                                                       + 2 L^2 R / (n M))
                 eta = min{1/beta, D / (L sqrt R) min{1, epsilon n sqrt M / sqrt(256 R d lnln),
                                                      sqrt(n M / (4 R))}}
                 R   = max{beta D sqrt M / L min{sqrt n, e}, min{n M, e^2 M}}
    accelerated  R   = max{(beta D sqrt M e / L)^(1/2), e^2 / K}
    multi-stage  R   = max{sqrt(beta/mu) ln(Delta mu M epsilon^2 n^2 / (L^2 d)), e^2 / K}
    penalty      s / (2 D sqrt R)
    AC-SA        excess <= 4 v V / (R (R + 1)) + 4 s^2 (R + 2) / (3 v),   V = |w_0 - w*|^2 / 2
                 s^2 = L^2 / (M K) + (1 - (M - 1) / (N - 1)) upsilon^2 / M + d sigma^2 / M
    Stich        mean_w s + mu r_R <= 32 g r_0 exp(-mu R / (2 g)) + 36 c / (mu R), largest step 1/g

The minibatch terms are the optimisation error with the sampling noise, the privacy noise
d sigma^2 / (2 M), and the generalisation error by stability. Round counts are orders of magnitude,
constants 1; the term e^2 / K falls away where every round uses every record (M K = N n).
"""

from __future__ import annotations

import math

from skdpfl._arguments import check_count, check_not_negative, check_positive, check_share


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
    """Return the constant step of noisy minibatch SGD for convex losses."""
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
    """Return the bound on the excess population loss at a step of at most 1 / beta."""
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
    """Return the rounds of noisy minibatch SGD beyond which its bound does not improve."""
    n, M = check_count("n_records", n_records), check_positive("n_silos", n_silos)
    condition = _condition(lipschitz, smoothness, diameter)
    private = _private_records(n_records, n_parameters, epsilon, delta)
    slow = condition * math.sqrt(M) * min(math.sqrt(n), private)
    return math.ceil(max(slow, min(n * M, private**2 * M)))


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
    """Return the rounds of accelerated noisy minibatch SGD, convex losses."""
    private = _private_records(n_records, n_parameters, epsilon, delta)
    condition = _condition(lipschitz, smoothness, diameter)
    fast = math.sqrt(condition * math.sqrt(silos_per_round) * private)
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
    """Return the total rounds of the multi-stage solver, strongly convex losses."""
    mu = check_positive("strong_convexity", strong_convexity)
    private = _private_records(n_records, n_parameters, epsilon, delta)
    signal = check_positive("excess", excess) * mu * silos_per_round * (epsilon * n_records) ** 2
    signal /= check_positive("lipschitz", lipschitz) ** 2 * n_parameters
    linear = math.sqrt(check_positive("smoothness", smoothness) / mu) * math.log(max(signal, 1))
    rounds = max(linear, _noise_rounds(private, n_records, n_silos, silos_per_round, batch))
    return max(1, math.ceil(rounds))


def lowy2023_regularisation(*, variance: float, diameter: float, n_rounds: int) -> float:
    """Return the quadratic penalty, s / (2 D sqrt R), that the convex theorem adds."""
    spread = math.sqrt(check_not_negative("variance", variance))
    rounds = check_count("n_rounds", n_rounds)
    return spread / (2 * check_positive("diameter", diameter) * math.sqrt(rounds))


def acsa_bound(*, n_rounds: int, scale: float, variance: float, squared_distance: float) -> float:
    """Return AC-SA's bound on the mean excess loss."""
    R, V = (
        check_count("n_rounds", n_rounds),
        check_positive("squared_distance", squared_distance) / 2,
    )
    v = check_positive("scale", scale)
    noise = 4 * check_not_negative("variance", variance) * (R + 2) / (3 * v)
    return 4 * v * V / (R * (R + 1)) + noise


def gradient_variance(
    *,
    lipschitz: float,
    batch: int,
    n_silos: int,
    silos_per_round: int,
    noise: float,
    n_parameters: int,
    heterogeneity: float = 0.0,
) -> float:
    """Return (a bound of) the variance s^2 of the averaged noisy gradient."""
    N = check_count("n_silos", n_silos)
    M = check_count("silos_per_round", silos_per_round, high=N)
    missing = 1 - (M - 1) / (N - 1) if N > 1 else 0.0
    drawn = missing * check_not_negative("heterogeneity", heterogeneity)
    sampled = check_positive("lipschitz", lipschitz) ** 2 / check_count("batch", batch)
    noise = check_not_negative("noise", noise)
    return (sampled + drawn + check_count("n_parameters", n_parameters) * noise**2) / M


def stich2019_bound(
    *,
    n_rounds: int,
    strong_convexity: float,
    largest_step: float,
    squared_distance: float,
    noise: float,
) -> float:
    """Return the lemma's bound for :func:`stich2019_schedule`."""
    rounds = check_count("n_rounds", n_rounds)
    mu = check_positive("strong_convexity", strong_convexity)
    largest = check_positive("largest_step", largest_step)
    start = 32 / largest * check_not_negative("squared_distance", squared_distance)
    decay = math.exp(-mu * largest * rounds / 2)
    return start * decay + 36 * check_not_negative("noise", noise) / (mu * rounds)


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


def _noise_rounds(
    private: float, n_records: int, n_silos: int, silos_per_round: int, batch: int
) -> float:
    """Return epsilon^2 n^2 / (K d ln(1/delta)), or 0 if every record is used in every round."""
    N = check_count("n_silos", n_silos)
    M = check_count("silos_per_round", silos_per_round, high=N)
    K = check_count("batch", batch, high=n_records)
    return private**2 / K if N * n_records > M * K else 0.0


def _condition(lipschitz: float, smoothness: float, diameter: float) -> float:
    """Return beta D / L."""
    scale = check_positive("smoothness", smoothness) * check_positive("diameter", diameter)
    return scale / check_positive("lipschitz", lipschitz)


def _private_records(n_records: int, n_parameters: int, epsilon: float, delta: float) -> float:
    """Return epsilon n / sqrt(d ln(1/delta)), an effective number of records under privacy."""
    spend = check_count("n_parameters", n_parameters)
    log_inverse = math.log(1 / check_share("delta", delta))
    n = check_count("n_records", n_records)
    return check_positive("epsilon", epsilon) * n / math.sqrt(spend * log_inverse)
