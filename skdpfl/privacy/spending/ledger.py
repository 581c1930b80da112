r"""One budget for everything that is learnt from one data set.

A ledger is a *filter*: later fits may depend on what earlier ones gave out, as they do in any
notebook. Stopping when the composed distributions reach the budget would then not be sound: with
(3, 1e-5), a Gaussian fit of mu = 0.5 followed, depending on its output, by one of mu = 0.517 or by
100 Poisson steps, each of which composes with the first to epsilon = 3, has delta = 1.7e-5. So
admission is decided by a Renyi filter at one order fixed in advance::

    admit while  sum_i D_a(fit_i) <= budget_a   and   sum_i f_i <= F,      f_i: chances of failure
    budget_a = eps - log((a - 1) / a) + (log(delta - F) + log a) / (a - 1)
    F        = delta / 10,  or delta / 2 if the first fit alone has more than the former

Formal guarantee
----------------
*Renyi filter.* Feldman and Zrnic (NeurIPS 2021): stopping before the Renyi budget at one order,
fixed beforehand, would be exceeded makes the whole adaptive sequence Renyi-private at that order;
the conversion to (eps, delta) is that of Canonne, Kamath and Steinke (NeurIPS 2020). The share F of
delta is fixed beforehand too, by the first fit at most, whose parameters no output could influence.
Let the t-th fit's law under either neighbour be ``(1 - f_t) P'_t + f_t E_t``, P'_t of bounded
divergence; f_t and the bound may depend on the outputs y before, the same for both neighbours. With
``w(y) = prod_t (1 - f_t)``, at least 1 - F on every path, the transcript's law P lies above w P'
and exceeds it by a mass of at most F, likewise Q. So for all events S ::

    P(S) - e^eps Q(S)  <=  F + int_S w (P' - e^eps Q')  <=  F + (delta - F)

by the filter's conversion for P' and Q'. (Were delta' to shrink by the failures of the path, a
failure averaged under P' would meet a delta' averaged under a tilted law: up to 1.5 delta.) A first
fit that meets (epsilon, delta) by its own distribution is admitted even if it is beyond the Renyi
budget; nothing is admitted after it, so that one fit, with parameters no output could influence, is
all there is.

*Gaussian filter.* If every fit is a composition of Gaussians, mu_i^2 adding up, admitting while
sum mu_i^2 <= mu^2 keeps the adaptive sequence mu-Gaussian DP (Koskela, Tobaben and Honkela, 2023).
It wastes nothing, and refuses every other fit. Which filter it is, is fixed when the ledger opens:
switching by what a fit gave out would be the hole described above.

*One relation.* All of a ledger's fits are priced under the first one's relation. One under
"add_remove" is priced anew where that is "replace"; the reverse is refused.

A record sits in one silo, so either filter holds for each silo by itself; the sums kept are those
of the most expensive silo of each fit.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import warnings
from collections import Counter
from numbers import Real
from types import TracebackType
from typing import Any

import numpy as np

from skdpfl.exceptions import BudgetExceeded, PrivacyLeakWarning
from skdpfl.privacy.events import Composition, Gaussian
from skdpfl.privacy.pricing.gaussian import gaussian_mu
from skdpfl.privacy.pricing.renyi import renyi
from skdpfl.privacy.spending.journal import Entry, Journal
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.privacy.spending.sums import total

#: open ledgers of this process, outermost first; threads share them
_OPEN: list[PrivacyLedger] = []


class PrivacyLedger:
    """Record every fit inside a ``with`` block; refuse what the budget does not cover.

    Parameters
    ----------
    epsilon : float, default=None
        The budget. None only records.
    delta : float, default=1e-5
        The budget's delta.
    method : {"renyi", "gaussian"}, default="renyi"
        The filter that admits fits. "gaussian" is tighter and takes full-batch fits only.
    path : str or path-like, default=None
        The file that holds the record. Give one to keep a budget over several sessions; by default
        a temporary one that the end of the block removes.

    Attributes
    ----------
    spent : PrivacySpent or None
        The fits so far, their distributions composed; None before the first one. This is the price
        if no fit's parameters depended on another's output; what holds in any case is the budget.
    entries : list
        Each fit's name and cost.

    See Also
    --------
    skdpfl.privacy_spent : What a fitted pipeline or search cost.

    Notes
    -----
    One ledger is for one data set: fits are taken to be on the same records. It also sees fits in
    worker processes, whenever these were started: an estimator carries its ledgers along when it
    is pickled or cloned.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.privacy import PrivacyLedger
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> with PrivacyLedger(epsilon=3.0) as ledger:
    ...     model = ISRLDPClassifier(epsilon=1.0, scaling=None, random_state=0).fit(X, y)
    >>> len(ledger.entries)
    1
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = 1e-5,
        *,
        method: str = "renyi",
        path: Any = None,
    ) -> None:
        if epsilon is not None and not (_is_number(epsilon) and epsilon > 0):
            raise ValueError(f"epsilon must be None or a number > 0; got {epsilon!r}.")
        if not (_is_number(delta) and 0 < delta < 1):
            raise ValueError(f"delta must be a number in (0, 1); got {delta!r}.")
        if method not in ("renyi", "gaussian"):
            raise ValueError(f"method must be 'renyi' or 'gaussian'; got {method!r}.")
        self.epsilon, self.delta, self.method = epsilon, delta, method
        self._temporary = path is None
        self._journal = Journal(_temporary_file() if path is None else os.path.abspath(path))
        self._final: list[Entry] | None = None
        self._said: set[int] = set()  # seeds whose repetition was warned of

    def __enter__(self) -> PrivacyLedger:
        if self._final is not None:
            raise ValueError("This ledger is closed; give a path to go on with a budget later.")
        self._journal.create()
        _OPEN.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _OPEN.remove(self)
        self._final = self._journal.entries()
        if self._temporary:
            os.unlink(self._journal.path)
        self._warn_of_seeds_elsewhere(self._final)
        if any(entry.scored for entry in self._final):
            warnings.warn(
                f"{sum(e.scored for e in self._final)} fit(s) in this ledger were scored exactly "
                "by a search or a cross-validation; scores of records, and a choice made by them, "
                "are not paid for. DPRandomizedSearchCV pays for both.",
                PrivacyLeakWarning,
                stacklevel=2,
            )

    def _warn_of_seeds_elsewhere(self, entries: list[Entry]) -> None:
        """Warn of seeds that repeated in worker processes, whose warnings are not seen here."""
        counts = Counter(seed for entry in entries for seed in entry.spent.simulation_seeds)
        for seed, times in counts.items():
            if times > 1 and seed not in self._said:
                warnings.warn(
                    f"{times} fits in this ledger had random_state={seed}: their noise repeats, "
                    "and together they have no privacy. Use None, or other seeds.",
                    PrivacyLeakWarning,
                    stacklevel=3,
                )

    def __reduce__(self) -> Any:
        return _reopen, (self.epsilon, self.delta, self.method, self._journal.path)

    def __repr__(self) -> str:
        budget = "" if self.epsilon is None else f"epsilon={self.epsilon:g}, delta={self.delta:g}; "
        return f"PrivacyLedger({budget}{len(self.entries)} fits, spent={self.spent!r})"

    @property
    def record(self) -> str:
        """The file that holds the record."""
        return self._journal.path

    @property
    def closed(self) -> bool:
        """Whether the block has ended, in the process that opened it."""
        return self._final is not None

    @property
    def entries(self) -> list[Entry]:
        """Each fit's name and cost, oldest first."""
        return self._journal.entries() if self._final is None else self._final

    @property
    def spent(self) -> PrivacySpent | None:
        """The fits so far, composed."""
        costs = [entry.spent for entry in self.entries]
        if any(cost.neighbours == "replace" for cost in costs):
            costs = [cost.under("replace") for cost in costs]
        return total(costs) if costs else None

    def charge(self, name: str, spent: PrivacySpent) -> None:
        """Write a fit's cost down, or raise BudgetExceeded; called before the fit reads data.

        Parameters
        ----------
        name : str
            What is charged, for the entry and the error.
        spent : PrivacySpent
            Its cost.
        """
        if not self._journal.exists():
            warnings.warn(
                f"The ledger at {self._journal.path} that this estimator was copied from is gone; "
                "this fit is not recorded.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
            return
        repeated: list[int] = []

        def check(entries: list[Entry]) -> None:
            past = [entry.spent for entry in entries]
            self._admit([*past, spent])
            for cost in past:
                repeated.extend(cost.simulation_seeds & spent.simulation_seeds)

        self._journal.append(Entry(name, _scored_exactly(), spent), check)
        for seed in sorted({*repeated} - self._said):
            self._said.add(seed)
            warnings.warn(
                f"random_state={seed} was used by an earlier fit on the same records: both "
                "have the same noise, and together they have no privacy. Use None, or other seeds.",
                PrivacyLeakWarning,
                stacklevel=4,
            )

    def _admit(self, costs: list[PrivacySpent]) -> None:
        if self.epsilon is None:
            return
        units = {cost.unit for cost in costs}
        if len(units) > 1:
            raise ValueError("A ledger holds fits of one unit; got unit='record' and unit='silo'.")
        costs = _under_one_relation(costs)
        alone = len(costs) == 1 and costs[0].epsilon_at(self.delta) <= self.epsilon
        used, left, unit = self._used_and_left(costs)
        if not alone and used > left:
            raise BudgetExceeded(
                f"This fit would take the ledger beyond epsilon={self.epsilon:g} at delta="
                f"{self.delta:g}: {used:.4g} of {left:.4g} ({unit}), after {len(costs) - 1} "
                "fit(s). It was refused before it trained on any data."
            )

    def _used_and_left(self, costs: list[PrivacySpent]) -> tuple[float, float, str]:
        """Return what all costs use of the filter's budget, that budget, and its unit."""
        assert self.epsilon is not None
        if self.method == "gaussian":
            budget = gaussian_mu(self.epsilon, self.delta)
            used = sum(max(_squared_mu(c.composition, cost) for c in cost.costs) for cost in costs)
            return used, budget**2, "squared mu of Gaussian DP"
        order = filter_order(self.epsilon, self.delta)
        fits = [[renyi(c.composition, order, fit.neighbours) for c in fit.costs] for fit in costs]
        failures = [max(failure for _, failure in prices) for prices in fits]
        share = failure_share(self.delta, failures[0])
        if sum(failures) > share:
            return sum(failures), share, "chances of failure, a fixed share of delta"
        used = sum(max(divergence for divergence, _ in prices) for prices in fits)
        left = renyi_budget(self.epsilon, self.delta - share, order)
        return used, left, f"Renyi divergence at order {order:.3g}"


def _is_number(value: object) -> bool:
    return isinstance(value, Real)


def _under_one_relation(costs: list[PrivacySpent]) -> list[PrivacySpent]:
    """Return the costs under the first one's relation: it was chosen before any output was seen."""
    relation = costs[0].neighbours
    if relation == "add_remove" and any(cost.neighbours != relation for cost in costs):
        raise ValueError(
            'This ledger counts under neighbours="add_remove", the relation of its first fit; a '
            'fit under "replace" is not covered by that. Use one relation, or fit the one under '
            '"replace" first: the others are then priced under it as well.'
        )
    return [cost.under(relation) for cost in costs]


def _squared_mu(composition: Composition, cost: PrivacySpent) -> float:
    """Return mu^2 of a composition of Gaussians; infinite for anything else."""
    distance = 2.0 if cost.neighbours == "replace" else 1.0
    if not all(isinstance(e, Gaussian) and e.noise_multiplier > 0 for e, _ in composition):
        return math.inf
    return sum(
        count * (distance / event.noise_multiplier) * (distance / event.noise_multiplier)
        for event, count in composition
        if isinstance(event, Gaussian)
    )


def failure_share(delta: float, first: float) -> float:
    """Return the share of delta for failures, fixed by the first fit's chance of failure."""
    return delta / 10 if first <= delta / 10 else delta / 2


def filter_order(epsilon: float, delta: float) -> float:
    """Return the filter's order, fixed by the budget alone: the best one for Gaussian fits.

    Gaussian fits have D_a = a rho, so it is the order with the largest budget_a / a.
    """
    orders = 1 + np.exp(np.linspace(math.log(0.05), math.log(5000), 2000))
    return float(max(orders, key=lambda a: renyi_budget(epsilon, delta, a) / a))


def renyi_budget(epsilon: float, delta: float, order: float) -> float:
    """Return the Renyi budget at an order that (epsilon, delta) allows; negative: nothing."""
    if delta <= 0:
        return -math.inf
    return (
        epsilon - math.log((order - 1) / order) + (math.log(delta) + math.log(order)) / (order - 1)
    )


def open_ledgers() -> tuple[PrivacyLedger, ...]:
    """Return the ledgers that a fit in this process is recorded in."""
    return tuple(_OPEN)


def _reopen(epsilon: float | None, delta: float, method: str, path: str) -> PrivacyLedger:
    """Return a ledger on the same record, in whatever process."""
    return PrivacyLedger(epsilon, delta, method=method, path=path)


def _temporary_file() -> str:
    handle, path = tempfile.mkstemp(prefix="skdpfl-ledger-", suffix=".sqlite")
    os.close(handle)
    return path


def _scored_exactly() -> bool:
    """Tell whether scikit-learn fits in order to score (a search, a cross-validation)."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and "sklearn" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
