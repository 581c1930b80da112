"""The operator's settings, ``hospital.toml``, checked key by key.

::

    socket = "/run/skdpfl/north.socket"     # or "127.0.0.1:7070", with token = "token.txt"

    [records]
    name = "north"                          # the silo's name, its alone
    file = "records.csv"                    # or .sqlite, with query = "select ... order by id"; or
                                            # PostgreSQL: database = "dbname=clinic", with query
    features = ["age", "pressure"]          # in the order that was agreed on
    target = "ill"
    classes = [0, 1]                        # all that there can be; left out: regression

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

    [roster.silos]                          # who may be in common sums, with their public keys
    north = "64 hexadecimal digits"

    [log]
    file = "gate.log"                       # JSON lines; left out: standard error

``imports = ["our_losses"]`` names installed modules that declare classes of the hospital's own
(:func:`skdpfl.remote.declare`). Paths are relative to the file's folder.
"""

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from skdpfl.remote import Terms, fits

_KEY = "[0-9a-f]{64}( until [0-9]{4}-[0-9]{2}-[0-9]{2})?"


class BadFile(ValueError):
    """An operator's file is invalid; the text is one line."""


@dataclass(frozen=True)
class RecordsTable:
    """Where the records are, and public facts of them."""

    name: str
    features: tuple[str, ...]
    target: str
    file: Path | None = None
    database: str = ""
    query: str = ""
    classes: tuple[int | str, ...] | None = None
    weight: str = ""
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
    unit: Literal["record", "silo"] = "record"
    neighbours: Literal["replace", "add_remove"] = "replace"
    approval: bool = False
    colluding: int = 1
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
    """The operating system's users who may bring letters, and the silos of masked sums."""

    users: tuple[int | str, ...] = ()
    key: Path | None = None
    silos: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class LogTable:
    """The log's file."""

    file: Path | None = None
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class SiloSettings:
    """A whole file."""

    path: Path
    socket: str
    token: Path | None
    imports: tuple[str, ...]
    records: RecordsTable
    terms: TermsTable
    ledger: LedgerTable
    roster: RosterTable
    log: LogTable

    @property
    def agreed(self) -> Terms:
        """The terms, for a gate."""
        t = self.terms
        given = t.epsilon, t.delta, t.unit, t.neighbours, t.approval
        return Terms(*given, self.roster.silos, t.colluding)


_TABLES: dict[str, type] = {
    "records": RecordsTable,
    "terms": TermsTable,
    "ledger": LedgerTable,
    "roster": RosterTable,
    "log": LogTable,
}


def read_settings(path: str | Path) -> SiloSettings:
    """Return the settings in a file; raise a BadFile with a one-line text if it is invalid."""
    path = Path(path).absolute()
    try:
        with path.open("rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or 'it cannot be read'}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: {error}") from error
    known = {*_TABLES, "socket", "token", "imports"}
    _refuse_others(path, "", given, known)
    tables = {name: _table(path, name, given.get(name)) for name in _TABLES}
    first = _address(path, given), _token(path, given), _imports(path, given)
    settings = SiloSettings(path, *first, **tables)
    _check(settings)
    return settings


def _address(path: Path, given: Mapping[str, Any]) -> str:
    socket = given.get("socket")
    if not isinstance(socket, str) or not socket:
        raise BadFile(f'{path}: socket = "..." is missing, a path or "127.0.0.1:PORT"')
    host, _, port = socket.rpartition(":")
    if "/" in socket or not host:
        return str(path.parent / socket)
    if host not in ("127.0.0.1", "localhost", "[::1]") or not port.isdecimal():
        raise BadFile(f"{path}: socket must be a path, or a port of this computer (127.0.0.1:PORT)")
    return socket


def _token(path: Path, given: Mapping[str, Any]) -> Path | None:
    token = given.get("token")
    return None if token is None else path.parent / str(token)


def _imports(path: Path, given: Mapping[str, Any]) -> tuple[str, ...]:
    names = given.get("imports", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadFile(f"{path}: imports must be a list of modules that declare classes")
    return tuple(names)


def _table(path: Path, name: str, given: Any) -> Any:
    """Return a table as its class."""
    kind = _TABLES[name]
    optional = name in ("roster", "log")
    if not isinstance(given, dict) and not (given is None and optional):
        raise BadFile(f"{path}: the table [{name}] is missing")
    given, hints = given or {}, get_type_hints(kind)
    _refuse_others(path, name, given, hints)
    found = {}
    for each in fields(kind):
        if each.name in given:
            found[each.name] = _value(path, f"{name}.{each.name}", given[each.name], hints)
    try:
        return kind(**found)
    except TypeError:
        needed = [f.name for f in fields(kind) if f.name not in found and _is_needed(f)]
        raise BadFile(f"{path}: [{name}] lacks {', '.join(needed)}") from None


def _is_needed(each: Any) -> bool:
    from dataclasses import MISSING

    return each.default is MISSING and each.default_factory is MISSING


def _refuse_others(path: Path, table: str, given: Mapping[str, Any], known: Any) -> None:
    others = sorted(set(given) - set(known))
    if others:
        where = f"[{table}]" if table else "the file"
        raise BadFile(
            f"{path}: {where} has the unknown key {others[0]!r}; valid keys are "
            f"{', '.join(sorted(known))}"
        )


def _value(path: Path, key: str, value: Any, hints: Mapping[str, Any]) -> Any:
    """Return a value in the type of its field."""
    hint = hints[key.split(".")[1]]
    choices = get_args(hint)
    if Path in (hint, *choices) and isinstance(value, str):
        return path.parent / value
    if isinstance(value, list):
        value = tuple(value)
    if not fits(value, hint):
        named = ", ".join(map(repr, choices)) if get_origin(hint) is Literal else ""
        wrong = f"must be one of {named}" if named else "has the wrong type"
        raise BadFile(f"{path}: {key} {wrong}")
    return float(value) if hint is float else value


def _check(settings: SiloSettings) -> None:
    """Raise unless the values are consistent."""
    path, records, terms = settings.path, settings.records, settings.terms
    if not records.features or len(set(records.features)) != len(records.features):
        raise BadFile(f"{path}: records.features must name each feature once")
    if (records.file is None) == (not records.database):
        raise BadFile(
            f"{path}: [records] needs either a file or a database (of PostgreSQL), not both"
        )
    if not (terms.epsilon > 0 and 0 < terms.delta < 1 and terms.pace >= 0):
        raise BadFile(
            f"{path}: terms.epsilon must be above 0, delta between 0 and 1, pace at least 0"
        )
    if terms.colluding < 0:
        raise BadFile(f"{path}: terms.colluding must be a number of silos, 0 or more")
    if not (settings.ledger.epsilon > 0 and 0 < settings.ledger.delta < 1):
        raise BadFile(f"{path}: ledger.epsilon must be above 0, and delta between 0 and 1")
    has_port = not Path(settings.socket).is_absolute()
    if has_port != (settings.token is not None):
        raise BadFile(
            f"{path}: a port needs token = FILE; whoever brings letters sends the file's content "
            "first"
            if has_port
            else f"{path}: token is for a port only; roster.users lists who may use a path"
        )
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
