"""Chang, Seif and Tandon (CISS 2022): DP-SCAFFOLD with decaying noise.

W.-T. Chang, M. Seif and R. Tandon, "Differentially Private Federated Learning with Drift Control",
CISS 2022. p and q: fractions of the silos a round and of the records a step; B = batch; L =
Lipschitz constant (the clipping norm); the replace-one sensitivity of the mean gradient is 2 L / B.

Theorems 1 and 2, with the bracket of the schedule below::

    e(a) = 24 p^2 q^2 L^2 tau / (B^2 sigma0^2) * bracket * a
    for sigma0^2 >= 5, p q <= 0.1, last variance >= 5, a <= last variance * ln(1 / (p q))

"generic", which is what the paper's printed epsilons are: the subsampling theorem of Wang, Balle
and Kasiviswanathan with fraction p q and inner curve a (2L/B)^2 / (2 variance), summed over all
local steps. Both with Mironov's conversion to (epsilon, delta).

**Schedules.** Variance of the noise on the mean minibatch gradient at local step t = 1..tau of
round r = 1..R, with decay beta in (0, 1] and R_th rounds (``start``) before the decay::

    scheme 0   sigma0^2
    scheme 1   sigma0^2 for r <= R_th, then sigma0^2 beta^(r - R_th)
    scheme 2   sigma0^2 for r <= R_th, then sigma0^2 beta^(tau (r - R_th - 1) + t - 1)

(the first decayed round of scheme 1 has one factor beta, the first decayed step of scheme 2 has
none). The theorems' brackets, sums of inverse variances over tau / sigma0^2, with x = 1/beta::

    scheme 0   R
    scheme 1   R_th + sum_{m=1..R-R_th} x^m
    scheme 2   R_th + (1/tau) sum_{j=0..tau(R-R_th)-1} x^j

**Convergence**, theorem 3 and its corollaries. For a convex loss the mean excess loss after R
rounds is at most, with the effective step h = tau eta_g eta_l and the initial distance D0 = |w_0 -
w*|::

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

from skdpfl._arguments import (
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_rate,
    check_share,
)
from skdpfl._warnings import warn
from skdpfl.papers._renyi import gaussian_curve, smallest_epsilon, wang_sampled

SCHEMES = (0, 1, 2)


#: steps that a schedule lists, at most
_MOST_STEPS = 10**8


def geometric_sum(x: float, n_terms: float) -> float:
    """Return sum_{j=0..n-1} x^j, inf where it overflows."""
    if x == 1:
        return float(n_terms)
    x = min(x, 1e300)
    with np.errstate(over="ignore"):
        return float(np.expm1(n_terms * math.log(x)) / (x - 1))


@dataclass(frozen=True)
class Schedule:
    """A checked schedule; ``start`` is set to ``n_rounds`` if nothing decays."""

    scheme: int
    beta: float
    start: int
    n_rounds: int
    local_steps: int

    def __post_init__(self) -> None:
        check_choice("scheme", self.scheme, SCHEMES)
        check_rate("beta", self.beta)
        check_count("start", self.start, low=0)
        rounds = check_count("n_rounds", self.n_rounds)
        steps = check_count("local_steps", self.local_steps)
        if rounds * steps > _MOST_STEPS:
            raise ValueError(
                f"n_rounds * local_steps must be at most {_MOST_STEPS:,}: all are listed."
            )
        if self.scheme == 0 or self.start > self.n_rounds:
            object.__setattr__(self, "start", self.n_rounds)

    @property
    def decayed(self) -> int:
        """The number of rounds with less noise than the first."""
        return self.n_rounds - self.start

    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct variances over the first, in order, and how many steps use each."""
        tau = self.local_steps
        if self.scheme == 1:
            exponents, uses = np.arange(1, self.decayed + 1), np.full(self.decayed, tau)
        else:
            exponents = np.arange(tau * self.decayed)
            uses = np.ones(tau * self.decayed, dtype=int)
        factors = np.concatenate(([1.0], float(self.beta) ** exponents))
        used = np.concatenate(([tau * self.start], uses))
        return factors[used > 0], used[used > 0]

    def bracket(self) -> float:
        """Return the theorems' bracket."""
        x = 1 / self.beta
        if self.scheme == 1:
            return self.start + x * geometric_sum(x, self.decayed)
        return self.start + geometric_sum(x, self.local_steps * self.decayed) / self.local_steps


def chang2022_variances(
    *,
    scheme: int,
    sigma0_squared: float,
    beta: float = 1.0,
    start: int = 0,
    n_rounds: int,
    local_steps: int,
) -> np.ndarray:
    """Return the schedule's noise variances on the mean gradient.

    Parameters
    ----------
    scheme, sigma0_squared, beta, start, n_rounds, local_steps
        As in :func:`chang2022`.

    Returns
    -------
    ndarray of shape (n_rounds, local_steps)
        The variance at every local step of every round.

    See Also
    --------
    chang2022 : The epsilon that the paper's theorem gives.

    Examples
    --------
    >>> from skdpfl.papers import chang2022_variances
    >>> chang2022_variances(scheme=2, sigma0_squared=8, beta=0.5, start=1, n_rounds=3,
    ...                     local_steps=2)
    array([[8., 8.],
           [8., 4.],
           [2., 1.]])
    """
    sigma0_squared = check_positive("sigma0_squared", sigma0_squared)
    factors, uses = Schedule(scheme, beta, start, n_rounds, local_steps).levels()
    return np.repeat(sigma0_squared * factors, uses).reshape(n_rounds, local_steps)


def chang2022_rounds(
    *, scheme: int, beta: float = 1.0, start: int = 0, local_steps: int, constant_rounds: float
) -> int:
    """Return the most rounds whose bracket is at most ``constant_rounds``.

    The round at which, by the theorems, a decaying schedule has the same price as
    ``constant_rounds`` rounds of scheme 0 (at one Renyi order, so at equal epsilon).

    Parameters
    ----------
    scheme, beta, start, local_steps
        As in :func:`chang2022`.
    constant_rounds : float
        Rounds of constant noise to compare with.

    Returns
    -------
    int
        The number of rounds.

    See Also
    --------
    chang2022 : The epsilon that the paper's theorem gives.
    skdpfl.privacy.n_steps_for : The sound counterpart.

    Notes
    -----
    The paper's stops, 497 and 428 rounds against 600, do not follow from its theorems, which
    give 493 and 438.

    Examples
    --------
    >>> from skdpfl.papers import chang2022_rounds
    >>> chang2022_rounds(scheme=1, beta=0.998, start=200, local_steps=50, constant_rounds=600)
    493
    """
    budget = check_positive("constant_rounds", constant_rounds)
    start = check_count("start", start, low=0)
    Schedule(scheme, beta, start, max(1, start), local_steps)
    if scheme == 0 or budget <= start or beta == 1:
        return math.floor(budget)
    x, left, tau = 1 / max(beta, 1e-300), budget - start, local_steps
    if scheme == 1:
        decayed = math.floor(math.log1p(left * (x - 1) / x) / math.log(x))
    else:
        decayed = math.floor(math.log1p(tau * left * (x - 1)) / (tau * math.log(x)))
    # the logarithm may be rounded to the wrong side of an integer
    one_more = Schedule(scheme, beta, start, start + decayed + 1, tau).bracket()
    return start + decayed + (1 if one_more <= budget else 0)


#: smallest variance for which the theorems are stated
SMALLEST_VARIANCE = 5.0


LARGEST_RATE = 0.1


#: the generic bound of a longer schedule is interpolated between this many noise levels
MOST_LEVELS = 1025


def chang2022(
    *,
    scheme: int,
    sigma0_squared: float,
    beta: float = 1.0,
    start: int = 0,
    n_rounds: int,
    local_steps: int,
    silo_rate: float,
    record_rate: float,
    batch: int,
    lipschitz: float,
    delta: float,
    method: str = "theorem",
) -> float:
    """Return the epsilon of DP-SCAFFOLD with time-varying noise as published.

    Parameters
    ----------
    scheme : {0, 1, 2}
        Noise variance constant, decaying each round after ``start``, or each local step.
    sigma0_squared : float
        Noise variance per coordinate of the *mean* minibatch gradient before the decay.
    beta : float, default=1.0
        Decay factor in (0, 1]; not used by scheme 0.
    start : int, default=0
        Rounds before the decay (the paper's R_th); not used by scheme 0.
    n_rounds, local_steps : int
        Rounds R and local steps tau.
    silo_rate, record_rate : float
        Fractions p of the silos a round and q of the records a step, in (0, 1].
    batch : int
        Records in a minibatch, B = q D.
    lipschitz : float
        Lipschitz constant of the loss, L: the clipping norm. The printed epsilons used 1.
    delta : float
        In (0, 1).
    method : {"theorem", "generic"}, default="theorem"
        The closed forms of theorems 1 and 2, or the generic subsampling bound from which the
        paper's printed 7.6769 and 11.5147 come.

    Returns
    -------
    float
        The paper's epsilon.

    Warns
    -----
    UserWarning
        With ``method="theorem"``, one for each of the theorems' conditions that does not hold.

    See Also
    --------
    skdpfl.privacy.epsilon_of : The sound price.
    noble2022 : The same theorem in another paper.

    Notes
    -----
    **Why this is not what the library reports**: both methods multiply the sampling rates of
    silos and records although drawing whole silos does not in general amplify the privacy of one
    record. The generic bound is also loose (7.6769, where sound accounting against the server gives
    0.065).

    References
    ----------
    W.-T. Chang, M. Seif and R. Tandon, "Differentially Private Federated Learning with Drift
    Control", CISS 2022.

    Examples
    --------
    >>> from skdpfl.papers import chang2022
    >>> epsilon = chang2022(scheme=0, sigma0_squared=8, n_rounds=600, local_steps=50,
    ...                     silo_rate=0.2, record_rate=0.2, batch=500, lipschitz=1,
    ...                     delta=1e-5, method="generic")
    >>> round(epsilon, 6)
    7.676927
    """
    schedule = Schedule(scheme, beta, start, n_rounds, local_steps)
    sigma0_squared = check_positive("sigma0_squared", sigma0_squared)
    rate = check_rate("silo_rate", silo_rate) * check_rate("record_rate", record_rate)
    batch = check_count("batch", batch)
    lipschitz = check_positive("lipschitz", lipschitz)
    delta = check_share("delta", delta)
    factors, uses = schedule.levels()
    variances = sigma0_squared * factors
    if check_choice("method", method, ("theorem", "generic")) == "generic":
        return _generic(variances, uses, 2 * lipschitz / batch, rate, delta)
    for failing in _failing(sigma0_squared, float(variances[-1]), rate):
        warn(f"The theorem does not apply: {failing}")
    per_round = 24 * (rate * lipschitz / batch) ** 2 * local_steps / sigma0_squared
    return _theorem(per_round * schedule.bracket(), float(variances[-1]), rate, delta)


def _failing(first: float, last: float, rate: float) -> tuple[str, ...]:
    """Return the theorems' conditions that do not hold; the bound on the order is always kept."""
    failing = []
    if first < SMALLEST_VARIANCE:
        failing.append(f"sigma0_squared is {first:.4g}, below {SMALLEST_VARIANCE:g}.")
    elif last < SMALLEST_VARIANCE:
        failing.append(f"the last variance is {last:.4g}, below {SMALLEST_VARIANCE:g}.")
    if rate > LARGEST_RATE:
        failing.append(f"silo_rate * record_rate is {rate:.4g}, above {LARGEST_RATE:g}.")
    return tuple(failing)


def _theorem(slope: float, last: float, rate: float, delta: float) -> float:
    """Minimise slope * a + ln(1/delta) / (a-1) over the orders the theorem allows."""
    largest = last * math.log(1 / rate)
    if largest <= 1:
        raise ValueError(
            f"The theorem allows orders up to (last variance) * ln(1 / (silo_rate * record_rate))"
            f" = {largest:.4g} only; it must be above 1 for method='theorem'."
        )
    log_inverse = math.log(1 / delta)
    if slope == 0:
        return log_inverse / (largest - 1)
    order = min(largest, 1 + math.sqrt(log_inverse / slope))
    return slope * order + log_inverse / (order - 1)


def _generic(
    variances: np.ndarray, uses: np.ndarray, sensitivity: float, rate: float, delta: float
) -> float:
    """Add the sampled curves of all steps and convert to (epsilon, delta)."""
    if not variances.min() > 0:
        return math.inf
    y, weights = _thinned(sensitivity**2 / (2 * variances), uses.astype(np.float64))

    def curve(n_orders: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            return weights @ wang_sampled(gaussian_curve(y, n_orders), rate)

    return smallest_epsilon(curve, delta)[0]


def _thinned(y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split each weight between the two nearest of ``MOST_LEVELS`` levels, linearly in ln y."""
    if len(y) <= MOST_LEVELS:
        return y, weights
    position = np.log(y / y.min())
    grid = np.linspace(0, position.max(), MOST_LEVELS)
    place = position / grid[1]
    low = np.clip(place.astype(int), 0, MOST_LEVELS - 2)
    upper = place - low
    split = np.bincount(low, weights * (1 - upper), MOST_LEVELS)
    split += np.bincount(low + 1, weights * upper, MOST_LEVELS)
    return y.min() * np.exp(grid), split


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
    >>> from skdpfl.papers import chang2022_convergence, chang2022_variances
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
