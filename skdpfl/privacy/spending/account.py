"""A ledger's file as seen by one process, and the entry of a fit in several ledgers.

An account has the requested budget, the file's content and the cost so far. A fit is entered in all
open accounts or in none.
"""

import math
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import pandas as pd

from skdpfl._arguments import at_least, at_most
from skdpfl._warnings import warn
from skdpfl.exceptions import LedgerError, PrivacyLeakWarning
from skdpfl.privacy.events import Neighbours
from skdpfl.privacy.spending.book import Book, Budget, Entry, Journal
from skdpfl.privacy.spending.filters import Filter, Taken
from skdpfl.privacy.spending.spent import PrivacySpent, total

#: files of ledgers without a path whose block ended in this process
ENDED: set[str] = set()


class Account:
    """The content of a ledger's file, checked whenever it is read.

    ``asked`` are the given parameters, with which the file must agree. Without a journal the file
    is a temporary one.
    """

    def __init__(self, asked: dict[str, Any], journal: Journal | None) -> None:
        self._budget = Budget(**asked)  # raises for invalid parameters
        self._asked, self._journal, self._temporary = asked, journal, journal is None
        self._book: Book | None = None  # the content at the end of the block
        self._depth, self._closed = 0, False
        self._warned: set[int] = set()  # repeated seeds with a warning

    def _read_budget(self, journal: Journal) -> None:
        """Read the budget in the file, which must agree with the parameters."""
        budget = journal.read().budget
        for name, asked in self._asked.items():
            if getattr(budget, name) != asked:
                raise LedgerError(
                    f"The privacy ledger {journal.path!r} has {name}={getattr(budget, name)!r}, "
                    f"not {name}={asked!r}. Leave {name} out to continue with the file's. "
                    "ledger.raise_budget(epsilon, reason=...) raises epsilon and records the "
                    "reason; delta, method and neighbours cannot be changed."
                )
        self._budget = budget

    def __repr__(self) -> str:
        try:
            return f"{type(self).__name__}({self._state()})"
        except LedgerError:
            has = f"epsilon={self.epsilon:g}, delta={self.delta:g}; " if self.epsilon else ""
            return f"{type(self).__name__}({has}unreadable)"

    def _state(self) -> str:
        """Return the amount spent, at the ledger's delta."""
        costs = [entry.spent for entry in self.entries]
        fits = f"{len(costs)} fit" + ("" if len(costs) == 1 else "s")
        rule = self._filter()
        if rule is not None:
            taken = at_most(rule.spent(rule.taken(costs)), 3)
            left = f"{taken} is spent, {at_least(self.remaining, 3)} fits"
            return f"epsilon={rule.epsilon:g}, delta={rule.delta:g}; {fits}, {left}"
        spent = self.spent
        if spent is None:
            return f"no budget; {fits}"
        composed = f"composed epsilon {at_most(spent.epsilon_at(self.delta), 3)}"
        return f"no budget; {fits}, {composed} at delta={self.delta:g}"

    def _filter(self) -> Filter | None:
        """Return the filter of the current budget; None if costs are only recorded."""
        return self.budgets[-1].filter

    @property
    def remaining(self) -> float:
        """The largest epsilon of one more fit with full batches, at the ledger's delta.

        It is computed by the ledger's filter, as are refusals. For fits of other kinds (Poisson
        batches, counts, scores) the largest epsilon may differ. It is infinite without a budget.
        """
        rule = self._filter()
        costs = [entry.spent for entry in self.entries]
        return math.inf if rule is None else rule.remaining(rule.taken(costs))

    def table(self) -> pd.DataFrame:
        """Return a frame with a row for each fit: date, name, cost, and the total spent so far.

        Returns
        -------
        DataFrame
            ``epsilon`` is a fit's own cost at the ledger's delta; ``spent`` is that of all fits so
            far, as the filter counts it (without a budget: composed).
        """
        rule, entries = self._filter(), self.entries
        costs = [entry.spent for entry in entries]
        if rule is None:
            taken = [total(costs[: k + 1]).epsilon_at(self.delta) for k in range(len(costs))]
        else:
            taken = [
                rule.spent(so_far) for so_far in accumulate(costs, rule.adding, initial=Taken())
            ]
            taken = taken[1:]
        rows = [
            (each.date, each.name, each.spent.epsilon_at(self.delta), spent, each.spent.simulation)
            for each, spent in zip(entries, taken, strict=True)
        ]
        return pd.DataFrame(rows, columns=["date", "name", "epsilon", "spent", "simulation"])

    @property
    def epsilon(self) -> float | None:
        """The budget; None if costs are only recorded."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The budget's delta."""
        return self._budget.delta

    @property
    def method(self) -> str:
        """The filter that admits fits."""
        return self._budget.method

    @property
    def neighbours(self) -> Neighbours | None:
        """The neighbouring relation; None: that of the first fit."""
        return self._budget.neighbours

    @property
    def record(self) -> str | None:
        """The ledger's file; None before a temporary one is opened."""
        return None if self._journal is None else self._journal.path

    @property
    def closed(self) -> bool:
        """Whether the block has ended, in the process that opened it."""
        return self._closed

    def _content(self) -> Book | None:
        """Return the content of the file; None if there is no file yet."""
        journal = self._journal
        if self._book is not None or journal is None:
            return self._book
        return journal.read() if journal.mark is not None or journal.exists() else None

    @property
    def entries(self) -> list[Entry]:
        """Each fit's name and cost, oldest first."""
        book = self._content()
        return [] if book is None else book.entries

    @property
    def budgets(self) -> list[Budget]:
        """The initial budget and the raised ones, oldest first."""
        book = self._content()
        return [self._budget] if book is None else book.budgets

    @property
    def spent(self) -> PrivacySpent | None:
        """The composed cost of all fits so far, as if they had been fixed beforehand."""
        costs = [entry.spent for entry in self.entries]
        if "replace" in [self.neighbours, *(cost.neighbours for cost in costs)]:
            costs = [cost.under("replace") for cost in costs]
        return total(costs) if costs else None

    def check(self, spent: PrivacySpent) -> None:
        """Raise BudgetExceeded if a fit of this cost would be refused now; nothing is recorded.

        Parameters
        ----------
        spent : PrivacySpent
            Its cost.
        """
        if (rule := self._filter()) is not None:
            rule.admit(rule.taken(entry.spent for entry in self.entries), spent)

    def _writable(self) -> Journal:
        """Return the file, which must be open."""
        if self._closed or self._journal is None:
            raise LedgerError(f"{self!r} is not open. Use it in a with block.")
        return self._journal

    def _is_gone(self) -> bool:
        """Return whether the file, a temporary one, was removed.

        If there is a budget, the file may have been lost while it was open: that is an error,
        unless the block ended in this process.
        """
        journal = self._journal
        if not self._temporary or self._depth or self._closed or journal is None:
            return False
        if journal.exists():
            return False
        if self.epsilon is not None and journal.path not in ENDED:
            raise LedgerError(
                f"This estimator was copied under the privacy ledger {journal.path!r}, which has "
                "ended or lost its file. No fit is admitted. Make a new estimator with the same "
                "parameters, under another ledger."
            )
        return True


def charge_all(accounts: Iterable[Account], name: str, spent: PrivacySpent) -> None:
    """Record a cost in every account or, if one refuses it, in none.

    All files are locked, in the same order in all processes, until all have been checked and
    written. If one cannot be written, the fit is refused; accounts written before still count it.
    """
    journals = {}
    for account in accounts:
        if account._is_gone():
            warn(
                f"This estimator was copied under the ledger at {account.record}, which is gone; "
                "this fit is not recorded.",
                PrivacyLeakWarning,
            )
        else:
            journals[account] = account._writable()
    with ExitStack() as stack:
        books = {
            account: stack.enter_context(journal.locked())
            for account, journal in sorted(journals.items(), key=lambda pair: pair[1].path)
        }
        for account, book in books.items():
            account._budget = book.budget
            book.admit(spent)
        entry = Entry(name, spent, now())
        for account, book in books.items():
            journals[account].add(book, entry)
    for account, book in books.items():
        warn_of_seeds(book.seeds, spent, account._warned)


def now() -> str:
    """Return the date of an entry."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def warn_of_seeds(past: frozenset[int], spent: PrivacySpent, warned: set[int]) -> None:
    """Warn of seeds that an earlier fit used, once each; they are added to ``warned``."""
    for seed in sorted((past & spent.simulation_seeds) - warned):
        warned.add(seed)
        warn(
            f"random_state={seed} was used by an earlier fit on the same records: both have the "
            "same noise, so together they have no privacy. Use None, or other seeds.",
            PrivacyLeakWarning,
        )


def warn_at_the_end(entries: list[Entry], warned: set[int]) -> None:
    """Warn of seeds that repeated in other processes."""
    counts = Counter(seed for entry in entries for seed in entry.spent.simulation_seeds)
    for seed, times in counts.items():
        if times > 1 and seed not in warned:
            warn(
                f"{times} fits in this ledger had random_state={seed}: they have the same noise, "
                "so together they have no privacy. Use None, or other seeds.",
                PrivacyLeakWarning,
            )
