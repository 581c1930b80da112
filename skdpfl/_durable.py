"""Crash-safe files: a process that is killed while writing leaves the old content or the new."""

import errno
import hashlib
import os
from contextlib import suppress

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically; the new content is on disk when this returns."""
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
    """Append bytes to a file of known size, then overwrite its header by one of the same length.

    The bytes are on disk before the header is written, and the header when this returns. If either
    fails, the file is unchanged.
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


def mend(file: int, header: bytes, size: int) -> None:
    """Cut a file to a size, and write its header anew; both are on disk when this returns."""
    os.ftruncate(file, size)
    _write_at(file, header, 0)
    os.fsync(file)


def _write_at(file: int, data: bytes, at: int) -> None:
    """Write all bytes at an offset."""
    while data:
        n = os.pwrite(file, data, at)
        data, at = data[n:], at + n


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Sync a folder, so that the names of its files are on disk."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot do this
            raise
    finally:
        os.close(folder)


def hold(path: str | os.PathLike[str]) -> int:
    """Lock a file by a lock file beside it; BlockingIOError if another process holds the lock.

    The lock ends with the process. Release it by passing the result to :func:`let_go`.
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
    """Release a lock."""
    with suppress(OSError):
        os.unlink(beside(path, "lock"))
    os.close(held)


def beside(path: str | os.PathLike[str], ending: str) -> str:
    """Return an internal file's name beside another file; it does not clash with users' files."""
    own = hashlib.blake2b(os.fsencode(os.path.basename(path)), digest_size=4).hexdigest()
    return f"{os.fspath(path)}.{own}.{ending}"
