"""Convergence bounds of Chang, Seif and Tandon (CISS 2022): theorem 3 and its corollaries.

For a convex loss the mean excess loss after R rounds is at most, with the effective step
h = tau eta_g eta_l and the initial distance D0 = |w_0 - w*|::

    gap(h) <= A h + D0^2 / (R h),   so   h* = D0 / sqrt(R A),   gap(h*) = 2 D0 sqrt(A / R)
    A = 11 K C0 / (S R) + 15 (1 + tau / eta_g^2) s_g^2 / (tau S B) + (K / (S R)) sum_r noise_r
    noise_r = (16 / tau) sum_t v_rt + drift_r

    theorem      drift_r = 1 / (25 eta_g^2 tau^3) sum_t sum_{i<t} (1 + 1 / (tau-1))^i v_r(t-i)
    corollaries  drift_r = 3 / (25 eta_g^2 tau) times the mean of v_rt over t; where it changes
                 within the round, without the last tau (as printed for scheme 2)

v_rt: the total noise variance (all coordinates) of local step t in round r. The corollaries are
upper bounds of the theorem. The step needs eta_l <= 1 / (81 tau eta_g smoothness), that is
h <= 1 / (81 smoothness).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl._arguments import check_choice, check_count, check_not_negative, check_positive


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
    form: str = "theorem",
) -> ConvergenceBound:
    """Return the paper's bound on the excess loss for any noise, and the step that minimises it.

    The constants (distance, drift, variance) depend on the records: no estimator uses the bound.

    Parameters
    ----------
    variances : array-like of shape (n_rounds, local_steps) or (n_silos, n_rounds, local_steps)
        The noise variance per coordinate of every local step, as :func:`chang2022_variances` lists
        it; the same in all silos, or that of each. The theorem depends on their mean.
    n_silos, silos_per_round : int
        K and S.
    batch : int
        Records B in a minibatch.
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
    form : {"theorem", "corollaries"}, default="theorem"
        Theorem 3, or its corollaries, which the paper plots: larger by less than a hundredth there.

    Returns
    -------
    ConvergenceBound
        The factor A, the effective and the local step, and the bound.

    See Also
    --------
    chang2022 : The epsilon of the same noise.

    Examples
    --------
    >>> from skdpfl.privacy.published import chang2022_convergence, chang2022_variances
    >>> v = chang2022_variances(scheme=1, sigma0_squared=8, beta=0.998, start=200, n_rounds=700,
    ...                         local_steps=200)
    >>> bound = chang2022_convergence(v, n_silos=40, silos_per_round=8, batch=500, distance=1,
    ...                               drift=1, gradient_variance=0, global_step=2)
    >>> round(bound.gap, 3)
    1.641
    """
    try:
        v = np.asarray(variances, dtype=np.float64)
    except (TypeError, ValueError):
        v = np.array(np.nan)
    known = v.ndim == 2 or (v.ndim == 3 and len(v) == n_silos)
    if not known or not v.size or not (np.isfinite(v) & (v >= 0)).all():
        raise ValueError(
            "variances must be finite numbers >= 0 of shape (n_rounds, local_steps), in front of "
            f"them n_silos where each has its own; got shape {v.shape}."
        )
    v = v if v.ndim == 2 else v.mean(axis=0)
    n_rounds, tau = v.shape
    sampled = check_count("silos_per_round", silos_per_round, high=check_count("n_silos", n_silos))
    if check_positive("global_step", global_step) < 1:
        raise ValueError(f"global_step={global_step!r} is not valid; it must be at least 1.")
    theorem = check_choice("form", form, ("theorem", "corollaries")) == "theorem"
    drifted = (_drift_of_theorem if theorem else _drift_of_corollaries)(v) / (25 * global_step**2)
    noise = float(16 * v.mean() + drifted) * check_count("n_parameters", n_parameters)
    distance = check_positive("distance", distance)
    factor = (
        11 * n_silos * check_not_negative("drift", drift) / (sampled * n_rounds)
        + 15 * (1 + tau / global_step**2)
        * check_not_negative("gradient_variance", gradient_variance)
        / (tau * sampled * check_count("batch", batch))
        + n_silos / sampled * noise
    )  # fmt: skip
    step = _best_step(factor, distance, n_rounds, smoothness)
    gap = factor * step + distance**2 / (n_rounds * step)
    return ConvergenceBound(factor, step, step / (tau * global_step), gap)


def _drift_of_theorem(v: np.ndarray) -> float:
    """Return the double sum over tau^3, averaged over the rounds.

    Step t - i enters with (1 + 1 / (tau-1))^i for every t: step u of tau has tau - u + 1 terms.
    """
    tau = v.shape[1]
    growth, left = 1 + 1 / max(tau - 1, 1), np.arange(tau, 0, -1)
    grown = (growth**left - 1) / (growth - 1) if tau > 1 else np.ones(1)
    return float((v @ grown).mean() / tau**3)


def _drift_of_corollaries(v: np.ndarray) -> float:
    """Return 3 / tau times a round's variance, 3 times where it changes within the round."""
    steady = np.ptp(v, axis=1) == 0
    return float((3 * v.mean(axis=1) / np.where(steady, v.shape[1], 1)).mean())


def _best_step(factor: float, distance: float, n_rounds: int, smoothness: float | None) -> float:
    """Return h*, or the largest allowed step if that is smaller."""
    best = distance / math.sqrt(n_rounds * factor) if factor > 0 else math.inf
    if smoothness is not None:
        best = min(best, 1 / (81 * check_positive("smoothness", smoothness)))
    if best == math.inf:
        raise ValueError("smoothness=None is not valid without noise, drift and variance.")
    return best
