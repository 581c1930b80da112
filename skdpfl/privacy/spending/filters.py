r"""Privacy filters, which admit fits to a budget although fits may depend on earlier outputs.

Stopping when the composed distributions reach the budget would not be sound. A counterexample for
(3, 1e-5): a Gaussian fit of mu = 0.5 is followed by one of mu = 0.517 or by 100 Poisson steps,
depending on its output. Each alternative composes with the first fit to epsilon = 3, but the whole
has delta = 1.7e-5. So admission is decided by a Renyi filter at one order fixed in advance::

    admit while  sum_i D_a(fit_i) <= budget_a   and   sum_i f_i <= F,    f_i: failure probabilities
    budget_a = eps - log((a - 1) / a) + (log(delta - F) + log a) / (a - 1)
    F        = delta / 10,  or delta / 2 if the first fit alone has more than the former

Formal guarantee
----------------
*Renyi filter.* Feldman and Zrnic (NeurIPS 2021): if a sequence of adaptive fits stops before the
Renyi budget at one order, fixed beforehand, is exceeded, it is Renyi-private at that order; the
conversion to (eps, delta) is that of Canonne, Kamath and Steinke (NeurIPS 2020). The share F of
delta is fixed beforehand, too; it depends at most on the first fit, whose parameters do not depend
on any output. Let the distribution of the t-th fit under either neighbour be ``(1 - f_t) P'_t +
f_t E_t``, P'_t of bounded divergence; f_t and the bound may depend on the previous outputs y, in
the same way for both neighbours. With ``w(y) = prod_t (1 - f_t)``, at least 1 - F on every path,
the distribution P of the transcript is at least w P' and exceeds it by a mass of at most F,
likewise Q. So for all events S ::

    P(S) - e^eps Q(S)  <=  F + int_S w (P' - e^eps Q')  <=  F + (delta - F)

by the filter's conversion for P' and Q'. (If delta' were reduced by the failures of the path, a
failure averaged under P' would be compared with a delta' averaged under a tilted distribution: up
to 1.5 delta.) A first fit that meets (epsilon, delta) by its own distribution is admitted even if
it exceeds the Renyi budget. Nothing is admitted after it, so there is one fit only, whose
parameters do not depend on any output.

*Gaussian filter.* If every fit is a composition of Gaussians, mu_i^2 adding up, admitting while
sum mu_i^2 <= mu^2 keeps the adaptive sequence mu-Gaussian DP (Koskela, Tobaben and Honkela, 2023).
It is tight, and refuses all other fits. The filter is fixed when the ledger opens: choosing it by
the output of a fit would be unsound for the reason above.

*One relation.* All fits of a ledger are priced under the relation that it was opened with, or else
that of the first fit. A fit under "add_remove" is priced again under "replace" if necessary; the
reverse is refused.

*A budget that is raised.* delta and the filter stay, epsilon grows. Both filters' budgets grow with
epsilon, and the Renyi filter's order falls, so that what the smaller budget admits the larger one
admits too: D_a grows with the order a, and ``budget_a`` at the order of the larger epsilon is not
below the smaller one's. So a procedure that may raise its budget guarantees the largest budget that
it may ever get: (largest epsilon, delta), whether or not the budget is raised, and however that is
decided.

*A fit that ended early.* Remote silos may settle a fit at the cost of its rounds that ran. A filter
can compose single rounds as well as fits: a fit's noise and sampling were fixed when it began, so
the bounds of its rounds add up to its own, whatever is released, and those of the first k rounds to
that of a fit of k rounds. The whole fit was admitted before it began, so no path exceeds the budget
at any time, whoever stops the fit, and for whatever reason. Two things are fixed by the first fit
alone and must not depend on outputs: the share F, and whether it was admitted by its own
distribution. So a first fit is settled only if both stay the same.

A record is in one silo, so either filter holds for each silo separately; the sums are those of the
most expensive silo of each fit.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from skdpfl._arguments import at_least, at_most
from skdpfl.exceptions import BudgetExceeded
from skdpfl.privacy.events import Composition, Gaussian, Neighbours
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.pricing.releases import releases
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.spending.spent import PrivacySpent

#: the fit that ``remaining`` is for
ASSUMED = "a fit of full batches (sums with Gaussian noise) at the ledger's delta"
#: the unit of a filter's second budget
FAILURES = "failure probabilities, a fixed share of delta"
#: error of fits under a coarser relation than the ledger's, fixed before any output
_COARSER = (
    'This ledger has the relation neighbours="add_remove", as given or by its first fit, which '
    'does not cover a fit under "replace". Use one relation for all fits, or open a ledger with '
    'neighbours="replace", under which all fits can be priced.'
)


class Filling(NamedTuple):
    """The used part of a filter's budget, its total, and its unit."""

    used: float
    budget: float
    unit: str


class Use(NamedTuple):
    """What one fit uses of a filter's budget, and its probability of failure."""

    used: float
    failure: float


class Taken(NamedTuple):
    """The part of a filter's budget used by fits: the sum of their uses, and the first one's."""

    fits: int = 0
    used: float = 0.0
    failures: float = 0.0
    first: PrivacySpent | None = None
    first_failure: float = 0.0


@dataclass(frozen=True)
class Filter:
    """A budget for fits that may depend on earlier ones.

    Parameters
    ----------
    epsilon, delta : float
        The budget of all fits together.
    neighbours : {"replace", "add_remove"}, default=None
        The neighbouring relation; None: that of the first fit.
    """

    epsilon: float
    delta: float
    neighbours: Neighbours | None = None

    def taken(self, costs: Iterable[PrivacySpent]) -> Taken:
        """Return the part of the budget that fits have used."""
        return reduce(self.adding, costs, Taken())

    def adding(self, taken: Taken, cost: PrivacySpent) -> Taken:
        """Return the used part with one more fit, under the common relation."""
        first = taken.first or cost
        use = self._use_under(self.neighbours or first.neighbours, cost)
        return Taken(
            taken.fits + 1,
            taken.used + use.used,
            taken.failures + use.failure,
            first,
            taken.first_failure if taken.fits else use.failure,
        )

    def admit(self, taken: Taken, cost: PrivacySpent) -> None:
        """Raise BudgetExceeded if a fit exceeds the remaining budget."""
        for name in ("unit", "silos_per_person"):
            before, now = getattr(taken.first, name, None), getattr(cost, name)
            if before not in (None, now):
                raise ValueError(
                    f"All fits of a ledger must have the same {name}; got {name}={before!r} and "
                    f"{name}={now!r}."
                )
        after, own = self.adding(taken, cost), cost.epsilon_at(self.delta)
        filling = self._filling(after)
        alone = after.fits == 1 and self.spent(after) <= self.epsilon
        if alone or filling.used <= filling.budget:  # refused also if it is not a number
            return
        left = self.remaining(taken)
        why = f" (its {FAILURES}, are more than is left)" if filling.unit == FAILURES else ""
        offer = f"The largest epsilon that still fits is {at_least(left, 3)}, for {ASSUMED}."
        raise BudgetExceeded(
            f"This fit would take the ledger beyond epsilon={self.epsilon:g} at delta="
            f"{self.delta:g}: {at_most(self.spent(taken), 3)} of {self.epsilon:g} is spent, "
            f"after {taken.fits} fit(s), and this one would make it "
            f"{at_most(self.spent(after), 3)}{why}; by itself it costs epsilon={at_most(own, 3)}. "
            f"{offer if left > 0 else 'Nothing more fits.'} "
            "It was refused before it trained on any data."
        )

    def check_part(
        self, whole: PrivacySpent, part: PrivacySpent, first: PrivacySpent, *, is_first: bool
    ) -> None:
        """Raise a ValueError unless a fit may be charged for a part of it, which ran."""
        relation = self.neighbours or first.neighbours
        all_of_it, ran = self._use_under(relation, whole), self._use_under(relation, part)
        if not (ran.used <= all_of_it.used and ran.failure <= all_of_it.failure):
            raise ValueError("A part of a fit must not cost more than the whole fit.")
        before, after = (self._filling(self.adding(Taken(), cost)) for cost in (whole, part))
        if is_first and not (before.used <= before.budget == after.budget):
            raise ValueError(
                "The first fit must be charged in full: it alone exceeds the filter's budget, or "
                "it determines the share of delta for failures."
            )

    def spent(self, taken: Taken) -> float:
        """Return the epsilon that fits have taken from the budget, at the ledger's delta.

        This is the filter's guarantee so far: it is above ``self.epsilon`` exactly if the filter
        would not admit the fits. Composed as if they had been fixed beforehand, they may cost less.
        """
        if taken.first is None:
            return 0.0
        epsilon = max(0.0, self._epsilon(self._filling(taken)))
        if taken.fits > 1:
            return epsilon
        # the first fit is admitted by its own distribution
        relation = self.neighbours or taken.first.neighbours
        return min(epsilon, taken.first.under(relation).epsilon_at(self.delta))

    def remaining(self, taken: Taken) -> float:
        """Return the largest epsilon, at the ledger's delta, of one more fit of Gaussian sums."""
        if not taken.fits:
            return self.epsilon  # a first fit is admitted by its own distribution
        filling = self._filling(taken)
        room = filling.budget - filling.used
        if not room > 0 or filling.unit == FAILURES:
            return 0.0
        # a little less, since numbers are rounded: it has to fit
        mu = math.sqrt(self._squared_mu(room)) * (1 - 1e-9)
        return gaussian_epsilon(mu, self.delta) * (1 - 1e-6)

    def _use_under(self, relation: Neighbours, cost: PrivacySpent) -> Use:
        """Return the budget that one fit uses, which is cached in its cost."""
        if relation == "add_remove" and cost.neighbours != relation:
            raise ValueError(_COARSER)
        key = (*dataclasses.astuple(self), relation)
        cached = cost.__dict__.get("_use")
        if cached is None or cached[0] != key:
            cached = (key, self._use(cost.under(relation)))
            cost.__dict__["_use"] = cached
        use: Use = cached[1]
        return use

    def _use(self, cost: PrivacySpent) -> Use:
        """Return the budget that the most expensive silo of a fit uses."""
        raise NotImplementedError

    def _filling(self, taken: Taken) -> Filling:
        """Return the use of the budget."""
        raise NotImplementedError

    def _epsilon(self, filling: Filling) -> float:
        """Return the epsilon whose filter budget equals the used part."""
        raise NotImplementedError

    def _squared_mu(self, room: float) -> float:
        """Return mu^2 of the Gaussian fit that uses this much of the budget."""
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianFilter(Filter):
    """Sums of mu^2 of Gaussian DP; any other fit has infinite mu."""

    def _use(self, cost: PrivacySpent) -> Use:
        return Use(max(_squared_mu(c.composition, cost) for c in cost.costs), 0.0)

    def _filling(self, taken: Taken) -> Filling:
        budget = gaussian_mu(self.epsilon, self.delta) ** 2
        return Filling(taken.used, budget, "squared mu of Gaussian DP")

    def _epsilon(self, filling: Filling) -> float:
        if not math.isfinite(filling.used):
            return math.inf
        return gaussian_epsilon(math.sqrt(filling.used), self.delta)

    def _squared_mu(self, room: float) -> float:
        return room


@dataclass(frozen=True)
class RenyiFilter(Filter):
    """Sums of Renyi divergences at one order, and of failure probabilities."""

    def _use(self, cost: PrivacySpent) -> Use:
        order = filter_order(self.epsilon, self.delta)
        prices = [renyi(c.composition, order, cost.neighbours) for c in cost.costs]
        return Use(max(used for used, _ in prices), max(failure for _, failure in prices))

    def _filling(self, taken: Taken) -> Filling:
        share = failure_share(self.delta, taken.first_failure)
        if not taken.failures <= share:
            return Filling(taken.failures, share, FAILURES)
        order = filter_order(self.epsilon, self.delta)
        budget = renyi_budget(self.epsilon, self.delta - share, order)
        return Filling(taken.used, budget, f"Renyi divergence at order {order:.3g}")

    def _epsilon(self, filling: Filling) -> float:
        if filling.unit == FAILURES:
            return math.inf
        return self.epsilon + (filling.used - filling.budget)  # the budget grows as epsilon does

    def _squared_mu(self, room: float) -> float:
        return 2 * room / filter_order(self.epsilon, self.delta)


#: by a ledger's ``method``
FILTERS: dict[str, type[Filter]] = {"renyi": RenyiFilter, "gaussian": GaussianFilter}


def _squared_mu(composition: Composition, cost: PrivacySpent) -> float:
    """Return mu^2 of a composition of Gaussians; infinite for anything else."""
    if not all(isinstance(event, Gaussian) for event, _ in composition):
        return math.inf
    return releases(composition, cost.neighbours).mu_squared


def failure_share(delta: float, first: float) -> float:
    """Return the share of delta for failures, fixed by the first fit's failure probability."""
    return delta / 10 if first <= delta / 10 else delta / 2


@lru_cache(maxsize=64)
def filter_order(epsilon: float, delta: float) -> float:
    """Return the filter's order, which depends on the budget only.

    It is the best order for Gaussian fits, which have D_a = a rho: that with the largest budget_a /
    a.
    """
    orders = 1 + np.exp(np.linspace(math.log(0.05), math.log(5000), 2000))
    return float(max(orders, key=lambda a: renyi_budget(epsilon, delta, a) / a))


def renyi_budget(epsilon: float, delta: float, order: float) -> float:
    """Return the Renyi budget at an order for (epsilon, delta); if negative, nothing is allowed."""
    if delta <= 0:
        return -math.inf
    return (
        epsilon - math.log((order - 1) / order) + (math.log(delta) + math.log(order)) / (order - 1)
    )
