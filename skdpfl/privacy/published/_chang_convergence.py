"""Convergence bounds of Chang, Seif and Tandon (CISS 2022): theorem 3 and its corollaries.

For a convex loss the mean excess loss after R rounds is at most, with the effective step
h = tau eta_g eta_l and the initial distance D0 = |w_0 - w*|::

    gap(h) <= A h + D0^2 / (R h),   so   h* = D0 / sqrt(R A),   gap(h*) = 2 D0 sqrt(A / R)
    A = 11 K C0 / (S R) + 15 (1 + tau / eta_g^2) s_g^2 / (tau S B) + noise
    noise, with c = 3 / (25 eta_g^2) and v = the total noise variance (all coordinates)
        scheme 0   (K / S) (16 + c / tau) v
        scheme 1   (K / (S R)) (16 + c / tau) (R_th + sum_{m=1..R-R_th} beta^m) v
        scheme 2   (K R_th / (S R)) (16 + c / tau) v
                   + (K / (tau S R)) (16 + c) (1 - beta^(tau (R - R_th))) / (1 - beta) v

        theorem 3  any variances v_rt of local step t = 1..tau in round r, the same in all silos:
                   (K / (S R)) sum_r [ (16 / tau) sum_t v_rt
                       + 1 / (25 eta_g^2 tau^3) sum_t sum_{i<t} (1 + 1 / (tau-1))^i v_r(t-i) ]

The last term of scheme 2 has c, not c / tau, as printed: larger than what theorem 3 gives, hence
valid.
The step needs eta_l <= 1 / (81 tau eta_g smoothness), that is h <= 1 / (81 smoothness).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl._arguments import check_count, check_not_negative, check_positive
from skdpfl.privacy.published._chang_schedule import Schedule, geometric_sum


@dataclass(frozen=True)
class ConvergenceBound:
    """A bound of the form gap(h) <= factor * h + distance^2 / (n_rounds * h).

    Attributes
    ----------
    factor : float
        A in the formula.
    effective_step : float
        The best h allowed: local_steps * global step * local step.
    local_step : float
        The local learning rate with this effective step.
    gap : float
        The bound on the mean excess loss at that step.
    """

    factor: float
    effective_step: float
    local_step: float
    gap: float


def chang2022_convergence(
    *,
    scheme: int,
    sigma0_squared: float,
    beta: float = 1.0,
    start: int = 0,
    n_rounds: int,
    local_steps: int,
    n_silos: int,
    silos_per_round: int,
    batch: int,
    distance: float,
    drift: float,
    gradient_variance: float,
    global_step: float = 1.0,
    n_parameters: int = 1,
    smoothness: float | None = None,
) -> ConvergenceBound:
    """Return the corollaries' bound on the excess loss and the step that minimises it.

    Parameters
    ----------
    scheme, sigma0_squared, beta, start, n_rounds, local_steps, batch
        As in :func:`chang2022`.
    n_silos, silos_per_round : int
        K and S.
    distance : float
        D0, distance from the start to the optimum.
    drift : float
        C0, the initial error of the control variates.
    gradient_variance : float
        s_g^2, the variance of one record's gradient.
    global_step : float, default=1.0
        eta_g, at least 1.
    n_parameters : int, default=1
        Coordinates that receive noise: the bound needs the total variance d * sigma^2, while the
        paper's plots use sigma0^2 alone, which is ``n_parameters=1``.
    smoothness : float, optional
        Where given, the step is kept below 1 / (81 * smoothness), as theorem 3 requires.

    Returns
    -------
    ConvergenceBound
        The factor A, the effective and the local step, and the bound.

    See Also
    --------
    chang2022 : The epsilon of the same schedule.

    Notes
    -----
    **Why this is not what the library uses**: the constants (distance, drift, variance) depend on
    the records and could only be computed without privacy.

    References
    ----------
    W.-T. Chang, M. Seif and R. Tandon, "Differentially Private Federated Learning with Drift
    Control", CISS 2022, theorem 3 and its corollaries.

    Examples
    --------
    >>> from skdpfl.privacy.published import chang2022_convergence
    >>> bound = chang2022_convergence(
    ...     scheme=0, sigma0_squared=8, n_rounds=700, local_steps=200, n_silos=40,
    ...     silos_per_round=8, batch=500, distance=1, drift=1, gradient_variance=0,
    ...     global_step=2)
    >>> round(bound.gap, 4)
    1.9125
    """
    schedule = Schedule(scheme, beta, start, n_rounds, local_steps)
    check_positive("global_step", global_step)
    variance = check_not_negative("sigma0_squared", sigma0_squared)
    noise = variance * _noise(schedule, 3 / (25 * global_step**2))
    return _bound(
        noise * check_count("n_parameters", n_parameters), n_rounds, local_steps, n_silos,
        silos_per_round, batch, distance, drift, gradient_variance, global_step, smoothness,
    )  # fmt: skip


def chang2022_theorem3(
    variances: Any,
    *,
    n_silos: int,
    silos_per_round: int,
    batch: int,
    distance: float,
    drift: float,
    gradient_variance: float,
    global_step: float = 1.0,
    n_parameters: int = 1,
    smoothness: float | None = None,
) -> ConvergenceBound:
    """Return theorem 3's bound on the excess loss for any noise, and the step that minimises it.

    Parameters
    ----------
    variances : array-like of shape (n_rounds, local_steps)
        The noise variance per coordinate of every local step, as :func:`chang2022_variances` lists
        it; the same in all silos.
    n_silos, silos_per_round, batch, distance, drift, gradient_variance, global_step, n_parameters
        As in :func:`chang2022_convergence`.
    smoothness : float, optional
        As in :func:`chang2022_convergence`.

    Returns
    -------
    ConvergenceBound
        The factor A, the effective and the local step, and the bound.

    See Also
    --------
    chang2022_convergence : The corollaries for the paper's schedules, which are no smaller.

    References
    ----------
    W.-T. Chang, M. Seif and R. Tandon, "Differentially Private Federated Learning with Drift
    Control", CISS 2022, theorem 3.

    Examples
    --------
    >>> from skdpfl.privacy.published import chang2022_theorem3, chang2022_variances
    >>> v = chang2022_variances(scheme=1, sigma0_squared=8, beta=0.998, start=200, n_rounds=700,
    ...                         local_steps=200)
    >>> bound = chang2022_theorem3(v, n_silos=40, silos_per_round=8, batch=500, distance=1,
    ...                            drift=1, gradient_variance=0, global_step=2)
    >>> round(bound.gap, 3)
    1.641
    """
    v = np.asarray(variances, dtype=np.float64)
    if v.ndim != 2 or not v.size or not (np.isfinite(v) & (v >= 0)).all():
        raise ValueError(
            "variances must be finite numbers >= 0 of shape (n_rounds, local_steps); got "
            f"shape {v.shape}."
        )
    tau, growth = v.shape[1], 1 + 1 / max(v.shape[1] - 1, 1)
    # step t - i enters with growth^i for every t: a step u of tau has tau - u + 1 such terms
    left = np.arange(tau, 0, -1)
    grown = (growth**left - 1) / (growth - 1) if tau > 1 else np.ones(1)
    drifted = (v @ grown).mean() / (25 * check_positive("global_step", global_step) ** 2 * tau**3)
    noise = float(16 * v.mean() + drifted) * check_count("n_parameters", n_parameters)
    return _bound(
        noise, len(v), tau, n_silos, silos_per_round, batch, distance, drift, gradient_variance,
        global_step, smoothness,
    )  # fmt: skip


def _bound(
    noise: float,
    n_rounds: int,
    local_steps: int,
    n_silos: int,
    silos_per_round: int,
    batch: int,
    distance: float,
    drift: float,
    gradient_variance: float,
    global_step: float,
    smoothness: float | None,
) -> ConvergenceBound:
    """Return the bound whose noise term is (K / S) times ``noise``."""
    n_silos = check_count("n_silos", n_silos)
    sampled = check_count("silos_per_round", silos_per_round, high=n_silos)
    batch = check_count("batch", batch)
    distance = check_positive("distance", distance)
    drift = check_not_negative("drift", drift)
    gradient_variance = check_not_negative("gradient_variance", gradient_variance)
    if global_step < 1:
        raise ValueError(f"global_step={global_step!r} is not valid; it must be at least 1.")
    factor = (
        11 * n_silos * drift / (sampled * n_rounds)
        + 15 * (1 + local_steps / global_step**2) * gradient_variance
        / (local_steps * sampled * batch)
        + n_silos / sampled * noise
    )  # fmt: skip
    step = _best_step(factor, distance, n_rounds, smoothness)
    gap = factor * step + distance**2 / (n_rounds * step)
    return ConvergenceBound(factor, step, step / (local_steps * global_step), gap)


def _best_step(factor: float, distance: float, n_rounds: int, smoothness: float | None) -> float:
    """Return h*, or the largest allowed step if that is smaller."""
    best = distance / math.sqrt(n_rounds * factor) if factor > 0 else math.inf
    if smoothness is not None:
        best = min(best, 1 / (81 * check_positive("smoothness", smoothness)))
    if best == math.inf:
        raise ValueError("smoothness=None is not valid without noise, drift and variance.")
    return best


def _noise(schedule: Schedule, c: float) -> float:
    """Return the noise term over (K / S) v."""
    tau, n_rounds = schedule.local_steps, schedule.n_rounds
    if schedule.scheme == 1:
        kept = schedule.start + schedule.beta * geometric_sum(schedule.beta, schedule.decayed)
        return (16 + c / tau) * kept / n_rounds
    before = (16 + c / tau) * schedule.start / n_rounds
    after = (16 + c) * geometric_sum(schedule.beta, tau * schedule.decayed)
    return before + after / (tau * n_rounds)
