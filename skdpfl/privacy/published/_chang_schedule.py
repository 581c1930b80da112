"""The noise schedules of Chang, Seif and Tandon (CISS 2022): variances and their sums.

Variance of the noise on the mean minibatch gradient at local step t = 1..tau of round r = 1..R,
with decay beta in (0, 1] and R_th rounds (``start``) before the decay::

    scheme 0   sigma0^2
    scheme 1   sigma0^2 for r <= R_th, then sigma0^2 beta^(r - R_th)
    scheme 2   sigma0^2 for r <= R_th, then sigma0^2 beta^(tau (r - R_th - 1) + t - 1)

(the first decayed round of scheme 1 has one factor beta, the first decayed step of scheme 2 has
none). The theorems' brackets, sums of inverse variances over tau / sigma0^2, with x = 1/beta::

    scheme 0   R
    scheme 1   R_th + sum_{m=1..R-R_th} x^m
    scheme 2   R_th + (1/tau) sum_{j=0..tau(R-R_th)-1} x^j
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpfl._arguments import check_choice, check_count, check_positive, check_rate

SCHEMES = (0, 1, 2)


def geometric_sum(x: float, n_terms: float) -> float:
    """Return sum_{j=0..n-1} x^j, inf where it overflows."""
    if x == 1:
        return float(n_terms)
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
        check_count("n_rounds", self.n_rounds)
        check_count("local_steps", self.local_steps)
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
    >>> from skdpfl.privacy.published import chang2022_variances
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
    >>> from skdpfl.privacy.published import chang2022_rounds
    >>> chang2022_rounds(scheme=1, beta=0.998, start=200, local_steps=50, constant_rounds=600)
    493
    """
    budget = check_positive("constant_rounds", constant_rounds)
    Schedule(scheme, beta, start, max(1, start), local_steps)
    if scheme == 0 or budget <= start or beta == 1:
        return math.floor(budget)
    x, left, tau = 1 / beta, budget - start, local_steps
    if scheme == 1:
        decayed = math.floor(math.log1p(left * (x - 1) / x) / math.log(x))
    else:
        decayed = math.floor(math.log1p(tau * left * (x - 1)) / (tau * math.log(x)))
    # the logarithm may be rounded to the wrong side of an integer
    one_more = Schedule(scheme, beta, start, start + decayed + 1, tau).bracket()
    return start + decayed + (1 if one_more <= budget else 0)
