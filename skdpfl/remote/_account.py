"""A silo's ledger: each fit is in it once, before its first answer.

**Formal guarantee.** A fit is known by its offer's digest, so no two fits share an entry, whatever
a server calls them. An entry is written before the first release of its fit and is never taken
back. A ledger that lacks a fit in which the silo answered is an old copy, and ends the fit.
"""

from __future__ import annotations

import hashlib
import os

from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote._letters import Offer
from skdpfl.remote._limits import LIMITS
from skdpfl.remote._terms import Refused


class Account:
    """The ledger of one silo, as the rules of :class:`skdpfl.remote.Gate` use it."""

    def __init__(self, ledger: PrivacyLedger, *, took_part: bool) -> None:
        self.path = str(ledger.record)
        if os.path.lexists(self.path):
            return
        if took_part:
            raise LedgerError(
                f"The silo took part in fits, but its ledger {self.path!r} is gone. Put it back."
            )
        with ledger:
            pass  # the file is there from now on

    def check(self, spent: PrivacySpent) -> None:
        """Raise unless a fit can be paid for."""
        ledger = self._open()
        if len(ledger.entries) >= LIMITS.fits:
            raise Refused(
                f"This silo's ledger has {LIMITS.fits:,} fits; its operator begins another."
            )
        ledger.check(spent)

    def has_paid(self, offer: bytes) -> bool:
        """Whether the fit of an offer is in the ledger."""
        return any(entry.name.endswith(_mark(offer)) for entry in self._open().entries)

    def pay(self, agreed: bytes, offer: Offer, *, answered: bool) -> None:
        """Write down what a whole fit costs, once; ``answered``: whether it has begun."""
        if self.has_paid(agreed):
            return
        if answered:
            raise LedgerError("The ledger lacks a fit that this silo answered in: an old copy.")
        with self._open() as ledger:
            ledger.charge(offer.estimator + _mark(agreed), offer.row.spent(offer.seed))

    def _open(self) -> PrivacyLedger:
        return PrivacyLedger(path=self.path, must_exist=True)


def _mark(offer: bytes) -> str:
    """How a fit's name ends in the ledger."""
    return f", offer {hashlib.sha256(offer).hexdigest()}"
