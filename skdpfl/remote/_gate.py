"""The rules by which a silo takes part: what it checks, charges and stores before it answers.

The computation of a silo's answers, and the checks before it.
--------------------------------------------------------------
All refusals happen here, before the fit is charged; only then are records read, and a release is
drawn. So what precedes the charge, be it words or time, follows from letters, declarations and the
stored state alone. What runs is read from the agreed row of the plan, not from the letter.
"""

import errno
import hashlib
import logging
import math
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from skdpfl._arguments import at_most
from skdpfl._codec import WireError
from skdpfl._compat import one_blas_thread
from skdpfl.encoding import EncodedColumn
from skdpfl.exceptions import BudgetExceeded, LedgerError
from skdpfl.federation import Answered, Named, Silo, SumPlan
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote import _letters, _masks
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Ask, Facts, Offer, Part, Task
from skdpfl.remote._masks import FEWEST_SILOS, mask, masked, on_grid, secrets_of
from skdpfl.remote._memory import SiloMemory
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._row import validate_question
from skdpfl.remote._terms import LIMITS, Refused, Terms, in_words

#: a clip norm that is learnt stays within this factor of the first one
_FARTHEST_CLIP = 2.0**40


def streams_of(offer: Offer) -> Streams:
    """Return a silo's random streams: secret ones, or in a simulation those of its number."""
    if offer.seed is None:
        return streams_for(None)
    streams = streams_for(offer.seed)
    return streams if offer.row.masked else streams.of_silo(offer.index)


class Planned:
    """The next planned release of a fit; making it raises a Refused unless the letter asks for it.

    ``kept`` is the silo's stored state of the fit after its last answer, ``own`` has the secrets of
    its masks, ``roster`` the keys of the others; ``secrets`` are those of the masks afterwards.
    """

    def __init__(
        self,
        ask: Ask,
        offer: Offer,
        records: SiloRecords,
        record: dict[str, Any],
        own: Any,
        roster: Any,
    ) -> None:
        self._ask, self._offer, self._row, self._records = ask, offer, offer.row, records
        self._saved, self.secrets = record["silo"], own
        columns, facts = self._columns(record.get("columns")), records.columns_of(ask, offer.facts)
        self._task, self._answered = self._task_of(record["task"]), Answered.of(record["silo"])
        self._state: dict[str, Any] = {"task": self._task, "columns": columns}
        plan = None if ask.purpose == "round" else self._plan_of_sum()
        hidden = self._row.masked if plan is None else plan.budgets.shares_noise
        if not hidden and ask.part is not None:
            raise Refused("This silo did not agree to masked sums.")
        if hidden:  # before the question, which it says the number of
            part = self._check_part(plan, *record.get(f"last {ask.purpose}", (-1, 0)))
        self._answer = self._answer_of_round() if plan is None else self._answer_of_sum(plan, facts)
        if plan is None:
            self._state["round"] = part.round if hidden else ask.number
        if hidden:
            self.secrets = secrets_of(roster, offer, part, record["public"], own)
            self._state[f"last {ask.purpose}"] = part.round, ask.number - part.round

    def draw(self) -> Any:
        """Compute the release."""
        self._silo = self._restore_silo()
        answer = self._answer(self._silo)
        return answer if self._ask.part is None else self._mask_answer(answer, self._ask.part)

    def state(self) -> dict[str, Any]:
        """Return the silo's state after it."""
        return self._state | {"silo": self._silo.save()}

    def _restore_silo(self) -> Silo:
        """Return the silo with its records, as it was after its last answer."""
        row, records, facts = self._row, self._records, self._offer.facts
        X, exposure = records.table(self._ask, facts), records.exposure if facts.exposure else None
        of_row = records.of_row if row.promise.unit == "person" else None
        streams = streams_of(self._offer)
        arguments = records.targets(facts), len(row.silos), streams, records.sample_weight
        silo = Silo.alone(row.index, X, *arguments, exposure=exposure, of_row=of_row)
        if self._task is not None:
            silo.start(self._task.work(row.attempts, X.dtype))
        if self._saved is not None:
            silo.restore(self._saved)
        return silo

    def _plan_of_sum(self) -> SumPlan:
        """Return the plan of a sum besides the rounds."""
        for plan in self._row.sums:
            if plan.purpose == self._ask.purpose:
                return plan
        raise Refused(f"The plan has no sum for the {self._ask.purpose}.")

    def _check_part(self, plan: SumPlan | None, last: int, failed: int) -> Part:
        """Return the data of a masked sum, after a check that it is in the plan and has this silo.

        Rounds come in order, and so do the sums of a ``plan`` besides them; ``last`` is the last
        one answered, with the number of failures until then. A sum is answered again only after a
        failure, and only as often as was priced, so a silo gives the planned answers and at most
        the spare ones.
        """
        row, part = self._row, self._ask.part
        if part is None:
            raise Refused("This silo agreed to masked sums only; the letter lacks the data of one.")
        among, everyone = part.among, np.arange(len(row.silos))
        if plan is not None:
            planned, spare = plan.numbers, plan.budgets.spare
        elif row.plan is not None:
            planned, spare = range(row.plan.n_rounds), row.plan.spare_rounds
        else:
            raise Refused("A round needs a task, which comes with the first one.")
        now = self._ask.number - part.round
        if part.round not in planned or part.round < last or not failed <= now <= spare:
            raise Refused(
                f"Attempt {self._ask.number} at {part.round} is not in the plan, or out of order: "
                f"{spare} attempts may fail."
            )
        if plan is None:
            everyone = row.cohort_of(part.round)
        known = among.dtype.kind == "i" and among.ndim == 1 and bool(np.isin(among, everyone).all())
        if (
            not known
            or row.index not in among
            or (np.diff(among) <= 0).any()
            or len(among) < FEWEST_SILOS
        ):
            raise Refused(
                f"A masked sum needs {FEWEST_SILOS} silos of a round or more, including this one."
            )
        if row.shares_noise and len(among) <= row.promise.colluding:
            raise Refused(f"Of {len(among)} shares of the noise, colluding silos would know all.")
        if not 0 < part.step < math.inf:
            raise Refused("The grid step of a masked sum must be a positive number.")
        return part

    def _mask_answer(self, steps: np.ndarray, part: Part) -> np.ndarray:
        """Return a masked message; its pads follow from offer, task and the whole question."""
        row, offer, among = self._row, self._offer, part.among.tolist()
        if row.plan is not None and not row.shares_noise:
            steps = on_grid(steps, float(row.plan.weights[row.index]), part.step, len(among))
        question = replace(self._ask, task=None, part=replace(part, keys=None, signatures=()))
        task = None if self._task is None else self._task.digest
        what = pack((offer.agreed.hex(), task, question))
        return masked(steps, mask(self.secrets["secrets"], row.index, among, what, len(steps)))

    def _answer_of_round(self) -> Callable[[Silo], Any]:
        """Return what a silo computes for the next round."""
        ask, row, task = self._ask, self._row, self._task
        if task is None or row.plan is None:
            raise Refused("A round needs a task, which comes with the first one.")
        with in_words():
            self._answered.check_due(row.attempts, row.index, ask.number)
        if not task.algorithm.accepts(ask.content, task.model.size):
            raise Refused("The broadcast does not fit the algorithm and its model.")
        _check_clip_norm(ask.clip_norm, row.plan)
        among = 1 if ask.part is None else len(ask.part.among)
        return lambda silo: silo.round(ask.number, ask.content, ask.clip_norm, among=among)

    def _answer_of_sum(self, plan: SumPlan, facts: Facts) -> Callable[[Silo], Any]:
        """Return what a silo computes for one of the agreed noised sums."""
        ask, task, part = self._ask, self._task, self._ask.part
        work = None if task is None else task.work(self._row.priced, np.dtype(facts.dtype))
        number = ask.number if part is None else part.round
        question = validate_question(plan, number, ask.content, facts, work, ask.number - number)
        if part is not None:
            question = replace(question, among=len(part.among))
        with in_words():
            self._answered.check_new(question)
        return lambda silo: silo.answer(question)

    def _task_of(self, task: Task | None) -> Task | None:
        """Return the fit's task, which must not change after the first round."""
        offer, new = self._offer, self._ask.task
        if task is None and new is not None:
            if offer.row.plan is None or offer.task is None:
                raise Refused("A fit's task is for rounds, and none were agreed to.")
            new.check_offered(offer.task)
            new.check(offer.row.plan, offer.facts)
        if task is None or new is None:
            return new if task is None else task
        if task.digest != new.digest:
            raise Refused("The task of a fit must not change after its first round.")
        return task

    def _columns(self, first: tuple[EncodedColumn, ...] | None) -> tuple[EncodedColumn, ...] | None:
        """Return the encoding of frames, which must not change after the first letter with one.

        Otherwise two letters would tell whether a level occurs: dealt batches are of one table
        only. Levels 1 and True, which are equal, are not the same.
        """
        if first is not None and pack(first) != pack(self._ask.columns):
            raise Refused("The columns of a fit must not change after the first letter with them.")
        return self._ask.columns


def _check_clip_norm(clip_norm: float, plan: PrivacyPlan) -> None:
    """Raise unless the clip norm of whole silos' messages is valid for the plan's noise."""
    if plan.unit != "silo":
        return
    away = clip_norm / plan.clip_norm
    if not (math.isfinite(clip_norm) and 1 / _FARTHEST_CLIP <= away <= _FARTHEST_CLIP):
        raise Refused("The clip norm of a message must be a number near that of the plan.")


_LOG = logging.getLogger("skdpfl.remote")
#: errors after which the same letter may succeed
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
#: letters about one fit
_ASKED = _letters.Offer | _letters.Ask | _letters.End
_ERROR = "An error occurred at the silo; its log has the details."
#: reason for an error in drawing a release, where records are read
_SAID_OF_DRAWING = frozenset({_ERROR, _masks.TOO_LARGE})
#: the offer of the last letter is cached
_offer_in = lru_cache(maxsize=1)(unpack)
#: refusals are of one length: their reasons are cut, or filled with spaces
_LONGEST_REASON = 480


class Gate:
    """One silo's interface to the server: it takes letters and returns answers.

    Parameters
    ----------
    records : SiloRecords
        The silo's records.
    ledger : PrivacyLedger
        Its budget, in a file (``path``), to which every fit is charged.
    terms : Terms, optional
        What its operator agreed to.
    folder : path-like, optional
        The folder for the silo's state; by default beside the ledger's file. It is as secret as the
        records.
    counter : path-like, optional
        A file with the number of answers; by default beside the ledger's file. It detects a ledger
        or a folder that was restored from an old copy; on another disk, also if both were.
    key : str, optional
        The silo's private key; other operators have the public one on their rosters
        (``terms.silos``).
    allow_simulation : bool, default=False
        Whether to take part in simulations, in which the server knows the seed and so the noise.

    Notes
    -----
    **Formal guarantee.** What leaves the silo is a function of public numbers (declared by the
    operator or sent by the server), of fixed error texts, and of releases. The ledger is charged
    for the releases before, at the price that the silo computes from its own row of the plan. That
    row is what runs: noise, sampling, rounds and setup sums are read from it, never from later
    letters. Each release is drawn once, with the silo's own noise, and is on disk, with the silo's
    state, before it leaves. If the same letter comes again, the silo sends the same bytes; to a
    different letter it sends nothing. An error while drawing a release is on disk likewise, and
    ends the fit. A fit that ended early is settled at the price of the rounds that this silo
    answered, by its own records, once these say that there will be no more
    (:mod:`skdpfl.privacy.spending.filters` proves that this is sound). A process that is killed at
    any point has either answered nothing, or has stored its answer.

    Errors go to the silo's log only (``skdpfl.remote``): their classes and lines of code. Their
    texts, which may contain a record, are logged at level DEBUG only.
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
            raise TypeError(f"records must be SiloRecords; got {type(records).__name__}.")
        if ledger.record is None:
            raise ValueError("The ledger of a silo needs a file: PrivacyLedger(..., path=...).")
        self.records = records
        self.set_terms(terms or Terms(), key)
        self.allow_simulation = allow_simulation
        self._memory = SiloMemory(ledger, folder, counter)
        self._audit = self._memory.store.audit
        self._digest = _digest_of(records)

    @property
    def folder(self) -> Path:
        """The folder of the silo's state."""
        return self._memory.store.folder

    @property
    def longest_letter(self) -> int:
        """The most bytes that an offer, or a letter of a fit that is open here, can need."""
        return max(LIMITS.offer_bytes, self._memory.longest_ask())

    def answer(self, data: bytes) -> bytes:
        """Answer a letter.

        Parameters
        ----------
        data : bytes
            What a server sent.

        Returns
        -------
        bytes
            The silo's answer, or a refusal with the reason.
        """
        fit = ""
        try:
            with _logging_warnings(self.records.name):
                if len(data) > (most := self.longest_letter):
                    raise Refused(f"The letter is too long: {len(data):,} bytes of {most:,}.")
                letter = unpack(data)
                fit = letter.fit if isinstance(letter, _ASKED) else ""
                return self._answer_letter(letter, data)
        except (Refused, WireError) as error:
            reason = str(error)
        except Exception as error:  # no error may tell the server of a record
            if isinstance(error, LedgerError):  # speaks of files only
                _LOG.error("The ledger of silo %s. %s", self.records.name, error)
                reason = "This silo's ledger cannot be used; the silo's log says why."
            else:
                _log_error(f"Silo {self.records.name}", error)
                reason = _ERROR
            if is_passing(error):
                return pack(_letters.Waiting(fit, "This silo lacks room at the moment.", busy=True))
        try:
            self._audit.refused(fit, reason)
        except OSError as error:
            _log_error(f"The audit log of silo {self.records.name}", error)
        return refusal(fit, reason)

    def set_terms(self, terms: Terms, key: str | None) -> None:
        """Answer by other terms from now on, such as a new roster; raise if the key is not on it.

        Parameters
        ----------
        terms : Terms
            What its operator agreed to.
        key : str or None
            The silo's private key.
        """
        own = None if key is None else _masks.public_key(key)
        if terms.silos is not None and terms.silos.get(self.records.name, "")[:64] != own:
            raise ValueError(
                "The roster must contain each silo's public key, also that of "
                f"{self.records.name!r}: give this silo's private key."
            )
        self.terms, self._key = terms, key

    def _answer_letter(self, letter: object, data: bytes) -> bytes:
        if isinstance(letter, _letters.Hello):
            text = _masks.line_text(letter.challenge)
            signed = _masks.sign_text(self._key, text) if letter.challenge and self._key else ""
            return pack(_letters.Introduction(self.records.name, self._memory.mark, signed))
        if not isinstance(letter, _ASKED):
            raise Refused("A silo answers only Hello, Offer, Ask and End.")
        if isinstance(letter, _letters.Offer):
            spent = self._price_offer(letter, data)  # it takes a while: before others have to wait
            with self._at_work():
                return self._agree(letter, data, spent)
        with self._at_work():
            if isinstance(letter, _letters.Ask):
                return self._release(letter, data)
            if letter.rounds is not None:
                return self._settle(letter.fit, letter.rounds)
            self._memory.done(letter.fit)
            return data

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Answer one letter at a time, after a check that ledger and memory are consistent."""
        with self._memory.store.locked():
            self._memory.check_copies()
            yield

    def _agree(self, offer: _letters.Offer, data: bytes, spent: PrivacySpent) -> bytes:
        """Agree to a fit, or raise; nothing is charged, and no answer depends on records."""
        record = self._memory.store.read(offer.fit)
        if record is not None and bytes(record["offer"]) != data:
            raise Refused("This silo agreed to a different offer with the name of this fit.")
        if record is None:
            self._check_offer(offer, spent)
            if self._memory.has_paid(data):
                raise Refused("This silo paid for this fit, but its stored state is missing.")
            if self.terms.approval:
                signed_by = None if self.terms.requesters is None else offer.requester
                question = offer.shown(spent) | {"signed_by": signed_by}
                verdict = self._memory.store.verdict(data, question)
                if verdict is None:
                    reason = "A person at this silo has to approve the fit first."
                    return pack(_letters.Waiting(offer.fit, reason))
                if not verdict:
                    raise Refused("A person at this silo refused the fit.")
            record = {"offer": _array(data), "task": None, "silo": None, "records": self._digest}
            record |= {"round": -1}
            if own := {"key": _masks.new_key()} if offer.row.masked else {}:
                public = _masks.public_of(own["key"])
                signed = _masks.signature(self._key, offer, public) if self._key else ""
                record |= {"public": public, "signature": signed}
            self._memory.agree(offer.fit, record, own)
            self._audit.add("agreed", **offer.shown(spent))
        key = (record["public"], record["signature"]) if offer.row.masked else ()
        return pack(_letters.Agreement(offer.fit, spent.epsilon, *key))

    def _check_offer(self, offer: _letters.Offer, spent: PrivacySpent) -> None:
        """Raise unless this silo can take part in a fit."""
        self.terms.check(spent)  # before the records: sizes may be a secret by the terms
        if (row := offer.row).masked:
            self.terms.check_others(row.silos, row.promise.colluding if row.shares_noise else None)
        purposes = {each.purpose for each in row.sums}
        is_fit, unit = row.plan is not None, row.promise.unit
        self.records.check(offer.facts, purposes, is_fit=is_fit, unit=unit)
        offer.check_parts()
        self._check_budget(spent)

    def _price_offer(self, offer: _letters.Offer, data: bytes) -> PrivacySpent:
        """Price an offer by this silo's own computation; raise unless it is small, and for it."""
        offer.check_size()
        _masks.check_requester(self.terms.requesters, offer, data)
        offer.check_silo(self.records.name, self.allow_simulation)
        return offer.row.spent(offer.seed)

    def price(self, data: bytes) -> PrivacySpent:
        """Return what an offer would cost; raise a Refused if it would be refused.

        Nothing is stored.

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
            raise Refused("This is not an offer of a fit.")
        spent = self._price_offer(offer, data)
        with self._at_work():
            self._check_offer(offer, spent)
        return spent

    def _check_budget(self, spent: PrivacySpent) -> None:
        """Raise if the ledger has too little left; only the log says how much."""
        try:
            self._memory.check_budget(spent)
        except BudgetExceeded as error:
            _LOG.warning("Silo %s. %s", self.records.name, error)
            raise Refused(
                f"The fit, of epsilon={at_most(spent.epsilon, 4)} at delta={at_most(spent.delta)}, "
                "costs more than this silo's ledger has left."
            ) from error
        except ValueError as error:  # raised if guarantees of the ledger's fits differ
            raise Refused(str(error)) from error

    def _release(self, ask: _letters.Ask, data: bytes) -> bytes:
        """Return the answer to a letter: the one sent before, or a new one."""
        record = self._memory.store.read(ask.fit)
        if record is None:
            raise Refused("This silo has not agreed to this fit.")
        words = _array(hashlib.sha256(data).digest())
        if "words" in record and bytes(record["words"]) == bytes(words):
            return bytes(record["answer"])
        if "ended" in record:
            raise Refused("This fit ended at this silo, because of an error in an answer.")
        if record["records"] != self._digest:
            raise Refused("The records of this silo have changed since it agreed.")
        if ask.purpose == "round" and not _letters.is_finite(ask.content):
            raise Refused("The broadcast has numbers that are not finite; the round was not spent.")
        agreed = bytes(record["offer"])
        offer = _offer_in(agreed)
        with one_blas_thread(), np.errstate(all="ignore"):
            own = self._memory.store.secrets(ask.fit) if offer.row.masked else {}
            release = Planned(ask, offer, self.records, record, own, self.terms.silos)
            self._memory.pay(agreed, offer)
            answer, state = self._draw(ask, release)
        if "ended" in state:
            self._memory.store.forget_secrets(ask.fit)
        elif own.keys() != release.secrets.keys():
            self._memory.store.keep_secrets(ask.fit, release.secrets)
        now = {"words": words, "answer": _array(answer)}
        self._memory.answered(ask.fit, record | now | state)
        if state.get("round") == offer.row.last_round:
            self._audit.add("last round", fit=ask.fit, rounds=offer.row.last_round + 1)
        return answer

    def _settle(self, fit: str, rounds: int) -> bytes:
        """End a fit, and charge only for its rounds that ran, by this silo's records of them."""
        record = self._memory.store.read(fit)
        if record is None:
            raise Refused("This silo has not agreed to this fit.")
        offer, n_rounds, spent = unpack(bytes(record["offer"])), record["round"] + 1, None
        if self._memory.has_paid(bytes(record["offer"])):
            if not n_rounds or ("ended" in record and "settled" not in record):
                raise Refused(
                    "A fit that ended without rounds, or by an error, is charged in full."
                )
            spent = offer.row.truncated(n_rounds).spent(offer.seed)
        if rounds > n_rounds:
            raise Refused("The server's journal has rounds that this silo has no record of.")
        with in_words():  # those of the ledger
            self._memory.settle(fit, record, spent)
        return pack(_letters.Agreement(fit, 0.0 if spent is None else spent.epsilon))

    def _draw(self, ask: _letters.Ask, release: Planned) -> tuple[bytes, dict[str, Any]]:
        """Return an answer, and the silo's state after it.

        An error ends the fit: it may depend on the noise that was drawn, which must not be drawn
        again.
        """
        try:
            released = release.draw()
            parts = released if isinstance(released, Named) else (released,)
            answer = pack(_letters.Answer(ask.fit, ask.purpose, ask.number, *parts))
            return answer, release.state()
        except Exception as error:
            _log_error(f"Silo {self.records.name}", error)
            reason = str(error) if isinstance(error, Refused) else _ERROR
        return refusal(ask.fit, reason if reason in _SAID_OF_DRAWING else _ERROR), {"ended": True}


def is_passing(error: BaseException | None) -> bool:
    """Whether an error is one of room that somebody can make: on the disk, or for files."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        error = error.__cause__ or error.__context__
    return False


def answer_of(make: Callable[[], Gate], data: bytes) -> bytes:
    """Return the answer of a silo's gate; errors in making the gate are not disclosed.

    Parameters
    ----------
    make : callable
        Function that reads the records and returns the gate.
    data : bytes
        What a server sent.

    Returns
    -------
    bytes
        The answer, or a refusal with a fixed text.
    """
    try:
        with _logging_warnings("that is not there yet"):
            gate = make()
    except (Exception, SystemExit) as error:
        _log_error("The silo cannot be started", error)
        return refusal("", _ERROR)
    return gate.answer(data)


def refusal(fit: str, reason: str) -> bytes:
    """Return a refusal as bytes; all have the same length, except for the fit's name."""
    return pack(_letters.Refusal(fit, reason[:_LONGEST_REASON].ljust(_LONGEST_REASON)))


def _log_error(what: str, error: BaseException) -> None:
    """Log an error: its classes and lines of code; its text at level DEBUG only."""
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
    """Log warnings at the silo only; their texts at level DEBUG only."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        kind = each.category.__name__
        _LOG.warning("Silo %s: %s in %s:%s", name, kind, each.filename, each.lineno)
        _LOG.debug("Silo %s: %s", name, each.message)


def _digest_of(records: SiloRecords) -> str:
    """Return a digest of the records in their order; it is as secret as they are."""
    digest = hashlib.sha256()
    weights = records.sample_weight, records.exposure
    for values in (records.X, records.y, *weights, records.of_row):
        if values is not None:  # objects by their values: their bytes are addresses
            words = values.dtype == object
            digest.update(str(values.dtype).encode())
            plain = None if words else np.ascontiguousarray(values).view(np.uint8)
            digest.update(repr(values.tolist()).encode() if plain is None else plain)
    digest.update(repr(sorted(records.neutral.items())).encode() if records.neutral else b"")
    return digest.hexdigest()


def _array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
