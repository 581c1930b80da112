"""The operator's settings, ``hospital.toml``, checked key by key.

::

    socket = "/run/skdpfl/north.socket"

    [records]
    name = "north"                          # the silo's name, its alone
    file = "records.csv"                    # with separator = ";", decimal = "," or encoding =
                                            # "latin-1" where it needs them; or .parquet; or
                                            # .sqlite, with query = "select ... order by id"; or
                                            # PostgreSQL: database = "dbname=clinic", with query
    features = ["age", "pressure"]          # in the order that was agreed on
    target = "ill"
    classes = [0, 1]                        # all that there can be; left out: regression, or with
                                            # event = "died", a column of 0 and 1: survival times
    person = "patient"                      # the column of persons' ids, for unit = "person"

    [terms]
    epsilon = 3.0                           # the most that one fit may cost
    approval = true                         # a person says yes to each fit

    [ledger]
    file = "north.ledger"
    epsilon = 5.0                           # the budget over all fits
    delta = 1e-4

    [roster]
    users = ["flower"]                      # who may bring letters
    key = "north.key"                       # this silo's key, made by "skdpfl silo key"

    signed = "study.roster"                 # who may be in common sums, as a file that the
    signer = "64 hexadecimal digits"        # consortium signed; or [roster.silos] north = "key"

    [log]
    file = "gate.log"                       # JSON lines; left out: standard error

``imports = ["our_losses"]`` names installed modules that declare classes of the hospital's own
(:func:`skdpfl.remote.declare`). Paths are relative to the file's folder.
"""

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from skdpfl._codec import from_plain
from skdpfl.remote import Terms
from skdpfl.service._consortium import BadRoster, read_roster

_KEY = "[0-9a-f]{64}( until [0-9]{4}-[0-9]{2}-[0-9]{2})?"


class BadFile(ValueError):
    """An operator's file is invalid; the text is one line."""


@dataclass(frozen=True)
class RecordsTable:
    """Where the records are, and public facts of them."""

    name: str
    features: tuple[str, ...]
    target: str
    event: str = ""
    file: Path | None = None
    database: str = ""
    query: str = ""
    separator: str = ","
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    classes: tuple[int | str, ...] | None = None
    weight: str = ""
    exposure: str = ""
    person: str = ""
    dtype: Literal["float64", "float32"] = "float64"
    size: int | None = None
    bounds: Mapping[str, Any] = field(default_factory=dict)
    neutral: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Where they are, for errors."""
        return "records.database" if self.file is None else str(self.file)


@dataclass(frozen=True)
class TermsTable:
    """The operator's terms."""

    epsilon: float
    delta: float = 1e-4
    unit: Literal["record", "person", "silo"] = "record"
    neighbours: Literal["replace", "add_remove"] = "replace"
    approval: bool = False
    colluding: int = 1
    silos_per_person: int = 1
    allow_simulation: bool = False
    pace: float = 0.0


@dataclass(frozen=True)
class LedgerTable:
    """The budget over all fits, and its file."""

    file: Path
    epsilon: float
    delta: float = 1e-4
    folder: Path | None = None
    counter: Path | None = None


@dataclass(frozen=True)
class RosterTable:
    """The operating system's users who may bring letters, and the silos of masked sums.

    These are in ``silos``, or in a file that the consortium ``signed`` with the key ``signer``.
    """

    users: tuple[int | str, ...] = ()
    key: Path | None = None
    silos: Mapping[str, Any] | None = None
    signed: Path | None = None
    signer: str = ""
    serial: int = field(default=0, init=False)

    def read(self) -> None:
        """Take the silos from the signed file, if there is one."""
        if self.signed is not None and self.silos is None:
            roster = read_roster(self.signed, self.signer)
            object.__setattr__(self, "silos", roster["silos"])
            object.__setattr__(self, "serial", roster["serial"])


@dataclass(frozen=True)
class LogTable:
    """The log's file."""

    file: Path | None = None
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class SiloSettings:
    """A whole file."""

    socket: Path
    records: RecordsTable
    terms: TermsTable
    ledger: LedgerTable
    roster: RosterTable = field(default_factory=RosterTable)
    log: LogTable = field(default_factory=LogTable)
    imports: tuple[str, ...] = ()
    path: Path = field(default=Path(), init=False)

    @property
    def agreed(self) -> Terms:
        """The terms, for a gate."""
        t = self.terms
        words = t.epsilon, t.delta, t.unit, t.neighbours, t.approval
        return Terms(*words, self.roster.silos, t.colluding, t.silos_per_person)


def read_settings(path: str | Path) -> SiloSettings:
    """Return the settings in a file; raise a BadFile with a one-line text if it is invalid."""
    path = Path(path).absolute()
    try:
        with path.open("rb") as file:
            settings: SiloSettings = from_plain(SiloSettings, tomllib.load(file))
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or 'it cannot be read'}") from error
    except ValueError as error:
        raise BadFile(f"{path}: {error}") from error
    settings = _placed(settings, path.parent)
    object.__setattr__(settings, "path", path)
    try:
        settings.roster.read()
    except BadRoster as error:
        raise BadFile(str(error)) from error
    _check(settings)
    return settings


def _placed(table: Any, folder: Path) -> Any:
    """Return a table whose paths are relative to the file's folder."""
    placed = {each.name: getattr(table, each.name) for each in fields(table) if each.init}
    for name, value in placed.items():
        if isinstance(value, Path):
            placed[name] = folder / value
        elif is_dataclass(value):
            placed[name] = _placed(value, folder)
    return replace(table, **placed)


def _check(settings: SiloSettings) -> None:
    """Raise unless the values are consistent."""
    path, records, terms = settings.path, settings.records, settings.terms
    if not records.features or len(set(records.features)) != len(records.features):
        raise BadFile(f"{path}: records.features must name each feature once")
    if (records.file is None) == (not records.database):
        raise BadFile(
            f"{path}: [records] needs either a file or a database (of PostgreSQL), not both"
        )
    if records.event and records.classes:
        raise BadFile(f"{path}: records.event is for survival times, which have no records.classes")
    if not (terms.epsilon > 0 and 0 < terms.delta < 1 and terms.pace >= 0):
        raise BadFile(
            f"{path}: terms.epsilon must be above 0, delta between 0 and 1, pace at least 0"
        )
    if terms.colluding < 0 or terms.silos_per_person < 1:
        raise BadFile(
            f"{path}: terms.colluding must be a number of silos, 0 or more, and silos_per_person 1 "
            "or more"
        )
    if terms.unit == "person" and not records.person:
        raise BadFile(f"{path}: terms.unit 'person' needs records.person, the column of their ids")
    if not (settings.ledger.epsilon > 0 and 0 < settings.ledger.delta < 1):
        raise BadFile(f"{path}: ledger.epsilon must be above 0, and delta between 0 and 1")
    others = sorted(set(records.bounds) - {*records.features, records.target})
    if others:
        raise BadFile(f"{path}: records.bounds has {others[0]!r}, which is not a feature")
    _check_roster(path, settings.roster, records.name)
    for name, pair in records.bounds.items():
        if not (isinstance(pair, list) and len(pair) == 2 and pair[0] <= pair[1]):
            raise BadFile(f"{path}: records.bounds.{name} must be a pair [low, high]")


def _is_date(text: str) -> bool:
    """Whether a text is empty or a date."""
    try:
        return not text or bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _check_roster(path: Path, roster: RosterTable, name: str) -> None:
    """Raise unless a roster has the public keys of all its silos, including this one."""
    for silo, key in (roster.silos or {}).items():
        if not isinstance(key, str) or not re.fullmatch(_KEY, key) or not _is_date(key[71:]):
            raise BadFile(
                f"{path}: roster.silos.{silo} must be a public key of 64 hexadecimal digits, with "
                '" until 2027-11-30" after it if it has a last day'
            )
    if roster.silos is not None and name not in roster.silos:
        raise BadFile(f"{path}: roster.silos lacks this silo, {name!r}")
