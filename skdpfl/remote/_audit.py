"""An append-only log of what a silo agreed to, paid, answered and refused, for auditors.

::

    line = {"n": its number, "time": ..., "what": ..., more, "before": digest of the line before}

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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skdpfl.exceptions import LedgerError

#: refusals of a day that are listed: letters that are refused must not fill the disk
_REFUSALS_A_DAY = 1000
_START = "0" * 64


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
            n, before = _last(file)
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
            more = {"last": "further ones of this day are not listed"}
            rest = more if count == _REFUSALS_A_DAY else {}
            self.add("refused", fit=fit[:100], reason=reason[:500], **rest)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all lines; raise a LedgerError at the first one that does not follow the others."""
        digest = _START
        data = self.path.read_bytes() if self.path.exists() else b""
        for n, line in enumerate(data.splitlines(), start=1):
            try:
                found = json.loads(line)
                fine = (found["n"], found["before"]) == (n, digest)
            except (ValueError, TypeError, KeyError):
                fine = False
            if not fine:
                raise LedgerError(
                    f"{self.path}: line {n} was changed, or lines before it are gone."
                )
            digest = hashlib.sha256(line).hexdigest()
            yield found

    def digest(self) -> str:
        """Return the digest of the last line, which stands for the whole log."""
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        return hashlib.sha256(lines[-1]).hexdigest() if lines else _START


def _last(file: int) -> tuple[int, str]:
    """Return the number and the digest of the last whole line; cut off an unfinished one."""
    if not (size := os.fstat(file).st_size):
        return 0, _START
    with mmap.mmap(file, size, access=mmap.ACCESS_READ) as data:
        end = data.rfind(b"\n")
        line = data[data.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)]
    os.ftruncate(file, end + 1)  # the process was killed, or the disk was full
    return (int(json.loads(line)["n"]), hashlib.sha256(line).hexdigest()) if line else (0, _START)
