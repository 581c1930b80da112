"""A silo's process that stays: Flower's own processes end after each message.

Importing what a gate needs takes longer than answering. So the first process of a silo leaves one
behind, which answers the letters of the next ones over a socket that only its user can reach, and
ends when nothing was asked for a while. It remembers nothing that is not on disk: where it is
gone, or was never there, the next process answers by itself.

    python -m skdpfl.flower._resident SOCKET SECONDS MODULE NUMBER CONFIG
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from skdpfl.remote import receive, send

#: seconds that a letter may take
_PATIENCE = 600.0

#: of each client app of this process, what makes its gate
GATES: list[Callable[[Mapping[str, Any]], Any]] = []


def socket_of(module: str, number: int, config: Mapping[str, Any]) -> Path:
    """Return where the process of a silo listens: a folder of this user alone."""
    folder = Path(tempfile.gettempdir()) / f"skdpfl-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or folder.is_symlink():
        raise PermissionError(f"{folder} must belong to this user alone.")
    code = getattr(sys.modules[module], "__file__", None)
    written = os.stat(code).st_mtime_ns if code and os.path.exists(code) else 0  # other terms
    words = json.dumps([sys.prefix, code, written, number, sorted(config.items())], default=str)
    return folder / f"{hashlib.sha256(words.encode()).hexdigest()[:24]}.socket"


def asked(path: Path, letter: bytes) -> bytes | None:
    """Return what the process at a socket answers; None if there is none."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_PATIENCE)
        try:
            line.connect(str(path))
            send(line, letter)
            return receive(line)
        except OSError:
            return None


def leave_behind(
    path: Path, seconds: float, module: str, number: int, config: Mapping[str, Any]
) -> None:
    """Start a process that answers at a socket."""
    words = [str(path), str(seconds), module, str(number), json.dumps(dict(config))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    closed = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1)]
    command = [sys.executable, "-m", "skdpfl.flower._resident", *words]
    os.posix_spawn(sys.executable, command, environment, file_actions=closed)


def serve(path: Path, seconds: float, answer: Callable[[bytes], bytes]) -> None:
    """Answer at a socket until nothing was asked for ``seconds``."""
    new = path.with_suffix(f".{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(new))
        os.chmod(new, 0o600)
        door.listen()
        mine = new.lstat().st_ino
        os.replace(new, path)  # two that start at once: the later one stays
        door.settimeout(seconds)
        with suppress(TimeoutError):
            while True:
                _answer_one(door.accept()[0], answer)
        if path.lstat().st_ino == mine:
            path.unlink()


def _answer_one(line: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    """Answer whoever called; one that leaves too early is no matter."""
    with line, suppress(OSError):
        line.settimeout(_PATIENCE)
        send(line, answer(receive(line)))


def main(arguments: list[str]) -> None:
    """Make the gate of an app and serve it."""
    path, seconds, module, number, config = arguments
    resident = importlib.import_module("skdpfl.flower._resident")  # not as __main__: one GATES
    importlib.import_module(module)
    try:
        gate = resident.GATES[int(number)](json.loads(config))
    except Exception as error:  # the processes that come answer by themselves: with a refusal
        sys.exit(f"The silo cannot be started: {type(error).__name__}")
    serve(Path(path), float(seconds), gate.answer)


if __name__ == "__main__":
    main(sys.argv[1:])
