"""Bounds for noisy local steps, convex or not: theorems of Noble et al. (2022), with constants.

S = l M silos a round, drawn uniformly, K local steps, T rounds, steps eta_g >= 1 and eta_l, the
effective one h = K eta_g eta_l, u = nu h. Each silo's objective is nu-smooth; a local gradient has
noise of mean 0 and total variance v (batches and privacy, all coordinates), independent of the
others given the past. Phi = F(x) - F*, r = |x - x*|^2, q = (M - S) / ((M - 1) S), which is 0 where
all silos take part. E: the mean of |y - x|^2 over a round's local steps y.

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

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skdpfl._arguments import (
    check_count,
    check_not_negative,
    check_number,
    check_positive,
    check_rate,
)
from skdpfl.algorithms.theory._local_steps import StepSizes


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
    **round_: Any,
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
    **round_
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
    >>> from skdpfl.algorithms.theory import noble2022_fedavg_bound, noble2022_fedavg_steps
    >>> silos = {"n_silos": 16, "silo_rate": 0.25, "local_steps": 10}
    >>> steps = noble2022_fedavg_steps(smoothness=1, dissimilarity=1, **silos)
    >>> bound = noble2022_fedavg_bound(steps, smoothness=1, spread=0, n_rounds=1000, start=1,
    ...                                noise=1, **silos)
    >>> round(bound, 4)
    0.014
    """
    at = _round(steps, 1 / 16, check_positive("smoothness", smoothness), **round_)
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
    **round_: Any,
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
    **round_
        As in :func:`noble2022_fedavg_bound`.

    Returns
    -------
    float
        As for :func:`noble2022_fedavg_bound`. No term depends on how much silos differ.

    Examples
    --------
    >>> from skdpfl.algorithms.theory import noble2022_scaffold_bound, noble2022_scaffold_steps
    >>> silos = {"n_silos": 16, "silo_rate": 0.25, "local_steps": 10}
    >>> steps = noble2022_scaffold_steps(smoothness=1, **silos)
    >>> bound = noble2022_scaffold_bound(steps, smoothness=1, n_rounds=1000, start=1, noise=1,
    ...                                  **silos)
    >>> round(bound, 4)
    0.0372
    """
    nu = check_positive("smoothness", smoothness)
    at = _round(steps, 1 / 24, nu, **round_)
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
    steps: StepSizes, largest: float, smoothness: float, *, n_silos: int, silo_rate: float,
    local_steps: int, noise: float,
) -> _OfRound:  # fmt: skip
    """Check the arguments; ``largest`` is the largest u."""
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
