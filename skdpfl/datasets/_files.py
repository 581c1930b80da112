"""Find a data file: the folder `$SKDPFL_DATA`, then the cache, then the network; then check it.

The SHA-256 of a `.gz` file is that of its unpacked content, which is the same on every mirror.
"""

import gzip
import hashlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sklearn.datasets import fetch_file

RETRIES, DELAY = 2, 1


@dataclass(frozen=True)
class DataFile:
    """One file of a data set and how to know it."""

    name: str  # path below the data folder, with forward slashes
    sha256: str | None  # of the unpacked content; None where only its archive's is published
    urls: tuple[str, ...]  # mirrors, best first; none: cannot be downloaded
    member: str | None = None  # path inside the zip or tar archive at the urls
    archive_sha256: str | None = None  # of that archive


@dataclass(frozen=True)
class Source:
    """Where files may come from: arguments that all fetch functions have."""

    data_home: Any = None
    download_if_missing: bool = True
    cache: bool = True

    @property
    def folder(self) -> Path:
        """The cache: `data_home`, `$SKDPFL_CACHE` or a folder in scikit-learn's data home."""
        if self.data_home is not None:
            return Path(self.data_home).expanduser()
        if own := os.environ.get("SKDPFL_CACHE"):
            return Path(own).expanduser()
        home = os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")
        return Path(home).expanduser() / "skdpfl"

    def find(self, file: DataFile) -> Path | None:
        """Return where the file lies on this machine, if it does."""
        given = os.environ.get("SKDPFL_DATA")
        folders = ([Path(given).expanduser()] if given else []) + [self.folder]
        return next((f / file.name for f in folders if (f / file.name).is_file()), None)

    def read(self, files: Sequence[DataFile]) -> list[bytes]:
        """Return the checked, unpacked contents of the files; an archive is downloaded once."""
        here = [self.find(file) for file in files]
        if all(here):
            pairs = zip(files, here, strict=True)
            return [_checked(file, path.read_bytes(), path) for file, path in pairs if path]
        parent = self.folder if self.cache and self.download_if_missing else None
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=parent) as scratch:
            return [self._read(file, Path(scratch)) for file in files]

    def _read(self, file: DataFile, scratch: Path) -> bytes:
        if (path := self.find(file)) is not None:
            return _checked(file, path.read_bytes(), path)
        raw, content = self._download(file, scratch)
        if self.cache:  # whole or not at all, also when two processes download at once
            whole, target = scratch / "whole", self.folder / file.name
            whole.write_bytes(raw)
            target.parent.mkdir(parents=True, exist_ok=True)
            whole.replace(target)
        return content

    def _download(self, file: DataFile, scratch: Path) -> tuple[bytes, bytes]:
        """Return the raw and the unpacked bytes from the first mirror that has the right ones."""
        allowed = self.download_if_missing
        failures = [] if allowed else ["downloading was not allowed (download_if_missing=False)"]
        for url in file.urls if allowed else ():
            try:
                raw = _fetched(url, file, scratch)
                return raw, _checked(file, raw, "the download")
            except (
                OSError,
                HTTPException,
                zipfile.BadZipFile,
                tarfile.TarError,
                KeyError,
            ) as error:
                failures.append(f"{url}: {error}")
        raise OSError(self._absent(file, failures))

    def _absent(self, file: DataFile, failures: Sequence[str]) -> str:
        """Return where we looked, what went wrong, and what to do."""
        given = os.environ.get("SKDPFL_DATA", "not set")
        places = " or ".join(file.urls)
        source = f" from {places}" if places else ""
        part = f" (the member {file.member})" if file.member else ""
        lines = [
            f"{file.name} is not at hand.",
            f"Looked in SKDPFL_DATA ({given}) and the cache ({self.folder}).",
            *failures,
            f"What to do: get the file{source}{part} on a machine with a network, save it as "
            f"{file.name} below a folder, and set the environment variable SKDPFL_DATA to that "
            "folder.",
        ]
        return "\n".join(lines)


def _fetched(url: str, file: DataFile, scratch: Path) -> bytes:
    """Return the raw bytes of the file from one mirror."""
    name = hashlib.sha256(url.encode()).hexdigest()
    path = fetch_file(
        url, scratch, name, sha256=file.archive_sha256, n_retries=RETRIES, delay=DELAY
    )
    if file.member is None:
        return path.read_bytes()
    if url.endswith(".tar.gz"):
        with tarfile.open(path) as tar:
            content = tar.extractfile(file.member)
            if content is None:
                raise KeyError(f"{file.member} is no file of {url}")
            return content.read()
    with zipfile.ZipFile(path) as archive:
        return archive.read(file.member)


def _checked(file: DataFile, raw: bytes, origin: Any) -> bytes:
    """Unpack, and refuse content that is not what was published."""
    way_out = f"delete it to have {file.name} looked for elsewhere or downloaded again"
    try:
        content = gzip.decompress(raw) if file.name.endswith(".gz") else raw
    except (OSError, EOFError, zlib.error) as error:
        raise OSError(f"{origin} is damaged ({error}); {way_out}") from error
    found = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and found != file.sha256:
        raise OSError(
            f"{origin} is damaged or another version of {file.name}: its SHA-256 is {found}, "
            f"expected {file.sha256}; {way_out}"
        )
    return content
