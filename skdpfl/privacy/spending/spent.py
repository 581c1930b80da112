r"""``PrivacySpent``: the privacy cost of a fit, an immutable object.

It stores the *releases* (the compositions), not only the price, so that costs of several fits on
the same records compose as distributions, and prices at other deltas are available. Silos with the
same releases share one :class:`Cost`; a record belongs to one silo, so the price of a fit is the
largest of its silos' prices, at the largest of their deltas.

Group privacy: from one record to k
-----------------------------------
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

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from skdpfl._arguments import at_most, epsilon_text
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.calibration import check_budget, is_number
from skdpfl.privacy.events import (
    Composition,
    Exact,
    Gaussian,
    Guarantee,
    Neighbours,
    Profile,
    Trust,
    compose,
)
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.price import price_delta
from skdpfl.privacy.pricing.releases import merged, undominated
from skdpfl.privacy.spending.cost import (
    Cost,
    SiloCosts,
    combined,
    fields_of,
    reprice,
    whatever_chosen,
)
from skdpfl.privacy.spending.report import from_report, to_report

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
_LARGEST_EPSILON = 600.0

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
    return replace(paid, costs=costs, silo_ids=None, silo_costs=None)


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
    if scale > _LARGEST_EPSILON:
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
    if chain.delta(_LARGEST_EPSILON) > delta:
        return math.inf
    if chain.delta(0.0) <= delta:
        return 0.0
    low, high = 0.0, _LARGEST_EPSILON
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if chain.delta(middle) <= delta else (middle, high)
    return high


#: warning of a cost whose noise can be computed by whoever knows the seed
SIMULATION = "simulation (seeded)"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrivacySpent(SiloCosts):
    """The privacy cost of a fit: ``epsilon, delta = spent``.

    Set by ``fit``; immutable, picklable and comparable. Adding two composes the releases of both
    fits, so the sum is usually smaller than the sum of the epsilons.

    Attributes
    ----------
    epsilon, delta : float
        The fit is (epsilon, delta)-differentially private; epsilon is ``inf`` for a non-private
        fit.
    guarantee : Guarantee
        Who is protected, against whom, and under which relation. Its ``unit``, ``trust`` and
        ``neighbours`` are attributes of the cost, too, as is ``colluding``: None unless silos share
        noise.
    noise_multiplier : float or None
        Noise on the clipped sum over the clip norm, in the round with the least; None if silos or
        fits differ, and for other kinds of noise.
    n_releases : int
        Number of noisy releases of the silo (or server) with the most.
    outsider : PrivacySpent or None
        The cost against someone who sees the released models only, if that is smaller and sound.
        It is computed on first access.
    group_size : int
        Number of records (or persons, or silos) that are protected together, see :meth:`group`.
    costs : tuple of Cost
        The distinct costs of silos.
    silo_ids : tuple or None
        The silos, unless whole silos are protected.
    silo_costs : tuple of int or None
        For each silo the index of its cost.
    assignment : str or None
        A name of the assignment of records to silos: if equal, costs add silo by silo. Records
        are identified by a DataFrame's index; without one their order must be the same in both
        fits. Names are keyed anew in each process, so they tell nothing of the index.
    simulation_seeds : frozenset of int
        The integer seeds of the noise; empty for cryptographic noise.
    shares : tuple of (str, float)
        The planned part of a fit's budget (mu squared) for each purpose: "levels" and "ranges" that
        were not declared, "scales", "labels" or "events" (their counts), ..., and the rest for
        "rounds". Empty if rounds have all, and for sums of costs.
    unknown_seeds : bool
        Whether there were seeds that are unknown because the cost was read from a report.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> plan = ISRLDPClassifier(2.0, delta=1e-5, scaling=None).plan_for(
    ...     silo_sizes={"a": 900, "b": 600}, n_features=5
    ... )
    >>> spent = plan.spent()
    >>> spent
    PrivacySpent(ε=2.00, δ=1e-05, unit='record', trust='silo', neighbours='replace')
    >>> epsilon, delta = spent
    >>> round(spent.group(2).epsilon, 1), list(spent.per_silo.index)
    (4.4, ['a', 'b'])
    >>> learnt = ISRLDPClassifier(2.0).plan_for(silo_sizes=[900, 600], n_features=5)
    >>> list(dict(learnt.spent().shares))  # in parts that sum to 1
    ['scales', 'labels', 'rounds']

    See Also
    --------
    skdpfl.privacy_spent : Privacy cost of a pipeline or a search.
    PrivacyLedger : A budget for fits that depend on earlier ones.

    Notes
    -----
    **Formal guarantee.** Each cost's composition is (cost.epsilon, cost.delta)-DP under
    ``neighbours`` (:mod:`skdpfl.privacy.pricing.price`). Neighbouring data differ in one silo,
    whose messages have that cost's law conditionally on all other silos' messages; hence the whole
    transcript is (max epsilon, max delta)-DP. An integer seed is a simulation: the epsilon is that
    of fresh noise.
    """

    noise_multiplier: float | None
    n_releases: int
    #: the result of ``outsider``, or the releases that it is made of, or what computes it
    outside: PrivacySpent | tuple[Composition, ...] | Callable[[], PrivacySpent | None] | None = (
        None
    )
    group_size: int = 1
    simulation_seeds: frozenset[int] = frozenset()
    unknown_seeds: bool = False
    shares: tuple[tuple[str, float], ...] = ()

    @property
    def colluding(self) -> int | None:  # type: ignore[override]
        """With shared noise: the number of other silos that may collude with the server."""
        return self.guarantee.colluding if self.shares_noise else None

    @cached_property
    def outsider(self) -> PrivacySpent | None:
        """The cost against someone who sees the released models only, if that is smaller."""
        if self.outside is None or isinstance(self.outside, PrivacySpent):
            return self.outside
        if not isinstance(self.outside, tuple):
            return self.outside()
        cost = self.from_compositions(
            self.trusting("server").guarantee,
            delta=self.delta,
            compositions=self.outside,
            n_releases=self.n_releases,
            assignment=self.assignment,
            simulation_seeds=self.simulation_seeds,
        )
        return cost if cost.epsilon < self.epsilon else None

    @property
    def simulation(self) -> bool:
        """Whether the noise came from integer seeds; anyone who knows them can compute it."""
        return bool(self.simulation_seeds) or self.unknown_seeds

    @classmethod
    def from_compositions(
        cls,
        guarantee: Guarantee,
        *,
        delta: float,
        compositions: Sequence[Composition],
        silo_ids: Sequence[Any] | None = None,
        group_of_silo: Sequence[int] | None = None,
        group_deltas: Sequence[float] | None = None,
        outsider_compositions: Sequence[Composition] | None = None,
        noise_multiplier: float | None = None,
        n_releases: int = 0,
        assignment: str | None = None,
        simulation_seeds: frozenset[int] = frozenset(),
        shares: tuple[tuple[str, float], ...] = (),
    ) -> PrivacySpent:
        """Return the cost of releases.

        Parameters
        ----------
        guarantee : Guarantee
            Who is protected, against whom, and under which relation.
        delta : float
            The delta of every composition, unless ``group_deltas`` has one for each.
        compositions : sequence of Composition
            The distinct compositions.
        silo_ids, group_of_silo : sequence, optional
            The silos and, for each, the position of its composition (not for ``unit="silo"``).
        outsider_compositions : sequence of Composition, optional
            The releases against someone who sees the released models only; kept if cheaper.
        shares : tuple of (str, float), optional
            Parts of the budget by purpose.
        """
        deltas = [delta] * len(compositions) if group_deltas is None else list(group_deltas)
        costs = tuple(
            Cost.of(composition, d, guarantee.neighbours)
            for composition, d in zip(compositions, deltas, strict=True)
        )
        if guarantee.unit == "silo":  # all silos have the same cost, and their ids are protected
            silo_ids = group_of_silo = None
        return cls(
            guarantee=guarantee,
            noise_multiplier=noise_multiplier,
            n_releases=n_releases,
            costs=costs,
            silo_ids=None if silo_ids is None else tuple(silo_ids),
            silo_costs=None if group_of_silo is None else tuple(map(int, group_of_silo)),
            assignment=assignment,
            simulation_seeds=frozenset(simulation_seeds),
            outside=tuple(outsider_compositions) if outsider_compositions else None,
            shares=shares,
        )

    def group(self, k: int) -> PrivacySpent:
        """Return the cost for ``k`` records (or persons, or silos) together, at the same delta.

        With ``unit="record"`` this, not ``epsilon``, is the guarantee for a person with k rows.

        Parameters
        ----------
        k : int
            The number of records (or persons, or silos).

        Returns
        -------
        PrivacySpent
            The cost: exact for plain Gaussian releases, otherwise an upper bound. It is infinite,
            with a warning, if releases that may fail for one record (counts that find categories,
            shuffled batches) may fail with a probability above delta for k.
        """
        k = group_size(k)
        return self if k == 1 else self._of_several(k, self.group_size * k)

    def _of_several(self, k: int, protected: int) -> PrivacySpent:
        """Return the cost of ``k`` records, for a fit that protects k records together."""
        paid = of_group(self, k)
        if paid.epsilon == math.inf > self.epsilon:
            epsilon = at_most(self.epsilon)
            warn(NO_EPSILON.format(k=k, epsilon=epsilon, delta=self.delta))
        later = partial(self._outsider_of_several, k, protected)
        return self._paying(paid, outside=later, group_size=protected)

    def _outsider_of_several(self, k: int, protected: int) -> PrivacySpent | None:
        return None if self.outsider is None else self.outsider._of_several(k, protected)

    def under(self, neighbours: Neighbours) -> PrivacySpent:
        """Return the same releases priced under "replace" (from "add_remove"; not the reverse).

        Parameters
        ----------
        neighbours : {"replace", "add_remove"}
            The relation to price under.

        Returns
        -------
        PrivacySpent
            The cost, at the same delta.
        """
        if neighbours == self.neighbours:
            return self
        outsider = None if self.outsider is None else self.outsider.under(neighbours)
        return self._paying(reprice(self, neighbours), outside=outsider)

    def _paying(self, paid: SiloCosts, **changes: Any) -> PrivacySpent:
        """Return a copy with other costs."""
        return replace(self, **fields_of(paid) | changes)

    def __add__(self, other: object) -> PrivacySpent:
        if not isinstance(other, PrivacySpent):
            return NotImplemented
        both = total([self, other])
        unknown = self.unknown_seeds or other.unknown_seeds
        both_simulated = self.simulation and other.simulation
        if self.simulation_seeds & other.simulation_seeds or (unknown and both_simulated):
            warn(
                "Two fits on the same records drew their noise from the same integer seed; the "
                "noise repeats, and together the fits may reveal the records exactly. The sum is "
                "the cost with fresh noise: use random_state=None, or different seeds.",
                PrivacyLeakWarning,
            )
        return both

    def __radd__(self, other: object) -> PrivacySpent:
        return self if other == 0 else NotImplemented

    def __iter__(self) -> Iterator[float]:
        return iter((self.epsilon, self.delta))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacySpent):
            return NotImplemented
        names = {field.name for field in fields(self)} - {"outside"} | {"outsider"}
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash((self.epsilon, self.delta, self.guarantee))

    def __getstate__(self) -> dict[str, Any]:
        # state of a ledger's filter is no part of the cost
        return {name: value for name, value in vars(self).items() if name != "_use"}

    def __repr__(self) -> str:
        more = "" if self.group_size == 1 else f", group_size={self.group_size}"
        more += f", {SIMULATION}" if self.simulation else ""
        return (
            f"PrivacySpent(ε={epsilon_text(self.epsilon)}, δ={at_most(self.delta)}, "
            f"{self.guarantee}{more})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the seeds as lists, strings and numbers, for audit files.

        The keys are described in the user guide, "A report that a machine can check". Infinity
        becomes the string "inf", which JSON can hold and ``float`` reads back.

        Returns
        -------
        dict
            The report, which can be written as JSON. :meth:`from_dict` reads and checks it.
        """
        return to_report(self)

    @classmethod
    def from_dict(cls, report: dict[str, Any]) -> PrivacySpent:
        """Read and check the output of :meth:`to_dict`.

        Every field is checked, and the stated epsilons are recomputed from the releases: a report
        that claims another cost is refused.

        Parameters
        ----------
        report : dict
            The report; ``json.load`` gives one.

        Returns
        -------
        PrivacySpent
            The cost, equal to the reported one except for the seeds of simulations, which reports
            omit.

        Raises
        ------
        ValueError
            If anything is missing, unknown, out of range or inconsistent.
        """
        return from_report(cls, report)


def cost_of_sums(
    sums: Sequence[Any],
    delta: float,
    silo_ids: Sequence[Any],
    assignment: str | None,
    seed: int | None,
    budgets: Any,
    silo: int = 0,
    k: int | None = None,
) -> PrivacySpent:
    """Return the cost of plans of sums with one guarantee, equal for all silos.

    A person in k silos, by default as many as the plans have, pays for those of k silos
    (:mod:`skdpfl.privacy.plan`).
    """
    guarantee, k = budgets.guarantee, k or min(budgets.silos_per_person, budgets.n_silos)
    each = compose([each for plan in sums for each in plan.composition(silo)])
    return PrivacySpent.from_compositions(
        guarantee,
        delta=delta,
        compositions=[tuple((event, n * k) for event, n in each)],
        silo_ids=silo_ids,
        group_of_silo=[0] * len(silo_ids),
        n_releases=sum(plan.n_releases for plan in sums),
        assignment=assignment,
        simulation_seeds=frozenset(() if seed is None else (seed,)),
    )


def of_copies(spent: PrivacySpent, k: int) -> PrivacySpent:
    """Return the cost of a record that a fit saw ``k`` times, each time as another record."""
    alone = k == 1 or spent.unit != "record"  # copies of a person's rows are that person's
    return spent if alone else spent._of_several(k, spent.group_size)


def chosen_by_outputs(spent: PrivacySpent, epsilon: float = 0.0) -> PrivacySpent:
    """Return the cost of releases that may depend on an output, within a budget of ``epsilon``.

    See :mod:`skdpfl.privacy.spending.cost`. The releases may cost less than the budget, but only
    the budget was fixed beforehand.
    """
    costs = tuple(whatever_chosen(cost, epsilon) for cost in spent.costs)
    return replace(spent, costs=costs, outside=None)


def total(parts: Sequence[PrivacySpent]) -> PrivacySpent:
    """Compose the releases of many fits on the same records, without warnings about seeds."""
    first = parts[0]
    for part in parts[1:]:
        _check_alike(first, part)
    if len(parts) == 1:
        return first
    multipliers = {part.noise_multiplier for part in parts}
    outsiders = [part.outsider for part in parts if part.outsider is not None]
    trust = _weakest({part.trust for part in parts})
    held = [part.colluding for part in parts if part.colluding is not None]
    colluding = min(held) if trust == "secagg" else 0
    return first._paying(
        combined(parts),
        guarantee=replace(first.guarantee, trust=trust, colluding=colluding),
        noise_multiplier=first.noise_multiplier if len(multipliers) == 1 else None,
        n_releases=sum(part.n_releases for part in parts),
        simulation_seeds=frozenset().union(*(part.simulation_seeds for part in parts)),
        unknown_seeds=any(part.unknown_seeds for part in parts),
        shares=(),
        outside=total(outsiders) if len(outsiders) == len(parts) else None,
    )


def _weakest(trusts: set[Trust]) -> Trust:
    """Return the weakest trust for which all of the guarantees hold.

    Guarantees that need masks and guarantees that need a shuffler hold together only with a trusted
    server.
    """
    if {"secagg", "shuffler"} <= trusts:
        return "server"
    return max(trusts, key=get_args(Trust).index)


def _check_alike(a: PrivacySpent, b: PrivacySpent) -> None:
    for name in ("unit", "neighbours", "group_size", "silos_per_person"):
        left, right = getattr(a, name), getattr(b, name)
        if left != right:
            raise ValueError(
                f"Costs with different {name} cannot be added: {name}={left!r} and "
                f"{name}={right!r}."
            )
