"""The ledger's record: an SQLite file that worker processes share and a crash cannot lose.

An entry is committed to the disk before the fit it stands for draws any noise, so a process that is
killed later has still been charged.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from skdpfl.privacy.spending.spent import PrivacySpent

_TABLE = "CREATE TABLE IF NOT EXISTS entries (name TEXT, scored INTEGER, spent BLOB)"


class Entry(NamedTuple):
    """One fit: its estimator's name, whether exact scores were taken of it, and its cost."""

    name: str
    scored: bool
    spent: PrivacySpent


class Journal:
    """An append-only list of entries in a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def create(self) -> None:
        """Make the file, or open one that is there."""
        with closing(self._connect()) as database, database:
            database.execute(_TABLE)

    def exists(self) -> bool:
        """Tell whether the file is there."""
        return Path(self.path).is_file()

    def entries(self) -> list[Entry]:
        """Return all entries, oldest first."""
        if not self.exists():
            return []
        with closing(self._connect()) as database:
            return _read(database)

    def append(self, entry: Entry, check: Callable[[list[Entry]], None]) -> None:
        """Add an entry unless ``check(entries so far)`` raises; no other process comes between."""
        with closing(self._connect()) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                check(_read(database))
                row = (entry.name, int(entry.scored), pickle.dumps(entry.spent))
                database.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
                database.commit()
            except BaseException:
                database.rollback()
                raise

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        database.execute("PRAGMA synchronous=FULL")
        return database


def _read(database: sqlite3.Connection) -> list[Entry]:
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone():
        return []
    rows = database.execute("SELECT name, scored, spent FROM entries ORDER BY rowid").fetchall()
    return [Entry(name, bool(scored), pickle.loads(spent)) for name, scored, spent in rows]
