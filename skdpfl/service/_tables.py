"""Read the operator's records: a CSV or Parquet file, or one query of SQLite or PostgreSQL.

They are read once, when the gate starts, into a file of numbers that is mapped into memory, so they
may be larger than that. The digest of this snapshot is stored with each agreement, so that a fit
cannot continue with other records.
"""

import os
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pandas as pd

from skdpfl.remote import SiloRecords
from skdpfl.service._settings import BadFile, RecordsTable, SiloSettings

#: rows that are read at a time, and bytes of a column of a Parquet file
_ROWS, _BUFFER = 2**14, 2**18
#: how a column says whether there was an event
_EVENTS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


def read_records(settings: SiloSettings) -> SiloRecords:
    """Return the records; raise a BadFile that states columns and counts, but no values."""
    table = settings.records
    X, frame = _loaded(table, settings.ledger.file.parent)
    y = _targets(table, frame)
    weights = _numbers(table, frame[table.weight]) if table.weight else None
    try:
        records = SiloRecords(
            table.name,
            X,
            y,
            classes=table.classes,
            feature_names=table.features,
            sample_weight=weights,
            exposure=_numbers(table, frame[table.exposure]) if table.exposure else None,
            neutral=table.neutral,
            persons=frame[table.person].to_numpy() if table.person else None,
        )
    except ValueError as error:  # quotes what was declared, and no value
        raise BadFile(f"{table.source}: {error}") from None
    _check_public(table, records)
    return records


def _loaded(table: RecordsTable, folder: Path) -> tuple[np.ndarray, pd.DataFrame]:
    """Return the features, in a mapped file, and the other columns.

    The file is in ``folder``, open for this process and without a name, so it ends with it. The
    features of all rows are never in memory at once.
    """
    named = table.target, table.weight, table.event, table.exposure, table.person
    others = [*dict.fromkeys(filter(None, named))]
    columns = [*dict.fromkeys([*table.features, *others])]
    gaps, rest = pd.Series(0, columns), [pd.DataFrame(columns=others)]
    try:
        with TemporaryFile(dir=folder) as file:
            for frame in _blocks(table, columns):
                _check_has(frame, columns, table.source)
                gaps += frame[columns].isna().sum()
                if not gaps.any():
                    values = (_numbers(table, frame[name]) for name in table.features)
                    file.write(np.column_stack([v.astype(table.dtype) for v in values]).data)
                rest.append(frame[others].copy())  # without the memory of the whole block
            for name in gaps[gaps > 0].index:
                words = f"the column {name!r} has {gaps[name]} missing values; fill them in"
                raise BadFile(f"{table.source}: {words}, by public rules")
            if not (n := sum(map(len, rest))):
                raise BadFile(f"{table.source}: it has no rows")
            file.flush()
            X = np.memmap(file, table.dtype, "r", shape=(n, len(table.features)))
    except BadFile:
        raise
    except (OSError, ValueError, sqlite3.Error, pd.errors.DatabaseError) as error:
        kind = type(error).__name__
        raise BadFile(
            f"{table.source}: it cannot be read ({kind}); its numbers are copied into {folder}"
        ) from error
    return X, pd.concat(rest[1:], ignore_index=True)


def columns_of(table: RecordsTable) -> tuple[list[str], list[str]]:
    """Return the names of a file's features, and of columns of text; raise for another target.

    Its first rows are read: the operator looks at the names, and `read_records` at all rows.
    """
    frame = next(_blocks(table), pd.DataFrame())
    if not len(frame):
        raise BadFile(f"{table.source}: it has no rows")
    if table.target not in frame:
        here = list(frame.columns)
        raise BadFile(f"{table.source}: there is no column {table.target!r}; there are {here}")
    y = _targets(table, frame)
    if table.classes is not None and not np.isin(y, np.array(table.classes)).all():
        raise BadFile(f"{table.source}: the column {table.target!r} has other labels than classes")
    features, texts = list[str](), list[str]()
    for name in frame.columns.drop(table.target):
        try:
            _numbers(table, frame[name])
            features.append(name)
        except BadFile:
            texts.append(name)
    if not features:
        raise BadFile(f"{table.source}: there is no column of numbers beside {table.target!r}")
    return features, texts


def features_of(settings: SiloSettings, rows: Path) -> Iterator[pd.DataFrame]:
    """Yield the features of a file's rows, some at a time."""
    table = settings.records
    for frame in read_file(rows, table.separator, table.encoding):
        _check_has(frame, table.features, str(rows))
        columns = {name: _numbers(table, frame[name]) for name in table.features}
        yield pd.DataFrame(columns).astype(table.dtype)


def _check_has(frame: pd.DataFrame, columns: Sequence[str], source: str) -> None:
    if missing := [name for name in columns if name not in frame.columns]:
        raise BadFile(f"{source}: there is no column {missing[0]!r}")


def _blocks(table: RecordsTable, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
    """Yield the rows, some at a time; of Parquet only these columns are read."""
    file = table.file
    if file is not None and not file.exists():
        raise BadFile(f"{file}: there is no such file")
    is_table = file is not None and file.suffix in (".csv", ".parquet")
    if not is_table and "order by" not in table.query.lower():
        raise BadFile('records.query must be a select with "order by": rows have one order')
    if file is None:
        yield from _of_csv(BytesIO(_asked(table)))
    elif is_table:
        yield from read_file(file, table.separator, table.encoding, columns)
    else:  # one query, which sees one moment of the database
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as base:
            yield from pd.read_sql_query(table.query, base, chunksize=_ROWS)


def read_file(
    file: Path, separator: str = ",", encoding: str = "utf-8", columns: list[str] | None = None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of a CSV or Parquet file, some at a time; numbers in CSV are text.

    A Parquet dataset may be a folder of files, which are read in the order of their names.
    """
    if file.suffix != ".parquet":
        yield from _of_csv(file, sep=separator, encoding=encoding)
        return
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise BadFile(f"{file}: Parquet needs pyarrow (the extra parquet)") from None
    for part in sorted(file.glob("*.parquet")) if file.is_dir() else [file]:
        with ParquetFile(part, buffer_size=_BUFFER, pre_buffer=False) as opened:
            for rows in opened.iter_batches(_ROWS, columns=columns, use_threads=False):
                yield rows.to_pandas(ignore_metadata=True)


def _of_csv(source: Any, **how: str) -> Iterator[pd.DataFrame]:
    try:
        opened = pd.read_csv(source, dtype=str, chunksize=_ROWS, **how)
    except LookupError as error:
        raise BadFile(f"{source}: {error}") from None
    with opened as blocks:
        yield from blocks


def _asked(table: RecordsTable) -> bytes:
    """Return the rows of one query of PostgreSQL as CSV, also a consistent snapshot."""
    psql = ["psql", "--no-psqlrc", "--no-password", "--quiet", "--csv", "--set=ON_ERROR_STOP=1"]
    rules = {"PGOPTIONS": "-c default_transaction_read_only=on", "PGCONNECT_TIMEOUT": "30"}
    ran = subprocess.run(
        [*psql, f"--dbname={table.database}", f"--command={table.query}"],
        env=os.environ | rules,
        capture_output=True,  # errors may have values in them
        check=False,
    )
    if ran.returncode:
        raise OSError("psql ended with an error")
    return ran.stdout


def _numbers(table: RecordsTable, column: pd.Series) -> np.ndarray:
    if column.dtype.kind in "fiub":
        return column.to_numpy(np.float64)
    values = column.tolist()
    try:
        if table.decimal == "," and values and isinstance(values[0], str):
            if any("." in value for value in values):  # of thousands, or a decimal point
                raise ValueError
            values = [value.replace(",", ".") for value in values]
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        raise BadFile(f"{table.source}: the column {column.name!r} has text, not numbers") from None


def _targets(table: RecordsTable, frame: pd.DataFrame) -> np.ndarray | pd.DataFrame:
    """Return labels, numbers, or events and times."""
    column = frame[table.target]
    if table.event:
        event = frame[table.event].astype(str).str.lower().map(_EVENTS)
        if event.isna().any():
            raise BadFile(f"{table.source}: the column {table.event!r} must hold 0 and 1")
        return pd.DataFrame({"event": event.astype(bool), "time": _numbers(table, column)})
    if table.classes is None:
        return _numbers(table, column)
    texts = isinstance(table.classes[0], str)
    return np.array(column.tolist(), np.str_) if texts else _numbers(table, column)


def _check_public(table: RecordsTable, records: SiloRecords) -> None:
    """Raise unless the records match their public facts."""
    persons = records.n_persons
    n, what = (len(records.y), "rows") if persons is None else (persons, "persons")
    if table.size is not None and n != table.size:
        raise BadFile(f"{table.source}: {n} {what}, but records.size is {table.size}")
    columns = dict(zip(table.features, records.X.T, strict=True)) | {table.target: records.y}
    if records.survival:
        columns[table.target] = np.abs(records.y)
    for name, (low, high) in table.bounds.items():
        if outside := int(((columns[name] < low) | (columns[name] > high)).sum()):
            raise BadFile(f"{table.source}: {outside} rows have a {name!r} outside records.bounds")
