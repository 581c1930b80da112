"""One budget for everything that is learnt from one data set.

A ledger sees every fit in its block, in whatever process, writes its cost down before the fit reads
data, and refuses the one that the budget does not cover: later fits may depend on what earlier ones
gave out, so what decides is a filter (:mod:`skdpfl.privacy.spending.filters`).
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from types import TracebackType
from typing import Any

from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.calibration import is_number
from skdpfl.privacy.spending.filters import FILTERS
from skdpfl.privacy.spending.journal import Entry, Journal
from skdpfl.privacy.spending.spent import PrivacySpent, total

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
        if epsilon is not None and not (is_number(epsilon) and epsilon > 0):
            raise ValueError(f"epsilon must be None or a number > 0; got {epsilon!r}.")
        if not (is_number(delta) and 0 < delta < 1):
            raise ValueError(f"delta must be a number in (0, 1); got {delta!r}.")
        if method not in list(FILTERS):
            raise ValueError(f"method must be 'renyi' or 'gaussian'; got {method!r}.")
        self.epsilon, self.delta, self.method = epsilon, delta, method
        self._filter = None if epsilon is None else FILTERS[method](epsilon, delta)
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
            if self._filter is not None:
                self._filter.admit([*past, spent])
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
