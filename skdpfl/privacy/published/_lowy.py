"""Noise of ISRL-DP as published in Lowy and Razaviyayn (ICLR 2023).

n records in the silo, R rounds, minibatches of K, Lipschitz constant L (the clipping norm);
sigma^2 is the variance per coordinate of the noise on the *mean* minibatch gradient::

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
"""

import math

from skdpfl._arguments import check_choice, check_count, check_positive, check_share
from skdpfl._warnings import warn

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
    >>> from skdpfl.privacy.published import lowy2023_sigma
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
            f"The formula (form={form!r}) asks for a batch of at least {smallest:.4g} records;"
            f" batch={batch}.",
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
    >>> from skdpfl.privacy.published import lowy2023_batch
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
