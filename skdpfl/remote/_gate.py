"""The rules by which a silo takes part: what it checks, pays and writes down before it answers."""

import hashlib
import logging
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from skdpfl._arguments import at_most
from skdpfl._compat import one_blas_thread
from skdpfl.exceptions import BudgetExceeded, LedgerError
from skdpfl.federation import Named
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote import _letters
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._masks import TOO_LARGE, new_key, public_of
from skdpfl.remote._memory import SiloMemory
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._releases import Planned, planned, streams_of
from skdpfl.remote._roster import public_key, signature
from skdpfl.remote._row import SumRow, Together, ran
from skdpfl.remote._terms import Refused, Terms
from skdpfl.remote._wire import WireError

_LOG = logging.getLogger("skdpfl.remote")
_ERROR = "There was an error in the silo; its own log says more."
#: all that may be said of an error in drawing a release, where records are read
_SAID_OF_DRAWING = frozenset({_ERROR, TOO_LARGE})
#: refusals are of one length: their reasons are cut, or filled with spaces
_LONGEST_REASON = 480


class Gate:
    """One silo's door: letters in, answers out, nothing else.

    Parameters
    ----------
    records : SiloRecords
        The silo's records.
    ledger : PrivacyLedger
        Its budget, in a file (``path``), which every fit is charged to.
    terms : Terms, optional
        What its operator agreed to.
    folder : path-like, optional
        Where it keeps what it must remember; by default beside the ledger's file. It is as secret
        as the records.
    counter : path-like, optional
        A file with the number of answers, by which a ledger or a folder that was put back from an
        old copy is noticed; by default beside the ledger's file. On another disk it tells of old
        copies of both.
    key : str, optional
        The private key whose public one other operators have on their rosters (``terms.silos``).
    allow_simulation : bool, default=False
        Take part in simulations, whose seed, and so whose noise, the server knows.

    Notes
    -----
    **Formal guarantee.** What leaves is a function of public numbers (what the operator declared,
    what the server sent), of errors' fixed words and of releases that the silo's ledger was charged
    with before, by the price that this silo computed from its own row of the plan. That row is what
    runs: noise, sampling, rounds and the releases beside them are read from it, never from later
    letters. Each release is drawn once, with noise of the silo's own, and is on the disk, with what
    the silo remembers, before it leaves; asked again in the same words, it sends the same bytes,
    asked in others, nothing. So is an error in drawing it, which ends the fit. A fit that ended
    early is settled at the price of the rounds that this silo answered in, by its own memory, once
    that says that no more will be (:mod:`skdpfl.privacy.spending.filters` has why that is sound). A
    process that ends at any point has either answered nothing, or written down what it answers.

    Errors are known to the silo's log alone (``skdpfl.remote``): their classes and the lines of
    code, and what they say only at the level DEBUG, because that may be a record.
    """

    def __init__(
        self,
        records: SiloRecords,
        ledger: PrivacyLedger,
        *,
        terms: Terms | None = None,
        folder: str | os.PathLike[str] | None = None,
        counter: str | os.PathLike[str] | None = None,
        key: str | None = None,
        allow_simulation: bool = False,
    ) -> None:
        if not isinstance(records, SiloRecords):
            raise TypeError(f"A gate's records are SiloRecords, not {type(records).__name__}.")
        if ledger.record is None:
            raise ValueError("A silo's ledger needs a file: PrivacyLedger(..., path=...).")
        self.records, self.terms, self._key = records, terms or Terms(), key
        if self.terms.silos is not None:
            _check_own_key(self.terms.silos, records.name, key)
        self.allow_simulation = allow_simulation
        self._memory = SiloMemory(ledger, folder, counter)
        self._digest = _digest_of(records)
        self._last: tuple[bytes, _letters.Offer] | None = None

    def answer(self, data: bytes) -> bytes:
        """Answer a letter.

        Parameters
        ----------
        data : bytes
            What a server sent.

        Returns
        -------
        bytes
            What the silo says to it: an answer, or why there is none.
        """
        fit = ""
        try:
            with _logging_warnings(self.records.name):
                letter = unpack(data)
                fit = (
                    letter.fit
                    if isinstance(letter, _letters.Offer | _letters.Ask | _letters.End)
                    else ""
                )
                return self._answered(letter, data)
        except (Refused, WireError) as error:
            reason = str(error)
        except LedgerError as error:  # speaks of files only
            _LOG.error("The ledger of silo %s. %s", self.records.name, error)
            reason = "This silo's ledger cannot be used; its operator's log says why."
        except Exception as error:  # no error may tell the server of a record
            _log_error(f"Silo {self.records.name}", error)
            reason = _ERROR
        return refusal(fit, reason)

    def _answered(self, letter: object, data: bytes) -> bytes:
        if isinstance(letter, _letters.Hello):
            return pack(_letters.Introduction(self.records.name, self._memory.mark))
        if not isinstance(letter, _letters.Offer | _letters.Ask | _letters.End):
            raise Refused("A silo answers to Hello, Offer, Ask and End only.")
        if isinstance(letter, _letters.Ask):
            with self._at_work():
                return self._released(letter, data)
        if isinstance(letter, _letters.End):
            with self._at_work():
                return self._settled(letter)
        letter.check_size()
        letter.check_silo(self.records.name, self.allow_simulation)
        spent = letter.row.spent(letter.seed)  # it takes a while: before others have to wait
        with self._at_work():
            return self._agreed(letter, data, spent)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Answer one letter at a time, by a ledger and a memory that belong together."""
        with self._memory.store.locked():
            self._memory.check_copies()
            yield

    def _agreed(self, offer: _letters.Offer, data: bytes, spent: PrivacySpent) -> bytes:
        """Agree to a fit, or raise; nothing is paid, and no answer depends on records."""
        kept = self._memory.store.read(offer.fit)
        if kept is not None and bytes(kept["offer"]) != data:
            raise Refused("This silo agreed to another offer under the name of this fit.")
        if kept is None:
            self._check_offer(offer, spent)
            if self._memory.has_paid(data):
                raise Refused("This silo paid for this fit, but its memory of it is gone.")
            if self.terms.approval and not self._is_approved(offer, data, spent):
                return pack(
                    _letters.Waiting(offer.fit, "A person at this silo has to say yes first.")
                )
            kept = {"offer": _array(data), "task": None, "silo": None, "records": self._digest}
            kept |= {"round": -1}
            kept |= self._keyed(offer) if offer.masked else {}
            self._memory.agree(offer.fit, kept)
        said = (kept["public"], kept["signature"]) if offer.masked else ()
        return pack(_letters.Agreement(offer.fit, spent.epsilon, *said))

    def _keyed(self, offer: _letters.Offer) -> dict[str, str]:
        """Return a key for a masked fit, and this silo's signature of it and the plan."""
        key = new_key()
        public = public_of(key)
        signed = signature(self._key, offer, public) if self._key else ""
        return {"key": key, "public": public, "signature": signed}

    def _check_offer(self, offer: _letters.Offer, spent: PrivacySpent) -> None:
        """Raise unless a fit is one that this silo can take part in."""
        self.terms.check(spent)  # before the records: sizes may be a secret by the terms
        if isinstance(row := offer.row, Together):
            self.terms.check_others(row.silos, row.colluding if row.shares_noise else None)
        self.records.check(offer.facts)
        offer.check_parts()
        self._check_budget(spent)

    def price(self, data: bytes) -> PrivacySpent:
        """Return what an offer would cost; a Refused if it would be refused. Nothing is kept.

        Parameters
        ----------
        data : bytes
            The offer.

        Returns
        -------
        PrivacySpent
            The cost, by this silo's own computation.
        """
        offer = unpack(data)
        if not isinstance(offer, _letters.Offer):
            raise Refused("This is no offer of a fit.")
        offer.check_size()
        offer.check_silo(self.records.name, self.allow_simulation)
        spent = offer.row.spent(offer.seed)
        with self._at_work():
            self._check_offer(offer, spent)
        return spent

    def _is_approved(self, offer: _letters.Offer, data: bytes, spent: PrivacySpent) -> bool:
        """Whether a person said yes; writes down the question, once."""
        said = self._memory.store.verdict(data)
        if said is None:
            row = offer.row
            question = {
                "fit": offer.fit,
                "estimator": offer.estimator,
                "epsilon": spent.epsilon,
                "delta": spent.delta,
                "unit": spent.unit,
                "neighbours": spent.neighbours,
                "rounds": 0 if isinstance(row, SumRow) else len(row.steps),
                "masked": offer.masked,
                "colluding": spent.colluding,
            }
            self._memory.store.ask_person(data, question)
        elif not said:
            raise Refused("A person at this silo said no.")
        return bool(said)

    def _check_budget(self, spent: PrivacySpent) -> None:
        """Raise unless the ledger has as much left; how much that is, only the log says."""
        try:
            self._memory.check_budget(spent)
        except BudgetExceeded as error:
            _LOG.warning("Silo %s. %s", self.records.name, error)
            raise Refused(
                "It costs more than this silo's ledger has left: by its own computation epsilon="
                f"{at_most(spent.epsilon, 4)} at delta={at_most(spent.delta)}."
            ) from error

    def _released(self, ask: _letters.Ask, data: bytes) -> bytes:
        """Return the answer to a question: the one that was sent before, or a new one."""
        kept = self._memory.store.read(ask.fit)
        if kept is None:
            raise Refused("This silo agreed to no such fit.")
        words = _array(hashlib.sha256(data).digest())
        if "words" in kept and bytes(kept["words"]) == bytes(words):
            return bytes(kept["answer"])
        if "ended" in kept:
            raise Refused("This fit ended in this silo, at an answer that could not be given.")
        if kept["records"] != self._digest:
            raise Refused("The records of this silo are no longer those of when it agreed.")
        if ask.purpose == "round" and not _letters.is_finite(ask.content):
            raise Refused(
                "The broadcast holds numbers that are not finite; the round was not used."
            )
        agreed = bytes(kept["offer"])
        offer = self._agreed_to(agreed)
        with one_blas_thread(), np.errstate(all="ignore"):
            streams, roster = streams_of(offer), self.terms.silos
            release = planned(ask, offer, self.records, kept, streams, roster)
            self._memory.pay(agreed, offer)
            answer, state = self._drawn(ask, release)
        now = {"words": words, "answer": _array(answer)}
        self._memory.answered(ask.fit, kept | now | state)
        return answer

    def _settled(self, letter: _letters.End) -> bytes:
        """End a fit, and count it as its rounds that ran, by what this silo remembers of them."""
        kept = self._memory.store.read(letter.fit)
        if kept is None:
            raise Refused("This silo agreed to no such fit.")
        offer, n_rounds, spent = unpack(bytes(kept["offer"])), kept["round"] + 1, None
        if self._memory.has_paid(bytes(kept["offer"])):
            if not n_rounds or ("ended" in kept and "settled" not in kept):
                raise Refused("A fit that ended before its rounds, or by an error, stays as paid.")
            spent = ran(offer.row, n_rounds).spent(offer.seed)
        if letter.rounds > n_rounds:
            raise Refused("The server's journal has rounds that this silo does not remember.")
        try:
            self._memory.settle(letter.fit, kept, spent)
        except ValueError as error:  # of the ledger, about public numbers
            raise Refused(str(error)) from error
        return pack(_letters.Ended(letter.fit, 0.0 if spent is None else spent.epsilon, n_rounds))

    def _agreed_to(self, data: bytes) -> _letters.Offer:
        """Return an offer as it was agreed to; that of the last letter is read once."""
        if self._last is None or self._last[0] != data:
            self._last = data, unpack(data)
        return self._last[1]

    def _drawn(self, ask: _letters.Ask, release: Planned) -> tuple[bytes, dict[str, Any]]:
        """Return an answer, and what is kept of the silo.

        An error ends the fit: it may tell of what was drawn, which is then not drawn again.
        """
        try:
            drawn = release.draw()
            found = drawn if isinstance(drawn, Named) else (drawn,)
            answer = pack(_letters.Answer(ask.fit, ask.purpose, ask.number, *found))
            return answer, release.state()
        except Exception as error:
            _log_error(f"Silo {self.records.name}", error)
            reason = str(error) if isinstance(error, Refused) else _ERROR
        return refusal(ask.fit, reason if reason in _SAID_OF_DRAWING else _ERROR), {"ended": True}


def _check_own_key(roster: Mapping[str, str], name: str, key: str | None) -> None:
    """Raise unless a silo is on its own roster, by its own key."""
    if key is None or roster.get(name) != public_key(key):
        raise ValueError(
            f"The roster names each silo with its public key, {name!r} with them: give this silo's "
            "private key, of which the roster has the public one."
        )


def answer_of(make: Callable[[], Gate], data: bytes) -> bytes:
    """Return what a silo's gate answers; of errors in making it, such as in reading, no word.

    Parameters
    ----------
    make : callable
        Reads the records and returns the gate.
    data : bytes
        What a server sent.

    Returns
    -------
    bytes
        The answer, or a refusal in fixed words.
    """
    try:
        with _logging_warnings("that is not there yet"):
            gate = make()
    except (Exception, SystemExit) as error:
        _log_error("The silo cannot be started", error)
        return refusal("", _ERROR)
    return gate.answer(data)


def refusal(fit: str, reason: str) -> bytes:
    """Return a refusal as bytes; all are of one length, but for the fit's name."""
    return pack(_letters.Refusal(fit, reason[:_LONGEST_REASON].ljust(_LONGEST_REASON)))


def _log_error(what: str, error: BaseException) -> None:
    """Tell the log of an error: its classes and lines of code; its words at DEBUG only."""
    places: list[str] = []
    each: BaseException | None = error
    while each is not None and len(places) < 8:
        lines = traceback.extract_tb(each.__traceback__)[-4:]
        where = ", ".join(f"{x.name} ({x.filename}:{x.lineno})" for x in reversed(lines))
        places.append(f"{type(each).__name__} in {where or 'no line'}")
        each = each.__cause__ or each.__context__
    _LOG.error("%s: %s", what, "; after ".join(places))
    _LOG.debug("%s", what, exc_info=error)


@contextmanager
def _logging_warnings(name: str) -> Iterator[None]:
    """Tell the silo's log, and nobody else, what is warned of; the words at DEBUG only."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for each in said:
        kind = each.category.__name__
        _LOG.warning("Silo %s: %s in %s:%s", name, kind, each.filename, each.lineno)
        _LOG.debug("Silo %s: %s", name, each.message)


def _digest_of(records: SiloRecords) -> str:
    """Return a digest of the records in their order; it is kept as secret as they are."""
    digest = hashlib.sha256()
    for values in (records.X, records.y, records.sample_weight):
        if values is not None:  # objects by their values: their bytes are addresses
            words = values.dtype == object
            digest.update(str(values.dtype).encode())
            digest.update(repr(values.tolist()).encode() if words else values.tobytes())
    digest.update(repr(sorted(records.neutral.items())).encode() if records.neutral else b"")
    return digest.hexdigest()


def _array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
