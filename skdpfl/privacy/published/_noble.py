"""DP-SCAFFOLD and DP-FedAvg as accounted in Noble, Bellet and Dieuleveut (AISTATS 2022).

With M silos of R records, a fraction l of the silos a round, a fraction s of the records a step,
K steps a round, T rounds, and noise of standard deviation 2 C sigma_g / (s R) on the mean clipped
gradient (sigma_g is relative to the replace-one sensitivity 2 C / (s R))::

    sigma_a  = sigma_g sqrt(l M)   towards an outsider,   sigma_g   towards the server
    inner(a) = K wang(s, j -> j / (2 sigma_a^2))(a)
    outer(a) = T wang(l, inner)(a) towards an outsider,   T inner(a) towards the server
    epsilon  = min_a outer(a) + ln(1/delta) / (a-1),      delta = 1 / (M R) unless given
"""

import math
from collections.abc import Callable

import numpy as np

from skdpfl._arguments import check_choice, check_count, check_positive, check_rate, check_share
from skdpfl.privacy.published import _renyi


def noble2022(
    *,
    sigma_g: float,
    n_silos: int,
    n_records: int,
    silo_rate: float,
    record_rate: float,
    local_steps: int,
    n_rounds: int,
    delta: float | None = None,
    view: str = "outsider",
) -> float:
    """Return the epsilon of DP-SCAFFOLD (and DP-FedAvg) as published.

    Parameters
    ----------
    sigma_g : float
        The paper's noise scale: standard deviation of the noise on the mean clipped gradient
        over the replace-one sensitivity 2 C / (s R). This library's ``noise_multiplier`` is
        twice as large.
    n_silos : int
        Number of silos M.
    n_records : int
        Training records of each silo (the paper's R after its 80/20 split).
    silo_rate : float
        Fraction l of the silos drawn each round, in (0, 1].
    record_rate : float
        Fraction s of a silo's records drawn each local step, in (0, 1].
    local_steps : int
        Local steps K.
    n_rounds : int
        Rounds T.
    delta : float, optional
        The paper's choice 1 / (n_silos * n_records) if None.
    view : {"outsider", "server"}, default="outsider"
        The adversary: a third party who sees the models only, or the server, who sees every
        silo's messages.

    Returns
    -------
    float
        The paper's epsilon: an upper bound only under assumptions that fail, see below.

    See Also
    --------
    skdpfl.privacy.epsilon_of : The sound price.
    noble2022_rounds : The rounds that this number allows.

    Notes
    -----
    **Why this is not what the library reports**: the outsider's number credits the sampling of
    silos to single records and counts the noise of other silos over several local steps; neither is
    sound in general. Both views use a loose subsampling theorem whose value does not go to zero as
    the noise grows: it gives 7 to 15, where sound accounting of the same mechanism against the
    server gives 0.7 to 1.7.

    References
    ----------
    M. Noble, A. Bellet and A. Dieuleveut, "Differentially Private Federated Learning on
    Heterogeneous Data", AISTATS 2022, section 5 and appendices B and C.

    Examples
    --------
    The FEMNIST experiment, printed as 11.4:

    >>> from skdpfl.privacy.published import noble2022
    >>> epsilon = noble2022(sigma_g=30, n_silos=40, n_records=2000, silo_rate=0.2,
    ...                     record_rate=0.2, local_steps=50, n_rounds=400)
    >>> round(epsilon, 3)
    11.361
    """
    n_rounds = check_count("n_rounds", n_rounds)
    delta = _delta(delta, n_silos, n_records)
    one_round = _one_round(sigma_g, n_silos, silo_rate, record_rate, local_steps, view)
    return _renyi.smallest_epsilon(lambda n_orders: n_rounds * one_round(n_orders), delta)[0]


def noble2022_rounds(
    *,
    epsilon: float,
    sigma_g: float,
    n_silos: int,
    n_records: int,
    silo_rate: float,
    record_rate: float,
    local_steps: int,
    delta: float | None = None,
    view: str = "outsider",
) -> int:
    """Return the most rounds T that :func:`noble2022` allows within ``epsilon`` (0 if none).

    This is the column T of the paper's table 1 (epsilon 3, l 0.05, s 0.2, M 100, R 4000).

    Parameters
    ----------
    epsilon : float
        The upper bound on the published epsilon.
    sigma_g, n_silos, n_records, silo_rate, record_rate, local_steps, delta, view
        As in :func:`noble2022`.

    Returns
    -------
    int
        The largest T; 0 if not even one round fits.

    See Also
    --------
    noble2022 : The function that is inverted here, which says why the library does not use it.
    skdpfl.privacy.n_steps_for : The sound counterpart.

    Examples
    --------
    >>> from skdpfl.privacy.published import noble2022_rounds
    >>> noble2022_rounds(epsilon=3, sigma_g=10, n_silos=100, n_records=4000, silo_rate=0.05,
    ...                  record_rate=0.2, local_steps=10)
    428
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = _delta(delta, n_silos, n_records)
    one_round = _one_round(sigma_g, n_silos, silo_rate, record_rate, local_steps, view)
    return _renyi.most_repeats(one_round, epsilon, delta)


def noble2022_sigma(
    *,
    epsilon: float,
    delta: float,
    n_silos: int,
    silo_rate: float,
    record_rate: float,
    local_steps: int,
    n_rounds: int,
) -> float:
    """Return the noise scale sigma_g of theorem 4.1, an order of magnitude with the constant 1.

    s sqrt(l T K ln(2 T l / delta) ln(2 / delta)) / (epsilon sqrt(M)). What the theorem then claims
    towards the server is :func:`noble2022_server`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee against an outsider.
    n_silos, silo_rate, record_rate, local_steps, n_rounds
        As in :func:`noble2022`.

    Returns
    -------
    float
        sigma_g.

    See Also
    --------
    noble2022 : The accounting of the paper's experiments, which does not use this formula; it says
        why the library uses neither.
    skdpfl.privacy.noise_multiplier_for : The sound counterpart.

    Examples
    --------
    >>> from skdpfl.privacy.published import noble2022_sigma
    >>> round(noble2022_sigma(epsilon=13, delta=1 / 400_000, n_silos=100, silo_rate=0.2,
    ...                       record_rate=0.2, local_steps=50, n_rounds=400), 2)
    1.52
    """
    delta, rounds = check_share("delta", delta), check_count("n_rounds", n_rounds)
    taking_part = check_rate("silo_rate", silo_rate) * rounds
    if 2 * taking_part <= delta:
        raise ValueError(
            f"silo_rate={silo_rate!r} is not valid; theorem 4.1 needs silo_rate * n_rounds above"
            f" delta / 2 = {delta / 2:.4g}."
        )
    logs = math.log(2 * taking_part / delta) * math.log(2 / delta)
    drawn = check_rate("record_rate", record_rate)
    walk = drawn * math.sqrt(taking_part * check_count("local_steps", local_steps) * logs)
    return walk / (check_positive("epsilon", epsilon) * math.sqrt(check_count("n_silos", n_silos)))


def noble2022_server(
    *, epsilon: float, delta: float, n_silos: int, silo_rate: float
) -> tuple[float, float]:
    """Return the guarantee against the server that theorem 4.1 claims for its noise.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee against an outsider (:func:`noble2022_sigma`).
    n_silos : int
        Number of silos M.
    silo_rate : float
        Fraction l of the silos drawn each round, in (0, 1].

    Returns
    -------
    epsilon : float
        epsilon sqrt(M / l).
    delta : float
        (delta / 2) (1 / l + 1).

    See Also
    --------
    noble2022_sigma : The noise of this theorem.
    skdpfl.privacy.epsilon_of : The sound price against the server.

    Notes
    -----
    **Why this is not what the library reports**: it is an order of magnitude with the constant 1,
    like the noise. Against the server neither the sampling of silos nor the noise of others counts,
    so the loss is larger by these factors; sound accounting of the noise itself gives the number.

    References
    ----------
    As for :func:`noble2022`.

    Examples
    --------
    >>> from skdpfl.privacy.published import noble2022_server
    >>> epsilon, delta = noble2022_server(epsilon=3, delta=1e-5, n_silos=100, silo_rate=0.25)
    >>> epsilon, round(delta, 8)
    (60.0, 2.5e-05)
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_share("delta", delta)
    silos, rate = check_count("n_silos", n_silos), check_rate("silo_rate", silo_rate)
    return epsilon * math.sqrt(silos / rate), delta / 2 * (1 / rate + 1)


#: the largest epsilon of a round that is composed
_LARGEST = 700.0


def noble2022_composed(
    *,
    sigma_g: float,
    n_silos: int,
    n_records: int,
    silo_rate: float,
    record_rate: float,
    local_steps: int,
    n_rounds: int,
    delta: float | None = None,
) -> float:
    """Return the outsider's epsilon by appendix B's closed route: strong composition of rounds.

    A round is converted to (epsilon_a, delta'), amplified by the draw of silos to
    e = ln(1 + l (exp(epsilon_a) - 1)) and l delta', and T rounds are composed::

        e sqrt(2 T ln(1 / delta'')) + T e (exp(e) - 1),      delta = T l delta' + delta''

    The split of delta is the best of a grid.

    Parameters
    ----------
    sigma_g, n_silos, n_records, silo_rate, record_rate, local_steps, n_rounds, delta
        As in :func:`noble2022`.

    Returns
    -------
    float
        Epsilon.

    See Also
    --------
    noble2022 : The route of the paper's experiments, whose Renyi curves are added up.

    Notes
    -----
    **Why this is not what the library reports**: as for :func:`noble2022`; and e is of the order of
    1 to 5 here, where strong composition gains nothing and exp(e) multiplies every round.

    References
    ----------
    As for :func:`noble2022`.

    Examples
    --------
    The FEMNIST experiment, whose printed epsilon is 11.4:

    >>> from skdpfl.privacy.published import noble2022_composed
    >>> epsilon = noble2022_composed(sigma_g=30, n_silos=40, n_records=2000, silo_rate=0.2,
    ...                              record_rate=0.2, local_steps=50, n_rounds=400)
    >>> round(epsilon, -3)
    135000.0
    """
    rounds, delta = check_count("n_rounds", n_rounds), _delta(delta, n_silos, n_records)
    one_round = _steps_of_round(
        sigma_g, n_silos, silo_rate, record_rate, local_steps, view="outsider"
    )
    best = math.inf
    for share in 0.5 ** np.arange(1, 41):
        last = delta * share
        first = min(1.0, (delta - last) / (rounds * silo_rate))
        alone, _ = _renyi.smallest_epsilon(one_round, first)
        if alone > _LARGEST:  # beyond what an exponential can hold
            continue
        drawn = math.log1p(silo_rate * math.expm1(alone))
        walk = drawn * math.sqrt(2 * rounds * math.log(1 / last))
        best = min(best, walk + rounds * drawn * math.expm1(drawn))
    return best


def _delta(delta: float | None, n_silos: int, n_records: int) -> float:
    """Return delta, one over all records unless given."""
    n_all = check_count("n_silos", n_silos) * check_count("n_records", n_records)
    return check_share("delta", 1 / n_all if delta is None else delta)


def _steps_of_round(
    sigma_g: float, n_silos: int, silo_rate: float, record_rate: float, local_steps: int, view: str
) -> Callable[[int], np.ndarray]:
    """Check the arguments; return the curve of one round of a silo that takes part."""
    sigma, steps = check_positive("sigma_g", sigma_g), check_count("local_steps", local_steps)
    silo_rate = check_rate("silo_rate", silo_rate)
    record_rate = check_rate("record_rate", record_rate)
    if check_choice("view", view, ("outsider", "server")) == "outsider":
        sigma *= math.sqrt(silo_rate * n_silos)
    slope = 1 / max(2 * sigma**2, 1e-300)
    return lambda n_orders: (
        steps * _renyi.wang_sampled(_renyi.gaussian_curve(slope, n_orders), record_rate)
    )


def _one_round(
    sigma_g: float, n_silos: int, silo_rate: float, record_rate: float, local_steps: int, view: str
) -> Callable[[int], np.ndarray]:
    """Check the arguments; return the curve of one round, silos drawn."""
    inner = _steps_of_round(sigma_g, n_silos, silo_rate, record_rate, local_steps, view)
    if view == "server":
        return inner
    return lambda n_orders: _renyi.wang_sampled(inner(n_orders), silo_rate)
