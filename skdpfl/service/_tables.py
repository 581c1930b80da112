"""Read the operator's records: a CSV or Parquet file, or one query of SQLite or PostgreSQL.

They are read once, when the gate starts. The digest of this snapshot is stored with each agreement,
so that a fit cannot continue with other records.
"""

import os
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from skdpfl.remote import SiloRecords
from skdpfl.service._settings import BadFile, RecordsTable, SiloSettings

#: how a column says whether there was an event
_EVENTS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


def read_records(settings: SiloSettings) -> SiloRecords:
    """Return the records; raise a BadFile that states columns and counts, but no values."""
    table = settings.records
    frame = _frame(table)
    others = filter(None, (table.weight, table.event, table.exposure, table.person))
    columns = [*table.features, table.target, *others]
    _check_has(frame, columns, table.source)
    empty = [name for name in columns if frame[name].isna().any()]
    if empty:
        raise BadFile(
            f"{table.source}: the column {empty[0]!r} has {int(frame[empty[0]].isna().sum())} "
            "missing values; fill them in, or leave these rows out, by public rules"
        )
    X = np.column_stack([_numbers(table, frame[name]) for name in table.features])
    y = _targets(table, frame)
    weights = _numbers(table, frame[table.weight]) if table.weight else None
    try:
        records = SiloRecords(
            table.name,
            X.astype(table.dtype),
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


def read_features(settings: SiloSettings, rows: Path) -> pd.DataFrame:
    """Return the features of the rows of a CSV file."""
    table = settings.records
    frame = read_file(rows, table.separator, table.encoding)
    _check_has(frame, table.features, str(rows))
    columns = {name: _numbers(table, frame[name]) for name in table.features}
    return pd.DataFrame(columns).astype(table.dtype)


def _check_has(frame: pd.DataFrame, columns: Sequence[str], source: str) -> None:
    if missing := [name for name in columns if name not in frame.columns]:
        raise BadFile(f"{source}: there is no column {missing[0]!r}")


def _frame(table: RecordsTable) -> pd.DataFrame:
    file = table.file
    if file is not None and not file.exists():
        raise BadFile(f"{file}: there is no such file")
    is_table = file is not None and file.suffix in (".csv", ".parquet")
    if not is_table and "order by" not in table.query.lower():
        raise BadFile(
            'records.query must be a select with "order by", so that rows always have the same '
            "order"
        )
    try:
        if file is None:
            return pd.read_csv(BytesIO(_asked(table)), dtype=str)
        if is_table:
            return read_file(file, table.separator, table.encoding)
        return _queried(file, table.query)
    except ImportError:
        raise BadFile(f"{file}: Parquet needs pyarrow (the extra parquet)") from None
    except (OSError, ValueError, sqlite3.Error, pd.errors.DatabaseError) as error:
        raise BadFile(f"{table.source}: it cannot be read ({type(error).__name__})") from error


def read_file(
    file: Path, separator: str = ",", encoding: str = "utf-8", rows: int | None = None
) -> pd.DataFrame:
    """Return the rows of a CSV or Parquet file, or the first ones; numbers in CSV are text."""
    if file.suffix == ".parquet":
        return pd.read_parquet(file).head(rows)
    return pd.read_csv(file, dtype=str, sep=separator, encoding=encoding, nrows=rows)


def _queried(file: Path, query: str) -> pd.DataFrame:
    """Return the rows of one query, a consistent snapshot of the database."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as base:
        return pd.read_sql_query(query, base)


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
    values = column.tolist()
    try:
        if table.decimal == "," and values and isinstance(values[0], str):
            if any("." in value for value in values):  # of thousands, or a decimal point
                raise ValueError
            values = [value.replace(",", ".") for value in values]
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        raise BadFile(
            f"{table.source}: the column {column.name!r} holds text instead of numbers"
        ) from None


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
    n, what = len(records.y), "rows"
    if records.n_persons is not None:
        n, what = records.n_persons, "persons"
    if table.size is not None and n != table.size:
        raise BadFile(f"{table.source}: {n} {what}, but records.size is {table.size}")
    columns = dict(zip(table.features, records.X.T, strict=True)) | {table.target: records.y}
    if records.survival:
        columns[table.target] = np.abs(records.y)
    for name, (low, high) in table.bounds.items():
        outside = int(((columns[name] < low) | (columns[name] > high)).sum())
        if outside:
            raise BadFile(f"{table.source}: {outside} rows have a {name!r} outside records.bounds")
