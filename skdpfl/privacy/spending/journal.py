"""The file of a ledger, locked and replaced atomically so that no entry is lost.

A change is written to a second file, which replaces the first when it is on the disk; the fit
begins after that. So a process that is killed leaves the old file or the new one, and a fit that
has drawn noise is recorded. The lock is on the file itself: after locking we check that the file
still has its name, since each change replaces it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from skdpfl._durable import replace_file, sync_folder, write_new
from skdpfl._warnings import warn
from skdpfl.exceptions import LedgerError, PrivacyLeakWarning
from skdpfl.privacy.spending.book import Book, Budget, Damaged, Mark, read

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

#: seconds to wait for another process
PATIENCE = 60.0

_REMEDIES = {
    errno.ENOSPC: "Make room on the disk",
    errno.EDQUOT: "Make room in the disk quota",
    errno.EFBIG: "Make room: the file may not grow",
    errno.EACCES: "Give this user the right to read and write it and its folder",
    errno.EPERM: "Give this user the right to read and write it and its folder",
    errno.EROFS: "Keep it where this user can write",
}


class Journal:
    """A ledger's file; ``mark`` is an earlier state of it, which it has to continue."""

    def __init__(self, path: str, mark: Mark | None = None) -> None:
        self.path, self._seen = path, mark
        self._mode, self._told = 0o600, mark is not None  # whether its rights were spoken of
        self._book: Book | None = None

    @property
    def mark(self) -> Mark | None:
        """The last state that was read."""
        return self._seen

    def exists(self) -> bool:
        """Return whether there is a file at the path."""
        return os.path.lexists(self.path)

    def create(self, budget: Budget) -> None:
        """Create the file with its first entry, atomically, unless it exists."""
        data = Book().adding(budget).to_bytes()
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
        seen = self._seen  # before reading: another thread may write meanwhile
        with self._in_words("read"), open(self._open(os.O_RDONLY), "rb") as file:
            data = file.read()
        return self._checked(data, seen)

    @contextmanager
    def locked(self) -> Iterator[Book]:
        """Return the content of the file, and lock it inside the block."""
        with self._in_words("locked"):
            file = self._lock()
        try:
            seen = self._seen
            with self._in_words("read"), open(file, "rb", closefd=False) as opened:
                data = opened.read()
            self._refuse_other_names(file)
            yield self._checked(data, seen)
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def replace(self, book: Book) -> None:
        """Replace the content, inside :meth:`locked` only; it is on the disk afterwards."""
        with self._in_words("written"):
            mode = stat.S_IMODE(os.stat(self.path).st_mode)
            replace_file(self.path, book.to_bytes(), mode)
        self._book, self._seen = book, book.mark

    def _checked(self, data: bytes, seen: Mark | None) -> Book:
        try:
            book = read(data, self._book)
        except Damaged as error:
            raise LedgerError(
                f"The privacy ledger {self.path!r} {error}. No fit is admitted. Put back its "
                "latest copy, and charge what was fitted since by ledger.charge; without one, take "
                "the budget as spent."
            ) from error
        if seen is not None and not book.follows(seen):
            raise LedgerError(
                f"The privacy ledger {self.path!r} is not what it was: another ledger or an older "
                "copy was put in its place while it was in use. No fit is admitted. Put the latest "
                "one back."
            )
        if self._seen is None or book.follows(self._seen):
            self._book, self._seen = book, book.mark
        self._warn_of_rights()
        return book

    def _warn_of_rights(self) -> None:
        """Warn once of a file that is not its owner's alone."""
        if os.name != "posix" or self._told or not self._mode & 0o077:
            return
        self._told = True
        doing = "write" if self._mode & 0o022 else "read"
        warn(
            f"The privacy ledger {self.path!r} is a file that other users may {doing} (mode "
            f"{self._mode:o}): it names all fits, their costs, silos and seeds, and who writes it "
            "can change the budget. chmod 600 leaves it to its owner.",
            PrivacyLeakWarning,
        )

    def _open(self, flags: int) -> int:
        """Open the existing file; raise LedgerError if there is none."""
        file = os.open(self.path, flags | getattr(os, "O_NONBLOCK", 0))
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            os.close(file)
            raise IsADirectoryError(errno.EISDIR, "it is a directory, or no plain file")
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
                f"The privacy ledger {self.path!r} cannot be kept: there is no folder {folder!r}."
            )
        return (
            f"The privacy ledger {self.path!r} is gone: its file was deleted or moved. No fit is "
            "admitted. Put it back, with all its entries; a new file would be a new budget."
        )


def absolute(path: Any) -> str:
    """Return a path without links, so that each file has one name."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        text = ""
    if not text or "\0" in text:
        raise ValueError(f"path must be the name of a file, or a path-like object; got {path!r}.")
    return os.path.realpath(text)


def temporary_path() -> str:
    """Return a path in a new folder that only this user can enter."""
    try:
        return os.path.join(tempfile.mkdtemp(prefix="skdpfl-ledger-"), "ledger.jsonl")
    except OSError as error:
        raise LedgerError(
            f"A temporary privacy ledger cannot be kept in {tempfile.gettempdir()!r}: "
            f"{error.strerror}. No fit is admitted. Make room, or give a path."
        ) from error


def _put(new: str, path: str, data: bytes) -> None:
    """Rename a new file unless the name exists (FileExistsError)."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: one that is killed now leaves an unreadable file
        write_new(path, data, 0o600)
