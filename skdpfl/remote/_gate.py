"""The rules by which a silo takes part: what it checks, pays and writes down before it answers."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from skdpfl.exceptions import BudgetExceeded, LedgerError
from skdpfl.federation import Question, Silo
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import (
    Agreement,
    Answer,
    Ask,
    Facts,
    Hello,
    Introduction,
    Offer,
    Refusal,
    Task,
)
from skdpfl.remote._records import SiloRecords
from skdpfl.remote._refused import Refused
from skdpfl.remote._row import Row
from skdpfl.remote._score_row import ScoreRow
from skdpfl.remote._store import Store
from skdpfl.remote._terms import Terms
from skdpfl.remote._wire import WireError
from skdpfl.scaling import scales_question, slope_question

_LOG = logging.getLogger("skdpfl.remote")


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
    allow_simulation : bool, default=False
        Take part in simulations, whose seed, and so whose noise, the server knows.

    Notes
    -----
    **Formal guarantee.** What leaves is a function of public numbers, of errors' fixed words and of
    releases that the silo's ledger was charged with before, by the price that this silo computed
    from its own row of the plan. That row is what runs: clip norm, noise, sampling, rounds and the
    releases beside them are read from it, never from later letters. Each release is drawn once,
    with noise of the silo's own, and is on the disk, with what the silo remembers, before it
    leaves; asked again in the same words, it sends the same bytes, asked in others, nothing. A
    process that ends at any point has either answered nothing, or written down what it answers.
    """

    def __init__(
        self,
        records: SiloRecords,
        ledger: PrivacyLedger,
        *,
        terms: Terms | None = None,
        folder: str | os.PathLike[str] | None = None,
        allow_simulation: bool = False,
    ) -> None:
        if ledger.record is None:
            raise ValueError("A silo's ledger needs a file: PrivacyLedger(..., path=...).")
        self.records, self.terms = records, terms or Terms()
        self.allow_simulation = allow_simulation
        self._ledger, path = str(ledger.record), ledger.record
        self._store = Store(f"{path}.fits" if folder is None else folder)
        if self._store.has_fits and not os.path.lexists(self._ledger):
            raise LedgerError(
                f"The silo took part in fits, but its ledger {self._ledger!r} is gone. Put it back."
            )
        if not os.path.lexists(self._ledger):
            with ledger:
                pass  # the file is there from now on

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
            letter = unpack(data)
            fit = getattr(letter, "fit", "")
            with _logging_warnings():
                return self._answered(letter, data)
        except (Refused, WireError) as error:
            reason = str(error)
        except BudgetExceeded as error:
            reason = f"It costs more than this silo's ledger has left. {error}"
        except LedgerError:
            _LOG.exception("The ledger of silo %s", self.records.name)
            reason = "This silo's ledger cannot be used; its operator's log says why."
        except Exception:  # no error may tell the server of a record
            _LOG.exception("Silo %s", self.records.name)
            reason = "There was an error in the silo; its own log says more."
        return pack(Refusal(fit, reason))

    def _answered(self, letter: object, data: bytes) -> bytes:
        if isinstance(letter, Hello):
            return pack(Introduction(self.records.name))
        if not isinstance(letter, Offer | Ask):
            raise Refused("A silo answers to Hello, Offer and Ask only.")
        with self._store.locked():
            if isinstance(letter, Offer):
                return self._agreed(letter, data)
            return self._released(letter, data)

    # ---- an offer ----------------------------------------------------------------------------

    def _agreed(self, offer: Offer, data: bytes) -> bytes:
        kept = self._store.read(offer.fit)
        spent = self._price(offer)
        if kept is None:
            self._check(offer, spent)
            if self._charged(data):
                raise Refused("This silo paid for this fit, but its memory of it is gone.")
            self._store.write(offer.fit, {"offer": _array(data), "task": None, "silo": None})
        elif bytes(kept["offer"]) != data:
            raise Refused("This silo agreed to another offer under the name of this fit.")
        return pack(Agreement(offer.fit, spent.epsilon))

    def _price(self, offer: Offer) -> PrivacySpent:
        return offer.row.spent(offer.seed)

    def _check(self, offer: Offer, spent: PrivacySpent) -> None:
        """Raise unless this silo can take part: who, what, how dear."""
        row = offer.row
        if row.name != self.records.name:
            raise Refused(f"This silo is {self.records.name!r}, the offer is for {row.name!r}.")
        if row.size != offer.facts.n_records:
            raise Refused("The plan and the declared facts name different numbers of records.")
        if offer.seed is not None and not self.allow_simulation:
            raise Refused(
                "Whoever knows the seed knows the noise: give random_state=None, so that this silo "
                "draws its own, or start it with allow_simulation=True if the records are no "
                "secret."
            )
        classes = offer.facts.classes
        row.check(offer.facts.n_features, None if classes is None else len(classes))
        self.records.check(offer.facts)
        self.terms.check(spent)
        if isinstance(row, Row):
            if offer.task is None:
                raise Refused("The offer of a fit says which model, loss and algorithm it is for.")
            offer.task.check(row, offer.facts)
        PrivacyLedger(path=self._ledger, must_exist=True).check(spent)

    # ---- a release ---------------------------------------------------------------------------

    def _released(self, ask: Ask, data: bytes) -> bytes:
        kept = self._store.read(ask.fit)
        if kept is None:
            raise Refused("This silo agreed to no such fit.")
        words = _array(hashlib.sha256(data).digest())
        if "words" in kept and bytes(kept["words"]) == bytes(words):
            return bytes(kept["answer"])
        offer = unpack(bytes(kept["offer"]))
        now: dict[str, Any] = {"task": None, "silo": None}
        if isinstance(offer.row, ScoreRow):
            values = self._score(ask, offer, kept)
        else:
            values, now = self._next(ask, offer, offer.row, kept)
        answer = pack(Answer(ask.fit, ask.purpose, ask.number, values))
        now |= {"offer": kept["offer"], "words": words, "answer": _array(answer)}
        self._store.write(ask.fit, now)
        return answer

    def _score(self, ask: Ask, offer: Offer, kept: dict[str, Any]) -> np.ndarray:
        """Return how good a model is here, noised; once."""
        row = offer.row
        assert isinstance(row, ScoreRow)
        if ask.purpose != "score" or "words" in kept:
            raise Refused("This silo answers how good a model is, once.")
        self._charge(offer, bytes(kept["offer"]), False)
        with _one_blas_thread(), np.errstate(all="ignore"):
            y = self.records.targets(offer.facts)
            return row.answer(self.records.X, y, self._streams(offer))

    def _next(
        self, ask: Ask, offer: Offer, row: Row, kept: dict[str, Any]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the next release of a fit, and what the silo remembers then."""
        task = _the_task(ask, row, offer.facts, kept)
        with _one_blas_thread(), np.errstate(all="ignore"):
            silo = self._silo(offer, row, task, kept["silo"])
            release = self._release(ask, silo, row, task)
            self._charge(offer, bytes(kept["offer"]), "words" in kept)
            values = release()
        return values, {"task": task, "silo": silo.save()}

    def _charge(self, offer: Offer, data: bytes, answered: bool) -> None:
        """Write down what the whole fit costs, once."""
        if self._charged(data):
            return
        if answered:
            raise LedgerError("The ledger lacks a fit that this silo answered in: an old copy.")
        with PrivacyLedger(path=self._ledger, must_exist=True) as ledger:
            ledger.charge(offer.estimator + _mark(data), self._price(offer))

    def _charged(self, data: bytes) -> bool:
        """Whether the fit of an offer is in the ledger."""
        entries = PrivacyLedger(path=self._ledger, must_exist=True).entries
        return any(entry.name.endswith(_mark(data)) for entry in entries)

    def _streams(self, offer: Offer) -> Streams:
        """Return the silo's random streams: in a simulation those of its number."""
        if offer.seed is None:
            return streams_for(None)
        return streams_for(offer.seed).of_silo(offer.index)

    def _silo(
        self, offer: Offer, row: Row, task: Task | None, saved: dict[str, Any] | None
    ) -> Silo:
        """Return the silo as the last answer left it."""
        X, facts = self.records.X, offer.facts
        silo = Silo.alone(0, X, self.records.targets(facts), 1, self._streams(offer))
        if task is not None:
            silo.start(task.work(row.plan, X.dtype))
        if saved is not None:
            silo.restore(saved)
        return silo

    def _release(
        self, ask: Ask, silo: Silo, row: Row, task: Task | None
    ) -> Callable[[], np.ndarray]:
        """Return what computes a release that was planned; refuse others before they are paid."""
        if ask.purpose == "round":
            if task is None:
                raise Refused("A round needs a task, which comes with the first one.")
            _refusing(silo.check_due, ask.number)
            _check_clip_norm(ask, row)
            return partial(silo.round, ask.number, ask.content, ask.clip_norm)
        question = self._question(ask, row, task)
        _refusing(silo.check_new, question)
        return partial(silo.answer, question)

    def _question(self, ask: Ask, row: Row, task: Task | None) -> Question:
        if ask.purpose == "scales" and row.scales is not None:
            return _refusing(scales_question, row.scales, ask.number, ask.content)
        if ask.purpose == "temperature" and row.temperature is not None and task is not None:
            work = task.work(row.plan, self.records.X.dtype)
            return _refusing(slope_question, row.temperature, work, ask.number, ask.content)
        raise Refused(f"The plan has no question about the {ask.purpose}.")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # lists the loaded libraries once


def _one_blas_thread() -> Any:
    """Limit BLAS to one thread: results do not depend on cores."""
    return _controller().limit(limits=1, user_api="blas")


@contextmanager
def _logging_warnings() -> Iterator[None]:
    """Tell the silo's log, and nobody else, what is warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for each in said:
        _LOG.warning("%s", each.message)


def _refusing(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a check of public numbers gives; its error may be told."""
    try:
        return call(*args)
    except ValueError as error:
        raise Refused(str(error)) from error


def _the_task(ask: Ask, row: Row, facts: Facts, kept: dict[str, Any]) -> Task | None:
    """Return the fit's task, which stays what it was in the first round."""
    task = kept["task"]
    if task is None and ask.task is not None:
        ask.task.check(row, facts)
    if task is None or ask.task is None:
        return ask.task if task is None else task
    if pack(task) != pack(ask.task):
        raise Refused("The task of a fit stays what it was in its first round.")
    return task


def _check_clip_norm(ask: Ask, row: Row) -> None:
    """Raise unless messages of whole silos are clipped to a norm that noise can be made for."""
    if row.unit == "silo" and not 0 < ask.clip_norm < math.inf:
        raise Refused("The clip norm of a message is a positive number.")


def _mark(data: bytes) -> str:
    """How a fit's name ends in the ledger: the offer's digest, so no two fits share an entry."""
    return f", offer {hashlib.sha256(data).hexdigest()}"


def _array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
