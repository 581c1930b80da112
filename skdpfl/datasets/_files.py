"""Find a data file: the folder `$SKDPFL_DATA`, then the cache, then the network; then check it.

The SHA-256 of a `.gz` file is that of its unpacked content, which is the same on every mirror.
"""

import gzip
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skdpfl.datasets._download import download


@dataclass(frozen=True)
class DataFile:
    """One file of a data set and how to know it."""

    name: str  # path below the data folder, with forward slashes
    sha256: str | None  # of the unpacked content; None where only its archive's is published
    urls: tuple[str, ...]  # mirrors, best first; none: cannot be downloaded
    member: str | None = None  # path inside the zip archive at the urls
    archive_sha256: str | None = None  # of that archive


def cache_folder(data_home=None) -> Path:
    """The folder for downloads: `data_home`, `$SKDPFL_CACHE` or scikit-learn's data home."""
    if data_home is not None:
        return Path(data_home).expanduser()
    if own := os.environ.get("SKDPFL_CACHE"):
        return Path(own).expanduser()
    home = os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")
    return Path(home).expanduser() / "skdpfl"


def at_hand(file: DataFile, data_home=None) -> Path | None:
    """Where the file lies on this machine, if it does."""
    given = os.environ.get("SKDPFL_DATA")
    folders = ([Path(given).expanduser()] if given else []) + [cache_folder(data_home)]
    return next((f / file.name for f in folders if (f / file.name).is_file()), None)


def read_files(
    files: Sequence[DataFile], *, data_home=None, download_if_missing: bool = True, cache=True
) -> list[bytes]:
    """Give the checked, unpacked contents of the files; an archive is downloaded once."""
    contents = []
    partial = cache_folder(data_home) / ".partial" if cache else None
    with tempfile.TemporaryDirectory(prefix="skdpfl-") as scratch:
        for file in files:
            if (path := at_hand(file, data_home)) is not None:
                contents.append(_checked(file, path.read_bytes(), path))
                continue
            place = _Place(Path(scratch), partial)
            raw, content = _download(file, place, data_home, download_if_missing)
            contents.append(content)
            if cache:
                _store(cache_folder(data_home) / file.name, raw)
    return contents


class _Place(NamedTuple):
    """Where downloads go: a folder of this call, and one that keeps what a cut leaves."""

    scratch: Path
    partial: Path | None


def _checked(file: DataFile, raw: bytes, origin) -> bytes:
    """Unpack, and refuse content that is not what was published."""
    try:
        content = gzip.decompress(raw) if file.name.endswith(".gz") else raw
    except (OSError, EOFError, zlib.error) as error:
        raise OSError(f"{origin} is damaged ({error}); {_way_out(file)}") from error
    found = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and found != file.sha256:
        raise OSError(
            f"{origin} is damaged or another version of {file.name}: its SHA-256 is {found}, "
            f"expected {file.sha256}; {_way_out(file)}"
        )
    return content


def _way_out(file: DataFile) -> str:
    """What to do about a damaged file."""
    return f"delete it to have {file.name} looked for elsewhere or downloaded again"


def _download(file: DataFile, place: _Place, data_home, allowed: bool) -> tuple[bytes, bytes]:
    """The raw and the checked, unpacked bytes from the first mirror that answers rightly."""
    failures = [] if allowed else ["downloading was not allowed (download_if_missing=False)"]
    for url in file.urls if allowed else ():
        try:
            raw = _from(url, file, place)
            return raw, _checked(file, raw, "the download")
        except (OSError, zipfile.BadZipFile, KeyError) as error:
            failures.append(f"{url}: {error}")
    raise OSError(_absent(file, data_home, failures))


def _from(url: str, file: DataFile, place: _Place) -> bytes:
    """The raw bytes of the file from one mirror."""
    path = _fetched(url, file, place)
    if file.member is None:
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read(file.member)


def _fetched(url: str, file: DataFile, place: _Place) -> Path:
    """Download a URL once into the scratch folder; again from the start if two pieces don't fit."""
    path = place.scratch / hashlib.sha256(url.encode()).hexdigest()
    if path.exists():
        return path
    resumed = download(url, path, place.partial)
    try:
        _check_whole(path, file)
    except OSError:
        path.unlink()
        if not resumed:
            raise
        download(url, path, place.partial)
        _check_whole(path, file)
    return path


def _check_whole(path: Path, file: DataFile) -> None:
    """Refuse a download that is not the one that was published."""
    if file.archive_sha256 is None:
        if file.member is None:
            _checked(file, path.read_bytes(), "the download")
        return
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.archive_sha256:
        raise OSError(f"SHA-256 is {found}, expected {file.archive_sha256}")


def _absent(file: DataFile, data_home, failures: Sequence[str]) -> str:
    """Where we looked, what went wrong, and what to do."""
    given = os.environ.get("SKDPFL_DATA")
    lines = [
        f"{file.name} is not at hand.",
        f"Looked in SKDPFL_DATA ({given or 'not set'}) and the cache ({cache_folder(data_home)}).",
        *failures,
    ]
    source = f" from {' or '.join(file.urls)}" if file.urls else ""
    part = f" (the member {file.member})" if file.member else ""
    lines.append(
        f"What to do: get the file{source}{part} on a machine with a network, save it as "
        f"{file.name} below a folder, and set the environment variable SKDPFL_DATA to that folder."
    )
    return "\n".join(lines)


def _store(path: Path, raw: bytes) -> None:
    """Write whole or not at all, also when two processes download at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        try:
            out.write(raw)
            out.close()
            os.chmod(out.name, 0o644)  # as any other file: temporary ones are their owner's only
            os.replace(out.name, path)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise
