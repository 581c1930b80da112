"""Shared code of data sets: sources of files, columns, and the returned shape.

A data file is searched in the folder `$SKDPFL_DATA`, then in the cache, then on the network, and
checked. The SHA-256 of a `.gz` file is that of its unpacked content, which is the same on every
mirror. Categories and bounds of columns are documented by the source of a table, and not learnt
from records.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_file
from sklearn.utils import Bunch

from skdpfl._arguments import check_count, check_flags
from skdpfl._surface import filled_docs


@dataclass(frozen=True)
class DataSet:
    """The records of a data set before conversion to the requested shape."""

    data: Any  # ndarray or DataFrame of shape (n, d)
    target: np.ndarray  # (n,)
    silos: np.ndarray  # (n,)
    feature_names: Sequence[str]
    target_name: str = "target"
    feature_bounds: Mapping[str, tuple[float, float]] | None = None
    target_bounds: tuple[float, float] | None = None  # of numbers

    def rows(self, which: np.ndarray) -> DataSet:
        """Return some of the records."""
        some = {name: getattr(self, name)[which] for name in ("data", "target", "silos")}
        return replace(self, **some)


@dataclass(frozen=True)
class Shape:
    """The requested shape: arguments that all functions here have."""

    as_frame: bool
    return_X_y: bool
    silo_column: str | None

    def __post_init__(self) -> None:
        check_flags(as_frame=self.as_frame, return_X_y=self.return_X_y)
        if not isinstance(self.silo_column, Hashable):
            raise TypeError(f"silo_column must be the name of a column; got {self.silo_column!r}.")
        if self.silo_column is not None and not self.as_frame:
            raise ValueError(f"silo_column={self.silo_column!r} needs as_frame=True")

    def bunch(self, table: DataSet, **extra: Any) -> Any:
        """Return the Bunch with further entries, or data and target only."""
        arrange = self._frames if self.as_frame else self._arrays
        data, target, silos, frame, bounds = arrange(table)
        if self.return_X_y:
            return data, target
        if table.feature_bounds is not None:
            extra["feature_bounds"] = bounds
        if table.target_bounds is not None:
            extra["target_bounds"] = table.target_bounds
        names = list(table.feature_names)
        return Bunch(
            data=data, target=target, silos=silos, frame=frame, feature_names=names, **extra
        )

    def _arrays(self, table: DataSet) -> tuple[Any, ...]:
        """Return arrays; bounds as two arrays in the order of the columns."""
        bounds = None
        if (declared := table.feature_bounds) is not None:
            pairs = np.array([declared[name] for name in table.feature_names], dtype=float)
            bounds = (pairs[:, 0], pairs[:, 1])
        return np.asarray(table.data), table.target, table.silos, None, bounds

    def _frames(self, table: DataSet) -> tuple[Any, ...]:
        """Return frames; bounds as a mapping column -> (low, high)."""
        data = pd.DataFrame(table.data, columns=list(table.feature_names))
        target = pd.Series(table.target, index=data.index, name=table.target_name)
        silos = pd.Series(table.silos, index=data.index, name=self.silo_column or "silo")
        if silos.name in data.columns:
            raise ValueError(f"silo_column={self.silo_column!r} is already the name of a feature")
        frame = pd.concat([data, silos, target], axis=1)
        if self.silo_column is not None:
            data = frame.drop(columns=table.target_name)
        bounds = None if table.feature_bounds is None else dict(table.feature_bounds)
        return data, target, silos, frame, bounds


#: upper limit of silos, of records of each, and of features; larger numbers are errors
MOST_COUNT = 10**9


def check_sizes(n_records: Any, n_silos: int) -> np.ndarray:
    """Return records per silo from one integer for all or one for each."""
    if np.ndim(n_records) == 0:
        return np.full(n_silos, check_count("n_records", n_records, high=MOST_COUNT))
    sizes = np.asarray(n_records)
    if sizes.shape != (n_silos,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise ValueError(
            f"n_records must be an integer >= 1, or n_silos={n_silos} of them, got {n_records!r}"
        )
    return sizes.astype(np.int64)


#: decorator of the functions here, for the descriptions of arguments that several of them have
shared_docs = filled_docs(
    {
        "shape": """
    silo_column : str or None, default=None
        With ``as_frame=True``: put the silo ids into `data` as a column of this name.
    as_frame : bool, default=False
        Return pandas objects. Frames keep categories; arrays have a column of 0 and 1 for each
        documented category except the first.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.""",
        "source": """
    data_home : str, path or None, default=None
        The cache; default ``$SKDPFL_CACHE``, else ``~/scikit_learn_data/skdpfl``.
    download_if_missing : bool, default=True
        If False, raise an OSError rather than download.""",
        "dealing": """
    split : {"iid", "sorted", "dirichlet", "similarity", "one_class", "pairs"}, default="iid"
        How images are assigned to silos, see :func:`split_into_silos`.
    alpha : float, default=0.5
        For ``split="dirichlet"``.
    similarity : float, default=0.0
        For ``split="similarity"`` and ``"one_class"``.
    records_per_silo : int, default=None
        The largest number of images of a silo. The other images are the test set: the Bunch then
        also has `data_test`, `target_test` and, since a silo may have fewer, `silo_sizes`. By
        default all images are assigned to silos.
    unit_norm : bool, default=False
        Whether to scale rows to Euclidean norm 1 (float32) instead of bytes, each record by itself.
    random_state : int, RandomState, Generator or None, default=0
        For the split.""",
    }
)


RETRIES, DELAY = 2, 1


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, with its checksum."""

    name: str  # path below the data folder, with forward slashes
    sha256: str | None  # of the unpacked content; None where only its archive's is published
    urls: tuple[str, ...]  # mirrors, best first; none: cannot be downloaded
    member: str | None = None  # path inside the zip or tar archive at the urls
    archive_sha256: str | None = None  # of that archive


@dataclass(frozen=True)
class Source:
    """Sources of files: arguments that all fetch functions have."""

    data_home: Any = None
    download_if_missing: bool = True

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
        """Return the path of the file on this machine, if it exists."""
        folder = os.environ.get("SKDPFL_DATA")
        folders = ([Path(folder).expanduser()] if folder else []) + [self.folder]
        return next((f / file.name for f in folders if (f / file.name).is_file()), None)

    def read(self, files: Sequence[DataFile]) -> list[bytes]:
        """Return the checked, unpacked contents of the files; an archive is downloaded once."""
        here = [self.find(file) for file in files]
        if all(here):
            pairs = zip(files, here, strict=True)
            return [_checked(file, path.read_bytes(), path) for file, path in pairs if path]
        parent = self.folder if self.download_if_missing else None
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=parent) as scratch:
            return [self._read(file, Path(scratch)) for file in files]

    def _read(self, file: DataFile, scratch: Path) -> bytes:
        if (path := self.find(file)) is not None:
            return _checked(file, path.read_bytes(), path)
        raw, content = self._download(file, scratch)
        # whole or not at all, also when two processes download at once
        whole, target = scratch / "whole", self.folder / file.name
        whole.write_bytes(raw)
        target.parent.mkdir(parents=True, exist_ok=True)
        whole.replace(target)
        return content

    def _download(self, file: DataFile, scratch: Path) -> tuple[bytes, bytes]:
        """Return the raw and the unpacked bytes from the first mirror with the right checksum."""
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
        """Return an error with the searched places, what went wrong, and what to do."""
        variable = os.environ.get("SKDPFL_DATA", "not set")
        places = " or ".join(file.urls)
        source = f" from {places}" if places else ""
        part = f" (the member {file.member})" if file.member else ""
        lines = [
            f"{file.name} was not found.",
            f"Looked in SKDPFL_DATA ({variable}) and the cache ({self.folder}).",
            *failures,
            f"What to do: get the file{source}{part}, save it as {file.name} below a folder, and "
            "set the environment variable SKDPFL_DATA to that folder.",
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
                raise KeyError(f"{file.member} is not a file in {url}")
            return content.read()
    with zipfile.ZipFile(path) as archive:
        return archive.read(file.member)


def _checked(file: DataFile, raw: bytes, origin: Any) -> bytes:
    """Unpack, and refuse content with a wrong checksum."""
    way_out = f"delete it, so that {file.name} is searched elsewhere or downloaded again"
    try:
        content = gzip.decompress(raw) if file.name.endswith(".gz") else raw
    except (OSError, EOFError, zlib.error) as error:
        raise OSError(f"{origin} is damaged ({error}); {way_out}") from error
    digest = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and digest != file.sha256:
        raise OSError(
            f"{origin} is damaged or another version of {file.name}: its SHA-256 is {digest}, "
            f"expected {file.sha256}; {way_out}"
        )
    return content


def split_arguments(arguments: Mapping[str, Any]) -> tuple[Shape, Source]:
    """Return the shape and the source that a function was called with, by all its arguments."""
    made: list[Any] = [
        kind(**{each.name: arguments[each.name] for each in fields(kind)})
        for kind in (Shape, Source)
    ]
    return made[0], made[1]


#: each column's public bounds, a tuple, or its documented categories, a list
Columns = Mapping[str, tuple[float, float] | list[Any]]


def encoded(
    table: pd.DataFrame, columns: Columns, as_frame: bool
) -> tuple[pd.DataFrame, Mapping[str, tuple[float, float]]]:
    """Return the table with encoded categories, and the bounds of its numeric columns.

    A frame keeps categories (pandas Categorical); an array gets one 0/1 column for each category
    except the first.
    """
    parts: dict[str, object] = {}
    bounds: dict[str, tuple[float, float]] = {}
    for column, known in columns.items():
        for name, values, limits in _encode(table[column], known, as_frame):
            parts[name] = values
            if limits is not None:
                bounds[name] = limits
    return pd.DataFrame(parts, index=table.index), bounds


def _encode(
    values: pd.Series, known: tuple[float, float] | list[Any], as_frame: bool
) -> Iterator[tuple[str, pd.Series, Any]]:
    """Yield (name, values, bounds) of the encoded columns of one column."""
    name = str(values.name)
    if isinstance(known, tuple):
        yield name, values.astype(float), known
        return
    codes = pd.Categorical(values, categories=known)
    if as_frame:
        yield name, codes, None
        return
    for position, category in enumerate(known[1:], start=1):
        member = np.where(codes.codes < 0, np.nan, codes.codes == position)
        yield f"{name}_{category}", member, (0.0, 1.0)
