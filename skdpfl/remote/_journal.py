"""The server's journal of a fit on disk, so that a fit can continue after a crash.

::

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
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skdpfl._codec import WireError
from skdpfl._durable import replace_file, sync_folder
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.randomness.words import MovedWords, SimulationWords
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Answer, Ask, Done, Offer

_LENGTH = struct.Struct("<Q")
Answers = tuple[dict[str, Any], dict[str, str]]


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
            replace_file(self.path, _LENGTH.pack(len(first)) + first)
            sync_folder(self.path)
        (first, *self._kept), end = _records(self.path)
        if not isinstance(first, dict) or set(first) != {"fit", "seed"}:
            raise ValueError(f"{str(self.path)!r} is not a journal of a fit.")
        self.fit: str = first["fit"]
        self._seed: int = first["seed"]
        self._next = 0
        os.truncate(self.path, end)  # a record that was being written when the process was killed

    def streams(self) -> Streams:
        """Return the server's own streams."""
        return Streams(OwnWords(self._seed))

    def rounds(self) -> dict[str, int]:
        """Return the number of rounds in which each silo answered, by the journal."""
        found: dict[str, int] = {}
        for kept in self._kept:
            for name, letter in kept["answers"].items():
                is_round = isinstance(letter, Answer) and letter.purpose == "round"
                found[name] = max(found.get(name, 0), letter.number + 1 if is_round else 0)
        return found

    def exchange(
        self, letters: Mapping[str, Offer | Ask | Done], ask: Callable[[], Answers], *, final: bool
    ) -> Answers:
        """Return the answers to letters: those in the journal, or new ones from ``ask``.

        If some are missing, answers are stored only if ``final``; otherwise the letters are sent
        again.
        """
        digest = _digest_of(letters)
        if self._next < len(self._kept):
            kept = self._kept[self._next]
            if kept["letters"] != digest:
                raise ValueError(
                    f"The journal {str(self.path)!r} belongs to a fit with other parameters or "
                    "silos, or to another release of skdpfl. Repeat that fit unchanged, or give "
                    "another path."
                )
            self._next += 1
            return dict(kept["answers"]), dict(kept["reasons"])
        answers, reasons = ask()
        if final or not reasons:
            self._append({"letters": digest, "answers": answers, "reasons": reasons})
        return answers, reasons

    def _append(self, record: dict[str, Any]) -> None:
        data = pack(record)
        with self.path.open("ab") as file:
            file.write(_LENGTH.pack(len(data)) + data)
            file.flush()
            os.fsync(file.fileno())
        self._kept.append(record)
        self._next += 1


def _records(path: Path) -> tuple[list[Any], int]:
    """Return all whole records of a file, and where they end."""
    found, at = [], 0
    data = path.read_bytes()
    while at + _LENGTH.size <= len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        end = at + _LENGTH.size + size
        if end > len(data):
            break
        try:
            found.append(unpack(data[at + _LENGTH.size : end]))
        except WireError as error:
            raise ValueError(f"{str(path)!r} is not a journal of a fit, or is damaged.") from error
        at = end
    if not found:
        raise ValueError(f"{str(path)!r} is not a journal of a fit.")
    return found, at


def _digest_of(letters: Mapping[str, Offer | Ask | Done]) -> str:
    """Return a digest of the letters and their receivers."""
    digest = hashlib.sha256()
    written = {id(letter): hashlib.sha256(pack(letter)).digest() for letter in letters.values()}
    for name in sorted(letters):
        digest.update(hashlib.sha256(name.encode()).digest() + written[id(letters[name])])
    return digest.hexdigest()
