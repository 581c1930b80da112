"""Two papers of 2025: the theorems of Bhaskar et al., and DP-FedEXP as Takakura et al. count it.

**Bhaskar, Srivastava, Vummintala, Manwani and Gujar** (arXiv:2501.14453). E local epochs
of DP-SGD a round (in the paper's pseudo-code: E steps), T of them in all, k silos, batches of L
records, N parameters, a loss that is beta-Lipschitz in the parameters::

    Observation 1   after t of T epochs   epsilon_t = epsilon / sqrt(T / t)
    Theorem 2       |R(private) - R(plain)|  <=  beta E (alpha C + alpha_1 C_1
                        + sqrt(2) (alpha sigma C / L) Gamma((N+1)/2) / Gamma(N/2))
    Theorem 3       P(|R - R*| < l)  >=  1 - s^2 beta^2 / (l^2 k)

Theorem 2 compares a silo's round of DP-SGD (step alpha, clip norm C, noise of deviation sigma C on
the sum) with one of plain SGD (alpha_1, and C_1 that clips nothing) from the same start on the same
batches. The last term is the mean norm of the noise in N dimensions. Theorem 3 is Chebyshev's
inequality for the mean of k silos' models, each of deviation s about theta*.

**Takakura, Liew and Hasegawa**, propositions 4.1 and 4.2. M silos, messages clipped to C, noise of
standard deviation sigma = z C on each, T rounds, d parameters. Zero-concentrated DP when a silo is
replaced, and its conversion::

    client    rho = T 2 / z^2                      each silo towards everybody (a silo's message
                                               moves by 2 C at most)
    server    rho = T (2 / (M z^2) + C^4 / (2 M^2 sigma_xi^2))
              sigma_xi = d sigma^2 / M by default: the second term is then 1 / (2 d^2 z^4)
    epsilon   min over a > 1 of a rho + ln(1/delta) / (a - 1) = rho + 2 sqrt(rho ln(1/delta))

The server's second term pays for the noised numerator, the mean squared norm of the clipped
messages, which lies in [0, C^2].
"""

import math

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_share,
)


def bhaskar2025_degradation(
    *,
    epochs: int,
    lipschitz: float,
    step: float,
    clip_norm: float,
    noise_multiplier: float,
    batch: int,
    n_parameters: int,
    plain_step: float,
    plain_clip_norm: float,
) -> float:
    """Return the bound of Theorem 2 on the loss due to privacy in a round of local epochs.

    Parameters
    ----------
    epochs : int
        E, the local epochs of the round.
    lipschitz : float
        beta: how fast the loss changes with the parameters.
    step, clip_norm : float
        alpha and C of DP-SGD.
    noise_multiplier : float
        sigma: the noise on the clipped sum over C.
    batch : int
        Records L in a batch.
    n_parameters : int
        N, the coordinates that receive noise.
    plain_step, plain_clip_norm : float
        alpha_1 and C_1 of plain SGD; C_1 is so large that nothing is clipped. ``inf`` is the
        theorem without clipping: its bound is infinite.

    Returns
    -------
    float
        An upper bound on the mean absolute difference of the two losses.

    See Also
    --------
    skdpfl.algorithms.theory.local_steps_excess : What can be proved: exact, on quadratic losses.

    Notes
    -----
    **Why this is not what the library reports**: it does not bound a loss. The paper concludes that
    one local epoch per round is best, since the bound grows with E. But a fit has T / E rounds, and
    the sum over them is the same for every E. The bound is infinite if plain SGD does not clip,
    ignores averaging over silos, and measures the distance to plain SGD instead of that to an
    optimum.

    References
    ----------
    U. Bhaskar, V. Srivastava, A. M. Vummintala, N. Manwani and S. Gujar, "Optimal strategies for
    federated learning maintaining client privacy", arXiv:2501.14453, 2025.

    Examples
    --------
    >>> from skdpfl.privacy.published import bhaskar2025_degradation
    >>> setting = dict(lipschitz=1, step=0.3, clip_norm=1, noise_multiplier=1, batch=64,
    ...                n_parameters=26_010, plain_step=0.3, plain_clip_norm=10)
    >>> round(bhaskar2025_degradation(epochs=1, **setting), 3)
    4.056
    >>> round(4 * bhaskar2025_degradation(epochs=5, **setting), 2)  # four rounds of five
    81.12
    >>> round(20 * bhaskar2025_degradation(epochs=1, **setting), 2)  # and twenty of one
    81.12
    """
    private = check_positive("step", step) * check_positive("clip_norm", clip_norm)
    plain = check_positive("plain_step", plain_step)
    plain *= check_number("plain_clip_norm", plain_clip_norm, low=0, open_low=True)
    half = check_count("n_parameters", n_parameters) / 2
    mean_norm = math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    noise = check_not_negative("noise_multiplier", noise_multiplier) / check_count("batch", batch)
    epochs, lipschitz = check_count("epochs", epochs), check_positive("lipschitz", lipschitz)
    return lipschitz * epochs * (private + plain + private * noise * mean_norm)


def bhaskar2025_utility(
    *, excess: float, lipschitz: float, deviation: float, n_silos: int
) -> float:
    """Return the probability of Theorem 3 that the loss is near that of theta*, from below.

    Parameters
    ----------
    excess : float
        l: how near the loss has to be.
    lipschitz : float
        beta: how fast the loss changes with the parameters.
    deviation : float
        s: the root mean square distance of one silo's model from theta*.
    n_silos : int
        k, whose models are averaged.

    Returns
    -------
    float
        At least 0; the theorem's "1 - O(1 / (l^2 k))" with the constant of its proof.

    See Also
    --------
    skdpfl.algorithms.theory.local_steps_excess : What can be proved: exact, on quadratic losses.

    Notes
    -----
    **Why this is not what the library reports**: it needs the deviation of the silos' models, which
    has to be known beforehand, not that of the noise. And theta* is the mean of the silos' models:
    if they drift apart it is not an optimum, however many silos there are.

    References
    ----------
    As for :func:`bhaskar2025_degradation`.

    Examples
    --------
    >>> from skdpfl.privacy.published import bhaskar2025_utility
    >>> for k in (1, 10, 100):
    ...     print(round(bhaskar2025_utility(excess=0.2, lipschitz=1, deviation=0.4, n_silos=k), 2))
    0.0
    0.6
    0.96
    """
    share = check_not_negative("deviation", deviation) * check_positive("lipschitz", lipschitz)
    share /= check_positive("excess", excess)
    return max(0.0, 1 - share * share / check_count("n_silos", n_silos))


def bhaskar2025_epsilon(*, epsilon: float, n_epochs: int, after: int) -> float:
    """Return the epsilon that Observation 1 assigns to a silo's first epochs.

    Parameters
    ----------
    epsilon : float
        The budget of all epochs.
    n_epochs : int
        T, for which the noise was calibrated.
    after : int
        How many of them have run.

    Returns
    -------
    float
        epsilon / sqrt(n_epochs / after).

    See Also
    --------
    skdpfl.privacy.epsilon_of : The sound price of given steps.

    Notes
    -----
    **Why this is not what the library reports**: the noise of the moments accountant, sigma ~ q
    sqrt(T ln(1/delta)) / epsilon, is an order of magnitude, so its inverse is not a bound. Sound
    prices of part of the steps grow like the root for small epsilons only.

    References
    ----------
    As for :func:`bhaskar2025_degradation`.

    Examples
    --------
    >>> from skdpfl.privacy.published import bhaskar2025_epsilon
    >>> bhaskar2025_epsilon(epsilon=2.0, n_epochs=20, after=5)
    1.0
    """
    total = check_count("n_epochs", n_epochs)
    done = check_count("after", after, low=0, high=total)
    return check_positive("epsilon", epsilon) * math.sqrt(done / total)


def takakura2025(
    *,
    noise_multiplier: float,
    n_rounds: int,
    delta: float,
    view: str = "client",
    n_silos: int = 1,
    n_parameters: int = 1,
) -> float:
    """Return the epsilon of DP-FedEXP with Gaussian noise as published, for a silo as a whole.

    Parameters
    ----------
    noise_multiplier : float
        The noise on a silo's message over the clip norm.
    n_rounds : int
        Rounds T, in all of which the silo takes part.
    delta : float
        Delta.
    view : {"client", "server"}, default="client"
        "client": every silo adds its own noise and trusts nobody (proposition 4.1); the same as
        DP-FedAvg's. "server": the sum over the silos is noised, and the mean squared norm with it
        (proposition 4.2).
    n_silos, n_parameters : int
        M and d, for ``view="server"``.

    Returns
    -------
    float
        Epsilon.

    See Also
    --------
    skdpfl.DPFedEXPClassifier : Its ``privacy_spent_`` is the sound counterpart.

    Notes
    -----
    **Why this is not what the library reports**: it is sound but loose because of the conversion
    from concentrated DP. The library composes the same releases by their privacy loss
    distributions. The text of the propositions was not available: the formulas follow from the
    Gaussian mechanism, with noise on the numerator as large as the denominator's bias.

    References
    ----------
    S. Takakura, S. P. Liew and S. Hasegawa, "Accelerating Differentially Private Federated Learning
    via Adaptive Extrapolation", 2025.

    Examples
    --------
    >>> from skdpfl.privacy.published import takakura2025
    >>> round(takakura2025(noise_multiplier=0.7, n_rounds=50, delta=1e-5), 1)
    301.0
    >>> round(takakura2025(noise_multiplier=5, n_rounds=50, delta=1e-5, view="server",
    ...                    n_silos=1000, n_parameters=500), 2)
    0.43
    """
    z, rounds = (
        check_positive("noise_multiplier", noise_multiplier),
        check_count("n_rounds", n_rounds),
    )
    level = 1 / z / z
    rho = 2 * level
    if check_choice("view", view, ("client", "server")) == "server":
        d = check_count("n_parameters", n_parameters)
        rho = rho / check_count("n_silos", n_silos) + level * level / (2 * d**2)
    rho *= rounds
    return rho + 2 * math.sqrt(rho * math.log(1 / check_share("delta", delta)))
