"""The plan: all numbers that determine privacy, read by the engine and by the accountant.

A :class:`PrivacyPlan` holds public numbers only. The engine reads clip norm, noise, rates and
schedule from it; :meth:`PrivacyPlan.spent` prices the same object; calibration returns another
plan. It is fixed before any data are read: a fit that stops early is charged for the whole plan.

Formal guarantee: the least noise for a budget
----------------------------------------------
The result of :func:`least_noise` was priced: every group of silos (:func:`groups_of`), with its own
noise, releases and delta, costs at most the smallest budget in it. The search before that prices
only the silos that should cost most.

Formal guarantee: a person in several silos
------------------------------------------
With k = ``silos_per_person`` a person pays for the releases of the k silos that cost most together:
all silos are one group.

*Trust "silo".* Between neighbours the rows of one person change, in at most k silos. Each silo's
messages have the law of its own releases given the messages of all others, whatever those are, so
the transcript is the adaptive composition of the k silos' releases.

*Trust "server", "secagg".* With e_i = w_i / (q_i n_i), silo i's term moves the noised sum by at
most D C e_i. Let E be the sum of the k largest e_i. Noise of variance s^2 has the law of a sum of
independent noises: one of variance s^2 e_i / E for each silo of the person, and the rest, since
these variances sum to at most s^2. So what is released is a function (the sum) of k sums with that
noise, each sampled in its own silo, and costs at most their composition: silo i's sum has the
multiplier s sqrt(e_i / E) / (C e_i). For plain Gaussians this is mu^2 = sum_i (D C e_i)^2 / (s^2
e_i / E) <= (D C E / s)^2: the k largest moves, added. In a round without some of these silos noise
is left over.

*Which k.* For plain Gaussians those with the largest mu^2. Otherwise a silo whose releases dominate
those of all others comes first (:mod:`skdpfl.privacy.pricing.releases`); if there is none,
releases that dominate all silos' stand for each of the k.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skdpfl.privacy.calibration import MANY_BUDGETS, Search, calibrate, shared_budgets
from skdpfl.privacy.events import Composition, Exact, Gaussian, compose
from skdpfl.privacy.mechanisms import Mechanism, NoPrivacy, mechanism_for
from skdpfl.privacy.pricing.price import price_epsilon
from skdpfl.privacy.pricing.releases import dominates, undominated
from skdpfl.privacy.public_numbers import PublicNumbers
from skdpfl.privacy.release import distinct
from skdpfl.privacy.spending.spent import PrivacySpent

#: More groups than this are merged: silos whose rates, and then whose noise, differ by this share.
_MOST_GROUPS, _ALIKE_RATES = 500, 4e-3

#: So many levels of noise are priced where each silo has its own.
_LEVELS = 200

#: More silos than this, none of which another one dominates, are merged before they are priced.
_FEW_SILOS = 20


class SiloGroups(NamedTuple):
    """Groups of silos with equal releases and delta.

    If there are very many silos, similar ones form a group, with the composition of the one that
    releases most (:mod:`skdpfl.privacy.pricing.releases`). ``of_silo`` (n_silos,)
    is each silo's group; ``first`` is a silo of each group.
    """

    of_silo: np.ndarray
    first: np.ndarray
    compositions: list[Composition]


def groups_of(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> SiloGroups:
    """Return the releases at noise multipliers ``z``, group by group."""
    z = np.broadcast_to(z, (plan.n_silos,))
    if _is_one_group(plan):
        everyone, first = np.zeros(plan.n_silos, dtype=int), np.zeros(1, dtype=int)
        return SiloGroups(everyone, first, [_of_any(plan, mechanism, z)])
    first, group = distinct(z, plan.rates, plan.delta, plan.levels[1], plan.setup_codes)
    if len(first) > _MOST_GROUPS:
        return _merged(plan, mechanism, z)
    compositions = [composition_of(plan, mechanism, i, z[i]) for i in first.tolist()]
    return SiloGroups(group, first, compositions)


def cells_of(plan: PublicNumbers, mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Return each silo's cell (n_silos,), and the silo of each cell that releases most.

    Silos in a cell differ only in the rate, and by little. They do not differ at all if there are
    few rates, or if it is unknown whether the mechanism's releases cost more at a higher rate.
    """
    others = np.column_stack([plan.delta, plan.levels[1], plan.setup_codes])
    exact = np.unique(np.column_stack([plan.rates, others]), axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(-plan.rates, kind="stable")
    steps = (
        np.floor(np.log(np.maximum(plan.rates, 1e-300)) / _ALIKE_RATES)
        if exact.max() >= _MOST_GROUPS
        else plan.rates
    )
    for keys in (np.column_stack([steps, others]), np.column_stack([plan.rates, others])):
        _, first, of_sorted = np.unique(keys[order], axis=0, return_index=True, return_inverse=True)
        cell = np.empty(plan.n_silos, dtype=int)
        cell[order] = of_sorted.ravel()
        last = np.zeros(len(first), dtype=int)
        np.maximum.at(last, of_sorted.ravel(), np.arange(plan.n_silos))
        ends = zip(order[first].tolist(), order[last].tolist(), strict=True)
        if all(plan.rates[i] == plan.rates[j] or _more(plan, mechanism, i, j) for i, j in ends):
            break
    return cell, order[first]


def _more(plan: PublicNumbers, mechanism: Mechanism, one: int, other: int) -> bool:
    """Whether a silo is known to release at least as much as another."""
    one_of, other_of = (composition_of(plan, mechanism, i, 1.0) for i in (one, other))
    return dominates(one_of, other_of)


def _merged(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> SiloGroups:
    """Return groups of similar silos, each with its highest rate and least noise."""
    cell, costliest = cells_of(plan, mechanism)
    of_noise = np.unique(z, return_inverse=True)[1].ravel()
    if len(np.unique(of_noise * len(costliest) + cell)) > 2 * _MOST_GROUPS:
        log_z = np.log(np.maximum(z, 1e-300))
        of_noise = np.floor(log_z / max(_ALIKE_RATES, float(np.ptp(log_z[z > 0])) / _LEVELS))
    keys = np.column_stack([of_noise, cell])
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    least = np.full(len(first), np.inf)
    np.minimum.at(least, group, z)
    silos = costliest[cell[first]]
    pairs = zip(silos.tolist(), least.tolist(), strict=True)
    return SiloGroups(group, silos, [composition_of(plan, mechanism, i, s) for i, s in pairs])


def composition_of(plan: PublicNumbers, mechanism: Mechanism, silo: int, z: float) -> Composition:
    """Return the releases of one silo at noise multiplier ``z``, in setup and training."""
    if z == 0:  # this silo's own budget is infinite
        return ((Exact(), 1),)
    factors, counts = plan.levels
    pairs = zip(factors.tolist(), counts[silo].tolist(), strict=True)
    levels = [(float(z) * f, int(c)) for f, c in pairs]
    n = int(plan.known_sizes[silo]) if plan.unit != "silo" else 0
    training = mechanism.composition(plan, z, n, levels)
    return compose([*plan.setup_of(silo), *training])


def _is_one_group(plan: PublicNumbers) -> bool:
    """Whether there is one cost: of whole silos, or of a person in several."""
    return plan.unit == "silo" or plan.silos_per_person > 1


def _of_any(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> Composition:
    """Return the releases of the only group."""
    if plan.unit == "silo":  # all alike
        return composition_of(plan, mechanism, 0, float(z[0]))
    return of_person(plan, mechanism, z, composition_of)


def costliest(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> list[Composition]:
    """Return the compositions at noise multipliers ``z`` that may cost most."""
    if _is_one_group(plan):
        return [_of_any(plan, mechanism, z)]
    silos = costliest_silos(plan, z)
    if len(silos) > _FEW_SILOS:
        compositions = _merged(plan, mechanism, z).compositions
        return [compositions[i] for i in undominated(compositions)]
    return [composition_of(plan, mechanism, i, z[i]) for i in silos]


def costliest_silos(plan: PublicNumbers, z: np.ndarray) -> list[int]:
    """Return silos of which one costs most, at noise multipliers proportional to ``z``.

    A price increases with every count and with the rate, and decreases with z and delta. So a silo
    that is dominated by another in all of these, with the same additional releases, need not be
    priced.
    """
    codes = plan.setup_codes
    known = z, plan.rates, plan.levels[1], plan.delta, codes
    if all((column == column[:1]).all() for column in known):
        return [0]
    rates = np.log(np.maximum(plan.rates, 1e-300))
    columns = [-z, rates, plan.levels[1], -np.log(plan.delta), codes, -codes]
    terms = np.round(np.column_stack(columns), 12)
    first, _ = distinct(terms)
    terms = terms[first]
    chosen: list[int] = []
    for i in range(len(terms) - 1, -1, -1):
        if not chosen or not (terms[chosen] >= terms[i]).all(axis=1).any():
            chosen.append(i)
    return [int(first[i]) for i in chosen]


def outsider_multipliers(plan: PublicNumbers) -> np.ndarray | None:
    """Return the multipliers against someone who sees the cohorts' sums only; None: no credit.

    If silos share noise, all c shares of a sum count against an outsider, and c - t of them were
    priced: the multiplier is sqrt(c / (c - t)) times as large, in the largest cohort.

    If each silo adds its own noise, this is sound only if a round releases nothing but the sum of
    the cohort's fresh gradients (one local step, no state that mixes old noise into new sums).
    Then silo i, whose noise in the sum has std s_i = w_i z_i C / (q_i n_i), is hidden by
    sqrt(sum_j s_j^2) over the cohort: z_i is multiplied by sqrt(sum_j s_j^2) / s_i, at its
    smallest over the rounds it was in.

    This treats sums as real numbers. Each silo's own guarantee is exact in floating point, since
    its noise and its sum share a grid. The grids of several silos need not agree; what the last
    bits of their sum reveal about single summands is not counted here.
    """
    if plan.shares_noise:
        most = plan.cohort_sizes.max()
        return plan.noise_multiplier * np.sqrt(most / (most - plan.colluding))
    one_step = all(k <= 1 for k in plan.steps)
    alone = plan.guarantee.row == ("record", "silo") and plan.silos_per_person == 1
    if not (alone and plan.gradients_only and one_step):
        return None
    squares = (plan.record_shares * plan.noise_multiplier) ** 2
    if plan.schedule is None:
        return np.sqrt(squares.sum()) / plan.record_shares
    least = np.full(plan.n_silos, np.inf)
    for silos in plan.schedule:
        least[silos] = np.minimum(least[silos], squares[silos].sum())
    return np.sqrt(np.where(np.isfinite(least), least, squares)) / plan.record_shares


#: By how much noise that costs too much is raised: at least, how often, and at once by its excess.
_MORE, _MOST_TIMES, _AT_ONCE = 1e-4, 40, 1.01


def allowed(plan: PublicNumbers, mechanism: Mechanism, z: float | np.ndarray) -> np.ndarray:
    """Return ``z``, at least the smallest multiplier of the plan's mechanism."""
    if plan.unit == "silo":  # who pays is secret: all messages are noised alike
        return np.full(plan.n_silos, max(np.max(z), mechanism.least_noise), dtype=float)
    exposure = mechanism.exposure(plan)
    if exposure is not None:  # one noise for all
        z = (np.broadcast_to(z, exposure.shape) * exposure).max() / exposure
    return np.asarray(np.maximum(z, mechanism.least_noise), dtype=float)


def least_noise(
    plan: PublicNumbers, mechanism: Mechanism, epsilon: float | np.ndarray
) -> np.ndarray:
    """Return the noise multipliers: equal for one budget, separate for separate budgets."""
    budgets = np.broadcast_to(np.asarray(epsilon, dtype=float), (plan.n_silos,))
    z = allowed(plan, mechanism, _first_noise(plan, mechanism, budgets))
    for k in range(_MOST_TIMES):
        z = np.broadcast_to(z, (plan.n_silos,))
        excess = _excess_of(plan, mechanism, z, budgets)
        if excess.max() <= 1.0:
            return z
        if not np.ptp(budgets):  # all alike for one budget
            excess = np.full_like(excess, excess.max())
        more = np.maximum(1.0 + _MORE * 2**k, np.minimum(excess, _AT_ONCE))
        z = allowed(plan, mechanism, z * np.where(excess > 1.0, more, 1.0))
    raise ValueError(
        f"epsilon={epsilon!r} cannot be met: the price does not decrease with more noise."
    )


def _excess_of(
    plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray, budgets: np.ndarray
) -> np.ndarray:
    """Return each silo's price of noise ``z`` over the least budget of its group."""
    groups = groups_of(plan, mechanism, z)
    least = np.full(len(groups.first), np.inf)
    np.minimum.at(least, groups.of_silo, budgets)
    price = [
        _price(plan, i, composition)
        for composition, i in zip(groups.compositions, groups.first.tolist(), strict=True)
    ]
    with np.errstate(invalid="ignore"):
        share = np.where(np.array(price) <= least, 0.0, np.array(price) / least)
    return np.asarray(share[groups.of_silo])


def _price(plan: PublicNumbers, silo: int, composition: Composition) -> float:
    """Return the epsilon of a silo's releases at its delta."""
    return price_epsilon(composition, float(plan.delta[silo]), plan.neighbours)


def _first_noise(
    plan: PublicNumbers, mechanism: Mechanism, budgets: np.ndarray
) -> float | np.ndarray:
    """Return noise by the silos that should cost most."""
    if plan.unit == "silo":
        return _of_silo(plan, mechanism, 0, budgets.min())
    if plan.silos_per_person > 1:
        return _for_person(plan, mechanism, budgets)
    if not np.ptp(budgets):
        return _alike(plan, mechanism, float(budgets[0]))
    budgets = shared_budgets(budgets)
    cell, costliest = cells_of(plan, mechanism)
    keys, of_silo = np.unique(np.column_stack([cell, budgets]), axis=0, return_inverse=True)
    silos = costliest[keys[:, 0].astype(int)]
    if len(keys) <= MANY_BUDGETS:
        wanted = zip(silos.tolist(), keys[:, 1].tolist(), strict=True)
        needed = np.array([_of_silo(plan, mechanism, i, e) for i, e in wanted])
    else:
        needed = _in_turn(plan, mechanism, silos, keys[:, 1])
    return needed[of_silo.ravel()]


def _for_person(plan: PublicNumbers, mechanism: Mechanism, budgets: np.ndarray) -> np.ndarray:
    """Return the noise for persons in several silos: one multiplier, or one noise if shared."""
    if np.ptp(budgets):
        raise ValueError(
            f"silos_per_person={plan.silos_per_person} needs one epsilon for all silos: a person's "
            "silos share it."
        )
    if budgets[0] == np.inf:
        return np.zeros(plan.n_silos)
    exposure = mechanism.exposure(plan)
    exposure = np.ones(plan.n_silos) if exposure is None else exposure / exposure.max()

    def build(noise: float) -> Composition:
        return of_person(plan, mechanism, noise / exposure, composition_of)

    asked = float(budgets[0]), float(plan.delta[0]), plan.neighbours, mechanism.search
    return calibrate(build, *asked) / exposure


def _in_turn(
    plan: PublicNumbers, mechanism: Mechanism, silos: np.ndarray, budgets: np.ndarray
) -> np.ndarray:
    """Return each silo's noise; each search starts where the noise of larger budgets leads."""
    needed = np.zeros(len(silos))
    start, last, slope = mechanism.search.start, (0.0, 0.0), -1.0
    for k in np.lexsort((-budgets, plan.rates[silos])).tolist():
        e = float(budgets[k])
        if e == np.inf:
            continue
        if last[0] > 0.0:
            start = last[0] * min(5.0, max(0.2, (e / last[1]) ** slope))
        z = _of_silo(plan, mechanism, int(silos[k]), e, replace(mechanism.search, start=start))
        if last[0] not in (0.0, z) and last[1] != e:
            slope = math.log(z / last[0]) / math.log(e / last[1])
        needed[k], last = z, (z, e)
    return needed


def _alike(plan: PublicNumbers, mechanism: Mechanism, epsilon: float) -> np.ndarray:
    """Return one multiplier for all silos, or one noise if the mechanism shares it.

    The search is for the silo with the most releases; for another one only if this noise does not
    do for it.
    """
    exposure = mechanism.exposure(plan)
    exposure = np.ones(plan.n_silos) if exposure is None else exposure
    silos, noise = np.array(costliest_silos(plan, 1 / exposure)), 0.0
    factors, counts = plan.levels
    with np.errstate(all="ignore"):  # decay beyond floats: any order will do
        released = (counts[silos] / np.square(factors)).sum(axis=1)
        released *= np.square(plan.rates[silos] * exposure[silos])
    for i in silos[np.argsort(-released, kind="stable")].tolist():
        needed = noise / float(exposure[i])
        if noise == 0.0 or _price(plan, i, composition_of(plan, mechanism, i, needed)) > epsilon:
            noise = max(noise, _of_silo(plan, mechanism, i, epsilon) * float(exposure[i]))
    return noise / exposure


def _of_silo(
    plan: PublicNumbers,
    mechanism: Mechanism,
    silo: int,
    epsilon: float,
    search: Search | None = None,
) -> float:
    if epsilon == np.inf:
        return 0.0
    build = partial(composition_of, plan, mechanism, silo)
    asked = float(epsilon), float(plan.delta[silo]), plan.neighbours, search or mechanism.search
    return calibrate(build, *asked)


#: the releases of a silo (by its number) at a noise multiplier
OfSilo = Callable[[PublicNumbers, Mechanism, int, float], Composition]


def of_person(
    plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray, of_silo: OfSilo
) -> Composition:
    """Return the releases about a person at the silos' noise multipliers ``z`` (n_silos,)."""
    exposure, k = mechanism.exposure(plan), min(plan.silos_per_person, plan.n_silos)
    if exposure is not None:  # the parts of one noise
        z = z * np.sqrt(exposure / np.sort(exposure)[-k:].sum())
    if not z.all():
        return ((Exact(), 1),)
    first, group = distinct(z, plan.rates, plan.levels[1], plan.setup_codes)
    counts = np.minimum(np.bincount(group), k).tolist()
    each = [of_silo(plan, mechanism, i, float(z[i])) for i in first.tolist()]
    chosen = _costliest(list(zip(each, counts, strict=True)), k)
    if chosen is None:
        chosen = [(_dominating(plan, mechanism, z), k)]
    return compose((event, n * count) for parts, count in chosen for event, n in parts)


def _costliest(
    silos: list[tuple[Composition, int]], k: int
) -> list[tuple[Composition, int]] | None:
    """Return the k silos that cost most together, as releases and counts; None if not known."""
    if all(_is_gaussian(releases) for releases, _ in silos):
        silos = sorted(silos, key=lambda silo: -_squared_mu(silo[0]))
    else:
        silos = sorted(
            silos, key=lambda silo: -sum(dominates(silo[0], other) for other, _ in silos)
        )
        if not all(dominates(a[0], b[0]) for a, b in pairwise(silos)):
            return None
    chosen = []
    for releases, count in silos:
        chosen.append((releases, min(count, k)))
        k -= chosen[-1][1]
    return chosen


def _is_gaussian(releases: Composition) -> bool:
    return all(isinstance(event, Gaussian) for event, _ in releases)


def _squared_mu(releases: Composition) -> float:
    """Return mu^2 of plain Gaussians, over D^2."""
    gaussians = ((event, count) for event, count in releases if isinstance(event, Gaussian))
    return sum(count / event.noise_multiplier**2 for event, count in gaussians)


def _dominating(plan: PublicNumbers, mechanism: Mechanism, z: np.ndarray) -> Composition:
    """Return releases that cost at least as much as those of every silo."""
    setups = list(dict.fromkeys(map(plan.setup_of, range(plan.n_silos))))
    if len(setups) > 1 and not all(map(_is_gaussian, setups)):
        raise ValueError(
            "The silos' releases in addition to training differ, so which silos cost a person most "
            "is not known: use silos_per_person=1, or silos with equal budgets."
        )
    least, most = float(z.min()), plan.levels[1].max(axis=0).tolist()
    pairs = zip(plan.levels[0].tolist(), most, strict=True)
    n = int(plan.known_sizes[int(plan.rates.argmax())])
    levels = [(least * factor, int(count)) for factor, count in pairs]
    training = mechanism.composition(plan, least, n, levels)
    return compose([*max(setups, key=_squared_mu), *training])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrivacyPlan(PublicNumbers):
    """The public numbers of a fit.

    Parameters
    ----------
    silo_sizes : ndarray of int, shape (n_silos,), or None
        The silos' numbers of records (unit "person": of persons); None if they are protected (unit
        "silo").
    steps : tuple of int
        For each round, the number of private gradients of a participating silo.
    clip_norm : float
        The clip norm of a record's (a person's) gradient, or of a silo's message (unit "silo");
        in the first round, if the mechanism learns it.
    noise_multiplier : ndarray of shape (n_silos,)
        The noise on a silo's clipped sum over the clip norm, before the schedule's factors.
    delta : ndarray of shape (n_silos,)
        Each silo's delta.
    guarantee : Guarantee, optional
        Who is protected, against whom, and under which relation; by default records, with the
        noise of their own silo. Its words are attributes of the plan, too.
    sampling : Sampling
        How records are drawn in each step.
    weights : ndarray of shape (n_silos,), optional
        The silos' public weights, summing to one; by default equal.
    schedule : tuple of int arrays, optional
        The silos that take part in each round (not for unit "silo"); None means all of them.
    cohort, silo_fraction : str and float
        How cohorts are drawn; for unit "silo" the engine draws them secretly.
    noise_schedule : tuple, optional
        Decaying noise, see :mod:`skdpfl.privacy.public_numbers`.
    setup : tuple of Composition
        The releases of silos in addition to training (scales, calibration): one entry for
        all silos, or one for each; (): none.
    gradients_only : bool
        True if the algorithm releases only cohorts' sums of fresh gradients.
    size : int, optional
        The number of coordinates of a message, if its price depends on it.
    silo_ids : sequence, optional
        The silos' ids; by default 0, 1, ... Required without ``silo_sizes``.
    spare_rounds : int
        With ``trust="secagg"``: how many failed rounds may be repeated; see
        :class:`skdpfl.privacy.SecureAggregation`.
    contribution : {"mean", "sum"}
        With unit "person": what is clipped, the mean or the sum of the gradients of a person's rows
        in a silo.
    mechanism : Mechanism
        The mechanism; by default the one for unit and trust.
    expected_width : float, optional
        With ``inference="intervals"``: the expected width of 95 % intervals of standardised
        features (:func:`skdpfl.inference.expected_width`). No price depends on it.
    shares : tuple of (str, float)
        The part of the budget's mu squared for each purpose: levels, ranges, scales, ..., and
        rounds, the rest; () if rounds have all. No price depends on it.

    Examples
    --------
    >>> from skdpfl import DPScaffoldClassifier
    >>> clf = DPScaffoldClassifier(epsilon=1.0, local_steps=10, scaling=None)
    >>> plan = clf.plan_for(silo_sizes=[500, 500, 1000], n_features=20)
    >>> plan.n_rounds, plan.steps[0], plan.delta[0]
    (40, 10, np.float64(1e-05))
    >>> plan.spent().epsilon <= 1.0
    True

    See Also
    --------
    skdpfl.privacy.epsilon_of : The price of steps without a plan.
    """

    mechanism: Mechanism = None  # type: ignore[assignment]
    expected_width: float | None = None
    shares: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.mechanism is None:
            object.__setattr__(self, "mechanism", mechanism_for(self.unit, self.trust))
        super().__post_init__()
        self.mechanism.check(self)

    def __repr__(self) -> str:
        return f"PrivacyPlan({self.n_silos} silos, {self.n_rounds} rounds)"

    @property
    def private(self) -> bool:
        """False for a plan that adds no noise at all."""
        return not isinstance(self.mechanism, NoPrivacy)

    @cached_property
    def secret_cohorts(self) -> bool:
        """Whether the cohort of a round and its size are secret."""
        return self.private and self.unit == "silo" and self.trust == "server"

    def groups(self) -> SiloGroups:
        """Return the groups of silos with equal releases."""
        return groups_of(self, self.mechanism, self.noise_multiplier)

    # ---- prices ------------------------------------------------------------------------------

    def spent(
        self, *, assignment: str | None = None, simulation_seed: int | None = None
    ) -> PrivacySpent:
        """Price the plan.

        Parameters
        ----------
        assignment : str, default=None
            A digest of which record is in which silo.
        simulation_seed : int, default=None
            The integer seed, if the noise comes from one.

        Returns
        -------
        PrivacySpent
            The cost of the whole plan, even if fewer rounds run.
        """
        most = float(self.delta.max())
        names = self.silo_ids if self.unit != "silo" else None
        if not self.private:
            return PrivacySpent.from_compositions(
                self.guarantee,
                delta=most,
                compositions=[((Exact(), 1),)],
                silo_ids=names,
                group_of_silo=[0] * self.n_silos,
                noise_multiplier=0.0,
                n_releases=sum(self.steps),
            )
        groups = self.groups()
        seen = outsider_multipliers(self) if self.mechanism.fresh_noise else None
        outsider = None if seen is None else costliest(self, self.mechanism, seen)
        before = max((sum(n for _, n in releases) for releases in self.setup), default=0)
        stated = None  # the multiplier in the round with the least noise, unless silos differ
        if self.mechanism.gaussian and not np.ptp(self.noise_multiplier):
            stated = float(self.noise_multiplier[0]) * self.factor_range[0]
        return PrivacySpent.from_compositions(
            self.guarantee,
            delta=most,
            compositions=groups.compositions,
            group_deltas=self.delta[groups.first].tolist(),
            silo_ids=names,
            group_of_silo=groups.of_silo.tolist() if names else None,
            outsider_compositions=outsider,
            noise_multiplier=stated,
            n_releases=self.mechanism.n_releases(self) + before,
            assignment=assignment,
            simulation_seeds=frozenset(() if simulation_seed is None else (simulation_seed,)),
            shares=self.shares,
        )

    # ---- calibration -------------------------------------------------------------------------

    def with_noise(self, noise_multiplier: float | np.ndarray) -> PrivacyPlan:
        """Return the same plan with other noise (one multiplier, or one a silo).

        Parameters
        ----------
        noise_multiplier : float or ndarray of shape (n_silos,)
            The noise on a clipped sum over the clip norm.

        Returns
        -------
        PrivacyPlan
            Another one; plans never change.
        """
        return self._noised(allowed(self, self.mechanism, noise_multiplier))

    def calibrated(self, epsilon: float | np.ndarray) -> PrivacyPlan:
        """Return the plan with the least noise whose price is at most ``epsilon``.

        One number gives all silos the same multiplier, that of the silo that would pay most;
        an array gives each silo its own.

        Parameters
        ----------
        epsilon : float or ndarray of shape (n_silos,)
            The budget, or each silo's own.

        Returns
        -------
        PrivacyPlan
            Another one; plans never change.
        """
        return self._noised(least_noise(self, self.mechanism, epsilon))

    def _noised(self, noise_multiplier: np.ndarray) -> PrivacyPlan:
        """Return the plan with other noise; what follows from its other numbers is kept."""
        other = copy.copy(self)
        each = np.broadcast_to(noise_multiplier, (self.n_silos,))
        object.__setattr__(other, "noise_multiplier", each)
        other.mechanism.check(other)
        return other
