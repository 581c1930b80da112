"""One budget for all fits on a data set.

A ledger records the cost of every fit in its block, in any process, before the fit reads data, and
refuses fits that exceed the budget. Later fits may depend on the outputs of earlier ones, so
admission is decided by a filter (:mod:`skdpfl.privacy.spending.filters`).

:class:`Recorded` charges the fits of an estimator to ledgers, in any process. An estimator that is
cloned or pickled while a ledger is open keeps the ledger, so worker processes charge it even if
they were started before it was opened.

A ledger is its file as seen by one process: the requested budget, with which the file must agree,
the file's content and the cost so far. A fit is entered in all open ledgers or in none.

The parameters that a private fit had.
--------------------------------------
The costs of discarded fits follow from parameters. These can be changed after the fit
(``search.estimator.set_params(epsilon=0.1)``), and then describe a fit that never happened. So
every private fit stores digests of its own, to compare.
"""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
import math
import os
import pickle
import shutil
import types
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import accumulate
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import at_least, at_most
from skdpfl._surface import DocLinks, forwarded
from skdpfl._warnings import warn
from skdpfl.exceptions import LedgerError, PrivacyLeakWarning
from skdpfl.privacy.events import Neighbours
from skdpfl.privacy.spending.book import Book, Budget, Entry, Journal, absolute, temporary_path
from skdpfl.privacy.spending.filters import Filter, Taken
from skdpfl.privacy.spending.spent import PrivacySpent, total

#: parameters on which no cost depends, of any object
_FREE = ("memory", "n_jobs", "steps", "verbose")

Digests = Mapping[str, str]


@dataclass(frozen=True)
class AsFitted:
    """Digests of an estimator's parameters at its fit, and whether its records had weights.

    Weights that metadata routing passes under another name do not count: bagging then copies the
    rows that it draws.
    """

    own: Digests
    weighted: bool

    @classmethod
    def of(cls, estimator: Any, *, weighted: bool) -> AsFitted:
        """Return the digests of an estimator that is being fitted."""
        if weighted:
            asked = estimator.get_metadata_routing().fit.requests.get("sample_weight")
            weighted = not isinstance(asked, str)
        return cls(own_digests(estimator), weighted)


def own_digests(estimator: Any) -> dict[str, str]:
    """Return digests of an estimator's parameters, except n_jobs and the like."""
    parameters = estimator.get_params(deep=False)
    return {name: _digest(value) for name, value in parameters.items() if name not in _FREE}


def differences(before: Digests, now: Digests) -> list[str]:
    """Return the names whose values differ."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _digest(value: Any) -> str:
    """Return a digest of a parameter's value; the same for copies."""
    return _digest_of(repr(_plain(value)))


@lru_cache(maxsize=256)
def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return a value whose repr is complete."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, np.ndarray | pd.Index):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, pd.Series):
        return _plain(value.to_dict())
    if isinstance(value, list | tuple):
        return type(value).__name__, [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(each)) for each in value)
    if isinstance(value, Mapping):
        return [(_plain(k), _plain(v)) for k, v in value.items()]
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return _kind(value)  # its state moves on
    if isinstance(value, types.FunctionType):
        return value.__qualname__, marshal.dumps(value.__code__)
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _kind(value), sorted(own_digests(value).items())
    own = getattr(value, "__dict__", None)
    if own is not None and not isinstance(value, type):  # splitters, models, losses
        # scikit-learn's stacks give splitters without a seed one
        data = [(k, _plain(v)) for k, v in sorted(own.items()) if k not in (*_FREE, "random_state")]
        return _kind(value), data
    try:
        return pickle.dumps(value)
    except Exception:  # what cannot be compared: only its kind is
        return _kind(value)


def _kind(obj: Any) -> str:
    """Return the class of an object."""
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


#: files of ledgers without a path whose block ended in this process
ENDED: set[str] = set()


def charge_all(ledgers: Iterable[PrivacyLedger], name: str, spent: PrivacySpent) -> None:
    """Record a cost in every ledger or, if one refuses it, in none.

    All files are locked, in the same order in all processes, until all have been checked and
    written. If one cannot be written, the fit is refused; ledgers written before still count it.
    """
    journals = {}
    for ledger in ledgers:
        if ledger._is_gone():
            warn(
                f"This estimator was copied under the ledger at {ledger.record}, which is gone; "
                "this fit is not recorded.",
                PrivacyLeakWarning,
            )
        else:
            journals[ledger] = ledger._writable()
    with ExitStack() as stack:
        books = {
            ledger: stack.enter_context(journal.locked())
            for ledger, journal in sorted(journals.items(), key=lambda pair: pair[1].path)
        }
        for ledger, book in books.items():
            ledger._budget = book.budget
            book.admit(spent)
        entry = Entry(name, spent, now())
        for ledger, book in books.items():
            journals[ledger].add(book, entry)
    for ledger, book in books.items():
        warn_of_seeds(book.seeds, spent, ledger._warned)


def now() -> str:
    """Return the date of an entry."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def warn_of_seeds(past: frozenset[int], spent: PrivacySpent, warned: set[int]) -> None:
    """Warn of seeds that an earlier fit used, once each; they are added to ``warned``."""
    for seed in sorted((past & spent.simulation_seeds) - warned):
        warned.add(seed)
        _warn_of_seed(seed, "This fit and an earlier one")


def warn_at_the_end(entries: list[Entry], warned: set[int]) -> None:
    """Warn of seeds that repeated in other processes."""
    counts = Counter(seed for entry in entries for seed in entry.spent.simulation_seeds)
    for seed, times in counts.items():
        if times > 1 and seed not in warned:
            _warn_of_seed(seed, f"{times} fits in this ledger")


def _warn_of_seed(seed: int, fits: str) -> None:
    warn(
        f"{fits} had random_state={seed}: they have the same noise, so together they have no "
        "privacy. Use None, or other seeds.",
        PrivacyLeakWarning,
    )


#: open ledgers of this process, outermost first; threads share them
_OPEN: list[PrivacyLedger] = []


class PrivacyLedger:
    """Record every fit inside a ``with`` block, and refuse fits that exceed the budget.

    Parameters
    ----------
    epsilon : float, default=None
        The budget. None: that of the file; a new ledger then only records costs.
    delta : float, default=None
        The budget's delta. None: that of the file, or 1e-5 in a new ledger.
    method : {"renyi", "gaussian"}, default=None
        The filter that admits fits. "gaussian" is tighter but admits full-batch fits only. None:
        that of the file, or "renyi" in a new ledger.
    neighbours : {"replace", "add_remove"}, default=None
        The neighbouring relation under which all fits are priced. None: that of the file, or of the
        first fit in a new ledger.
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
    remaining : float
        The largest epsilon of one more fit of full batches, at the ledger's delta. Refusals state
        it too.
    entries : list
        Each fit's name, cost and date; :meth:`table` has them in a frame.
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

    It has the costs of private fits, each row of a fit as one record. It does not have other steps
    of a pipeline and copies of rows (by a ``BaggingClassifier`` of pipelines), which
    :func:`skdpfl.privacy_spent` of the fitted pipeline knows; nor exact scores, as of
    ``cross_validate`` and ``GridSearchCV``, and choices by them, for which
    :class:`~skdpfl.model_selection.DPRandomizedSearchCV` is the private way.

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
        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "method": method}
        asked["neighbours"] = neighbours
        journal = None if path is None else Journal(absolute(path))
        self._asked = {name: value for name, value in asked.items() if value is not None}
        self._budget = Budget(**self._asked)  # raises for invalid parameters
        self._journal, self._temporary, self._owner = journal, journal is None, os.getpid()
        self._book: Book | None = None  # the content at the end of the block
        self._depth, self._closed = 0, False
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

    #: the budget of the file
    epsilon = forwarded("_budget.epsilon")
    delta = forwarded("_budget.delta")
    method = forwarded("_budget.method")
    neighbours = forwarded("_budget.neighbours")

    def __enter__(self) -> PrivacyLedger:
        if self._closed:
            raise ValueError("This ledger is closed. To continue with a budget later, give a path.")
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
            ENDED.add(self._journal.path)
            shutil.rmtree(os.path.dirname(self._journal.path), ignore_errors=True)

    def __reduce__(self) -> Any:
        if self._journal is None:
            return partial(PrivacyLedger, **self._asked), ()
        # the same bytes before and after a fit: caches of fitted steps compare them
        birth = None if self._journal.mark is None else self._journal.mark.birth
        return _copy, (self._journal.path, birth, self._budget, self._temporary)

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

    def settle(self, name: str, spent: PrivacySpent) -> None:
        """Record that a fit ended early, so that only its rounds that ran are charged.

        Parameters
        ----------
        name : str
            The fit's name, which must be unique in the ledger.
        spent : PrivacySpent
            The cost of the rounds that ran. No more of them may run afterwards.

        Raises
        ------
        ValueError
            If there is no such fit, or it has to be charged as a whole.
        """
        journal = self._writable()
        with journal.locked() as book:
            book.check_settled(name, spent)
            journal.add(book, Entry(name, spent, now(), settled=True))

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
                    f"epsilon must be above the current budget, {old}; got {epsilon!r}."
                )
            journal.add(book, new)
        self._budget = new
        self._asked |= {"epsilon": new.epsilon}


def open_ledgers() -> tuple[PrivacyLedger, ...]:
    """Return the ledgers that record fits in this process, each once."""
    return tuple({ledger.record: ledger for ledger in _OPEN}.values())


def _copy(path: str, mark: Any, budget: Budget, temporary: bool) -> PrivacyLedger:
    """Return a ledger on the same file, in any process; the file may have been removed."""
    ledger = PrivacyLedger(budget.epsilon, budget.delta, method=budget.method)
    ledger._asked, ledger._budget, ledger._temporary = {}, budget, temporary
    ledger._journal, ledger._owner = Journal(path, mark), 0
    return ledger


#: of this process
_SECRET = os.urandom(16)
_CARRIED, _MARKS, _WARNED = "_ledgers", "_marks_of_copies", "warned"
#: set by a search or shared budget on steps while they run: the list is empty once a search that
#: has charged their fits is over, and covers one fit, as other processes have lists of their own;
#: the schedule is that of the priced plan
PAID_FOR, SCHEDULE = "_paid_for", "_schedule_streams"
#: in that list: a plan tries the steps without noise, so they keep no names that they find
TRIED = "tried"


class Recorded(DocLinks):
    """Mixin for private estimators, which call ``_charge(spent)`` before they read data."""

    def _charge(
        self,
        spent: PrivacySpent,
        paid_to: tuple[str, ...] = (),
        *,
        mark: str = "",
        weighted: bool = False,
    ) -> tuple[str, ...]:
        """Record the cost in every ledger or, if one raises BudgetExceeded, in none.

        Runs of a search are charged by the search. Fits that release nothing need no entry.

        ``paid_to``: ledgers that have recorded the cost already. These and the ledgers that record
        it now are returned, by the digest of their first entry. ``mark`` identifies the records,
        which may be ``weighted``.
        """
        self._as_fitted = AsFitted.of(self, weighted=weighted)
        if not _ledgers_of(self):  # which say it themselves
            self._warn_if_noise_repeats(spent, mark)
        paid_for = self.__dict__.pop(PAID_FOR, None)
        if paid_for or not any(c.composition for c in spent.costs):
            return paid_to
        ledgers = [each for each in _ledgers_of(self) if _birth(each) not in paid_to]
        if ledgers:
            charge_all(ledgers, self._entry_name, spent)
        return (*paid_to, *(birth for each in ledgers if (birth := _birth(each))))

    @property
    def _entry_name(self) -> str:
        """The name of a fit in ledgers."""
        return type(self).__name__

    def _warn_if_noise_repeats(self, spent: PrivacySpent, mark: str) -> None:
        """Warn if an earlier fit of this object, or of a copy of it, had the same seed.

        Their noise is the same, so it cancels in the difference of two releases.
        """
        marks = self._marks()
        for seed in spent.simulation_seeds if mark else ():
            if marks.setdefault(seed, mark) not in (mark, _WARNED):
                marks[seed] = _WARNED
                warn(
                    f"{type(self).__name__} was fitted to other records with random_state={seed} "
                    "before: both fits have the same noise, which cancels in their difference, so "
                    "together they have no privacy. Use random_state=None, or a generator "
                    "(np.random.default_rng(...)) in simulations.",
                    PrivacyLeakWarning,
                )

    def _marks(self) -> dict[int, str]:
        """Return the records that were fitted with each seed, shared with copies of this object."""
        marks: dict[int, str] = self.__dict__.setdefault(_MARKS, {})
        return marks

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())  # type: ignore[call-overload]
        state.pop(_MARKS, None)
        ledgers = _ledgers_of(self)
        return state | {_CARRIED: ledgers} if ledgers else state

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        setattr(copy, _MARKS, self._marks())
        for name in {PAID_FOR, SCHEDULE} & vars(self).keys():  # a ColumnTransformer fits copies
            setattr(copy, name, vars(self)[name])
        ledgers = _ledgers_of(self)
        if ledgers:
            setattr(copy, _CARRIED, ledgers)
        return copy


def mark_of(*arrays: np.ndarray) -> str:
    """Return a fast keyed digest that identifies records.

    The key makes it reveal nothing of the records: models keep it, but it is not pickled.
    """
    marks = []
    for values in arrays:
        total: Any = ""
        if values.dtype.kind in "biuf" and values.itemsize <= 8:
            # modulo a power of two: a change of one number is never lost
            bits = np.dtype(f"u{values.itemsize}")
            total = int(values.view(bits).sum(dtype=bits))
        some, check = values[:: max(1, len(values) // 500)], 0
        at_once = max(16, 2**16 // max(1, values[:1].nbytes))  # wide rows are not copied together
        for start in range(0, len(some), at_once):
            rows = some[start : start + at_once]
            text = rows.tobytes() if rows.dtype != object else repr(rows.tolist()).encode()
            check = zlib.crc32(text, check)
        marks.append(f"{values.shape} {total!r} {check}")
    return hashlib.blake2b(" ".join(marks).encode(), key=_SECRET, digest_size=8).hexdigest()


def _ledgers_of(estimator: Any) -> tuple[PrivacyLedger, ...]:
    """Return the ledgers open in this process, and those that came with a copy from another."""
    here = open_ledgers()
    known = {ledger.record for ledger in here}
    carried = estimator.__dict__.get(_CARRIED, ())
    return here + tuple(l for l in carried if l.record not in known and not l.closed)


def _birth(ledger: PrivacyLedger) -> str:
    """Return an identifier of a ledger; "" for one that was never open."""
    mark = None if ledger._journal is None else ledger._journal.mark
    return "" if mark is None else mark.first
