"""One budget for all fits on a data set.

A ledger records the cost of every fit in its block, in any process, before the fit reads data, and
refuses fits that exceed the budget. Later fits may depend on the outputs of earlier ones, so
admission is decided by a filter (:mod:`skdpfl.privacy.spending.filters`).
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
    """Record every fit inside a ``with`` block, and refuse fits that exceed the budget.

    Parameters
    ----------
    epsilon : float, default=None
        The budget. None keeps the file's; a new ledger then only records costs.
    delta : float, default=None
        The budget's delta. None keeps the file's; in a new ledger it is 1e-5.
    method : {"renyi", "gaussian"}, default=None
        The filter that admits fits. "gaussian" is tighter but admits full-batch fits only. None
        keeps the file's; in a new ledger it is "renyi".
    neighbours : {"replace", "add_remove"}, default=None
        The relation under which all fits are priced. None keeps the file's; in a new ledger it is
        that of the first fit.
    path : str or path-like, default=None
        The ledger's file. Give one to keep a budget over several sessions; by default a temporary
        file, which is removed at the end of the block.
    must_exist : bool, default=False
        Raise if there is no file at ``path``. Use True from the second session on: otherwise a
        deleted file means a new budget.

    Attributes
    ----------
    spent : PrivacySpent or None
        The composed cost of all fits so far; None before the first one. It is valid if no fit's
        parameters depended on another's output; the budget is valid in any case.
    entries : list
        Each fit's name and cost.
    budgets : list
        The initial budget and the raised ones, each with its reason.

    Raises
    ------
    LedgerError
        If the file is damaged or missing, cannot be written, or has another budget than the
        parameters. No fit is admitted then.

    See Also
    --------
    skdpfl.privacy_spent : Privacy cost of a fitted pipeline or search.

    Notes
    -----
    A ledger is for one data set: all fits are assumed to use the same records. Fits in worker
    processes are recorded, too: a pickled or cloned estimator keeps its ledgers.

    The file is text with one JSON object per line, readable by its owner only; reading it runs no
    code. If the file is deleted or replaced by an older copy while no ledger has it open, this
    cannot be detected.

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
        self._book: Book | None = None  # the content at the end of the block
        self._depth, self._closed, self._owner = 0, False, os.getpid()
        self._warned: set[int] = set()  # repeated seeds with a warning
        if must_exist and self._journal is None:
            raise ValueError("must_exist=True needs the path of a file that must exist.")
        if self._journal is not None and (must_exist or self._journal.exists()):
            self._read_budget(self._journal)

    def _read_budget(self, journal: Journal) -> None:
        """Read the budget in the file, which must agree with the parameters."""
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
            if self._journal.mark is None:  # the file may be new
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
            return  # the block's own error comes first; .entries raises this error
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
        # the same bytes before and after a fit: caches of fitted steps compare them
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
        """The budget; None: costs are only recorded."""
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
        """The neighbour relation; None: that of the first fit."""
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
        """The fits so far, composed."""
        costs = [entry.spent for entry in self.entries]
        if "replace" in [self.neighbours, *(cost.neighbours for cost in costs)]:
            costs = [cost.under("replace") for cost in costs]
        return total(costs) if costs else None

    def charge(self, name: str, spent: PrivacySpent) -> None:
        """Record the cost of a fit, or raise BudgetExceeded; called before the fit reads data.

        Parameters
        ----------
        name : str
            The name of the fit, for the entry and the error.
        spent : PrivacySpent
            Its cost.
        """
        charge_all([self], name, spent)

    def check(self, spent: PrivacySpent) -> None:
        """Raise BudgetExceeded if a fit of this cost would be refused now; nothing is recorded.

        Parameters
        ----------
        spent : PrivacySpent
            Its cost.
        """
        book = self._content()
        budget = self._budget if book is None else book.budget
        budget.admit([entry.spent for entry in self.entries], spent)

    def raise_budget(self, epsilon: float, *, reason: str) -> None:
        """Raise the budget, and record the reason.

        The ledger then guarantees the largest budget that it may ever get. If results decide how
        far the budget is raised, there is no guarantee.

        Parameters
        ----------
        epsilon : float
            The new budget, above the current one. A ledger that only records gets a budget.
        reason : str
            The reason, and who decided; it is stored in the file.
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
    """Record a cost in every ledger or, if one refuses it, in none.

    All files are locked, in the same order in all processes, until all have been checked and
    written. If one cannot be written, the fit is refused; ledgers written before still count it.
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
    """Return whether the file of a temporary ledger was removed, and warn if so.

    If the ledger has a budget, its file may have been lost while it was open: that is an error,
    unless the block ended in this process.
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
    """Return the ledgers that record fits in this process, each once."""
    return tuple({ledger.record: ledger for ledger in _OPEN}.values())


def _copy(path: str, mark: Any, budget: Budget, temporary: bool) -> PrivacyLedger:
    """Return a ledger on the same file, in any process; the file may have been removed."""
    ledger = PrivacyLedger(budget.epsilon, budget.delta, method=budget.method)
    ledger._asked, ledger._budget, ledger._temporary = {}, budget, temporary
    ledger._journal, ledger._owner = Journal(path, mark), 0
    return ledger
