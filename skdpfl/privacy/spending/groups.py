r"""Group privacy: from one record to k.

Change k records one after the other: every step leads to a neighbour, in whichever silo it is.

- mu-GDP each step gives (k mu)-GDP in all (Dong, Roth & Su 2022, theorem 2.14).
- (eps, delta(eps)) each step gives (k eps, delta(eps) (1 + e^eps + ... + e^{(k-1) eps})) in all:
  P_0(A) <= e^eps P_1(A) + delta <= ... <= e^{k eps} P_k(A) + delta sum_j e^{j eps}. The sum grows
  without bound, but delta(eps) is at least the failure probability: where their product exceeds the
  requested delta, no larger eps helps, and the group's epsilon is infinite.
"""

from __future__ import annotations

import dataclasses
import math

from skdpfl.privacy.calibration import check_budget
from skdpfl.privacy.events import Composition, Exact, Gaussian, Profile, compose
from skdpfl.privacy.pricing.dominance import undominated
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.price import price_delta
from skdpfl.privacy.spending.cost import Cost, SiloCosts

#: The points of the group's profile, as multiples of the epsilon at the stated delta; where that
#: epsilon is 0, the epsilons of one record.
_POINTS = (0.3, 0.5, 0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.3, 1.6, 2.0)
_NEAR_ZERO = (0.0, 1e-3, 1e-2, 0.1, 0.3, 1.0)

#: Smaller deltas are not distinguished; profiles end at this epsilon.
_LEAST, _LARGEST = 1e-250, 600.0


def group_size(k: float) -> int:
    """Return k, which must be a whole number, at least 1."""
    if isinstance(k, bool) or int(k) != k or k < 1:
        raise ValueError(f"k={k!r} must be a whole number, at least 1.")
    return int(k)


def epsilon_per_record(epsilon: float, *, k: int, delta: float) -> float:
    """Return the epsilon of one record at which k records together have ``epsilon``.

    For a person with up to k rows (:func:`skdpfl.preprocessing.limit_rows`).

    Parameters
    ----------
    epsilon : float
        What k records together may cost.
    k : int
        The number of records.
    delta : float
        The same for one record and for k.

    Returns
    -------
    float
        What to give an estimator. ``privacy_spent_.group(k).epsilon`` of the fit is then at most
        ``epsilon`` for plain Gaussian releases (full or disjoint batches, scales, summaries).
        Sampled batches cost k records more: check it.

    See Also
    --------
    PrivacySpent.group : What k records together cost in a fit.

    Notes
    -----
    **Formal guarantee.** mu-GDP for each record is (k mu)-GDP for k (Dong, Roth & Su 2022, theorem
    2.14); rounded down.

    Examples
    --------
    >>> from skdpfl.privacy import epsilon_per_record
    >>> round(epsilon_per_record(2.0, k=3, delta=1e-5), 2)
    0.6
    """
    check_budget(epsilon, delta)
    k = group_size(k)
    if math.isinf(epsilon) or k == 1:
        return float(epsilon)
    return gaussian_epsilon(gaussian_mu(epsilon, delta) / k, delta) * (1 - 1e-9)


def of_group(paid: SiloCosts, k: int) -> SiloCosts:
    """Price ``paid`` for k records together; see :meth:`PrivacySpent.group`."""
    compositions = _of_group([cost.composition for cost in paid.costs], paid, k)
    costs = tuple(Cost.of(c, paid.delta, paid.neighbours) for c in compositions)
    return dataclasses.replace(paid, costs=costs, silo_ids=None, silo_costs=None)


def _of_group(compositions: list[Composition], paid: SiloCosts, k: int) -> list[Composition]:
    """Return the compositions of the group's cost."""
    compositions = [compositions[i] for i in undominated(compositions)]
    events = [event for composition in compositions for event, _ in composition]
    if paid.epsilon == math.inf:
        return [((Exact(), 1),)]
    if all(isinstance(event, Gaussian) for event in events):
        return [_scaled(composition, k) for composition in compositions]
    return [_chained(compositions, paid, k)]


def _scaled(composition: Composition, k: int) -> Composition:
    """Scale the noise by 1/k, which is the same as k times the distance."""
    return compose(
        (Gaussian(event.noise_multiplier / k), n)
        for event, n in composition
        if isinstance(event, Gaussian)
    )


def _chained(compositions: list[Composition], paid: SiloCosts, k: int) -> Composition:
    """Return the chain bound as a profile, around its epsilon at the stated delta."""

    def delta(epsilon: float) -> float:
        one = max(price_delta(c, epsilon, paid.neighbours) for c in compositions)
        return _k_times(one, epsilon, k)

    def enough(epsilon: float) -> bool:
        return delta(epsilon) <= paid.delta

    if enough(0.0):
        points = [e for e in _NEAR_ZERO if k * e < _LARGEST]
    else:
        failure = delta(math.inf)
        low, high = 0.0, max(1e-3, paid.epsilon)
        while not enough(high):
            if _k_times(failure, high, k) > paid.delta or k * high > _LARGEST:
                return ((Exact(), 1),)
            low, high = high, 1.5 * high
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        points = [point * high for point in _POINTS]
    return ((Profile(tuple(k * e for e in points), tuple(delta(e) for e in points)), 1),)


def _k_times(delta: float, epsilon: float, k: int) -> float:
    """Return delta (1 + e^eps + ... + e^{(k-1) eps}), at most 1; for eps = inf, delta itself."""
    if epsilon == math.inf:
        return delta
    if epsilon == 0.0:
        return min(1.0, k * delta)
    log_ratio = (k - 1) * epsilon + math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))
    return math.exp(min(0.0, math.log(max(delta, _LEAST)) + log_ratio + 1e-9))
