"""Download a file: whole or not at all, and going on where a connection was cut.

What has come so far is kept beside the cache (``.partial/<name>.cut``), so that another call asks
for the rest (HTTP ranges; a server without them sends all again). A process takes a piece by
renaming it, which only one can do, and works on it under a name of its own. A piece that a killed
process left behind is taken once nothing can be writing to it any more. Whether the whole is right
is for the caller's checksum to say; a wrong whole is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TIMEOUT = 60  # seconds without an answer
ATTEMPTS = 3  # times that a connection may be cut in one call
PAUSE = 1.0  # seconds before another attempt
ABANDONED = 10 * TIMEOUT  # seconds after the last write: its writer would have timed out


class Cut(OSError):
    """The connection ended before the file did."""


def download(url: str, target: Path, partial: Path | None) -> bool:
    """Download ``url`` to the new file ``target``; tell whether it goes on from an earlier piece.

    ``partial`` is the folder for what a cut leaves; None keeps nothing.
    """
    with _piece(url, target, partial) as piece:
        resumed = piece.exists() and piece.stat().st_size > 0
        for attempt in range(ATTEMPTS):
            try:
                _rest(url, piece)
                break
            except Cut:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(PAUSE)
        piece.replace(target) if piece.parent == target.parent else shutil.move(piece, target)
    return resumed


def _rest(url: str, piece: Path) -> None:
    """Append to the piece what the server still has."""
    have = piece.stat().st_size if piece.exists() else 0
    headers = {"User-Agent": "skdpfl"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as answer:
            going_on = have > 0 and answer.status == 206
            length = answer.headers.get("Content-Length")
            wanted = None if length is None else int(length) + (have if going_on else 0)
            with piece.open("ab" if going_on else "wb") as out:
                shutil.copyfileobj(answer, out)
    except HTTPError as error:
        if error.code == 416:  # there is nothing after what we have: it is another file
            piece.unlink()
            raise Cut(f"{error}; starting again") from error
        raise
    except (HTTPException, ConnectionError, TimeoutError) as error:
        raise Cut(f"the connection was cut: {error!r}") from error
    size = piece.stat().st_size
    if wanted is not None and size < wanted:
        raise Cut(f"the connection was cut after {size} of {wanted} bytes; try again to go on")


@contextlib.contextmanager
def _piece(url: str, target: Path, partial: Path | None) -> Iterator[Path]:
    """Yield the file to write to, with what an earlier call left; keep it after a cut."""
    if partial is None:
        yield target.with_suffix(".part")
        return
    stem = hashlib.sha256(url.encode()).hexdigest()[:32]
    partial.mkdir(parents=True, exist_ok=True)
    own = partial / f"{stem}.{uuid.uuid4().hex}.part"
    for old in sorted(partial.glob(f"{stem}.*")):
        with contextlib.suppress(OSError):  # another process was quicker
            if old.suffix == ".cut" or time.time() - old.stat().st_mtime > ABANDONED:
                os.replace(old, own)
                os.utime(own)  # it is ours, and alive
                break
    try:
        yield own
    except (Cut, KeyboardInterrupt):
        if own.exists():
            os.replace(own, partial / f"{stem}.cut")
        raise
    finally:
        own.unlink(missing_ok=True)
