"""Exchange letters for answers, and keep them in a journal, so that a fit survives its server.

Silent silos are asked again, and the reasons of invalid answers are kept. The journal::

    record = length (8 bytes) | message          the first: the fit's name and the server's seed
                                                 then: letters' digest, all answers, of an exchange

A server that is started again writes the same letters: the fit has the same name, and its own draws
(cohorts, a network's initial weights) follow from the seed. The seed is not sent to silos, which
draw their own noise. Earlier answers are read from the journal. A letter whose answer is not in the
journal yet is sent again, and silos send the same bytes. So no silo pays or draws twice. Answers
are noised; still, only the owner can read the file.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from skdpfl._codec import WireError
from skdpfl._durable import replace_file
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.randomness.words import MovedWords, SimulationWords
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Answer, Ask, End, Offer, Refusal, Waiting
from skdpfl.remote._socket import Courier
from skdpfl.remote._terms import Refused

#: seconds between two questions whether a person has said yes, and to wait for a silo's disk
_PAUSE, _BUSY = 5.0, 60.0
#: bytes of the length of a journal's record
_LENGTH = 8
#: letters by silo; answers, and the reasons of silos without one
Letters = Mapping[str, Offer | Ask | End]
Came = tuple[dict[str, Any], dict[str, str]]


class SilosMissing(RuntimeError):
    """Silos did not answer, or gave an invalid answer; the text names them and the reasons."""

    def __init__(self, text: str, reasons: Mapping[str, str] | None = None) -> None:
        each = (f"{name}: {reason}" for name, reason in sorted((reasons or {}).items()))
        super().__init__(" ".join([text, *each]))


def exchange(
    courier: Courier, letters: Letters, kind: type, n_attempts: int, patience: float = 0.0
) -> Came:
    """Return answers, and the reasons of silos without one; silent silos are asked again.

    If a person has to approve first, this waits up to ``patience`` seconds.
    """
    answers, reasons = dict[str, Any](), dict.fromkeys(letters, "no answer in time")
    written = {id(letter): pack(letter) for letter in letters.values()}
    waiting, attempts, begin = set(letters), 0, time.monotonic()
    while waiting and attempts < n_attempts:
        sent = {n: written[id(letter)] for n, letter in letters.items() if n in waiting}
        came, patient = courier.deliver(sent), 0.0
        for name in sorted(waiting & came.keys()):
            answer = _opened(came[name], kind, letters[name])
            if isinstance(answer, kind):
                answers[name] = answer
                del reasons[name]
            else:
                reasons[name] = answer.reason if isinstance(answer, Waiting) else str(answer)
            if isinstance(answer, Waiting):
                patient = max(patient, _BUSY if answer.busy else patience)
            if isinstance(answer, kind | Refused):  # it will not say anything else
                waiting.discard(name)
        if time.monotonic() - begin < patient:
            time.sleep(min(_PAUSE, patient))
        else:
            attempts += 1
    return answers, reasons


def _opened(data: bytes, kind: type, asked: Offer | Ask | End) -> Any:
    """Return an answer, or the reason why it is invalid: a Refused if that is final."""
    try:
        letter: Any = unpack(data)
    except WireError as error:
        return f"an answer that cannot be read ({error})"
    if isinstance(letter, Refusal):
        return Refused(letter.reason.rstrip())
    if not isinstance(letter, kind | Waiting) or getattr(letter, "fit", "") != asked.fit:
        return "an answer to something else"
    both = isinstance(letter, Answer) and isinstance(asked, Ask)
    return _checked(letter, asked) if both else letter  # type: ignore[arg-type]


def _checked(answer: Answer, ask: Ask) -> Any:
    """Return an answer, or the reason why it does not answer this question."""
    if (answer.purpose, answer.number) != (ask.purpose, ask.number):
        return f"an answer to {answer.purpose} {answer.number}, not {ask.purpose} {ask.number}"
    values = answer.values
    kind = "f" if ask.part is None else "i"  # masked: whole numbers
    if values.ndim != 1 or values.dtype.kind != kind or not np.isfinite(values).all():
        return "an answer that is not a vector of finite numbers"
    if answer.names is not None and sum(map(len, answer.names)) != values.size:
        return "an answer whose names do not match its numbers"
    return answer


def odd_ones(answers: dict[str, Any]) -> dict[str, str]:
    """Return the silos whose answers differ in length from most."""
    if all(answer.names is not None for answer in answers.values()):
        return {}  # each silo names what it found
    widths = [answer.values.size for answer in answers.values()]
    usual = max(set(widths), key=widths.count, default=0)
    odd = [name for name, answer in answers.items() if answer.values.size != usual]
    return dict.fromkeys(odd, "an answer whose length differs from the others'")


# ---- the journal --------------------------------------------------------------------------------


class OwnWords(MovedWords):
    """Random words for the server's own draws, from a seed that no silo knows; none is noise."""

    def __init__(self, seed: int) -> None:
        super().__init__(SimulationWords(seed), 0)
        self.seed = None


class FitJournal:
    """The exchanges of one fit, in a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.exists():
            first = pack({"fit": secrets.token_hex(8), "seed": secrets.randbits(62)})
            replace_file(self.path, _record(first))
        (first, *self._kept), end = _records(self.path)
        self.fit, self._seed, self._next = str(first["fit"]), int(first["seed"]), 0
        os.truncate(self.path, end)  # a record that was being written when the process was killed

    def streams(self) -> Streams:
        """Return the server's own streams."""
        return Streams(OwnWords(self._seed))

    def rounds(self) -> dict[str, int]:
        """Return the number of rounds in which each silo answered, by the journal."""
        found: dict[str, int] = {}
        for name, letter in (pair for kept in self._kept for pair in kept["answers"].items()):
            is_round = isinstance(letter, Answer) and letter.purpose == "round"
            found[name] = max(found.get(name, 0), letter.number + 1 if is_round else 0)
        return found

    def exchange(self, letters: Letters, ask: Callable[[], Came], *, final: bool) -> Came:
        """Return the answers to letters: those in the journal, or new ones from ``ask``.

        If some are missing, answers are stored only if ``final``; otherwise the letters are sent
        again.
        """
        digest = _digest_of(letters)
        if self._next < len(self._kept):
            kept = self._kept[self._next]
            if kept["letters"] != digest:
                raise ValueError(
                    f"The journal {str(self.path)!r} belongs to a fit with other parameters, silos "
                    "or release of skdpfl. Repeat that fit unchanged, or give another path."
                )
            self._next += 1
            return dict(kept["answers"]), dict(kept["reasons"])
        answers, reasons = ask()
        if final or not reasons:
            self._append({"letters": digest, "answers": answers, "reasons": reasons})
        return answers, reasons

    def _append(self, record: dict[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(_record(pack(record)))
            file.flush()
            os.fsync(file.fileno())
        self._kept.append(record)
        self._next += 1


def _record(data: bytes) -> bytes:
    return len(data).to_bytes(_LENGTH, "little") + data


def _records(path: Path) -> tuple[list[Any], int]:
    """Return all whole records of a file, and where they end."""
    found, at, data = list[Any](), 0, path.read_bytes()
    try:
        while (start := at + _LENGTH) <= len(data):
            end = start + int.from_bytes(data[at:start], "little")
            if end > len(data):
                break
            found.append(unpack(data[start:end]))
            at = end
        if found[0].keys() == {"fit", "seed"}:
            return found, at
    except (WireError, IndexError, AttributeError):  # said below
        found = []
    raise ValueError(f"{str(path)!r} is not a journal of a fit, or is damaged.")


def _digest_of(letters: Letters) -> str:
    """Return a digest of the letters and their receivers."""
    each = {id(letter): hashlib.sha256(pack(letter)).hexdigest() for letter in letters.values()}
    return hashlib.sha256(pack({n: each[id(letters[n])] for n in sorted(letters)})).hexdigest()
