"""The locked file of a ledger, which loses no entries.

An entry is on the disk before the header names it, and the fit begins after both. So a process that
is killed leaves the old entries or one more, and a fit that has drawn noise is recorded. What it
left of a part of an entry, or of an entry that the header does not name, is mended before the next
entry. The lock is on the file itself: after locking we
check that the file still has its name. As long as nobody else has written to the file, it is not
read again.
"""

import errno
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from skdpfl._durable import append, mend, sync_folder, write_new
from skdpfl._warnings import warn
from skdpfl.exceptions import LedgerError, PrivacyLeakWarning
from skdpfl.privacy.spending.book import Book, Budget, Damaged, Item, Mark, read, written

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

#: which file it is, its size, and when it was written to
_State = tuple[int, int, int, int]

#: a folder of files that are never written to a disk, which other processes can open
_IN_MEMORY = "/dev/shm"
#: seconds to wait for another process
PATIENCE = 60.0

_REMEDIES = {
    errno.ENOSPC: "Free space on the disk",
    errno.EDQUOT: "Free space in the disk quota",
    errno.EFBIG: "Raise the limit on file sizes",
    errno.EACCES: "Give this user the right to read and write it and its folder",
    errno.EPERM: "Give this user the right to read and write it and its folder",
    errno.EROFS: "Give a path where this user can write",
}


class Journal:
    """A ledger's file; ``mark`` is an earlier state of it, which it has to continue."""

    def __init__(self, path: str, mark: Mark | None = None) -> None:
        self.path, self._given = path, mark
        self._mode, self._permissions_warned = 0o600, mark is not None
        self._known: tuple[Book, _State] | None = None
        self._held = -1  # the locked file

    @property
    def mark(self) -> Mark | None:
        """The last state that was read."""
        return self._given if self._known is None else self._known[0].mark

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
            remedy = _REMEDIES.get(error.errno or 0, "Put that right")
            raise LedgerError(
                f"The privacy ledger {self.path!r} cannot be {doing}: {error.strerror or error}. "
                f"No fit is admitted. {remedy}, or give another path."
            ) from error

    def _gone(self) -> str:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            return (
                f"The privacy ledger {self.path!r} cannot be created: the folder {folder!r} does "
                "not exist."
            )
        return (
            f"The privacy ledger {self.path!r} is gone: its file was deleted or moved. No fit is "
            "admitted. Restore it with all its entries; a new file would be a new budget."
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
