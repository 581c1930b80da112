"""Files that outlive processes: one that is killed leaves what was there before, or after."""

import errno
import hashlib
import os
from contextlib import suppress

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Put a whole file in the place of another; it is on the disk when this returns."""
    new = beside(path, "new")
    with suppress(FileNotFoundError):
        os.unlink(new)  # left by a process that was killed
    try:
        write_new(new, data, mode)
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise
    sync_folder(path)


def write_new(path: str, data: bytes, mode: int) -> None:
    """Write a new file and wait until it is on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        os.chmod(path, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def append(file: int, data: bytes, size: int, before: bytes, header: bytes) -> None:
    """Put bytes at the end of a file of a size, then a header over the one before, of its length.

    The bytes are on the disk before the header is written, and the header when this returns. If
    either fails, the file is as it was.
    """
    try:
        _write_at(file, data, size)
        os.fsync(file)
        _write_at(file, header, 0)
        os.fsync(file)
    except OSError:
        with suppress(OSError):
            _write_at(file, before, 0)
            os.ftruncate(file, size)
        raise


def _write_at(file: int, data: bytes, at: int) -> None:
    """Write all bytes at a place."""
    while data:
        n = os.pwrite(file, data, at)
        data, at = data[n:], at + n


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Wait until a file's name is on the disk."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot do this
            raise
    finally:
        os.close(folder)


def hold(path: str | os.PathLike[str]) -> int:
    """Lock a file's name, by a second file beside it; BlockingIOError if somebody else holds it.

    A process that is killed holds nothing. What is returned goes to :func:`let_go`.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, "this system has no POSIX locks")
    lock = beside(path, "lock")
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # whoever held it removes it: this may be the old one
            if os.path.samestat(os.fstat(file), os.stat(lock)):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def let_go(path: str | os.PathLike[str], held: int) -> None:
    """Give a lock back."""
    with suppress(OSError):
        os.unlink(beside(path, "lock"))
    os.close(held)


def beside(path: str | os.PathLike[str], ending: str) -> str:
    """Return a name for this use alone: always the same one, which no user's file has."""
    own = hashlib.blake2b(os.fsencode(os.path.basename(path)), digest_size=4).hexdigest()
    return f"{os.fspath(path)}.{own}.{ending}"
