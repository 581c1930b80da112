"""A silo's terms, set by its operator, and the error whose text may be sent to the server.

It has few imports: a silo's process may start often.
"""

import datetime
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from skdpfl._arguments import at_most, check_choice, check_count, check_number


class FitLimits(NamedTuple):
    """Limits on what is offered, before a fit is charged; more is refused with a reason.

    Each line has a test in ``tests/internals/remote/test_limits.py``.
    """

    #: bytes of an offer
    offer_bytes: int = 2**25
    #: letters of the name of a fit, a silo, an estimator, a label
    name: int = 200
    #: letters of the purpose of a fit
    purpose: int = 2000
    #: labels of a fit
    classes: int = 10_000
    #: levels of a column of a frame
    levels: int = 10_000
    #: rounds of a fit, and gradient steps in all of them
    rounds: int = 50_000
    steps: int = 500_000
    #: releases of a fit beside its rounds
    releases: int = 64
    #: fits that were agreed to and not begun: the oldest are forgotten; offers of one requester
    #: that wait for a person
    waiting_offers: int = 64
    waiting_days: int = 30
    #: fits in a silo's ledger; then its operator begins another one
    fits: int = 10_000


LIMITS = FitLimits()


class Refused(ValueError):
    """A silo or a server refuses a request; the text says why and what to do."""


def check_few(n: int, most: int, what: str) -> None:
    """Raise if a fit has more of something than is allowed."""
    if n > most:
        raise Refused(f"A fit can have at most {most:,} {what}.")


@contextmanager
def in_words() -> Iterator[None]:
    """Have an error about public numbers be one whose words may be sent."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from error


def valid_key(name: str, listed: str) -> str:
    """Return the key in a roster's entry; raise a Refused if it is past its last day."""
    key, _, last = listed.partition(" until ")
    if last and datetime.datetime.now(datetime.UTC).date() > datetime.date.fromisoformat(last):
        raise Refused(f"The key of silo {name!r} on this silo's roster was valid until {last}.")
    return key


@dataclass(frozen=True)
class Terms:
    """A silo's terms, set by its operator, which every fit has to meet.

    Parameters
    ----------
    epsilon : float, default=inf
        The most that one fit may cost this silo.
    delta : float, default=1e-4
        The largest delta of a fit.
    unit : {"record", "person", "silo"}, default="record"
        The unit that has to be protected. Fits that protect persons also protect records.
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation of the guarantee.
    approval : bool, default=False
        Whether a person at the silo has to approve each fit (``skdpfl silo approve``).
    silos : mapping, optional
        The roster: the name and the public key (64 hexadecimal digits) of each silo with which it
        takes part in masked sums, including itself; " until 2027-11-30" after a key is its last
        day. Operators exchange these keys without the server. By default any silos that the server
        names, with keys from the server; fits with shared noise are refused then.
    colluding : int, default=1
        The least number of other silos that a fit with shared noise must assume to collude with the
        server (:class:`skdpfl.privacy.SecureAggregation`).
    requesters : mapping, optional
        The names and public keys of those who may ask for fits, like those of ``silos``
        (``RemoteFederation(..., requester=, key=)``). Offers that none of them signed are refused
        before they are priced or listed. By default any that a server sends.
    silos_per_person : int, default=1
        The least ``silos_per_person`` of fits with ``unit="person"``. Silos do not compare ids, so
        the operator has to know in how many silos a person may have records.

    Examples
    --------
    >>> from skdpfl.remote import Terms
    >>> Terms(epsilon=3.0, unit="person", silos_per_person=2).silos_per_person
    2
    """

    epsilon: float = math.inf
    delta: float = 1e-4
    unit: Literal["record", "person", "silo"] = "record"
    neighbours: Literal["replace", "add_remove"] = "replace"
    approval: bool = False
    silos: Mapping[str, str] | None = None
    colluding: int = 1
    requesters: Mapping[str, str] | None = None
    silos_per_person: int = 1

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, low=0, open_low=True)
        check_number("delta", self.delta, low=0, high=1, open_high=True)
        check_choice("unit", self.unit, ("record", "person", "silo"))
        check_choice("neighbours", self.neighbours, ("replace", "add_remove"))
        check_count("colluding", self.colluding, low=0)
        check_count("silos_per_person", self.silos_per_person)

    def check(self, spent: Any) -> None:
        """Raise unless a fit of this cost, a PrivacySpent, meets the terms."""
        units = ("record", "person") if self.unit == "record" else (self.unit,)
        if spent.unit not in units or spent.neighbours != self.neighbours:
            raise Refused(f"This silo agreed to unit={self.unit!r}, {self.neighbours!r} only.")
        if spent.unit == "person" and spent.silos_per_person < self.silos_per_person:
            raise Refused(f"Here a person may have records in {self.silos_per_person} silos.")
        if spent.delta > self.delta or spent.epsilon > self.epsilon:
            raise Refused(
                f"This silo's terms allow epsilon={self.epsilon:g} at delta={self.delta:g}; this "
                f"fit costs epsilon={at_most(spent.epsilon, 4)} at delta={at_most(spent.delta)}."
            )

    def check_others(self, names: Collection[str], shared_with: int | None) -> None:
        """Raise unless the terms allow masked sums among these silos.

        ``shared_with`` is the number of colluding silos that the fit assumes, if silos share noise.
        """
        if self.silos is not None and not set(names) <= set(self.silos):
            raise Refused("The masked sum has silos that are not on this silo's roster.")
        for name, key in (self.silos or {}).items():
            if name in names:
                valid_key(name, key)
        if shared_with is None:
            return
        if self.silos is None:
            raise Refused(
                "This silo shares noise only with silos on its roster, and has no roster."
            )
        if shared_with < self.colluding:
            raise Refused(f"This silo's terms require colluding={self.colluding} at least.")
