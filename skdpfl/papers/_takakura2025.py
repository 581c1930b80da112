"""Takakura, Liew and Hasegawa (2025): DP-FedEXP as they count it, propositions 4.1 and 4.2.

S. Takakura, S. P. Liew and S. Hasegawa, "Accelerating Differentially Private Federated Learning via
Adaptive Extrapolation", 2025. M silos, messages clipped to C, noise of
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

from skdpfl._arguments import check_choice, check_count, check_positive, check_share


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
    >>> from skdpfl.papers import takakura2025
    >>> round(takakura2025(noise_multiplier=0.7, n_rounds=50, delta=1e-5), 1)
    301.0
    >>> round(takakura2025(noise_multiplier=5, n_rounds=50, delta=1e-5, view="server",
    ...                    n_silos=1000, n_parameters=500), 2)
    0.43
    """
    z = check_positive("noise_multiplier", noise_multiplier)
    rounds = check_count("n_rounds", n_rounds)
    level = 1 / z / z
    rho = 2 * level
    if check_choice("view", view, ("client", "server")) == "server":
        d = check_count("n_parameters", n_parameters)
        rho = rho / check_count("n_silos", n_silos) + level * level / (2 * d**2)
    rho *= rounds
    return rho + 2 * math.sqrt(rho * math.log(1 / check_share("delta", delta)))
