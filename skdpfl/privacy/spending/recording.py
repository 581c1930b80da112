"""A mixin that charges the fits of an estimator to ledgers, in any process.

An estimator that is cloned or pickled while a ledger is open keeps the ledger, so worker processes
charge it even if they were started before it was opened.
"""

from __future__ import annotations

from typing import Any

from skdpfl._surface import DocLinks
from skdpfl.privacy.spending.account import charge_all
from skdpfl.privacy.spending.as_fitted import as_fitted
from skdpfl.privacy.spending.leaks import times_drawn
from skdpfl.privacy.spending.ledger import PrivacyLedger, open_ledgers
from skdpfl.privacy.spending.spent import PrivacySpent, of_copies

_CARRIED = "_ledgers"


class Recorded(DocLinks):
    """Mixin for private estimators, which call ``_charge(spent)`` before they read data."""

    def _charge(self, spent: PrivacySpent, paid_to: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Record the cost in every ledger or, if one raises BudgetExceeded, in none.

        Runs of a search are charged by the search. Fits that release nothing need no entry. A
        record of which bagging made copies pays for each of them.
        ``paid_to``: ledgers that have it already; they and those that it was recorded in are
        returned, by the digest of their beginning.
        """
        times = times_drawn()
        self._as_fitted = as_fitted(self, times)
        if self.__dict__.get("_covered", False) or not any(c.composition for c in spent.costs):
            return paid_to
        ledgers = [each for each in _ledgers_of(self) if _birth(each) not in paid_to]
        if ledgers:
            charge_all(ledgers, type(self).__name__, of_copies(spent, times))
        return (*paid_to, *(birth for each in ledgers if (birth := _birth(each))))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())  # type: ignore[call-overload]
        ledgers = _ledgers_of(self)
        return state | {_CARRIED: ledgers} if ledgers else state

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        ledgers = _ledgers_of(self)
        if ledgers:
            setattr(copy, _CARRIED, ledgers)
        return copy


def _ledgers_of(estimator: Any) -> tuple[PrivacyLedger, ...]:
    """Return the ledgers open in this process, and those carried here from another."""
    here = open_ledgers()
    known = {ledger.record for ledger in here}
    carried = estimator.__dict__.get(_CARRIED, ())
    return here + tuple(l for l in carried if l.record not in known and not l.closed)


def _birth(ledger: PrivacyLedger) -> str:
    """Return what tells a ledger from all others, "" for one that was never open."""
    mark = None if ledger._journal is None else ledger._journal.mark
    return "" if mark is None else mark.first
