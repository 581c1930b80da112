"""What a silo keeps of its fits on disk: one file a fit, written before an answer leaves.

``.fit`` is a fit that began, and stays. ``.offer`` is one that was agreed to: nothing was released,
so the oldest are forgotten when there are many. A file is replaced as a whole
(:mod:`skdpfl._durable`). It holds the silo's memory, which is as
secret as its records: only its owner may read it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skdpfl._durable import replace_file
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._limits import LIMITS
from skdpfl.remote._terms import Refused
from skdpfl.remote._wire import WireError

#: seconds to wait for another process of this silo that answers
PATIENCE = 600.0


class Store:
    """The fits of one silo, in a folder of its own."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def has_fits(self) -> bool:
        """Whether any fit began."""
        return any(self.folder.glob("*.fit"))

    @property
    def mark(self) -> str:
        """A random text that stays the same as long as this folder does."""
        path = self.folder / "mark"
        if not path.exists():
            with self.locked():
                if not path.exists():
                    replace_file(path, secrets.token_hex(8).encode())
        return path.read_text("ascii")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process of this silo answer at a time."""
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _wait_for(lock)
            yield
        finally:
            os.close(lock)  # and unlocked, as when the process is killed

    def read(self, fit: str) -> dict[str, Any] | None:
        """Return what was kept of a fit; None if there is nothing."""
        data = _content(self._path(fit, "fit")) or _content(self._path(fit, "offer"))
        if data is None:
            return None
        try:
            kept = unpack(data)
        except WireError as error:
            raise Refused(
                "What this silo kept of the fit is damaged, so it takes part no more; its spending "
                "is in its ledger."
            ) from error
        assert isinstance(kept, dict)
        return kept

    def write(self, fit: str, kept: dict[str, Any]) -> None:
        """Keep this of a fit; it is on the disk when this returns."""
        data, waiting = pack(kept), self._path(fit, "offer")
        if "words" in kept:
            replace_file(self._path(fit, "fit"), data)
            waiting.unlink(missing_ok=True)
        else:
            self._make_room(len(data))
            replace_file(waiting, data)

    def _make_room(self, size: int) -> None:
        """Forget offers that are old, and the oldest of many; dates may be wrong, and do no harm.

        A fit that was paid for and did not begin is not begun again: its ledger has it.
        """
        states = [(path, path.stat()) for path in self.folder.glob("*.offer")]
        states.sort(key=lambda pair: -pair[1].st_mtime)
        oldest = time.time() - LIMITS.waiting_days * 86400
        for number, (path, state) in enumerate(states, start=2):
            size += state.st_size
            few = number <= LIMITS.waiting_offers and size <= LIMITS.waiting_bytes
            if not few or state.st_mtime < oldest:
                path.unlink()

    def _path(self, fit: str, ending: str) -> Path:
        name = hashlib.sha256(fit.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.{ending}"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _wait_for(lock: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES) or time.monotonic() > end:
                raise
            time.sleep(0.05)
