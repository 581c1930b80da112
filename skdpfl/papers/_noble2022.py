"""Noble, Bellet and Dieuleveut (AISTATS 2022): DP-SCAFFOLD and DP-FedAvg on unlike silos.

M. Noble, A. Bellet and A. Dieuleveut, "Differentially Private Federated Learning on Heterogeneous
Data", AISTATS 2022. Here: its accounting (theorem 4.1, section 5, appendix B), its steps and
weights (theorems C.1, C.2) and its rates (theorem 4.2, lemma C.8) with constants.

**Accounting.** With M silos of R records, a fraction l of the silos a round, a fraction s of the
records a step, K steps a round, T rounds, and noise of standard deviation 2 C sigma_g / (s R) on
the mean clipped gradient (sigma_g is relative to the replace-one sensitivity 2 C / (s R))::

    sigma_a  = sigma_g sqrt(l M)   towards an outsider,   sigma_g   towards the server
    inner(a) = K wang(s, j -> j / (2 sigma_a^2))(a)
    outer(a) = T wang(l, inner)(a) towards an outsider,   T inner(a) towards the server
    epsilon  = min_a outer(a) + ln(1/delta) / (a-1),      delta = 1 / (M R) unless given

**Steps and weights.** For M silos, a fraction l of them a round, K local steps on a fraction s of
the records, losses of smoothness nu, gradients with (1/M) sum |grad F_i|^2 <= G^2 + B^2 |grad F|^2
and B >= 1 (assumption 4)::

    SCAFFOLD     eta_g = sqrt(l M),  eta_l = l^(2/3) / (24 nu K eta_g)        (convex)
                                     or l / (54 mu K eta_g), if smaller       (mu-strongly convex)
    FedAvg       eta_g = sqrt(l M),  eta_l = 1 / (8 (1 + B^2) nu K eta_g)
    experiments  eta_g = 1,          eta_l = eta_0 / (s K)

**Rates.** S = l M silos a round, drawn uniformly, K local steps, T rounds, steps eta_g >= 1 and
eta_l, the effective one h = K eta_g eta_l, u = nu h. Each silo's objective is nu-smooth; a local
gradient has noise of mean 0 and total variance v (batches and privacy, all coordinates),
independent of the others given the past. Phi = F(x) - F*, r = |x - x*|^2, q = (M - S) / ((M - 1)
S), which is 0 where all silos take part. E: the mean of |y - x|^2 over a round's local steps y.

**FedAvg**, with (1/M) sum |grad F_i|^2 <= G^2 + B^2 |grad F|^2, where Phi is at hand by
|grad F|^2 <= 2 nu Phi::

    E           <= (h/eta_g)^2 (2.75 (G^2 + B^2 |grad F|^2) + 1.375 v/K)
    E|x' - x|^2 <= h^2 (4 nu^2 E + 4 |grad F|^2 + 4 q (G^2 + B^2 |grad F|^2) + 2 v/(K S))
    convex      r' <= (1 - mu h/2) r - 2 h Phi + 2 nu h E + |x' - x|^2
    otherwise   F(x') <= F(x) - (h/2) |grad F|^2 + (nu^2 h/2) E + (nu/2) |x' - x|^2

**SCAFFOLD**, convex, C = (1/M) sum |c_i - grad F_i(x*)|^2::

    E           <= (h/eta_g)^2 (4.125 (2 nu Phi + C) + 1.375 v/K)
    E|x' - x|^2 <= 4 h^2 (nu^2 E + 2 nu Phi + q C + v/(K S))
    C'          <= (1 - l) C + 3 l (nu^2 E + 2 nu Phi + v/K)

and r + kappa h^2 C / (l S) falls as r does above, for the least kappa that makes C's factor at most
1 - mu h/2. Not convex, C = (1/M) sum |c_i - grad F_i(x)|^2, and F(x) + kappa C falls, kappa being
the least at which C drops out::

    E           <= (h/eta_g)^2 (4.125 (|grad F|^2 + C) + 1.375 v/K)
    E|x' - x|^2 <= 4 h^2 (nu^2 E + |grad F|^2 + q C + v/(K S))
    C'          <= (1 - l/2) C + 3 l (nu^2 E + v/K) + (3/l) nu^2 E|x' - x|^2

Inserted into each other, all of these read ``a_phi h Phi <= (1 - mu h/2) V - V' + b``.
With weights (1 - mu h/2)^-(t+1) the sum over the rounds telescopes::

    weighted mean of Phi <= (V_0 / (h sum of weights) + b/h) / a_phi

Not convex, the mean of |grad F|^2 over the rounds instead, V_0 = F(x_0) - inf F.

*Proofs.* Drift: a local step is y' = y - eta_l (g + z), and |y' - x|^2 is in the mean at most
(1 + 1/(K-1)) |y - x|^2 + K eta_l^2 |g|^2 + eta_l^2 v. For FedAvg |g|^2 <= 2 nu^2 |y - x|^2 +
2 |grad F_i(x)|^2. For SCAFFOLD, g = grad F_i(y) - c_i + c, the mean over silos is at most
3 (nu^2 |y - x|^2 + 2 nu Phi + C): that of |grad F_i(x) - grad F_i(x*)|^2 is at most 2 nu Phi, and
that of |c_i - grad F_i(x*) - c|^2 is the variance of c_i - grad F_i(x*), at most C. As
K eta_l nu <= u <= 1/16, resp. 1/24, the factor of |y - x|^2 to the K-1 is below 2.75, and the mean
of k < K is (K-1)/2. Convexity: <grad F_i(y), x* - x> <= F_i(x*) - F_i(x) - (mu/4) |x - x*|^2 +
nu |y - x|^2. Moves: noises of S K steps have a mean of variance v/(K S), S silos without
replacement one of q times the variance over all silos; the mean of the c_i - c is 0. The last C':
|a + b|^2 <= (1 + l/2) |a|^2 + (1 + 2/l) |b|^2, b the change of grad F_i, at most nu |x' - x|.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_rate,
    check_share,
)
from skdpfl.papers import _renyi


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

    >>> from skdpfl.papers import noble2022
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
    >>> from skdpfl.papers import noble2022_rounds
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
    >>> from skdpfl.papers import noble2022_sigma
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
    rate = check_rate("record_rate", record_rate)
    walk = rate * math.sqrt(taking_part * check_count("local_steps", local_steps) * logs)
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
    >>> from skdpfl.papers import noble2022_server
    >>> epsilon, delta = noble2022_server(epsilon=3, delta=1e-5, n_silos=100, silo_rate=0.25)
    >>> epsilon, round(delta, 8)
    (60.0, 2.5e-05)
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_share("delta", delta)
    silos, rate = check_count("n_silos", n_silos), check_rate("silo_rate", silo_rate)
    return epsilon * math.sqrt(silos / rate), delta / 2 * (1 / rate + 1)


#: the largest epsilon of a round that is composed
_LARGEST_EPSILON = 700.0


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

    >>> from skdpfl.papers import noble2022_composed
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
        if alone > _LARGEST_EPSILON:  # beyond what an exponential can hold
            continue
        amplified = math.log1p(silo_rate * math.expm1(alone))
        walk = amplified * math.sqrt(2 * rounds * math.log(1 / last))
        best = min(best, walk + rounds * amplified * math.expm1(amplified))
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


@dataclass(frozen=True)
class StepSizes:
    """A pair of learning rates.

    Attributes
    ----------
    global_step : float
        eta_g: the server's step along the mean of the silos' updates.
    local_step : float
        eta_l: a silo's step along its mean gradient.
    """

    global_step: float
    local_step: float


def noble2022_scaffold_steps(
    *,
    smoothness: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    strong_convexity: float = 0.0,
) -> StepSizes:
    """Return the steps of the convergence theorem of DP-SCAFFOLD, convex losses.

    Parameters
    ----------
    smoothness : float
        nu: Lipschitz constant of the gradients.
    n_silos : int
        M.
    silo_rate : float
        l, the fraction of silos of a round, in (0, 1].
    local_steps : int
        K.
    strong_convexity : float, default=0.0
        mu.

    Examples
    --------
    >>> from skdpfl.papers import noble2022_scaffold_steps
    >>> steps = noble2022_scaffold_steps(smoothness=0.5, n_silos=32, silo_rate=0.125,
    ...                                  local_steps=10)
    >>> steps.global_step, round(steps.local_step, 5)
    (2.0, 0.00104)
    """
    smoothness, global_step, steps = _common(smoothness, n_silos, silo_rate, local_steps)
    local = silo_rate ** (2 / 3) / (24 * smoothness * steps * global_step)
    if check_not_negative("strong_convexity", strong_convexity):
        local = min(local, silo_rate / (54 * strong_convexity * steps * global_step))
    return StepSizes(global_step, local)


def noble2022_fedavg_steps(
    *,
    smoothness: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    dissimilarity: float,
) -> StepSizes:
    """Return the steps of the convergence theorem of DP-FedAvg.

    Parameters
    ----------
    smoothness, n_silos, silo_rate, local_steps
        As in :func:`noble2022_scaffold_steps`.
    dissimilarity : float
        B, of the bounded-dissimilarity assumption above: at least 1, as the theorem has it.

    Examples
    --------
    >>> from skdpfl.papers import noble2022_fedavg_steps
    >>> noble2022_fedavg_steps(smoothness=0.5, n_silos=16, silo_rate=0.25, local_steps=10,
    ...                        dissimilarity=1)
    StepSizes(global_step=2.0, local_step=0.00625)
    """
    smoothness, global_step, steps = _common(smoothness, n_silos, silo_rate, local_steps)
    spread = 1 + check_number("dissimilarity", dissimilarity, low=1, open_high=True) ** 2
    return StepSizes(global_step, 1 / (8 * spread * smoothness * steps * global_step))


def noble2022_local_step(*, step: float, record_rate: float, local_steps: int) -> float:
    """Return the local step of the paper's experiments, eta_0 / (s K).

    Parameters
    ----------
    step : float
        eta_0, the number the paper tunes.
    record_rate : float
        s, the fraction of records of a local step, in (0, 1].
    local_steps : int
        K.

    Examples
    --------
    >>> from skdpfl.papers import noble2022_local_step
    >>> noble2022_local_step(step=1.0, record_rate=0.2, local_steps=50)
    0.1
    """
    step = check_positive("step", step)
    rate = check_rate("record_rate", record_rate)
    return step / (rate * check_count("local_steps", local_steps))


def noble2022_weights(
    steps: StepSizes, *, strong_convexity: float, local_steps: int, n_rounds: int
) -> np.ndarray:
    """Return the weights of the theorem's output for strongly convex losses.

    Proportional to (1 - mu eta_g eta_l K / 2)^-t, as in the proof for SCAFFOLD.

    Parameters
    ----------
    steps : StepSizes
        From :func:`noble2022_scaffold_steps`.
    strong_convexity : float
        mu.
    local_steps, n_rounds : int
        K and T.

    Returns
    -------
    ndarray of shape (n_rounds,)
        The weight, summing to 1, of the parameters *before* each round.

    Examples
    --------
    >>> from skdpfl.papers import StepSizes, noble2022_weights
    >>> noble2022_weights(StepSizes(1.0, 0.5), strong_convexity=1.0, local_steps=2, n_rounds=2)
    array([0.33333333, 0.66666667])
    """
    _check_steps(steps)
    effective = steps.global_step * steps.local_step * check_count("local_steps", local_steps)
    shrink = check_positive("strong_convexity", strong_convexity) * effective / 2
    if shrink >= 1:
        raise ValueError(f"{steps!r} are not valid: mu eta_g eta_l K / 2 = {shrink:.3g} >= 1.")
    from_last = np.arange(1 - check_count("n_rounds", n_rounds), 1)
    weights = np.exp(-from_last * math.log1p(-shrink))
    return weights / weights.sum()


def _common(
    smoothness: float, n_silos: int, silo_rate: float, local_steps: int
) -> tuple[float, float, int]:
    """Check the arguments; return the smoothness, sqrt(l M) and K."""
    smoothness = check_positive("smoothness", smoothness)
    taking_part = check_rate("silo_rate", silo_rate) * check_count("n_silos", n_silos)
    return smoothness, math.sqrt(taking_part), check_count("local_steps", local_steps)


def _check_steps(steps: Any) -> None:
    if not isinstance(steps, StepSizes):
        raise TypeError(f"steps must be StepSizes(global_step, local_step); got {steps!r:.80}.")


class _OfRound(NamedTuple):
    """S, l, h and u of a round, 1 / eta_g^2, q, and the noises' variances v / K and v / (K S)."""

    silos: float
    share: float
    h: float
    u: float
    shrink: float
    q: float
    own: float
    mean: float


def noble2022_fedavg_bound(
    steps: StepSizes,
    *,
    smoothness: float,
    spread: float,
    dissimilarity: float = 1.0,
    strong_convexity: float = 0.0,
    convex: bool = True,
    n_rounds: int,
    start: float,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    noise: float,
) -> float:
    """Return a bound on the mean excess objective (if not convex, |grad F|^2) of DP-FedAvg.

    Parameters
    ----------
    steps : StepSizes
        Such as those of :func:`noble2022_fedavg_steps`; eta_g at least 1.
    smoothness : float
        nu.
    spread, dissimilarity : float
        G and B of the assumption (1/M) sum |grad F_i|^2 <= G^2 + B^2 |grad F|^2.
    strong_convexity : float, default=0.0
        mu.
    convex : bool, default=True
        Whether all silos' objectives are convex.
    n_rounds : int
        T.
    start : float
        |x_0 - x*|^2; not convex, F(x_0) - inf F.
    n_silos, silo_rate, local_steps, noise
        ``n_silos`` M, ``silo_rate`` l, ``local_steps`` K, and ``noise`` v: the variance of a local
        step's gradient over all coordinates, such as :func:`gradient_variance` of one silo.

    Returns
    -------
    float
        For the weighted mean of the models before each round (:func:`noble2022_weights`), or, not
        convex, for one of them drawn uniformly.

    Notes
    -----
    The terms of the theorem, with constants that are proved here: start / (h T),
    h (v / (K S) + q G^2), and h^2 nu G^2 / eta_g^2, the silos' drift.

    Examples
    --------
    >>> from skdpfl.papers import noble2022_fedavg_bound, noble2022_fedavg_steps
    >>> silos = {"n_silos": 16, "silo_rate": 0.25, "local_steps": 10}
    >>> steps = noble2022_fedavg_steps(smoothness=1, dissimilarity=1, **silos)
    >>> bound = noble2022_fedavg_bound(steps, smoothness=1, spread=0, n_rounds=1000, start=1,
    ...                                noise=1, **silos)
    >>> round(bound, 4)
    0.014
    """
    nu = check_positive("smoothness", smoothness)
    at = _round(steps, 1 / 16, nu, (n_silos, silo_rate, local_steps), noise)
    G, B = check_not_negative("spread", spread), check_positive("dissimilarity", dissimilarity)
    drift = 2.75 * G**2 + 1.375 * at.own
    moved = at.h**2 * (4 * at.q * G**2 + 2 * at.mean)
    if convex:
        e = 2 * at.u + 4 * at.u**2
        gain = 2 - 8 * at.u * (1 + at.q * B**2) - 5.5 * e * at.u * B**2 * at.shrink
        paid = moved + e * at.h**2 * at.shrink * drift
    else:
        e = (0.5 + 2 * at.u) * at.u**2 * at.shrink
        gain = 0.5 - 2 * at.u * (1 + at.q * B**2) - 2.75 * e * B**2
        paid = smoothness / 2 * moved + e * at.h * drift
    return _telescoped(steps, start, paid, gain, at.h, strong_convexity * convex, n_rounds)


def noble2022_scaffold_bound(
    steps: StepSizes,
    *,
    smoothness: float,
    strong_convexity: float = 0.0,
    convex: bool = True,
    n_rounds: int,
    start: float,
    control_error: float | None = None,
    n_silos: int,
    silo_rate: float,
    local_steps: int,
    noise: float,
) -> float:
    """Return a bound on the mean excess objective (if not convex, |grad F|^2) of DP-SCAFFOLD.

    Parameters
    ----------
    steps : StepSizes
        Such as those of :func:`noble2022_scaffold_steps`; eta_g at least 1.
    smoothness, strong_convexity, convex, n_rounds, start
        As in :func:`noble2022_fedavg_bound`.
    control_error : float, optional
        C at the start. If None, that of a warm start of K gradients at x_0 in every silo: at most
        nu^2 start + v / K, and v / K if not convex.
    n_silos, silo_rate, local_steps, noise
        As in :func:`noble2022_fedavg_bound`.

    Returns
    -------
    float
        As for :func:`noble2022_fedavg_bound`. No term depends on how much silos differ.

    Examples
    --------
    >>> from skdpfl.papers import noble2022_scaffold_bound, noble2022_scaffold_steps
    >>> silos = {"n_silos": 16, "silo_rate": 0.25, "local_steps": 10}
    >>> steps = noble2022_scaffold_steps(smoothness=1, **silos)
    >>> bound = noble2022_scaffold_bound(steps, smoothness=1, n_rounds=1000, start=1, noise=1,
    ...                                  **silos)
    >>> round(bound, 4)
    0.0372
    """
    nu = check_positive("smoothness", smoothness)
    at = _round(steps, 1 / 24, nu, (n_silos, silo_rate, local_steps), noise)
    mu = check_not_negative("strong_convexity", strong_convexity) * convex
    if control_error is None:
        control_error = nu**2 * start * convex + at.own
    control_error = check_not_negative("control_error", control_error)
    kappa, gain, paid = (_convex_controls if convex else _controls)(at, nu, mu)
    return _telescoped(steps, start + kappa * control_error, paid, gain, at.h, mu, n_rounds)


def _convex_controls(at: _OfRound, nu: float, mu: float) -> tuple[float, float, float]:
    """Return the coefficient of C relative to that of r, and a and b."""
    drift, near = 2 * at.u + 4 * at.u**2, at.silos * at.shrink
    kappa = 4 * at.q * at.silos + 4.125 * drift * near
    kappa /= 1 - mu * at.h / (2 * at.share) - 12.375 * at.u**2 * at.shrink
    drift += 3 * kappa * at.u**2 / at.silos
    gain = 2 - 8 * at.u - 6 * kappa * at.u / at.silos - 8.25 * drift * at.u * at.shrink
    paid = at.h**2 * at.mean * (4 + 3 * kappa + 1.375 * drift * near)
    return kappa * at.h**2 / (at.share * at.silos), gain, paid


def _controls(at: _OfRound, nu: float, mu: float) -> tuple[float, float, float]:
    """Return the coefficient of C relative to that of F, and a and b."""
    apart, walk = at.h**2 * at.shrink, 4 * at.h**2  # E is apart (4.125 (..) + 1.375 v/K)
    of_c = walk * (4.125 * nu**2 * apart + at.q)
    least = nu**2 * at.h / 2 * 4.125 * apart + nu / 2 * of_c
    left = at.share / 2 - 3 * nu**2 * (4.125 * at.share * apart + of_c / at.share)
    kappa = least / left if left > 0 else math.inf
    drift = nu**2 * at.h / 2 + 3 * at.share * kappa * nu**2
    moved = walk * (nu / 2 + 3 * kappa * nu**2 / at.share)
    gain = 0.5 - (drift * 4.125 * apart + moved * (1 + 4.125 * nu**2 * apart)) / at.h
    paid = (drift + moved * nu**2) * 1.375 * apart * at.own + moved * at.mean
    return kappa, gain, paid + 3 * at.share * kappa * at.own


def _round(
    steps: StepSizes,
    largest: float,
    smoothness: float,
    of_silos: tuple[int, float, int],
    noise: float,
) -> _OfRound:
    """Check the arguments; ``largest`` is the largest u."""
    n_silos, silo_rate, local_steps = of_silos
    _check_steps(steps)
    M, share = check_count("n_silos", n_silos), check_rate("silo_rate", silo_rate)
    K, v = check_count("local_steps", local_steps), check_not_negative("noise", noise)
    S = max(1.0, share * M)
    h = K * check_number("global_step", steps.global_step, low=1) * steps.local_step
    if smoothness * h > largest * (1 + 1e-9):
        raise ValueError(f"{steps!r} are not valid: nu K eta_g eta_l is above {largest:.4g}.")
    q = (M - S) / ((M - 1) * S) if M > 1 else 0.0
    return _OfRound(
        S, share, h, smoothness * h, 1 / steps.global_step**2, q, v / K, v / (K * S)
    )  # fmt: skip


def _telescoped(
    steps: StepSizes, start: float, paid: float, gain: float, h: float, mu: float, n_rounds: int
) -> float:
    """Return (V_0 / (h sum of weights) + b / h) / a, infinite if no step of the proof gains."""
    if not gain > 0:
        raise ValueError(f"{steps!r} are not valid: too long for the theorem.")
    rounds = np.arange(1, check_count("n_rounds", n_rounds) + 1)
    weights = np.exp(-rounds * math.log1p(-mu * h / 2)).sum()
    return float((check_not_negative("start", start) / (h * weights) + paid / h) / gain)
