"""Lower bounds for all ISRL-DP algorithms, by Lowy and Razaviyayn, with constants.

N silos of n records, d parameters. All messages of a silo together are (epsilon, delta)-DP for each
of its records, whatever the others send; rounds may depend on earlier rounds in any way. With
eta = e^epsilon - 1 + sqrt(8 d delta), for some L-Lipschitz losses and some records::

    population   convex            L D max{1 / (4 sqrt(6 n N)),  max_t t (a - b t) / 2},  0 < t <= 1
                                   b = sqrt(N) n (e^epsilon - 1) / (2 sqrt d)
                                   a = 1/3 - sqrt(N) n sqrt(2 delta)
                 strongly convex   L^2 / (8 mu) alpha^2,  alpha = (2/3) / (2/sqrt 3 + k)
                                   k = min{sqrt(N) n eta / sqrt d,  sqrt(2 n N / 3)}
    records      convex            L D / 2 max_m (m/n) (1/3 - sqrt(N) eta (m/2 + 1/N) / sqrt d)
                 strongly convex   L^2 / (8 mu) max_m (m/n)^2 alpha^2
                                   alpha = (2/3 - k) / (2/sqrt 3 + k),  k = sqrt(N) m eta / sqrt d

for m = 1, ..., n; what is negative counts as 0. The orders are those of the paper: the privacy
parts are L D sqrt(d) / (epsilon n sqrt N) and its square over mu.

*Proof.* Let p be uniform in [-1, 1]^d, records X_ij in {-1, 1}^d with independent coordinates of
mean p, Z_i = sum_j (X_ij - p), and T everything that is sent.

1. For M = M(T), E <M, sum_i Z_i> = 2 E <p, M>: given p the left side is
   sum_k (1 - p_k^2) d E[M_k] / d p_k, to be integrated by parts.
2. Given T and p silos' records are independent. So g_i = E[Z_i | T, p] have
   E <g_i, g_k> = E <Z_i, Z_k> = 0, and E <M, sum_i Z_i> <= sqrt(E |M|^2 sum_i E |g_i|^2).
3. E |g_i|^2 = sum_j E <g_i, X_ij - p>. If the j-th record had not been read but an independent
   copy, the term would be 0, and the root of its second moment at most that of E |g_i|^2. Hence it
   is at most (e^epsilon - 1) sqrt(E |g_i|^2) + 2 delta (4 n d), and sqrt(E |g_i|^2) <= n eta.

Convex: losses -L <w, x> / sqrt d in a ball of diameter D, u = 2 w / D, x = X with probability t and
0 otherwise. Step 3 has t (e^epsilon - 1) in place of e^epsilon - 1, so 2 E <p, u> is at most
sqrt(N) n (t (e^epsilon - 1) + sqrt(8 d delta)), while E |p| >= sqrt(d) / 3; the excess is
t L D / (2 sqrt d) E(|p| - <u, p>). The other part is Le Cam's for one coordinate of mean
+-1 / sqrt(6 n N). Strongly convex: mu/2 |w - x|^2 on records of norm L / (2 mu); the excess is
L^2 / (8 mu) times |M - p|^2 / d, whose mean is alpha^2 at least: E <p, M> is d (1/3 - alpha/sqrt 3)
at least, E <M - p, sum_i Z_i> at most alpha sqrt d times sqrt(N) n eta or sqrt(2 d n N / 3). Of
given records m in each silo are X and the others 0, and X's mean takes p's place.
"""

from __future__ import annotations

import math

import numpy as np

from skdpfl._arguments import check_count, check_number, check_positive
from skdpfl.algorithms.theory._lowy2023 import loss_scale


def lowy2023_lower_bound(
    *,
    lipschitz: float,
    n_records: int,
    n_silos: int,
    n_parameters: int,
    epsilon: float,
    delta: float = 0.0,
    diameter: float | None = None,
    strong_convexity: float | None = None,
    empirical: bool = False,
) -> float:
    """Return a lower bound: every ISRL-DP algorithm has this mean excess loss on some data.

    Parameters
    ----------
    lipschitz : float
        L.
    n_records, n_silos, n_parameters : int
        n records a silo, N silos, d.
    epsilon, delta : float
        A silo's budget for all that it sends.
    diameter : float, optional
        D, for convex losses.
    strong_convexity : float, optional
        mu, for strongly convex ones on a domain of diameter L / mu. Give exactly one of the two.
    empirical : bool, default=False
        The loss over the given records in place of the population's.

    Returns
    -------
    float
        The bound. The source has its proof.

    See Also
    --------
    lowy2023_rate : Its order, and the order that algorithms reach.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import lowy2023_lower_bound
    >>> for n in (100, 1000, 10_000):
    ...     bound = lowy2023_lower_bound(lipschitz=1, n_records=n, n_silos=25, n_parameters=100,
    ...                                  epsilon=0.1, diameter=1, empirical=True)
    ...     print(f"{bound:.2g}")
    0.0052
    0.00052
    5.2e-05
    """
    n, N = check_count("n_records", n_records), check_count("n_silos", n_silos)
    d = check_count("n_parameters", n_parameters)
    ratio = math.expm1(min(check_positive("epsilon", epsilon), 700.0))
    delta = check_number("delta", delta, low=0, high=1)
    per_record = math.sqrt(N / d) * (ratio + math.sqrt(8 * d * delta))
    scale, power = loss_scale(check_positive("lipschitz", lipschitz), diameter, strong_convexity)
    if empirical:
        A, c = 2 / math.sqrt(3), 1 / 3 - per_record / N
        best = (c if power == 1 else math.sqrt(A**2 + 2 * A / 3) - A) / per_record
        m = np.clip([math.floor(best), math.ceil(best)], 1, n)  # unimodal in m
        k = per_record * m
        if power == 1:
            found = m / n * (c - k / 2) / 2
        else:
            found = np.square(m / n * np.maximum(0, 2 / 3 - k) / (A + k)) / 8
        return float(scale * max(0.0, found.max()))
    if power == 2:
        most = min(per_record * n, math.sqrt(2 * n * N / 3))
        return scale * (2 / 3 / (2 / math.sqrt(3) + most)) ** 2 / 8
    a, b = 1 / 3 - math.sqrt(N * 2 * delta) * n, math.sqrt(N / d) * n * ratio / 2
    share = min(1.0, a / (2 * b))
    private = share * (a - b * share) / 2 if a > 0 else 0.0
    return scale * max(private, 1 / (4 * math.sqrt(6 * n * N)))
