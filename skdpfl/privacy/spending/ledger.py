"""One budget for everything that is learnt from one data set.

A ledger sees every fit in its block, in whatever process, writes its cost down before the fit reads
data, and refuses the one that the budget does not cover: later fits may depend on what earlier ones
gave out, so what decides is a filter (:mod:`skdpfl.privacy.spending.filters`).
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any

from skdpfl.exceptions import LedgerError, PrivacyLeakWarning
from skdpfl.privacy.pricing.price import Neighbours
from skdpfl.privacy.spending.book import Book, Budget, Entry
from skdpfl.privacy.spending.journal import Journal, absolute, temporary_path
from skdpfl.privacy.spending.leaks import is_scored_exactly, warn_at_the_end, warn_of_seeds
from skdpfl.privacy.spending.spent import PrivacySpent, total

#: open ledgers of this process, outermost first; threads share them
_OPEN: list[PrivacyLedger] = []

#: files of ledgers without a path whose block ended in this process
_ENDED: set[str] = set()


class PrivacyLedger:
    """Record every fit inside a ``with`` block; refuse what the budget does not cover.

    Parameters
    ----------
    epsilon : float, default=None
        The budget. None keeps the file's; in a new ledger it only records.
    delta : float, default=None
        The budget's delta. None keeps the file's; in a new ledger it is 1e-5.
    method : {"renyi", "gaussian"}, default=None
        The filter that admits fits. "gaussian" is tighter and takes full-batch fits only. None
        keeps the file's; in a new ledger it is "renyi".
    neighbours : {"replace", "add_remove"}, default=None
        The relation that all fits are priced under. None keeps the file's; in a new ledger it is
        the first fit's.
    path : str or path-like, default=None
        The file that holds the record. Give one to keep a budget over several sessions; by default
        a temporary one that the end of the block removes.
    must_exist : bool, default=False
        Refuse to start a new file at ``path``. Use True from the second session on: a file that was
        deleted would be a fresh budget.

    Attributes
    ----------
    spent : PrivacySpent or None
        The fits so far, their distributions composed; None before the first one. This is the price
        if no fit's parameters depended on another's output; what holds in any case is the budget.
    entries : list
        Each fit's name and cost.
    budgets : list
        The budget at the start and what it was raised to, each with its reason.

    Raises
    ------
    LedgerError
        If the file is not what was written, is missing, cannot be written, or has another budget
        than the one asked for. No fit is admitted then.

    See Also
    --------
    skdpfl.privacy_spent : What a fitted pipeline or search cost.

    Notes
    -----
    One ledger is for one data set: fits are taken to be on the same records. It also sees fits in
    worker processes, whenever these were started: an estimator carries its ledgers along when it
    is pickled or cloned.

    The file is text, a JSON object a line, readable by its owner only; reading it runs no code. A
    file that was deleted while no ledger was open on it, or replaced by an older copy of itself,
    cannot be told from a new one or from the latest.

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
        delta: float | None = None,
        *,
        method: str | None = None,
        neighbours: Neighbours | None = None,
        path: Any = None,
        must_exist: bool = False,
    ) -> None:
        asked = {"epsilon": epsilon, "delta": delta, "method": method, "neighbours": neighbours}
        self._asked: dict[str, Any] = {
            name: value for name, value in asked.items() if value is not None
        }
        self._budget = Budget(**self._asked)
        self._journal = None if path is None else Journal(absolute(path))
        self._temporary = path is None
        self._book: Book | None = None  # what the ledger held when its block ended
        self._depth, self._closed, self._owner = 0, False, os.getpid()
        self._warned: set[int] = set()  # seeds whose repetition was warned of
        if must_exist and self._journal is None:
            raise ValueError("must_exist=True needs the path of a file that must exist.")
        if self._journal is not None and (must_exist or self._journal.exists()):
            self._read_budget(self._journal)

    def _read_budget(self, journal: Journal) -> None:
        """Take over the budget in the file, which must be the one that was asked for."""
        budget = journal.read().budget
        for name, asked in self._asked.items():
            if getattr(budget, name) != asked:
                raise LedgerError(
                    f"The privacy ledger {journal.path!r} has {name}={getattr(budget, name)!r}, "
                    f"not {name}={asked!r}. Leave {name} out to go on with what the file has. "
                    "ledger.raise_budget(epsilon, reason=...) raises epsilon and writes that down; "
                    "delta, method and neighbours stay as they are."
                )
        self._budget = budget

    def __enter__(self) -> PrivacyLedger:
        if self._closed:
            raise ValueError("This ledger is closed; give a path to go on with a budget later.")
        if self._depth == 0:
            self._open()
        self._depth += 1
        _OPEN.append(self)
        return self

    def _open(self) -> None:
        if self._journal is None:
            self._journal = Journal(temporary_path())
        try:
            if self._journal.mark is None:  # never seen: it may be new
                self._journal.create(self._budget)
            self._read_budget(self._journal)
        except LedgerError:
            self._remove_temporary()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _OPEN.remove(self)
        self._depth -= 1
        if self._depth or self._journal is None:
            return
        self._closed = True
        try:
            self._book = self._journal.read()
        except LedgerError:
            if kind is None:
                raise
            return  # the block's own error comes first; .entries raises this one
        finally:
            self._remove_temporary()
        warn_at_the_end(self._book.entries, self._warned)

    def _remove_temporary(self) -> None:
        if self._temporary and self._journal is not None and self._owner == os.getpid():
            _ENDED.add(self._journal.path)
            shutil.rmtree(os.path.dirname(self._journal.path), ignore_errors=True)

    def __reduce__(self) -> Any:
        if self._journal is None:
            return partial(PrivacyLedger, **self._asked), ()
        # the same bytes before and after a fit: caches of fitted steps go by them
        birth = None if self._journal.mark is None else self._journal.mark.birth
        return _copy, (self._journal.path, birth, self._budget, self._temporary)

    def __repr__(self) -> str:
        try:
            fits = f"{len(self.entries)} fits, spent={self.spent!r}"
        except LedgerError:
            fits = "unreadable"
        budget = "" if self.epsilon is None else f"epsilon={self.epsilon:g}, delta={self.delta:g}; "
        return f"PrivacyLedger({budget}{fits})"

    @property
    def epsilon(self) -> float | None:
        """The budget; None only records."""
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
        """The relation that was given; None: the first fit's."""
        return self._budget.neighbours

    @property
    def record(self) -> str | None:
        """The file that holds the record; None before a temporary one is opened."""
        return None if self._journal is None else self._journal.path

    @property
    def closed(self) -> bool:
        """Whether the block has ended, in the process that opened it."""
        return self._closed

    def _content(self) -> Book | None:
        """Return what the file holds; None before there is one."""
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
        """The budget at the start and what it was raised to, oldest first."""
        book = self._content()
        return [self._budget] if book is None else book.budgets

    @property
    def spent(self) -> PrivacySpent | None:
        """The fits so far, composed."""
        costs = [entry.spent for entry in self.entries]
        if "replace" in [self.neighbours, *(cost.neighbours for cost in costs)]:
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
        charge_all([self], name, spent)

    def raise_budget(self, epsilon: float, *, reason: str) -> None:
        """Raise the budget, and write down that and why it was done.

        What the ledger guarantees from the start is the largest budget it may ever be given. Who
        lets the results decide how far it is raised, has no budget.

        Parameters
        ----------
        epsilon : float
            The new budget, above the one that holds. A ledger that only records gets a budget.
        reason : str
            Why, and by whose decision; it is kept in the file.
        """
        journal = self._writable()
        with journal.locked() as book:
            old = book.budget.epsilon
            new = dataclasses.replace(book.budget, epsilon=epsilon, reason=reason)
            if new.epsilon is None or (old is not None and new.epsilon <= old):
                raise ValueError(
                    f"epsilon must be above {old}, the budget that holds: {epsilon!r}."
                )
            journal.replace(book.adding(new))
        self._budget = new
        self._asked |= {"epsilon": new.epsilon}

    def _writable(self) -> Journal:
        """Return the file, which must be open."""
        if self._closed or self._journal is None:
            raise LedgerError(
                f"{self!r} is not open. Use it in a with block, or open its path again."
            )
        return self._journal


def charge_all(ledgers: Iterable[PrivacyLedger], name: str, spent: PrivacySpent) -> None:
    """Write a cost into every ledger or, if one refuses it, into none.

    All files are locked, in one order for all processes, until all have been asked and written. If
    one cannot be written, the fit is refused, and earlier ones count it all the same.
    """
    journals = {}
    for ledger in ledgers:
        if not _is_gone(ledger):
            journals[ledger] = ledger._writable()
    with ExitStack() as stack:
        books = {
            ledger: stack.enter_context(journals[ledger].locked())
            for ledger in sorted(journals, key=lambda ledger: journals[ledger].path)
        }
        for ledger, book in books.items():
            ledger._budget = book.budget
            book.budget.admit([entry.spent for entry in book.entries], spent)
        entry = Entry(name, is_scored_exactly(), spent)
        for ledger, book in books.items():
            journals[ledger].replace(book.adding(entry))
    for ledger, book in books.items():
        warn_of_seeds(book.entries, spent, ledger._warned)


def _is_gone(ledger: PrivacyLedger) -> bool:
    """Return whether a copy of a temporary ledger has outlived it, and say so.

    One that enforced a budget may have lost its file while it was open: that is an error, unless
    the block ended in this process.
    """
    journal = ledger._journal
    if not ledger._temporary or ledger._depth or ledger._closed or journal is None:
        return False
    if journal.exists():
        return False
    if ledger.epsilon is not None and journal.path not in _ENDED:
        raise LedgerError(
            f"The privacy ledger {journal.path!r} that this estimator was copied from has ended "
            "or lost its file. No fit is admitted. Make a new estimator with the same parameters, "
            "under a ledger of its own."
        )
    warnings.warn(
        f"The ledger at {journal.path} that this estimator was copied from is gone; this fit is "
        "not recorded.",
        PrivacyLeakWarning,
        stacklevel=5,
    )
    return True


def open_ledgers() -> tuple[PrivacyLedger, ...]:
    """Return the ledgers that a fit in this process is recorded in, each once."""
    return tuple({ledger.record: ledger for ledger in _OPEN}.values())


def _copy(path: str, mark: Any, budget: Budget, temporary: bool) -> PrivacyLedger:
    """Return a ledger on the same file, in whatever process; it need not exist any more."""
    ledger = PrivacyLedger(budget.epsilon, budget.delta, method=budget.method)
    ledger._asked, ledger._budget, ledger._temporary = {}, budget, temporary
    ledger._journal, ledger._owner = Journal(path, mark), 0
    return ledger
