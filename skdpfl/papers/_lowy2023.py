"""Lowy and Razaviyayn (ICLR 2023): noise, steps, rates and lower bounds of ISRL-DP SGD.

A. Lowy and M. Razaviyayn, "Private Federated Learning Without a Trusted Server: Optimal Algorithms
for Convex Losses", ICLR 2023. What the solvers use themselves, stages, smoothing and one-pass
rounds among it, is in :mod:`skdpfl.algorithms.theory`.

**Noise** (theorem D.8, appendix on the experiments). n records in the silo, R rounds, minibatches
of K, Lipschitz constant L (the clipping norm); sigma^2 is the variance per coordinate of the noise
on the *mean* minibatch gradient::

    theory     sigma^2 = 256 L^2 R ln(2.5 R K / (delta n)) ln(2/delta) / (epsilon n)^2
               for epsilon <= 2 ln(2/delta),  K >= epsilon n / (4 sqrt(2 R ln(2/delta)))
    practice   sigma^2 = 8 L^2 R ln(1/delta) / (epsilon n)^2
               for epsilon <= 2 ln(1/delta),  K >= n sqrt(epsilon / (4 R))
    one pass   sigma^2 = 32 L^2 ln(1/delta) / (epsilon K)^2
               for epsilon <= 8 ln(1/delta),  K <= n / R

Theory: advanced composition (epsilon_r = epsilon / (2 sqrt(2 R ln(2/delta))), delta_r =
delta / (2 R)), amplification by subsampling (epsilon_step = n epsilon_r / (2 K), delta_step =
n delta_r / K, for epsilon_step <= 1) and the Gaussian mechanism 2 (2 L / K)^2 ln(1.25 /
delta_step) / epsilon_step^2. One pass: disjoint batches compose in parallel, and
rho = epsilon^2 / (16 ln(1/delta)) zCDP gives epsilon/2 + rho <= epsilon; the constant is the one
that follows from the paper's condition on epsilon.

**Steps and rounds.** M of N silos of n records a round, d parameters, R rounds, batches of K,
budget (epsilon, delta), losses L-Lipschitz, beta-smooth, mu-strongly convex or on a domain of
diameter D.

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
    penalty           s / (2 D sqrt R)

without the term e^2 / K where every round uses every record (M K = N n). These are the paper's
orders of magnitude with constants 1.

**Bounds for accelerated and for strongly convex solvers** (S. Ghadimi and G. Lan 2012; S. U. Stich
2019, lemma 3)::

    AC-SA   excess <= 4 v V / (R (R + 1)) + 4 s^2 (R + 2) / (3 v),     V = |w_0 - w*|^2 / 2
            s^2 = L^2 / (M K) + (1 - (M - 1) / (N - 1)) upsilon^2 / M + d sigma^2 / M
    Stich   mean_w s + mu r_R <= 32 g r_0 exp(-mu R / (2 g)) + 36 c / (mu R)

with the scale v, batches of K, M of N silos a round; r the squared distance to the optimum, s the
excess loss, c the noise, and 1/g the largest step.

**Lower bounds for all ISRL-DP algorithms, with constants** (theorems 2.2, D.12 and F.5). N silos of
n records, d parameters. All messages of a silo together are (epsilon, delta)-DP for each of its
records, whatever the others send; rounds may depend on earlier rounds in any way. With eta =
e^epsilon - 1 + sqrt(8 d delta), for some L-Lipschitz losses and some records::

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

import math

import numpy as np

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_share,
)
from skdpfl._warnings import warn
from skdpfl.algorithms.theory import check_steps, condition, loss_scale, private_records

FORMS = ("theory", "practice", "one pass")


def lowy2023_sigma(
    *,
    epsilon: float,
    delta: float,
    n_records: int,
    n_rounds: int,
    batch: int,
    lipschitz: float,
    form: str = "theory",
) -> float:
    """Return the standard deviation of the noise on a silo's mean minibatch gradient.

    If silos have different sizes or budgets, call it once for each, with that silo's epsilon,
    delta, ``n_records`` and ``batch`` (in the paper batch / n_records is the same in all silos).

    Parameters
    ----------
    epsilon, delta : float
        The silo's budget.
    n_records : int
        Records n of the silo.
    n_rounds : int
        Rounds R (for the paper's noisy local SGD: rounds times local steps).
    batch : int
        Records K in a minibatch; at most n_records / n_rounds for "one pass".
    lipschitz : float
        L: the norm to which each record's gradient is clipped.
    form : {"theory", "practice", "one pass"}, default="theory"
        The noise of the paper's theorem, that of its experiments, or that of the solvers which use
        every record in one batch and each batch once.

    Returns
    -------
    float
        sigma; this library's ``noise_multiplier`` is sigma * batch / lipschitz.

    Raises
    ------
    ValueError
        If epsilon is above the range in which the formula is stated, or the batch so small that
        the theory's delta_step is not below 1.

    Warns
    -----
    UserWarning
        If the batch is smaller than the formula requires (as in some of the paper's own
        experiments, which round it down).

    See Also
    --------
    skdpfl.privacy.noise_multiplier_for : The sound counterpart.

    Notes
    -----
    **Why this is not what the library reports**: "theory" adds ten to thirty times the noise
    that the same guarantee needs, "one pass" more than it needs; "practice" leaves out the
    theorem's constants and does not guarantee the stated epsilon if that is large (from 9 on in
    the paper's settings).

    References
    ----------
    A. Lowy and M. Razaviyayn, "Private Federated Learning Without a Trusted Server: Optimal
    Algorithms for Convex Losses", ICLR 2023, theorem D.8 and appendix on the experiments.

    Examples
    --------
    >>> from skdpfl.papers import lowy2023_sigma
    >>> sigma = lowy2023_sigma(epsilon=1, delta=1e-4, n_records=107, n_rounds=35, batch=19,
    ...                        lipschitz=1, form="practice")
    >>> round(sigma, 4)
    0.4746
    """
    n, rounds = check_count("n_records", n_records), check_count("n_rounds", n_rounds)
    lipschitz = check_positive("lipschitz", lipschitz)
    smallest = lowy2023_batch(epsilon=epsilon, delta=delta, n_records=n, n_rounds=rounds, form=form)
    batch = check_count("batch", batch, high=n // rounds if form == "one pass" else n)
    if batch < smallest:
        warn(
            f"The formula (form={form!r}) asks for a batch of at least {smallest:.4g} records.",
        )
    if form == "one pass":
        return lipschitz * math.sqrt(32 * math.log(1 / delta)) / (batch * epsilon)
    if form == "practice":
        return lipschitz * math.sqrt(8 * rounds * math.log(1 / delta)) / (n * epsilon)
    if 2 * rounds * batch <= delta * n:
        raise ValueError(
            f"batch={batch} is not valid; form='theory' has delta_step = delta * n_records / (2 *"
            f" n_rounds * batch) = {delta * n / (2 * rounds * batch):.4g}, which must be below 1."
        )
    logs = math.log(2.5 * rounds * batch / (delta * n)) * math.log(2 / delta)
    return 16 * lipschitz * math.sqrt(rounds * logs) / (n * epsilon)


def lowy2023_batch(
    *, epsilon: float, delta: float, n_records: int, n_rounds: int, form: str = "theory"
) -> float:
    """Return the smallest minibatch for which :func:`lowy2023_sigma` is stated.

    Parameters
    ----------
    epsilon, delta, n_records, n_rounds, form
        As in :func:`lowy2023_sigma`.

    Returns
    -------
    float
        To be rounded up; no minibatch is large enough if it is above ``n_records``. 1 for
        "one pass", whose formula holds for all batches that are disjoint.

    See Also
    --------
    lowy2023_sigma : The noise for this batch.

    Examples
    --------
    >>> from skdpfl.papers import lowy2023_batch
    >>> lowy2023_batch(epsilon=3, delta=1e-4, n_records=140, n_rounds=12, form="practice")
    35.0
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_share("delta", delta)
    n, rounds = check_count("n_records", n_records), check_count("n_rounds", n_rounds)
    log_inverse = math.log((2 if check_choice("form", form, FORMS) == "theory" else 1) / delta)
    largest = (8 if form == "one pass" else 2) * log_inverse
    if epsilon > largest:
        raise ValueError(
            f"epsilon={epsilon:g} is not valid; form={form!r} is stated for epsilon in"
            f" (0, {largest:.4g}] at delta={delta:g}."
        )
    if form == "one pass":
        return 1.0
    if form == "practice":
        return n * math.sqrt(epsilon / (4 * rounds))
    return epsilon * n / (4 * math.sqrt(2 * rounds * log_inverse))


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
    >>> from skdpfl.papers import lowy2023_step
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
    >>> from skdpfl.papers import lowy2023_bound
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
    >>> from skdpfl.papers import lowy2023_rate
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
    >>> from skdpfl.papers import lowy2023_rounds
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
    >>> from skdpfl.papers import lowy2023_stability
    >>> lowy2023_stability(lipschitz=1, strong_convexity=0.5, n_records=100, n_silos=10)
    0.008008008008008008
    """
    L = check_positive("lipschitz", lipschitz)
    mu = check_positive("strong_convexity", strong_convexity)
    records = check_count("n_records", n_records) * check_positive("n_silos", n_silos)
    return 4 * L * L / (mu * (check_number("n_silos * n_records", records, low=2) - 1))


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
    >>> from skdpfl.papers import lowy2023_accelerated_rounds
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
    >>> from skdpfl.papers import lowy2023_multistage_rounds
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


def _noise_rounds(
    private: float, n_records: int, n_silos: int, silos_per_round: int, batch: int
) -> float:
    """Return epsilon^2 n^2 / (K d ln(1/delta)), or 0 if every record is used in every round."""
    N = check_count("n_silos", n_silos)
    M = check_count("silos_per_round", silos_per_round, high=N)
    K = check_count("batch", batch, high=n_records)
    return private**2 / K if N * n_records > M * K else 0.0


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
    >>> from skdpfl.papers import lowy2023_regularisation
    >>> lowy2023_regularisation(variance=4.0, diameter=2.0, n_rounds=25)
    0.1
    """
    spread = math.sqrt(check_not_negative("variance", variance))
    rounds = check_count("n_rounds", n_rounds)
    return spread / (2 * check_positive("diameter", diameter) * math.sqrt(rounds))


def acsa_bound(*, n_rounds: int, scale: float, variance: float, squared_distance: float) -> float:
    """Return AC-SA's bound on the mean excess loss.

    Parameters
    ----------
    n_rounds, variance, squared_distance
        As in :func:`acsa_scale`.
    scale : float
        v, at least twice the smoothness.

    Examples
    --------
    >>> from skdpfl.papers import acsa_bound
    >>> acsa_bound(n_rounds=3, scale=2.0, variance=0.6, squared_distance=3.0)
    3.0
    """
    R = check_count("n_rounds", n_rounds)
    V = check_positive("squared_distance", squared_distance) / 2
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
    """Return (a bound of) the variance s^2 of the averaged noisy gradient.

    Parameters
    ----------
    lipschitz : float
        L: the clipping norm.
    batch : int
        Records K of a silo's minibatch.
    n_silos, silos_per_round : int
        N silos, M of them drawn without replacement each round.
    noise : float
        sigma, the standard deviation per coordinate on a silo's mean gradient.
    n_parameters : int
        d.
    heterogeneity : float, default=0.0
        upsilon^2, see :func:`skdpfl.inspection.heterogeneity`; of no effect if all silos take
        part.

    Examples
    --------
    >>> from skdpfl.papers import gradient_variance
    >>> gradient_variance(lipschitz=2, batch=8, n_silos=5, silos_per_round=2, noise=0.5,
    ...                   n_parameters=10, heterogeneity=4.0)
    3.0
    """
    N = check_count("n_silos", n_silos)
    M = check_count("silos_per_round", silos_per_round, high=N)
    missing = 1 - (M - 1) / (N - 1) if N > 1 else 0.0
    of_cohorts = missing * check_not_negative("heterogeneity", heterogeneity)
    L = check_positive("lipschitz", lipschitz)
    sampled = L * L / check_count("batch", batch)
    noise = check_not_negative("noise", noise)
    return (sampled + of_cohorts + check_count("n_parameters", n_parameters) * noise * noise) / M


def stich2019_bound(
    *,
    n_rounds: int,
    strong_convexity: float,
    largest_step: float,
    squared_distance: float,
    noise: float,
) -> float:
    """Return the lemma's bound for :func:`stich2019_schedule`.

    Parameters
    ----------
    n_rounds, strong_convexity, largest_step
        As in :func:`stich2019_schedule`.
    squared_distance : float
        r_0 = |w_0 - w*|^2.
    noise : float
        c: the second moment of the noisy gradient at the optimum, for ISRL-DP at most
        L^2 + d sigma^2 / M.

    Examples
    --------
    >>> from skdpfl.papers import stich2019_bound
    >>> round(stich2019_bound(n_rounds=100, strong_convexity=1.0, largest_step=0.5,
    ...                       squared_distance=1.0, noise=2.0), 4)
    0.72
    """
    rounds = check_count("n_rounds", n_rounds)
    mu, largest = check_steps(strong_convexity, largest_step)
    start = 32 / largest * check_not_negative("squared_distance", squared_distance)
    decay = math.exp(-mu * largest * rounds / 2)
    return start * decay + 36 * check_not_negative("noise", noise) / (mu * rounds)


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
    >>> from skdpfl.papers import lowy2023_lower_bound
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
            bounds = m / n * (c - k / 2) / 2
        else:
            bounds = np.square(m / n * np.maximum(0, 2 / 3 - k) / (A + k)) / 8
        return float(scale * max(0.0, bounds.max()))
    if power == 2:
        most = min(per_record * n, math.sqrt(2 * n * N / 3))
        return scale * (2 / 3 / (2 / math.sqrt(3) + most)) ** 2 / 8
    a, b = 1 / 3 - math.sqrt(N * 2 * delta) * n, math.sqrt(N / d) * n * ratio / 2
    share = min(1.0, a / (2 * b))
    private = share * (a - b * share) / 2 if a > 0 else 0.0
    return scale * max(private, 1 / (4 * math.sqrt(6 * n * N)))
