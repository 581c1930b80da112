"""The operator's files: ``hospital.toml``, checked key by key, and a consortium's roster.

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

    [roster.requesters]                     # who may ask for fits; left out: whoever has a server
    ann = "64 hexadecimal digits"           # that users of above bring letters from

    [log]
    file = "gate.log"                       # JSON lines; left out: standard error

``imports = ["our_losses"]`` names installed modules that declare classes of the hospital's own
(:func:`skdpfl.remote.declare`). Paths are relative to the file's folder.

A roster is one signed file, which each hospital verifies::

    {"serial": 3, "until": "2027-11-30", "silos": {"north": key, ...}, "signature": ...}

The file is signed with a key of the consortium, whose public part operators tell each other once,
without the server; whoever has the private part decides who is in the roster, so it is not the
server's. A later file has a larger serial number: with it keys are added, replaced and revoked, and
a gate that has seen it takes no earlier one.
"""

import datetime
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from skdpfl._codec import from_plain
from skdpfl._durable import replace_file
from skdpfl.remote import Terms, new_silo_key, public_key, sign_text, signed_by

_LABEL = "skdpfl roster 1 "
_KEY = "[0-9a-f]{64}( until [0-9]{4}-[0-9]{2}-[0-9]{2})?"


class BadFile(ValueError):
    """An operator's file, or a roster, is invalid; the text is one line."""


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
class TermsTable(Terms):
    """The operator's terms; its silos and requesters are those of the roster."""

    epsilon: float = field()
    silos: None = field(default=None, init=False)
    requesters: None = field(default=None, init=False)
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
    """The users who may bring letters, those who may ask for fits, and the silos of masked sums.

    The silos are in ``silos``, or in a file that the consortium ``signed`` with the key ``signer``.
    """

    users: tuple[int | str, ...] = ()
    key: Path | None = None
    silos: Mapping[str, Any] | None = None
    requesters: Mapping[str, Any] | None = None
    signed: Path | None = None
    signer: str = ""
    serial: int = field(default=0, init=False)

    def read(self) -> None:
        """Take the silos from the signed file, if there is one; its last day is that of each key.

        So a gate that goes on running after that day refuses the keys.
        """
        if self.signed is not None and self.silos is None:
            roster = read_roster(self.signed, self.signer)
            silos, last = {}, roster["until"]
            for name, listed in roster["silos"].items():
                key, _, own = str(listed).partition(" until ")
                silos[name] = f"{key} until {min(own or last, last)}"
            object.__setattr__(self, "silos", silos)
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
        listed = {"silos": self.roster.silos, "requesters": self.roster.requesters}
        return Terms(**{f.name: getattr(self.terms, f.name) for f in fields(Terms)} | listed)


def read_settings(path: str | Path) -> SiloSettings:
    """Return the settings in a file; raise a BadFile with a one-line text if it is invalid."""
    path = Path(path).absolute()
    try:
        with path.open("rb") as file:
            settings: SiloSettings = from_plain(SiloSettings, tomllib.load(file))
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path}: {error}") from error
    settings = _placed(settings, path.parent)
    object.__setattr__(settings, "path", path)
    settings.roster.read()
    for words in _problems(settings):
        raise BadFile(f"{path}: {words}")
    return settings


def _placed(value: Any, folder: Path) -> Any:
    """Return a value with all paths in it relative to the file's folder."""
    if isinstance(value, Path):
        return folder / value
    if not is_dataclass(value):
        return value
    placed = {f.name: _placed(getattr(value, f.name), folder) for f in fields(value) if f.init}
    return replace(value, **placed)  # type: ignore[type-var]


def _problems(settings: SiloSettings) -> Iterator[str]:
    """Yield what is inconsistent."""
    records, terms, ledger = settings.records, settings.terms, settings.ledger
    roster = settings.roster.silos
    if not records.features or len(set(records.features)) != len(records.features):
        yield "records.features must name each feature once"
    if (records.file is None) == (not records.database):
        yield "[records] needs either a file or a database (of PostgreSQL), not both"
    if records.event and records.classes:
        yield "records.event is for survival times, which have no records.classes"
    if not (terms.delta > 0 and 0 <= terms.pace < float("inf")):
        yield "terms.delta must be above 0, and terms.pace a number of seconds"
    if terms.unit == "person" and not records.person:
        yield "terms.unit 'person' needs records.person, the column of their ids"
    if not (ledger.epsilon > 0 and 0 < ledger.delta < 1):
        yield "ledger.epsilon must be above 0, and delta between 0 and 1"
    for name, pair in records.bounds.items():
        if name not in (*records.features, records.target):
            yield f"records.bounds has {name!r}, which is not a feature"
        if not (isinstance(pair, list) and len(pair) == 2 and pair[0] <= pair[1]):
            yield f"records.bounds.{name} must be a pair [low, high]"
    for kind in ("silos", "requesters"):
        for name, key in (getattr(settings.roster, kind) or {}).items():
            if not (isinstance(key, str) and re.fullmatch(_KEY, key) and _is_date(key[71:])):
                yield (
                    f"roster.{kind}.{name} must be a public key of 64 hexadecimal digits, with "
                    '" until 2027-11-30" after it if it has a last day'
                )
    if roster is not None and records.name not in roster:
        yield f"roster.silos lacks this silo, {records.name!r}"


def _is_date(text: str) -> bool:
    """Whether a text is empty, or a day of the calendar."""
    try:
        return not text or bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


# ---- the roster ---------------------------------------------------------------------------------


def read_roster(path: Path, signer: str) -> dict[str, Any]:
    """Return a roster's serial number and keys; raise a BadFile unless its signer made it."""
    try:
        roster = json.loads(path.read_bytes())
        text = _signed_text(roster)
        known = signed_by(signer, roster["signature"], text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{path}: this is not a roster ({type(error).__name__})") from error
    if not known:
        raise BadFile(f"{path}: this roster was not signed by {signer[:16]}...")
    if datetime.datetime.now(datetime.UTC).date() > datetime.date.fromisoformat(roster["until"]):
        raise BadFile(f"{path}: this roster was valid until {roster['until']}; ask for a new one")
    return dict(roster)


def write_roster(path: Path, key: Path, silos: Mapping[str, str], until: str) -> dict[str, Any]:
    """Sign a roster with the key in a file, and write it; its number follows that of an old one."""
    signer, private = list(read_keys(key).items())[-1]
    serial = 1 + (read_roster(path, signer)["serial"] if path.exists() else 0)
    roster = {"serial": serial, "until": until, "silos": dict(sorted(silos.items()))}
    roster["signature"] = sign_text(private, _signed_text(roster))
    replace_file(path, json.dumps(roster, indent=1).encode(), 0o644)
    return read_roster(path, signer)


def _signed_text(roster: Mapping[str, Any]) -> str:
    """Return what is signed."""
    alike = {name: roster[name] for name in ("serial", "silos", "until")}
    return _LABEL + json.dumps(alike, sort_keys=True, separators=(",", ":"))


def read_keys(path: Path) -> dict[str, str]:
    """Return the private keys in a file, which is made if it is not there, by their public ones."""
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(new_silo_key() + "\n")
    try:
        return {public_key(key): key for key in path.read_text("ascii").split() or [""]}
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: this is not a key ({type(error).__name__})") from error


def lines_of(paths: Sequence[Path]) -> dict[str, str]:
    """Return the names and keys of hospitals' public lines, ``name = "key"``."""
    keys: dict[str, str] = {}
    for path in paths:
        for line in filter(None, map(str.strip, path.read_text("utf-8").splitlines())):
            name, _, key = (part.strip().strip('"') for part in line.partition("="))
            if not name or not re.fullmatch(_KEY, key):
                raise BadFile(f'{path}: a line is not NAME = "KEY", as skdpfl silo key prints it')
            if keys.setdefault(name, key) != key:
                raise BadFile(f"{path}: two keys of {name!r}")
    return keys
