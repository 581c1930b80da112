"""DP-SCAFFOLD with decaying noise as accounted in Chang, Seif and Tandon (CISS 2022).

p and q: fractions of the silos a round and of the records a step; B = batch; L = Lipschitz
constant (the clipping norm); the replace-one sensitivity of the mean gradient is 2 L / B.

Theorems 1 and 2, with the schedule's bracket (see ``_chang_schedule``)::

    e(a) = 24 p^2 q^2 L^2 tau / (B^2 sigma0^2) * bracket * a
    for sigma0^2 >= 5, p q <= 0.1, last variance >= 5, a <= last variance * ln(1 / (p q))

"generic", which is what the paper's printed epsilons are: the subsampling theorem of Wang, Balle
and Kasiviswanathan with fraction p q and inner curve a (2L/B)^2 / (2 variance), summed over all
local steps. Both with Mironov's conversion to (epsilon, delta).
"""

from __future__ import annotations

import math

import numpy as np

from skdpfl._arguments import check_choice, check_count, check_positive, check_rate, check_share
from skdpfl._warnings import warn
from skdpfl.privacy.published._chang_schedule import Schedule
from skdpfl.privacy.published._renyi import gaussian_curve, smallest_epsilon, wang_sampled

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
    >>> from skdpfl.privacy.published import chang2022
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
