"""Noise of ISRL-DP as published in Lowy and Razaviyayn (ICLR 2023).

n records in the silo, R rounds, minibatches of K, Lipschitz constant L (the clipping norm);
sigma^2 is the variance per coordinate of the noise on the *mean* minibatch gradient::

    theory     sigma^2 = 256 L^2 R ln(2.5 R K / (delta n)) ln(2/delta) / (epsilon n)^2
               for epsilon <= 2 ln(2/delta),  K >= epsilon n / (4 sqrt(2 R ln(2/delta)))
    practice   sigma^2 = 8 L^2 R ln(1/delta) / (epsilon n)^2
               for epsilon <= 2 ln(1/delta),  K >= n sqrt(epsilon / (4 R))
    one pass   sigma^2 = 32 L^2 ln(1/delta) / (epsilon K)^2,  K = floor(n / R)
               for epsilon <= 8 ln(1/delta)

Theory: advanced composition (epsilon_r = epsilon / (2 sqrt(2 R ln(2/delta))), delta_r =
delta / (2 R)), amplification by subsampling (epsilon_step = n epsilon_r / (2 K), delta_step =
n delta_r / K, for epsilon_step <= 1) and the Gaussian mechanism 2 (2 L / K)^2 ln(1.25 /
delta_step) / epsilon_step^2. One pass: disjoint batches compose in parallel, and
rho = epsilon^2 / (16 ln(1/delta)) zCDP gives epsilon/2 + rho <= epsilon.
"""

from __future__ import annotations

import math
import warnings

from skdpfl._arguments import check_choice, check_count, check_positive, check_share

FORMS = ("theory", "practice")


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
        Records K in a minibatch.
    lipschitz : float
        L: the norm to which each record's gradient is clipped.
    form : {"theory", "practice"}, default="theory"
        The noise of the paper's theorem, or that of its experiments.

    Returns
    -------
    float
        sigma; this library's ``noise_multiplier`` is sigma * batch / lipschitz.

    Raises
    ------
    ValueError
        If epsilon is above the range in which the formula is stated.

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
    that the same guarantee needs, and "practice" leaves out the theorem's constants and does not
    guarantee the stated epsilon if that is large (from 9 on in the paper's settings).

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
    epsilon, delta, n, rounds = _budget(epsilon, delta, n_records, n_rounds)
    batch = check_count("batch", batch, high=n)
    lipschitz = check_positive("lipschitz", lipschitz)
    smallest = lowy2023_batch(epsilon=epsilon, delta=delta, n_records=n, n_rounds=rounds, form=form)
    if batch < smallest:
        warnings.warn(
            f"The formula (form={form!r}) asks for a batch of at least {smallest:.4g} records;"
            f" batch={batch}.",
            stacklevel=2,
        )
    if form == "practice":
        return lipschitz * math.sqrt(8 * rounds * math.log(1 / delta)) / (n * epsilon)
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
        To be rounded up; no minibatch is large enough if it is above ``n_records``.

    See Also
    --------
    lowy2023_sigma : The noise for this batch.

    Examples
    --------
    >>> from skdpfl.privacy.published import lowy2023_batch
    >>> lowy2023_batch(epsilon=3, delta=1e-4, n_records=140, n_rounds=12, form="practice")
    35.0
    """
    epsilon, delta, n, rounds = _budget(epsilon, delta, n_records, n_rounds)
    log_inverse = math.log((2 if check_choice("form", form, FORMS) == "theory" else 1) / delta)
    if epsilon > 2 * log_inverse:
        raise ValueError(
            f"epsilon={epsilon:g} is not valid; form={form!r} is stated for epsilon in"
            f" (0, {2 * log_inverse:.4g}] at delta={delta:g}."
        )
    if form == "practice":
        return n * math.sqrt(epsilon / (4 * rounds))
    return epsilon * n / (4 * math.sqrt(2 * rounds * log_inverse))


def lowy2023_one_pass_sigma(
    *, epsilon: float, delta: float, n_records: int, n_rounds: int, lipschitz: float
) -> float:
    """Return the noise of the one-pass solvers: every record in one batch, each batch used once.

    Parameters
    ----------
    epsilon, delta, n_records, n_rounds, lipschitz
        As in :func:`lowy2023_sigma`; the batch is floor(n_records / n_rounds).

    Returns
    -------
    float
        The standard deviation of the noise on a silo's mean minibatch gradient.

    See Also
    --------
    lowy2023_sigma : The noise of several passes.
    skdpfl.privacy.noise_multiplier_for : The sound counterpart.

    Notes
    -----
    **Why this is not what the library reports**: the guarantee holds, but calibrating the
    Gaussian mechanism exactly (``n_steps=1``) gives the same one with less noise.

    References
    ----------
    A. Lowy and M. Razaviyayn, "Private Federated Learning Without a Trusted Server: Optimal
    Algorithms for Convex Losses", ICLR 2023, one-pass accelerated minibatch SGD. The constant is
    the one that follows from the paper's condition on epsilon.

    Examples
    --------
    >>> from skdpfl.privacy.published import lowy2023_one_pass_sigma
    >>> sigma = lowy2023_one_pass_sigma(epsilon=1, delta=1e-4, n_records=1000, n_rounds=10,
    ...                                 lipschitz=1)
    >>> round(sigma, 4)
    0.1717
    """
    epsilon, delta, n, rounds = _budget(epsilon, delta, n_records, n_rounds)
    check_count("n_rounds", rounds, high=n)
    largest = 8 * math.log(1 / delta)
    if epsilon > largest:
        raise ValueError(
            f"epsilon={epsilon:g} is not valid; the formula is stated for epsilon in"
            f" (0, {largest:.4g}] at delta={delta:g}."
        )
    batch = n // rounds
    lipschitz = check_positive("lipschitz", lipschitz)
    return lipschitz * math.sqrt(32 * math.log(1 / delta)) / (batch * epsilon)


def _budget(
    epsilon: float, delta: float, n_records: int, n_rounds: int
) -> tuple[float, float, int, int]:
    """Check the parameters of all formulas."""
    return (
        check_positive("epsilon", epsilon),
        check_share("delta", delta),
        check_count("n_records", n_records),
        check_count("n_rounds", n_rounds),
    )
