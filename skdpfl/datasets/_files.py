"""Find a data file: the folder `$SKDPFL_DATA`, then the cache, then the network; then check it.

The SHA-256 of a `.gz` file is that of its unpacked content, which is the same on every mirror.
"""

import gzip
import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

TIMEOUT = 60  # seconds without an answer


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
    with tempfile.TemporaryDirectory(prefix="skdpfl-") as scratch:
        for file in files:
            if (path := at_hand(file, data_home)) is not None:
                contents.append(_checked(file, path.read_bytes(), path))
                continue
            raw = _download(file, Path(scratch), data_home, download_if_missing)
            contents.append(_checked(file, raw, "the download"))
            if cache:
                _store(cache_folder(data_home) / file.name, raw)
    return contents


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


def _download(file: DataFile, scratch: Path, data_home, allowed: bool) -> bytes:
    """The raw bytes of the file from the first mirror that answers rightly."""
    failures = [] if allowed else ["downloading was not allowed (download_if_missing=False)"]
    for url in file.urls if allowed else ():
        try:
            path = _fetched(url, scratch, file.archive_sha256)
            if file.member is None:
                return path.read_bytes()
            with zipfile.ZipFile(path) as archive:
                return archive.read(file.member)
        except (OSError, zipfile.BadZipFile, KeyError) as error:
            failures.append(f"{url}: {error}")
    raise OSError(_absent(file, data_home, failures))


def _fetched(url: str, scratch: Path, sha256: str | None) -> Path:
    """Download a URL once into the scratch folder."""
    path = scratch / hashlib.sha256(url.encode()).hexdigest()
    if not path.exists():
        partial = path.with_suffix(".part")
        with urlopen(url, timeout=TIMEOUT) as answer, partial.open("wb") as out:
            shutil.copyfileobj(answer, out)
        if sha256 is not None:
            with partial.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            if found != sha256:
                raise OSError(f"SHA-256 is {found}, expected {sha256}")
        partial.replace(path)
    return path


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
        out.write(raw)
    Path(out.name).replace(path)
