r"""Group privacy: from one record to k.

Change k records one after the other: every step leads to a neighbour, in whichever silo it is.

- mu-GDP each step gives (k mu)-GDP in all (Dong, Roth & Su 2022, theorem 2.14).
- For a profile (eps, delta(eps)) the best eps is chosen at each step of the chain (below). The
limit of delta(eps) for large eps is a failure probability, which the chain multiplies by about
e^eps at each step: if it exceeds the requested delta after k steps, no eps helps, and the group's
epsilon is infinite.

Chains of neighbours
--------------------
Between neighbours every event A has P(A) <= e^eps Q(A) + delta(eps), for each eps, and, of the
complement with P and Q exchanged, P(A) <= 1 - e^{-eps} (1 - Q(A) - delta(eps)). Hence P(A) <=
H(Q(A)) with the increasing, concave function

    H(x) = min(1, min_eps e^eps x + delta(eps), min_eps 1 - e^{-eps} (1 - x - delta(eps)))

and, from neighbour to neighbour, P_0(A) <= H(H(... P_k(A))) = H^k(P_k(A)) for data sets that differ
in k records. (H is one minus the trade-off function of Dong, Roth & Su 2022, whose theorem 2.14
this is.) The group's profile is delta_k(E) = sup_x H^k(x) - e^E x.

With finitely many eps, H is larger, hence a bound, and made of straight lines. So is H^k: the
supremum is at 0 or where some H^j(x), j < k, is a corner of H.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from skdpfl.privacy.calibration import check_budget, is_number
from skdpfl.privacy.events import Composition, Exact, Gaussian, Profile, compose
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.price import price_delta
from skdpfl.privacy.pricing.releases import merged, undominated
from skdpfl.privacy.spending.cost import Cost, SiloCosts

_Floats = npt.NDArray[np.float64]

#: Covers rounding, of a share (of a point, of H there) and of a difference to 1.
_ROUNDING, _ROUNDING_OF_ONE = 1e-9, 1e-15

#: exp of more is infinite.
_LARGEST_EXPONENT = 700.0


class Chain:
    """The profile of k records together, from one record's ``deltas`` at ``epsilons``."""

    def __init__(self, epsilons: Sequence[float], deltas: Sequence[float], k: int) -> None:
        finite = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if e < _LARGEST_EXPONENT]
        eps, delta = np.array(finite).T
        shrunk = np.exp(-eps)
        self._slopes = np.concatenate([np.exp(eps), shrunk, [0.0]])
        self._offsets = np.concatenate([delta, 1 - shrunk * (1 - delta) + _ROUNDING_OF_ONE, [1.0]])
        corners = np.append(0.0, self._corners())
        onwards = [corners]  # H^j of the corners
        for _ in range(k):
            onwards.append(self._power(onwards[-1]))
        at = corners
        points, values = [], []
        for j in range(k):
            points.append(at)
            values.append(onwards[k - j])
            at = self._before(at)
        self._points = np.concatenate(points) * (1 - _ROUNDING)
        self._values = np.concatenate(values) * (1 + _ROUNDING)

    def delta(self, epsilon: float) -> float:
        """Return the delta at which k records together are (epsilon, delta)-DP."""
        above = self._values - np.exp(min(epsilon, _LARGEST_EXPONENT)) * self._points
        return float(min(1.0, max(0.0, above.max())))

    def _power(self, x: _Floats) -> _Floats:
        """Return H(x)."""
        return np.min(self._slopes[:, None] * x + self._offsets[:, None], axis=0)

    def _before(self, y: _Floats) -> _Floats:
        """Return the x with H(x) = y, not rounded up; 0 where H is larger everywhere."""
        rising = self._slopes > 0
        slopes, offsets = self._slopes[rising, None], self._offsets[rising, None]
        rounding = np.where(offsets > 0.5, _ROUNDING_OF_ONE, 0.0)
        return np.maximum(0.0, np.max((y - offsets - rounding) / slopes, axis=0))

    def _corners(self) -> _Floats:
        """Return the points where H changes from one line to another."""
        i, j = np.triu_indices(len(self._slopes), 1)
        i, j = (np.where(self._slopes[i] > self._slopes[j], *pair) for pair in ((i, j), (j, i)))
        steeper = self._slopes[i] > self._slopes[j]
        i, j = i[steeper], j[steeper]
        x = (self._offsets[j] - self._offsets[i]) / (self._slopes[i] - self._slopes[j])
        inside = (x > 0) & (x <= 1)
        x, i = x[inside], i[inside]
        on_line = self._slopes[i] * x + self._offsets[i]
        return np.unique(x[on_line <= self._power(x) * (1 + _ROUNDING)])


#: Where one record's profile is taken, as multiples of its epsilon at the stated delta; where that
#: epsilon is 0, the epsilons themselves.
_OF_ONE = (0.0, 0.3, *(0.5 + i / 20 for i in range(17)), 1.001, *(1.09**i for i in range(4, 25)))
_NEAR_ZERO = (0.0, *(2.0**i for i in range(-20, 4)))

#: A delta that the chain multiplies to less than this share of the stated one is negligible.
_NEGLIGIBLE = 1e-6

#: More distinct releases are merged, each priced as the most expensive of those like it: a fit with
#: a noise of its own for each of 64 rounds is priced in half the time, 2 % too large.
_MOST_DISTINCT = 32

#: The same for the group's profile, which is what further fits add to.
_OF_GROUP = (0.0, *(1.06**i for i in range(-25, 30)))

#: A group's epsilon above this is called infinite.
_LARGEST = 600.0

#: What to do where a group's epsilon is infinite.
NO_EPSILON = (
    "No epsilon up to 600 holds for {k} records together at delta={delta:.3g}, where one record "
    "has epsilon={epsilon}: each further record multiplies the failure probability by about "
    "e^epsilon. Fit again with the smaller epsilon of epsilon_per_record(epsilon, k={k}, "
    "delta=...) and full batches (sampling_rate=1.0); declare categories instead of counting them; "
    "or keep fewer rows for each person (limit_rows)."
)


def group_size(k: float) -> int:
    """Return k, which must be an integer of at least 1."""
    if not is_number(k) or not math.isfinite(k) or int(k) != k or k < 1:
        raise ValueError(f"k must be an integer of at least 1; got {k!r}.")
    return int(k)


def epsilon_per_record(epsilon: float, *, k: int, delta: float) -> float:
    """Return the epsilon per record at which k records together have ``epsilon``.

    Use it for people with up to k rows (:func:`skdpfl.preprocessing.limit_rows`).

    Parameters
    ----------
    epsilon : float
        The epsilon of k records together.
    k : int
        The number of records.
    delta : float
        The delta, for one record as for k.

    Returns
    -------
    float
        The ``epsilon`` for an estimator. ``privacy_spent_.group(k).epsilon`` of its fit is at most
        ``epsilon`` for plain Gaussian releases (full or disjoint batches, scales, summaries). With
        sampled batches it may be larger: check it.

    See Also
    --------
    PrivacySpent.group : The cost of k records together in a fit.

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
    """Return the chain's profile, around its epsilon at the stated delta."""
    scale = paid.epsilon
    if scale > _LARGEST:
        return ((Exact(), 1),)
    compositions = [merged(composition, _MOST_DISTINCT) for composition in compositions]
    epsilons = sorted(scale * point for point in _OF_ONE) if scale > 0 else list(_NEAR_ZERO)
    deltas: list[float] = []
    for epsilon in epsilons:
        deltas.append(max(price_delta(c, epsilon, paid.neighbours) for c in compositions))
        if deltas[-1] < _NEGLIGIBLE * paid.delta * math.exp(-k * epsilon):
            break  # any set of points is a bound, and larger ones do not lower it
    chain = Chain(epsilons[: len(deltas)], deltas, k)
    epsilon = _least_epsilon(chain, paid.delta)
    if epsilon == math.inf:
        return ((Exact(), 1),)
    points = [epsilon * point for point in _OF_GROUP] if epsilon > 0 else list(_NEAR_ZERO)
    return ((Profile(tuple(points), tuple(chain.delta(e) for e in points)), 1),)


def _least_epsilon(chain: Chain, delta: float) -> float:
    """Return the epsilon at which the chain meets delta, rounded up; inf where there is none."""
    if chain.delta(_LARGEST) > delta:
        return math.inf
    if chain.delta(0.0) <= delta:
        return 0.0
    low, high = 0.0, _LARGEST
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if chain.delta(middle) <= delta else (middle, high)
    return high
