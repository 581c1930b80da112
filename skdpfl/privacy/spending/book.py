"""The content and format of a ledger's file: lines of JSON, chained by digests.

The first line is the header, the others are entries, oldest first::

    {"format":"skdpfl-ledger","version":1,"count":2,"last":"<digest of the last line>"}
    {"after":"000...","kind":"budget","id":"<random>","epsilon":2.0,"delta":1e-05, ...}
    {"after":"<digest of the line before>","kind":"fit","name":"ISRLDPClassifier", ...}

A digest is the SHA-256 of a line's bytes with its line end. Each entry contains the digest of the
previous one, the header their number and the last digest; so a file with a changed, missing,
repeated or moved byte is rejected. The first entry is the initial budget of the ledger; later
entries of kind "budget" raise it, and those of kind "settled" say what a fit that ended early
cost. Entries hold numbers and text (:mod:`.report`) and run no code.

An entry is appended, then the header, which has a fixed length, is overwritten: the time for both
does not depend on the number of entries. If that is interrupted, the file has one more entry than
the header says, complete or in part: a complete one counts, a partial one does not, since its fit
had not begun.

A digest is not a signature: anyone with write access to the file can write another ledger.

**The locked file** loses no entries. An entry is on the disk before the header names it, and the
fit begins after both. So a process that is killed leaves the old entries or one more, and a fit
that has drawn noise is recorded. What it left of a part of an entry, or of an entry that the header
does not name, is mended before the next entry. The lock is on the file itself: after locking we
check that the file still has its name. As long as nobody else has written to the file, it is not
read again.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import math
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from skdpfl._arguments import check_choice
from skdpfl._durable import append, mend, sync_folder, write_new
from skdpfl._warnings import warn
from skdpfl.exceptions import LedgerError, PrivacyLeakWarning
from skdpfl.privacy.calibration import is_number
from skdpfl.privacy.events import Neighbours
from skdpfl.privacy.spending.filters import FILTERS, Filter, Taken
from skdpfl.privacy.spending.report import from_record, keys, one_of, require, to_record
from skdpfl.privacy.spending.spent import PrivacySpent

FORMAT, VERSION = "skdpfl-ledger", 1
_FIRST = "0" * 64
#: bytes of the header
_WIDTH = 160


class Damaged(ValueError):
    """A ledger's file is damaged; the message says where."""


class Entry(NamedTuple):
    """One fit: its name, its cost, and when it was charged.

    A fit that ended early may be ``settled``: its cost is then that of the rounds that ran, in a
    later line of the file, whose date is that of its end.
    """

    name: str
    spent: PrivacySpent
    date: str = ""
    settled: bool = False


@dataclass(frozen=True)
class Budget:
    """The budget of a ledger: its limit, the filter, and the reason for it.

    Parameters
    ----------
    epsilon : float or None
        None: only record costs.
    delta : float
        Between 0 and 1.
    method : {"renyi", "gaussian"}
        The filter.
    neighbours : {"replace", "add_remove"} or None
        The neighbouring relation; None: that of the first fit.
    reason : str
        The reason for this budget.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    method: str = "renyi"
    neighbours: Neighbours | None = None
    reason: str = "opened"

    def __post_init__(self) -> None:
        epsilon, delta = self.epsilon, self.delta
        if not (epsilon is None or (is_number(epsilon) and 0 < epsilon < math.inf)):
            raise ValueError(f"epsilon must be None or a number > 0; got {epsilon!r}.")
        if not (is_number(delta) and 0 < delta < 1):
            raise ValueError(f"delta must be a number in (0, 1); got {delta!r}.")
        check_choice("method", self.method, FILTERS)
        check_choice("neighbours", self.neighbours, (None, "replace", "add_remove"))
        if not isinstance(self.reason, str) or not self.reason:
            raise ValueError(f"reason must be a string; got {self.reason!r}.")
        object.__setattr__(self, "epsilon", None if epsilon is None else float(epsilon))
        object.__setattr__(self, "delta", float(delta))

    @property
    def filter(self) -> Filter | None:
        """The filter that admits fits; None admits all."""
        if self.epsilon is None:
            return None
        return FILTERS[self.method](self.epsilon, self.delta, self.neighbours)


Item = Entry | Budget


class Mark(NamedTuple):
    """A state of a ledger: its first digest, its number of entries and its last digest."""

    first: str
    length: int
    last: str

    @property
    def birth(self) -> Mark:
        """The mark of the same ledger when it was new."""
        return Mark(self.first, 1, self.first)


class Line(NamedTuple):
    """One entry, with the digest of its bytes."""

    digest: str
    item: Item


@dataclass(frozen=True)
class Book:
    """The content of a ledger.

    Attributes
    ----------
    lines : tuple of Line
        The entries, oldest first.
    size : int
        The number of bytes of header and entries.
    whole : bool
        Whether header and end are as they should be; otherwise a process was killed.
    budget : Budget
        The current budget.
    seeds : frozenset
        The seeds of all simulated fits.
    """

    lines: tuple[Line, ...]
    size: int
    whole: bool
    budget: Budget
    seeds: frozenset[int]

    @property
    def mark(self) -> Mark:
        """The identifier of this state."""
        return Mark(self.lines[0].digest, len(self.lines), self.lines[-1].digest)

    @property
    def header(self) -> bytes:
        """The first line of the file."""
        return _header(len(self.lines), self.lines[-1].digest)

    @property
    def entries(self) -> list[Entry]:
        """The fits, oldest first; settled ones with their final cost."""
        return _final(self.lines)

    @property
    def budgets(self) -> list[Budget]:
        """The initial budget of the ledger, and the raised ones."""
        return [line.item for line in self.lines if isinstance(line.item, Budget)]

    @cached_property
    def taken(self) -> Taken:
        """The part of the budget that the fits have used."""
        rule = self.budget.filter
        return Taken() if rule is None else rule.taken(entry.spent for entry in self.entries)

    def admit(self, spent: PrivacySpent) -> None:
        """Raise BudgetExceeded if the remaining budget is too small for ``spent``."""
        if (rule := self.budget.filter) is not None:
            rule.admit(self.taken, spent)

    def check_settled(self, name: str, spent: PrivacySpent) -> None:
        """Raise a ValueError unless a fit may be charged for this part of it, which ran."""
        named = [k for k, entry in enumerate(self.entries) if entry.name == name]
        if len(named) != 1:
            raise ValueError(f"The ledger must have one fit named {name!r}; it has {len(named)}.")
        whole = self.entries[named[0]].spent
        if spent.guarantee.protected != whole.guarantee.protected:
            raise ValueError(
                "A part of a fit must have the unit and the relation of the whole fit."
            )
        if (rule := self.budget.filter) is not None:
            rule.check_part(whole, spent, self.entries[0].spent, is_first=named[0] == 0)

    def adding(self, item: Item) -> tuple[Book, bytes]:
        """Return the book with one more entry, and the entry's bytes."""
        data = encoded(item, self.lines[-1].digest)
        lines, size = (*self.lines, Line(_digest(data), item)), self.size + len(data)
        if isinstance(item, Budget) or item.settled:
            budget = item if isinstance(item, Budget) else self.budget
            return Book(lines, size, True, budget, self.seeds), data
        seeds = item.spent.simulation_seeds
        book = Book(lines, size, True, self.budget, self.seeds | seeds if seeds else self.seeds)
        rule = self.budget.filter
        if rule is not None:  # one step of what ``taken`` computes
            book.__dict__["taken"] = rule.adding(self.taken, item.spent)
        return book, data

    def follows(self, mark: Mark) -> bool:
        """Return whether this is the same or a later state of the ledger with ``mark``."""
        same = self.mark.first == mark.first and len(self.lines) >= mark.length
        return same and self.lines[mark.length - 1].digest == mark.last


def written(*items: Item) -> bytes:
    """Return the bytes of a file with these entries."""
    body, last = b"", _FIRST
    for item in items:
        data = encoded(item, last)
        body, last = body + data, _digest(data)
    return _header(len(items), last) + body


def read(data: bytes, previous: Book | None = None) -> Book:
    """Return the book whose bytes are ``data``, or raise Damaged.

    Entries that it shares with the beginning of ``previous`` are not parsed again.
    """
    if not data:
        raise Damaged("is empty")
    first, end, rest = data.partition(b"\n")
    header = first + end
    if not header.startswith(f'{{"format":"{FORMAT}","version":{VERSION},'.encode()):
        raise Damaged(f"is not a {FORMAT} of version {VERSION}, or its first line was changed")
    *bodies, part = rest.split(b"\n")
    known = () if previous is None else previous.lines
    lines: list[Line] = []
    same = True
    for k, body in enumerate(bodies):
        line, after = body + b"\n", lines[-1].digest if lines else _FIRST
        same = same and k < len(known) and known[k].digest == _digest(line)
        lines.append(known[k] if same else _line(line, after, k))
    if not lines:
        raise Damaged("does not have the entries that its first line names; it has 0")
    last = lines[-1].digest
    named = header == _header(len(lines), last)
    before = lines[-2].digest if len(lines) > 1 else _FIRST
    behind = not part and header == _header(len(lines) - 1, before)
    if not (behind or (named and _begins_an_entry(part, last))):
        raise Damaged(f"does not have the entries that its first line names; it has {len(lines)}")
    if not isinstance(lines[0].item, Budget):
        raise Damaged("does not begin with a budget")
    budget = next(line.item for line in reversed(lines) if isinstance(line.item, Budget))
    charged = _final(lines)
    seeds = frozenset().union(*(fit.spent.simulation_seeds for fit in charged))
    size = len(data) - len(part)
    return Book(tuple(lines), size, named and not part, budget, seeds)


def _final(lines: Iterable[Line]) -> list[Entry]:
    """Return the fits with their final cost; raise Damaged if one was settled but not charged.

    A fit is settled by name, so the name has to be that of one fit charged before. Later fits of
    this name are charged as they are.
    """
    entries: list[Entry] = []
    for item in (line.item for line in lines if isinstance(line.item, Entry)):
        if not item.settled:
            entries.append(item)
            continue
        named = [k for k, entry in enumerate(entries) if entry.name == item.name]
        if len(named) != 1:
            raise Damaged("has a settled fit that was not charged before, once")
        entries[named[0]] = entries[named[0]]._replace(spent=item.spent, settled=True)
    return entries


def _begins_an_entry(part: bytes, last: str) -> bool:
    """Return whether bytes are empty, or the beginning of the next entry."""
    beginning = b'{"after":"%s","kind":' % last.encode()
    part = part.rstrip(b"\0")  # what some disks have in place of bytes that were not written
    return part.startswith(beginning) or beginning.startswith(part)


def _line(data: bytes, after: str, k: int) -> Line:
    """Read the k-th entry, which must follow the one whose digest is ``after``."""
    if not data.startswith(b'{"after":"%s",' % after.encode()) or not data.endswith(b"}\n"):
        raise Damaged(f"was changed at or before entry {k + 1}")
    try:
        return Line(_digest(data), _item(json.loads(data)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(
            f"has an entry {k + 1} that is not as this version writes it ({error})"
        ) from error


def _item(plain: dict[str, Any]) -> Item:
    kind = one_of(plain, "kind", ["budget", "fit", "settled"], "entry")
    if kind == "budget":
        names = [field.name for field in dataclasses.fields(Budget)]
        keys(plain, {"after", "kind", "id", *names}, "entry")
        return Budget(**{name: plain[name] for name in names})
    older = {"scored"} & plain.keys()  # files of another version have it
    keys(plain, {"after", "kind", "name", "date", "seeds", "spent", *older}, "entry")
    for name in ("name", "date"):
        require(isinstance(plain[name], str), f"entry.{name}", "is no text")
    seeds = frozenset(plain["seeds"])
    require(all(type(seed) is int for seed in seeds), "entry.seeds", "are not integers")
    spent = from_record(PrivacySpent, plain["spent"], seeds)
    return Entry(plain["name"], spent, plain["date"], kind == "settled")


def encoded(item: Item, after: str) -> bytes:
    """Return the line of an entry."""
    if isinstance(item, Budget):
        own = {"kind": "budget", "id": secrets.token_hex(16)} | dataclasses.asdict(item)
    else:
        kind = "settled" if item.settled else "fit"
        own = {"kind": kind, "name": item.name, "date": item.date}
        own["seeds"] = sorted(map(int, item.spent.simulation_seeds))
        own["spent"] = to_record(item.spent)
    return _json({"after": after} | own)


def _header(count: int, last: str) -> bytes:
    plain = _json({"format": FORMAT, "version": VERSION, "count": count, "last": last})
    return plain[:-1].ljust(_WIDTH - 1) + b"\n"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

#: number of the file, its size, and the time of its last change
_State = tuple[int, int, int, int]

#: a folder of files that are never written to a disk, which other processes can open
_IN_MEMORY = "/dev/shm"
#: seconds to wait for another process
PATIENCE = 60.0


class Journal:
    """A ledger's file; ``mark`` is an earlier state of it, which it has to continue."""

    def __init__(self, path: str, mark: Mark | None = None) -> None:
        self.path, self._expected = path, mark
        self._mode, self._permissions_warned = 0o600, mark is not None
        self._known: tuple[Book, _State] | None = None
        self._held = -1  # the locked file

    @property
    def mark(self) -> Mark | None:
        """The last state that was read."""
        return self._expected if self._known is None else self._known[0].mark

    def exists(self) -> bool:
        """Return whether there is a file at the path."""
        return os.path.lexists(self.path)

    def create(self, budget: Budget) -> None:
        """Create the file with its first entry, atomically, unless it exists."""
        data = written(budget)
        new = f"{self.path}.{secrets.token_hex(4)}.new"
        with self._in_words("created"), suppress(FileExistsError):
            try:
                write_new(new, data, 0o600)
                _put(new, self.path, data)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(new)
            sync_folder(self.path)

    def read(self) -> Book:
        """Return the content of the file, which must continue the last state that was read."""
        with self._in_words("read"):
            file = self._open(os.O_RDONLY)
        try:
            return self._content(file)
        except LedgerError:
            time.sleep(0.01)  # another process was writing the header
            return self._content(file)
        finally:
            os.close(file)

    @contextmanager
    def locked(self) -> Iterator[Book]:
        """Return the content of the file, and lock it inside the block."""
        with self._in_words("locked"):
            file = self._lock()
        try:
            self._refuse_other_names(file)
            book = self._content(file)
            self._held = file
            yield book
        finally:
            self._held = -1
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def add(self, book: Book, item: Item) -> None:
        """Add an entry, inside :meth:`locked` only; it is on the disk afterwards."""
        new, data = book.adding(item)
        with self._in_words("written"):
            if not book.whole:
                mend(self._held, book.header, book.size)
            append(self._held, data, book.size, book.header, new.header)
            self._known = new, _state(self._held)

    def _content(self, file: int) -> Book:
        """Return the content of an open file, and cache it."""
        known = self._known
        with self._in_words("read"):
            state = _state(file)  # before reading: another process may write meanwhile
            if known is not None and known[1] == state:
                self._warn_of_rights()
                return known[0]
            data = _all_of(file)
        seen = self.mark if known is None else known[0].mark
        try:
            book = read(data, None if known is None else known[0])
        except Damaged as error:
            raise LedgerError(
                f"The privacy ledger {self.path!r} {error}. No fit is admitted. Restore its latest "
                "copy, and charge later fits by ledger.charge; without a copy, consider the budget "
                "spent."
            ) from error
        if seen is not None and not book.follows(seen):
            raise LedgerError(
                f"The privacy ledger {self.path!r} was replaced by another ledger or an older copy "
                "while it was in use. No fit is admitted. Restore the latest one."
            )
        now = self._known
        if now is None or book.follows(now[0].mark):
            self._known = book, state
        self._warn_of_rights()
        return book

    def _warn_of_rights(self) -> None:
        """Warn once of a file that other users can read or write."""
        if os.name != "posix" or self._permissions_warned or not self._mode & 0o077:
            return
        self._permissions_warned = True
        doing = "write" if self._mode & 0o022 else "read"
        warn(
            f"Other users may {doing} the file of the privacy ledger {self.path!r} (mode "
            f"{self._mode:o}). It names all fits, their costs, silos and seeds, and whoever "
            "writes it can change the budget. chmod 600 gives access to its owner only.",
            PrivacyLeakWarning,
        )

    def _open(self, flags: int) -> int:
        """Open the existing file; raise LedgerError if there is none."""
        file = os.open(self.path, flags | getattr(os, "O_NONBLOCK", 0))
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            os.close(file)
            raise IsADirectoryError(errno.EISDIR, "it is a directory, or not a regular file")
        self._mode = stat.S_IMODE(mode)
        return file

    def _lock(self) -> int:
        if fcntl is None:
            raise OSError(errno.ENOLCK, "this system has no POSIX locks")
        end, pause = time.monotonic() + PATIENCE, 1e-3
        while time.monotonic() < end:
            file = self._open(os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(self.path)):
                    return file
            except BlockingIOError:
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
            except BaseException:
                os.close(file)
                raise
            os.close(file)
        raise TimeoutError(errno.ETIMEDOUT, f"another process held it for {PATIENCE:g} seconds")

    def _refuse_other_names(self, file: int) -> None:
        """Refuse files with a second name, which would keep the content before a replacement."""
        for _ in range(20):  # a ledger that is being created has two names for a moment
            if os.fstat(file).st_nlink <= 1:
                return
            time.sleep(0.05)
        raise LedgerError(
            f"The privacy ledger {self.path!r} has a second name (a hard link), under which fits "
            "made here would not count. No fit is admitted. Remove the other name."
        )

    @contextmanager
    def _in_words(self, doing: str) -> Iterator[None]:
        """Convert system errors to LedgerErrors that say what to do."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LedgerError(self._gone()) from error
        except OSError as error:
            raise LedgerError(
                f"The privacy ledger {self.path!r} cannot be {doing}: {error.strerror or error}. "
                "No fit is admitted. Put that right, or give another path."
            ) from error

    def _gone(self) -> str:
        if not os.path.isdir(os.path.dirname(self.path)):
            return f"The privacy ledger {self.path!r} cannot be created: its folder does not exist."
        return (
            f"The privacy ledger {self.path!r} is gone: its file was deleted or moved, or was "
            "never made. No fit is admitted. Restore it with all entries that it had; a new file "
            "would be a new budget."
        )


def _state(file: int) -> _State:
    """Return a file's state, which changes when it is written or replaced."""
    status = os.stat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _all_of(file: int) -> bytes:
    """Return the content of an open file."""
    with open(file, "rb", closefd=False) as opened:
        opened.seek(0)
        return opened.read()


def absolute(path: Any) -> str:
    """Return a path with links resolved, so that each file has one name."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        text = ""
    if not text or "\0" in text:
        raise ValueError(f"path must be a string or a path-like object; got {path!r}.")
    return os.path.realpath(text)


def temporary_path() -> str:
    """Return a path in a new folder that only this user can enter, in memory if possible."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else tempfile.gettempdir()
    try:
        return os.path.join(tempfile.mkdtemp(prefix="skdpfl-ledger-", dir=place), "ledger.jsonl")
    except OSError as error:
        raise LedgerError(
            f"A temporary privacy ledger cannot be created in {place!r}: "
            f"{error.strerror}. No fit is admitted. Free space there, or give a path."
        ) from error


def _put(new: str, path: str, data: bytes) -> None:
    """Rename a new file unless the name exists (FileExistsError)."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: one that is killed now leaves an unreadable file
        write_new(path, data, 0o600)
