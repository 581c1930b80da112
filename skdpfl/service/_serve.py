"""Serve a gate at a socket, which is the only access that others have to its process.

The gate's user owns the records, the ledger and the memory. Letters come from another user, who can
access only the socket, and is identified by the kernel (``roster.users``). One letter is answered
at a time.
"""

import importlib
import json
import logging
import os
import pwd
import resource
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from skdpfl import remote
from skdpfl._codec import header_of
from skdpfl._durable import replace_file
from skdpfl.privacy import PrivacyLedger
from skdpfl.service._settings import BadFile, SiloSettings, read_keys, read_settings
from skdpfl.service._tables import read_records

_LOG = logging.getLogger("skdpfl.service")
#: seconds to send a whole letter, or to take the answer; to begin with it, and for a health check
_PATIENCE, _KNOCK = 120.0, 5.0
#: letters on their way in: in all, of one user, health checks; connections that wait
_PLACES, _WAITING = (16, 12, 2), 64
#: bytes from which letters are taken in one at a time
_LARGE_LETTER = 2**20
_HELLO = remote.pack(remote.Hello())


def make_gate(settings: SiloSettings) -> remote.Gate:
    """Return the gate that a file describes; raise a BadFile or a LedgerError if that fails."""
    budget = settings.ledger
    check_files(settings)
    for name in settings.imports:  # modules that declare the hospital's own classes
        try:
            importlib.import_module(name)
        except ImportError:
            raise BadFile(f"{settings.path}: there is no module {name!r} (imports)") from None
    ledger = PrivacyLedger(budget.epsilon, budget.delta, path=budget.file)
    gate = remote.Gate(
        read_records(settings),
        ledger,
        terms=settings.agreed,
        folder=budget.folder,
        counter=budget.counter,
        key=_own_key(settings),
        allow_simulation=settings.terms.allow_simulation,
    )
    _check_serial(settings, gate.folder)
    return gate


def _own_key(settings: SiloSettings) -> str | None:
    """Return the silo's private key that is on the roster; without a roster the last one, if any.

    While a key is replaced the file has two, a line each.
    """
    path, roster = settings.roster.key, settings.roster.silos
    if path is None or not path.exists():
        if roster is None:
            return None
        raise BadFile(f"{settings.path}: this silo has no key (roster.key): skdpfl silo key")
    keys = read_keys(path)
    listed = list(keys)[-1] if roster is None else roster[settings.records.name][:64]
    if listed not in keys:
        raise BadFile(f"{settings.path}: the roster has another key for this silo than {path}")
    return keys[listed]


def _check_serial(settings: SiloSettings, folder: Path) -> None:
    """Raise if the gate has seen a later roster of the consortium."""
    seen, serial = folder / "roster", settings.roster.serial
    last = int(seen.read_text("ascii")) if seen.exists() else 0
    if settings.roster.signed is not None and serial < last:
        raise BadFile(f"{settings.roster.signed}: roster {serial} was replaced by number {last}")
    if serial > last:
        replace_file(seen, str(serial).encode())


def check_files(settings: SiloSettings) -> None:
    """Raise if others can read secret files, or write files that the gate relies on."""
    ledger = Path(settings.ledger.file)
    folder = settings.ledger.folder or Path(f"{ledger}.fits")
    counter = settings.ledger.counter or Path(f"{ledger}.count")
    secret = settings.records.file, ledger, folder, counter, settings.log.file, settings.roster.key
    for path in filter(None, (*secret, settings.path)):
        if path.exists():
            _check_safe(path, 0o022 if path == settings.path else 0o027)
        if path.parent.exists():
            _check_safe(path.parent, 0 if path.parent.stat().st_mode & stat.S_ISVTX else 0o022)
    allowed_users(settings)


def _check_safe(path: Path, forbidden: int) -> None:
    """Raise if others have forbidden rights to a file, or to a folder."""
    state = path.stat()
    if (mode := stat.S_IMODE(state.st_mode)) & forbidden:
        doing = "replace its files" if path.is_dir() else "read it or write to it"
        remedy = "go-w" if forbidden == 0o022 else "g-w,o="
        raise BadFile(f"{path}: others can {doing} ({mode:o}): chmod {remedy}")
    if state.st_uid not in (0, os.getuid()):
        raise BadFile(f"{path}: it belongs to neither root nor the gate's user")


def allowed_users(settings: SiloSettings) -> set[int]:
    """Return the numbers of the users who may bring letters."""
    users = set()
    for name in settings.roster.users:
        try:
            users.add(name if isinstance(name, int) else pwd.getpwnam(name).pw_uid)
        except KeyError:
            raise BadFile(f"{settings.path}: there is no user {name!r} (roster.users)") from None
    if os.getuid() in users and not settings.terms.allow_simulation:
        words = "roster.users has the gate's own user; give the gate a user of its own"
        raise BadFile(f"{settings.path}: {words}")
    return users


def serve(settings: SiloSettings, asked: object = None) -> None:
    """Serve a gate until the process is told to end."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the records
    start_log(settings)
    desk = _Desk(settings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=desk.reload).start())
    with _listening(settings) as door:
        _LOG.info("serving", extra={"socket": settings.socket, "user": os.getuid()})
        remote.Doorway(door, desk.meet, _PLACES).serve()


class _Desk:
    """Where letters are taken in, one after the other, and answers given out."""

    def __init__(self, settings: SiloSettings) -> None:
        self._settings, self._gate = settings, make_gate(settings)
        self._pace = settings.terms.pace
        # readers of the files may ask for its health
        self._users = allowed_users(settings) | {0, os.getuid()}
        self._turn, self._large = threading.Lock(), threading.Semaphore()

    def reload(self) -> None:
        """Read the file again: terms, roster and users; open the log anew. Keep what is invalid."""
        try:
            settings = read_settings(self._settings.path)
            check_files(settings)
            key = _own_key(settings)
            _check_serial(settings, self._gate.folder)
            with self._turn:
                self._gate.set_terms(settings.agreed, key)
            self._users = allowed_users(settings) | {0, os.getuid()}
            start_log(settings)
            _LOG.info("reloaded")
        except (BadFile, OSError, ValueError) as error:
            _LOG.error("not reloaded: %s", error)

    def meet(self, line: socket.socket, short: bool) -> None:
        """Answer one letter, if its sender is allowed; a ``short`` visit is for health only."""
        seconds = _KNOCK if short else _PATIENCE
        most = len(_HELLO) if short else self._gate.longest_letter
        with line, ExitStack() as stack:
            if (user := remote.peer_of(line)) not in self._users:
                _LOG.warning("a user who is not on the roster", extra={"user": user})
                return
            room = partial(self._make_room, stack)
            letter = remote.receive(line, most=most, seconds=seconds, idle=_KNOCK, room=room)
            remote.send(line, self._answer(letter), seconds=seconds)

    def _make_room(self, stack: ExitStack, size: int) -> None:
        """Let one large letter in at a time, since each takes several times its size in memory."""
        if size > _LARGE_LETTER:
            if not self._large.acquire(timeout=_PATIENCE):
                raise TimeoutError("Another large letter is in the way.")
            stack.callback(self._large.release)

    def _answer(self, letter: bytes) -> bytes:
        begin, is_hello = time.monotonic(), letter == _HELLO
        with nullcontext() if is_hello else self._turn:  # health is asked for meanwhile
            reply = self._gate.answer(letter)
        took, kind = time.monotonic() - begin, header_of(reply)["o"].rpartition(".")[2]
        sizes = {"bytes_in": len(letter), "bytes_out": len(reply), "seconds": round(took, 3)}
        _LOG.info("letter", extra={"answer": kind, **sizes})  # no values
        if self._pace and not is_hello:  # the time of an answer is to reveal little
            time.sleep((begin - time.monotonic()) % self._pace)
        return reply


@contextmanager
def _listening(settings: SiloSettings) -> Iterator[socket.socket]:
    """Listen at the socket, whose file exists as long as the process runs."""
    path = settings.socket
    _take_place(path)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        os.chmod(path, 0o666)  # anybody may knock; the kernel says who it is
        door.listen(_WAITING)
        try:
            yield door
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _take_place(path: Path) -> None:
    """Remove the socket of a gate that was killed; raise if a gate is running there."""
    if not path.parent.is_dir():
        raise BadFile(f"{path}: the folder {path.parent} does not exist")
    if path.exists() and not path.is_socket():
        raise BadFile(f"{path}: this file exists and is not a socket")
    try:
        remote.connected(str(path)).close()
    except OSError:
        path.unlink(missing_ok=True)
        return
    raise BadFile(f"{path}: a gate is already running there")


# ---- the log ------------------------------------------------------------------------------------


class _Lines(logging.Formatter):
    """Log formatter: one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "what": record.getMessage(),
        }
        own = vars(logging.makeLogRecord({}))
        line |= {k: v for k, v in vars(record).items() if k not in own and k != "message"}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def start_log(settings: SiloSettings) -> None:
    """Write the log to the file from the settings, one JSON object per line."""
    to = settings.log.file
    handler = logging.StreamHandler() if to is None else logging.FileHandler(to)
    handler.setFormatter(_Lines())
    for name in ("skdpfl.service", "skdpfl.remote"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(settings.log.level.upper())
