"""A mixin that charges the fits of an estimator to ledgers, in any process.

An estimator that is cloned or pickled while a ledger is open keeps the ledger, so worker processes
charge it even if they were started before it was opened.
"""

import hashlib
import os
import zlib
from typing import Any

import numpy as np

from skdpfl._surface import DocLinks
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.spending.account import charge_all
from skdpfl.privacy.spending.as_fitted import as_fitted, runs_of_copies, times_drawn
from skdpfl.privacy.spending.ledger import PrivacyLedger, open_ledgers
from skdpfl.privacy.spending.spent import PrivacySpent, of_copies

#: of this process
_SECRET = os.urandom(16)
_CARRIED, _MARKS, _WARNED = "_ledgers", "_marks_of_copies", "warned"


class Recorded(DocLinks):
    """Mixin for private estimators, which call ``_charge(spent)`` before they read data."""

    def _charge(
        self, spent: PrivacySpent, paid_to: tuple[str, ...] = (), mark: str = ""
    ) -> tuple[str, ...]:
        """Record the cost in every ledger or, if one raises BudgetExceeded, in none.

        Runs of a search are charged by the search. Fits that release nothing need no entry. A
        record of which bagging made copies pays for each of them.
        ``paid_to``: ledgers that have it already; they and those that it was recorded in are
        returned, by the digest of their beginning. ``mark`` tells the records from others.
        """
        times = times_drawn()
        self._as_fitted = as_fitted(self, times)
        if not _ledgers_of(self):  # which say it themselves
            self._warn_if_noise_repeats(spent, mark)
        if self.__dict__.get("_covered", False) or not any(c.composition for c in spent.costs):
            return paid_to
        ledgers = [each for each in _ledgers_of(self) if _birth(each) not in paid_to]
        if ledgers:
            charge_all(ledgers, self._entry_name, of_copies(spent, times))
        return (*paid_to, *(birth for each in ledgers if (birth := _birth(each))))

    @property
    def _entry_name(self) -> str:
        """What a fit is called in ledgers."""
        return type(self).__name__

    def _warn_if_noise_repeats(self, spent: PrivacySpent, mark: str) -> None:
        """Warn of a fit with the seed of an earlier one, of this object or its copies in a search.

        Their noise is the same, so that it cancels in the difference of two releases.
        """
        kept = self._marks() if runs_of_copies() else self.__dict__.setdefault("_own_marks", {})
        for seed in spent.simulation_seeds if mark else ():
            if kept.setdefault(seed, mark) not in (mark, _WARNED):
                kept[seed] = _WARNED
                warn(
                    f"{type(self).__name__} was fitted to other records with random_state={seed} "
                    "before: both fits have the same noise, which cancels in their difference, so "
                    "that together they have no privacy. Use random_state=None, or a generator "
                    "(np.random.default_rng(...)) in simulations.",
                    PrivacyLeakWarning,
                )

    def _marks(self) -> dict[int, str]:
        """Return the records that were fitted with each seed, shared with copies of this object."""
        marks: dict[int, str] = self.__dict__.setdefault(_MARKS, {})
        return marks

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())  # type: ignore[call-overload]
        for name in (_MARKS, "_own_marks"):
            state.pop(name, None)
        ledgers = _ledgers_of(self)
        return state | {_CARRIED: ledgers} if ledgers else state

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        setattr(copy, _MARKS, self._marks())
        ledgers = _ledgers_of(self)
        if ledgers:
            setattr(copy, _CARRIED, ledgers)
        return copy


def mark_of(*arrays: np.ndarray) -> str:
    """Return what tells some records from others; quick, as simulations are to be.

    It is a keyed digest, so that it says nothing of the records: models keep it, though no pickle.
    """
    marks = []
    for values in arrays:
        total = values.sum(dtype=np.float64) if values.dtype.kind in "biuf" else ""
        some, check = values[:: max(1, len(values) // 500)], 0
        for start in range(0, len(some), 16):  # wide rows are not copied all at once
            rows = some[start : start + 16]
            text = rows.tobytes() if rows.dtype != object else repr(rows.tolist()).encode()
            check = zlib.crc32(text, check)
        marks.append(f"{values.shape} {total!r} {check}")
    return hashlib.blake2b(" ".join(marks).encode(), key=_SECRET, digest_size=8).hexdigest()


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
