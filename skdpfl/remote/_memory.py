"""A silo's state on disk: its ledger, its fits, and a count that ties them together.

::

    L   hospital.ledger          each fit that was paid for, by the digest of its offer, and for M
    M   hospital.ledger.fits/    one file a fit: FIT.OFFER.offer was agreed to, FIT.OFFER.N.fit
                                 has N answers, the state of the silo and the last answer;
                                 FIT.secrets those of its masks, until it is done
    C   hospital.ledger.count    how many answers M has in all, and how many fits L has

An answer is written in this order: its fit in L, the answer in M, then C; only then it leaves. So

    each fit in M that began is in L                   or L is an old copy
    each fit in L, since M is there, is in M           or M is an old copy
    L has at least as many fits as C says              or L is an old copy
    M has as many answers as C says, or one more       or one of them is an old copy

and if one of these does not hold, the silo agrees to nothing and answers nothing.

**Formal guarantee.** A fit is identified by its offer's digest, so no two fits share an entry,
whatever names a server gives them. An entry is written before the first release of its fit and is
never removed; it names the M that it was written for, and no other M answers for it. A fit is
settled for less only after M says that it has ended. A release is drawn
once: it is in M before it leaves, and M is not used if it is older than the last release. Copies of
L, M and C that were made at the same moment and are restored together cannot be detected; C can be
on another disk.

Files are replaced atomically (:mod:`skdpfl._durable`). The memory is as secret as the records: only
its owner may read it.

In M there is also ``audit.log``, an append-only log of what a silo agreed to, paid, answered and
refused, for auditors. A line of it is::

    {"n": its number, "time": ..., "what": ..., more, "before": digest of the line before}

Whoever changes, removes or reorders lines breaks the chain; whoever knows the digest of the last
line, as printed by ``skdpfl silo audit``, notices a log that was cut or written anew. Lines hold
public numbers, names that servers chose and the fixed words of refusals, no value of a record.
"""

import errno
import fcntl
import hashlib
import json
import mmap
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from skdpfl._codec import WireError
from skdpfl._durable import replace_file
from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.privacy.spending.book import Entry
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Offer
from skdpfl.remote._terms import LIMITS, Refused

#: how many digits of a digest are in a file's name
_NAME_DIGITS = 32
_NAME = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{32})\.(?:offer|([0-9]+)\.fit)")
#: how a fit's name ends in the ledger: its offer's digest, and the mark of the memory
_ENTRY = re.compile(r", offer ([0-9a-f]{64})(?:, by [0-9a-f]{16})?$")
#: refusals of a day that are listed: letters that are refused must not fill the disk
_REFUSALS_A_DAY = 1000
_START = "0" * 64


class _File(NamedTuple):
    """A fit's file, by its name."""

    path: Path
    fit: str
    offer: str
    n_answers: int


class SiloStore:
    """The fits of one silo, in a folder of its own."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.audit = AuditLog(self.folder / "audit.log")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process of this silo answer at a time."""
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)  # and unlocked, as when the process is killed

    def files(self) -> list[_File]:
        """Return the file of each fit: the one with most answers."""
        files: dict[str, _File] = {}
        for path in sorted(self.folder.iterdir()):
            parts = _NAME.fullmatch(path.name)
            if parts is not None:
                new = _File(path, parts[1], parts[2], int(parts[3] or 0))
                old = files.get(new.fit)
                if old is None or new.n_answers >= old.n_answers:
                    files[new.fit] = new
        return list(files.values())

    def read(self, fit: str) -> dict[str, Any] | None:
        """Return the stored state of a fit; None if there is none."""
        file = next((f for f in self.files() if f.fit == _digest_of(fit)), None)
        return None if file is None else self.read_file(file)

    def read_file(self, file: _File) -> dict[str, Any]:
        """Return the stored state in a fit's file."""
        try:
            record = unpack(file.path.read_bytes())
        except WireError as error:
            raise Refused("This silo's stored state of the fit is damaged.") from error
        assert isinstance(record, dict)
        return record

    def write(self, fit: str, record: dict[str, Any]) -> None:
        """Store the state of a fit; it is on disk when this returns."""
        start = f"{_digest_of(fit)}.{_digest_of(bytes(record['offer']))}"
        data, n = pack(record), record["n_answers"]
        if not n:
            replace_file(self.folder / f"{start}.offer", data)
            return
        replace_file(self.folder / f"{start}.{n}.fit", data)
        for old in self.folder.glob(f"{start}.*"):
            if old.name != f"{start}.{n}.fit":
                old.unlink()

    def secrets(self, fit: str) -> dict[str, Any]:
        """Return the secrets of a fit's masks; nothing if they were deleted."""
        try:
            return dict(unpack(self._secrets(fit).read_bytes()))
        except FileNotFoundError:
            return {}

    def keep_secrets(self, fit: str, secrets: Mapping[str, Any]) -> None:
        """Store the secrets of a fit's masks, in a file of their own that no backup needs."""
        replace_file(self._secrets(fit), pack(dict(secrets)))

    def forget_secrets(self, fit: str) -> None:
        """Delete the secrets of a fit's masks."""
        self._secrets(fit).unlink(missing_ok=True)

    def _secrets(self, fit: str) -> Path:
        return self.folder / f"{_digest_of(fit)}.secrets"

    def verdict(self, offer: bytes, question: dict[str, Any]) -> bool | None:
        """Return a person's decision on an offer; None if there is none yet.

        The question is stored, and none pushes out another one; after some weeks it is asked anew.
        Each requester whose signature was checked has places of its own.
        """
        path = self._question(_digest_of(offer))
        for old in filter(_is_old, self.folder.glob("*.asked")):
            old.unlink()
        if (known := _question_in(path)) is not None:
            answer: bool | None = known["yes"]
            return answer
        others = [q.get("signed_by") for q in self.questions().values()]
        if others.count(question.get("signed_by")) >= LIMITS.waiting_offers:
            raise Refused("Too many fits wait for the approval of a person at this silo.")
        replace_file(path, json.dumps({"asked": time.time(), **question, "yes": None}).encode())
        return None

    def questions(self) -> dict[str, dict[str, Any]]:
        """Return the offers that wait for a person's decision, by their digest."""
        questions = {path.stem: _question_in(path) for path in self.folder.glob("*.asked")}
        return {digest: each for digest, each in questions.items() if each and each["yes"] is None}

    def say(self, digest: str, yes: bool, who: str) -> None:
        """Store a person's decision on an offer, and who that is."""
        with self.locked():
            question = self.questions()[digest] | {"yes": yes}
            replace_file(self._question(digest), json.dumps(question).encode())
            shown = {k: question[k] for k in ("fit", "offer", "estimator", "requester", "purpose")}
            self.audit.add("approved" if yes else "refused by a person", who=who, **shown)

    def _question(self, digest: str) -> Path:
        return self.folder / f"{digest}.asked"

    def make_room(self, paid: set[str]) -> None:
        """Delete old offers, and the oldest of many, but none that was paid for.

        Dates may be wrong: a deleted offer had not begun, and can be made again.
        """
        waiting = [f.path for f in self.files() if not f.n_answers and f.offer not in paid]
        waiting.sort(key=lambda path: -path.stat().st_mtime)
        for number, path in enumerate(waiting, start=2):
            if number > LIMITS.waiting_offers or _is_old(path):
                path.unlink()
        for path in self.folder.glob("*.secrets"):  # a fit that nobody ended, or whose offer left
            if _is_old(path) or not any(self.folder.glob(f"{path.stem}.*.*")):
                path.unlink()


class SiloMemory:
    """What one silo agreed to, paid and answered; all methods but the first hold its lock."""

    def __init__(self, ledger: PrivacyLedger, folder: Any = None, counter: Any = None) -> None:
        self.path = str(ledger.record)
        self.store = SiloStore(f"{self.path}.fits" if folder is None else folder)
        self._counter = Path(f"{self.path}.count" if counter is None else counter)
        self._longest: dict[str, int] = {}
        with self.store.locked():
            self._begin(ledger)
        #: a random text that stays the same as long as the memory does, and the entries before it
        self.mark, base = (self.store.folder / "mark").read_text("utf-8").split()
        self._base = int(base)

    def _begin(self, ledger: PrivacyLedger) -> None:
        """Create the files of a new silo; raise if files of an old one are missing."""
        began = any(file.n_answers for file in self.store.files())
        _, n_fits = self._counted() or (0, 0)
        if not os.path.lexists(self.path):
            if began or n_fits:
                raise LedgerError(f"The ledger {self.path!r} of fits here is missing. Restore it.")
            with ledger:
                pass  # the file is there from now on
        mark = self.store.folder / "mark"
        if not mark.exists():
            paid = len(self._paid())
            if began or paid < n_fits:
                raise LedgerError(self._old("the ledger, or the folder of the fits"))
            self._count(0, paid)
            replace_file(mark, f"{secrets.token_hex(8)} {paid}".encode())

    def check_copies(self) -> None:
        """Raise unless ledger, fits and count are consistent."""
        files, paid = self.store.files(), self._paid()
        counted = self._counted()
        if counted is None:
            raise LedgerError(
                f"The count {str(self._counter)!r} is missing. Restore it. If it is lost, and "
                "ledger and folder are not from a copy, write "
                f"'{sum(f.n_answers for f in files)} {len(paid)}' into it."
            )
        n_answers, n_fits = counted
        known, began = {f.offer for f in files}, {f.offer for f in files if f.n_answers}
        if not began <= set(paid) or len(paid) < n_fits:
            raise LedgerError(self._old("the ledger"))
        if not known >= set(paid[self._base :]):
            raise LedgerError(self._old("the folder of the fits"))
        has = sum(file.n_answers for file in files)
        if not n_answers <= has <= n_answers + 1:
            raise LedgerError(self._old(f"the {'count' if has > n_answers else 'folder'}"))
        if (has, len(paid)) != counted:  # the process was killed before it counted
            self._count(has, len(paid))

    def _old(self, what: str) -> str:
        return (
            f"An old copy of {what} was restored: the ledger {self.path!r}, the folder "
            f"{str(self.store.folder)!r} and the count {str(self._counter)!r} are inconsistent, so "
            "the silo answers nothing. Restore the newest copies that were made at the same moment."
        )

    def check_budget(self, spent: PrivacySpent) -> None:
        """Raise unless a fit can be paid for."""
        ledger = self._open()
        if len(ledger.entries) >= LIMITS.fits:
            raise Refused(f"This silo's ledger is full: {LIMITS.fits:,} fits. It needs a new one.")
        ledger.check(spent)

    def longest_ask(self) -> int:
        """Return the most bytes that a question of a recent fit can need."""
        known, files = self._longest, self.store.files()
        longest = {f.offer: known.get(f.offer, -1) for f in files}
        longest |= {f.offer: self._longest_of(f) for f in files if longest[f.offer] < 0}
        self._longest = longest  # of fits that are still here
        return max(longest.values(), default=0)

    def _longest_of(self, file: _File) -> int:
        """Return the most bytes of a question of a fit; 0 if it is old, damaged or deleted."""
        try:
            offer = b"" if _is_old(file.path) else bytes(self.store.read_file(file)["offer"])
            return int(unpack(offer).longest_ask(len(offer)))
        except (FileNotFoundError, Refused, WireError):
            return 0

    def has_paid(self, offer: bytes) -> bool:
        """Whether the fit of an offer is in the ledger."""
        return _digest_of(offer) in self._paid()

    def agree(self, fit: str, record: dict[str, Any], secrets: Mapping[str, str]) -> None:
        """Store an offer, and the key of its masks if any."""
        self.store.make_room(set(self._paid()))
        if secrets:
            self.store.keep_secrets(fit, secrets)
        self.store.write(fit, record | {"n_answers": 0})

    def pay(self, agreed: bytes, offer: Offer) -> None:
        """Charge the cost of a whole fit, once."""
        name = f"{offer.estimator}, offer {hashlib.sha256(agreed).hexdigest()}, by {self.mark}"
        with self._open() as ledger:
            entry = _entry_in(ledger, agreed)
            if entry is None:
                spent = offer.row.spent(offer.seed)
                ledger.check(spent)
                price = {"epsilon": spent.epsilon, "delta": spent.delta}
                self.store.audit.add("charged", fit=offer.fit, offer=offer.digest, **price)
                ledger.charge(name, spent)
            elif entry.settled:  # whatever copy of the memory is here
                raise Refused("This fit was settled at the price of fewer rounds.")
            elif entry.name != name:  # and this one would draw its releases again
                raise Refused("This silo's ledger was charged for this fit by another gate.")

    def done(self, fit: str) -> None:
        """Delete the secrets of a fit's masks."""
        if self.store.secrets(fit):
            self.store.forget_secrets(fit)
            self.store.audit.add("done", fit=fit)

    def settle(self, fit: str, record: dict[str, Any], spent: PrivacySpent | None) -> None:
        """Store that a fit has ended, then charge this cost instead; None: it was not paid for."""
        ended = record | {"ended": True, "settled": True}
        self.store.forget_secrets(fit)
        if "settled" not in record:
            price = None if spent is None else spent.epsilon
            self.store.audit.add("ended early", fit=fit, rounds=record["round"] + 1, epsilon=price)
            (self.store.write if spent is None else self.answered)(fit, ended)
        if spent is not None:
            with self._open() as ledger:
                entry = _entry_in(ledger, bytes(record["offer"]))
                if entry is not None and not entry.settled:
                    ledger.settle(entry.name, spent)

    def answered(self, fit: str, record: dict[str, Any]) -> None:
        """Store one more answer; it may leave when this returns."""
        self.store.write(fit, record | {"n_answers": record["n_answers"] + 1})
        files = self.store.files()
        self._count(sum(file.n_answers for file in files), len(self._paid()))

    def _open(self) -> PrivacyLedger:
        return PrivacyLedger(path=self.path, must_exist=True)

    def _paid(self) -> list[str]:
        """Return the start of each fit's digest, in the ledger's order."""
        entries = (_ENTRY.search(entry.name) for entry in self._open().entries)
        return [each[1][:_NAME_DIGITS] for each in entries if each]

    def _counted(self) -> tuple[int, int] | None:
        """Return the stored numbers of answers and fits; None if there are none."""
        try:
            words = self._counter.read_text("utf-8").split()
        except FileNotFoundError:
            return None
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise LedgerError(f"The count {str(self._counter)!r} is damaged. Restore it.")
        return int(words[0]), int(words[1])

    def _count(self, n_answers: int, n_fits: int) -> None:
        replace_file(self._counter, f"{n_answers} {n_fits}\n".encode())


def _entry_in(ledger: PrivacyLedger, agreed: bytes) -> Entry | None:
    """Return a fit's entry in the ledger, by its offer; None if it was not charged."""
    digest = hashlib.sha256(agreed).hexdigest()
    named = ((_ENTRY.search(entry.name), entry) for entry in ledger.entries)
    return next((entry for name, entry in named if name and name[1] == digest), None)


def _question_in(path: Path) -> dict[str, Any] | None:
    """Return a stored question; None if there is none, or it is damaged: it is asked anew."""
    try:
        question = json.loads(path.read_bytes())
        known = question["yes"] in (True, False, None) and isinstance(question["asked"], float)
    except (FileNotFoundError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return question if known else None


def _digest_of(what: str | bytes) -> str:
    """Return the start of the digest of a fit's name, or of an offer."""
    data = what.encode("utf-8", "surrogatepass") if isinstance(what, str) else what
    return hashlib.sha256(data).hexdigest()[:_NAME_DIGITS]


def _is_old(path: Path) -> bool:
    return path.stat().st_mtime < time.time() - LIMITS.waiting_days * 86400


# ---- the log for auditors -----------------------------------------------------------------------


class AuditLog:
    """The log in a file, to which several processes may add."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._refused = "", 0

    def add(self, what: str, **more: Any) -> None:
        """Append a line; it is on disk when this returns."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            n, before = _last_line(file)
            line = {"n": n + 1, "time": now, "what": what, **more, "before": before}
            data = json.dumps(line, default=str).encode() + b"\n"
            if os.write(file, data) < len(data):
                raise OSError(errno.ENOSPC, "the audit log was cut short")
            os.fsync(file)
        finally:
            os.close(file)

    def refused(self, fit: str, reason: str) -> None:
        """Append a refusal, unless there were very many today."""
        today = time.strftime("%Y-%m-%d", time.gmtime())
        count = self._refused[1] + 1 if self._refused[0] == today else 1
        self._refused = today, count
        if count <= _REFUSALS_A_DAY:
            rest = {} if count < _REFUSALS_A_DAY else {"last": "more of this day are not listed"}
            self.add("refused", fit=fit[:100], reason=reason[:500], **rest)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all lines; raise a LedgerError at the first one that does not follow the others."""
        digest = _START
        data = self.path.read_bytes() if self.path.exists() else b""
        for n, line in enumerate(data.splitlines(), start=1):
            try:
                entry = json.loads(line)
                fine = (entry["n"], entry["before"]) == (n, digest)
            except (ValueError, TypeError, KeyError):
                fine = False
            if not fine:
                raise LedgerError(
                    f"{self.path}: line {n} was changed, or lines before it are gone."
                )
            digest = hashlib.sha256(line).hexdigest()
            yield entry

    def digest(self) -> str:
        """Return the digest of the last line, which stands for the whole log."""
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        return hashlib.sha256(lines[-1]).hexdigest() if lines else _START


def _last_line(file: int) -> tuple[int, str]:
    """Return the number and the digest of the last whole line; cut off an unfinished one."""
    if not (size := os.fstat(file).st_size):
        return 0, _START
    with mmap.mmap(file, size, access=mmap.ACCESS_READ) as data:
        end = data.rfind(b"\n")
        line = data[data.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)]
    os.ftruncate(file, end + 1)  # the process was killed, or the disk was full
    return (int(json.loads(line)["n"]), hashlib.sha256(line).hexdigest()) if line else (0, _START)
