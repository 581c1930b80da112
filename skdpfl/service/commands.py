"""The commands ``skdpfl silo ...`` of an operator.

Each command prints lines and returns the status 0 or 1.
"""

import argparse
import datetime
import json
import os
import pwd
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skdpfl import estimators, remote
from skdpfl._adapted import HEADS, SiloAdapted
from skdpfl._arguments import at_least, host_and_port
from skdpfl._durable import replace_file
from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.service import _settings
from skdpfl.service._serve import allowed_users, make_gate, serve
from skdpfl.service._settings import BadFile, RecordsTable, SiloSettings, read_settings
from skdpfl.service._tables import columns_of, features_of, read_records

#: seconds within which a gate that is well says so; between two attempts; until the next dial
_HEALTH, _AGAIN, _DIAL = 15.0, 0.2, 5.0
#: errors after which no gate answers
_NOBODY = FileNotFoundError, ConnectionRefusedError, PermissionError
_FILE = "file", {"type": Path, "help": "hospital.toml"}
#: templates of a hospital's file, and of the units of its gate and its line to a server
_KIT = Path(__file__).parent / "kit"
#: how a CSV file may be read
_READING = "separator", "decimal", "encoding"
#: folders that a unit sees only where it needs something in them
_HOMES = "/home", "/root", "/run/user"


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands of a silo's operator to a parser."""
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (run, words, *arguments) in _ALONE.items():
        _add(commands, name, words, run, *arguments)
    for name, (run, words, *arguments) in _COMMANDS.items():
        _add(commands, name, words, run, _FILE, *arguments)


def add_consortium(commands: Any) -> None:
    """Add the command of a consortium to a parser's commands."""
    words = "join hospitals' public lines into one signed file, and print the signer's key"
    _add(commands, "roster", words, _sign, *_ROSTER)


def _add(commands: Any, name: str, words: str, run: Any, *arguments: Any) -> None:
    command = commands.add_parser(name, help=words, description=words)
    for each, options in arguments:
        command.add_argument(each, **options)
    command.set_defaults(run=_in_one_line, silo=run)


def _in_one_line(asked: argparse.Namespace) -> int:
    """Run a command, and return its status; errors are one line on standard error."""
    try:
        settings = (read_settings(asked.file),) if hasattr(asked, "file") else ()
        return asked.silo(*settings, asked) or 0
    except (ValueError, LedgerError, OSError) as error:
        raise SystemExit(f"skdpfl {asked.part}: {' '.join(str(error).split())}") from None


def _check(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Read everything as the gate does, and print its settings; no letter is answered."""
    gate = make_gate(settings)
    table, terms, records = settings.records, settings.terms, gate.records
    target = "numbers" if records.classes is None else f"classes {list(records.classes)}"
    persons = "" if records.n_persons is None else f", {records.n_persons} persons"
    lines = {
        "silo": f"{table.name!r}, user {os.getuid()}, socket {settings.socket}",
        "records": f"{len(records.y)} rows of {len(table.features)} features{persons}; target: "
        + ("events and times" if records.survival else target),
        "bounds": table.bounds and f"kept by all rows: {', '.join(table.bounds)}",
        "terms": f"at most epsilon={terms.epsilon:g} at delta={terms.delta:g} a fit, "
        f"unit {terms.unit!r}, {terms.neighbours!r}"
        + ("; a person approves each" if terms.approval else ""),
        "ledger": _left(settings),
        "letters": f"from users {sorted(allowed_users(settings))}",
        "roster": ", ".join(settings.roster.silos or ()),
        "asked by": ", ".join(settings.roster.requesters or ()),
        "root": "" if os.getuid() else "give the gate a user of its own",
        "seeds": terms.allow_simulation
        and "simulations are allowed: the server may know the noise of whoever has them",
    }
    if asked.offer is not None:
        spent = gate.price(asked.offer.read_bytes())
        lines["offer"] = f"would cost epsilon={spent.epsilon:.6g} at delta={spent.delta:g}"
    for name, words in lines.items():
        if words:
            print(f"{name:10}{words}")


def _key(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Make this silo's key if there is none, or another one, and print the public part."""
    path = settings.roster.key
    if path is None:
        raise BadFile(f'{settings.path}: [roster] lacks key = "FILE", where the key is to be')
    keys = [*_settings.read_keys(path).values()]
    if asked.new:
        replace_file(path, "\n".join([*keys, remote.new_silo_key(), ""]).encode())
    print(f'{settings.records.name} = "{list(_settings.read_keys(path))[-1]}"')


def _join(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Name a signed roster in the file, after it was verified and has this silo."""
    file, roster = settings.path, asked.roster
    if settings.records.name not in _settings.read_roster(roster, asked.signer)["silos"]:
        raise BadFile(f"{roster}: it has no silo {settings.records.name!r}")
    lines = f'[roster]\nsigned = "{roster.absolute()}"\nsigner = "{asked.signer}"\n'
    text = file.read_text("utf-8")
    if "\nsigned = " in text or text.count("[roster]\n") != 1:
        raise BadFile(f"{file}: it names a roster; edit signed and signer there")
    file.write_text(text.replace("[roster]\n", lines), "utf-8")
    print(f"{file}: masked sums with {', '.join(read_settings(file).roster.silos or ())}")


def _sign(asked: argparse.Namespace) -> None:
    """Join hospitals' public lines into one signed file."""
    keys = _settings.lines_of(asked.lines)
    roster = _settings.write_roster(asked.to, asked.key, keys, str(asked.until))
    print(f"{asked.to}: roster {roster['serial']} of {', '.join(roster['silos'])}", file=sys.stderr)
    print(list(_settings.read_keys(asked.key))[-1])


def _status(settings: SiloSettings, asked: argparse.Namespace) -> int:
    """Check that the gate answers."""
    begin = time.monotonic()
    try:
        reply = remote.unpack(_health(settings.socket))
    except OSError as error:
        print(f"{settings.records.name}: no gate at {settings.socket} ({error.strerror or error})")
        return 1
    if not isinstance(reply, remote.Introduction):
        print(f"{settings.records.name}: the gate refuses: {reply.reason.strip()}")
        return 1
    seconds = time.monotonic() - begin
    print(f"{reply.name}: serving at {settings.socket}, answered in {seconds:.2f} s")
    print(f"ledger    {_left(settings)}")
    if waiting := _store(settings).questions():
        print(f"pending   {len(waiting)} fits wait for a person: skdpfl silo pending")
    return 0


def _health(path: Path) -> bytes:
    """Return a gate's answer to Hello; one that is busy has a place for it after some seconds."""
    hello, end = remote.pack(remote.Hello()), time.monotonic() + _HEALTH
    while True:
        try:
            return remote.ask_gate(str(path), hello, timeout=_HEALTH)
        except OSError as error:
            if time.monotonic() > end or isinstance(error, _NOBODY):
                raise
            time.sleep(_AGAIN)


def _connect(asked: argparse.Namespace) -> int:
    """Dial the server, and again when the line ends; status 1 if one line could not be opened.

    The process has the gate's socket and the server's certificate, and nothing that is secret: it
    runs as a user of its own, with a network, which the gate has not.
    """
    host_and_port(asked.address)
    certificate = asked.certificate.read_bytes()

    def ask(letter: bytes) -> bytes:
        try:
            return remote.ask_gate(str(asked.socket), letter, signing=True)
        except OSError as error:
            _tell(f"no gate at {asked.socket} ({error.strerror or error})")
            return b""

    while True:
        try:
            remote.dial(asked.address, certificate, ask)
            message, status = f"{asked.address} closed the line", 0
        except ConnectionError as error:
            message, status = str(error), 1
        _tell(message)
        if asked.once:
            return status
        time.sleep(_DIAL)


def _tell(what: str) -> None:
    print(f"skdpfl silo connect: {' '.join(what.split())}", file=sys.stderr, flush=True)


def _ledger(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Show what each fit cost."""
    own = settings.ledger
    counter = own.counter or Path(f"{own.file}.count")
    if not any(path.exists() for path in (own.file, _folder(settings) / "mark", counter)):
        print("There is no ledger yet: the gate makes it when it starts for the first time.")
        return
    ledger = PrivacyLedger(path=settings.ledger.file, must_exist=True)
    for number, entry in enumerate(ledger.entries, start=1):
        name, _, offer = entry.name.rpartition(", offer ")  # a server chose the name
        cost = f"epsilon={entry.spent.epsilon:<10.6g} delta={entry.spent.delta:g}"
        ended = "  (ended early)" if entry.settled else ""
        print(f"{number:4}  {cost}  {offer[:12]:12}  {name!r}{ended}")
    print(_left(settings))


def _pending(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """List the fits that a person has to approve."""
    questions = _store(settings).questions()
    for digest, question in sorted(questions.items(), key=lambda pair: pair[1]["asked"]):
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(question.pop("asked")))
        print(f"{digest[:12]}  {when}")
        for name, value in question.items():  # a server chose the texts, so all are quoted
            if value not in (None, ""):
                words = f"{value:.6g}" if isinstance(value, float) else repr(value)
                print(f"              {name.replace('_', ' '):14}{words}")
    print(f"ledger        {_left(settings)}" if questions else "No fit waits for a person.")


def _say(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Approve or refuse a pending fit."""
    store, yes = _store(settings), asked.command == "approve"
    every = not yes and asked.number == "all"
    chosen = [d for d in store.questions() if every or d.startswith(asked.number)]
    if not every and (len(chosen) != 1 or len(asked.number) < 4):
        raise BadFile(f"no fit, or more than one, has the number {asked.number}: see pending")
    user, behind = pwd.getpwuid(os.getuid()).pw_name, os.environ.get("SUDO_USER")
    who = f"{behind} as {user}" if behind else user
    for digest in chosen:
        store.say(digest, yes, who)
        print(f"{digest[:12]}: {'yes' if yes else 'no'}, said by {who}")


def _audit(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Print the audit log, and check that no line was changed or removed."""
    log = _store(settings).audit
    for line in log.lines():
        print(json.dumps(line))
    print(f"the log is whole; its digest is {log.digest()}")


def _predictions(model: SiloAdapted, rows: Any) -> pd.DataFrame:
    """Return predictions of some rows, with this silo's own part."""
    here = np.zeros(len(rows), int)
    predictions = pd.DataFrame({"prediction": model.predict(rows, silos=here)})
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(rows, silos=here)
        predictions[[f"probability of {label}" for label in model.classes_]] = shares
    return predictions


def _predict(settings: SiloSettings, asked: argparse.Namespace) -> None:
    """Fit this silo's own part on its own records, and predict new ones with it."""
    records, features = read_records(settings), list(settings.records.features)
    try:
        plain = json.loads(asked.model.read_text())
        joint = getattr(estimators, str(plain["estimator"])).from_dict(plain)
        own, named = pd.DataFrame(records.X, columns=features), hasattr(joint, "feature_names_in_")
        model = SiloAdapted(joint, None if asked.head == "none" else asked.head).fit_heads(
            own if named else own.to_numpy(), records.y
        )
        blocks = features_of(settings, asked.rows)
        predictions = pd.concat(
            [_predictions(model, rows if named else rows.to_numpy()) for rows in blocks]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{asked.model}, {asked.rows}: {error}") from None
    with open(os.open(asked.to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        predictions.to_csv(file, index=False)
    print(
        f"{asked.to}: {len(predictions)} predictions with this silo's own part, fitted on "
        f"{len(own)} records without noise: they must not leave this silo"
    )


def _store(settings: SiloSettings) -> remote.SiloStore:
    return remote.SiloStore(_folder(settings))


def _folder(settings: SiloSettings) -> Path:
    return Path(settings.ledger.folder or f"{settings.ledger.file}.fits")


def _left(settings: SiloSettings) -> str:
    """Return text on what was spent, and the budget."""
    ledger = PrivacyLedger(path=settings.ledger.file, must_exist=True)
    spent: Any = ledger.spent
    n, left = len(ledger.entries), at_least(ledger.remaining, 3)
    used = "nothing" if spent is None else f"epsilon={spent.epsilon:.6g} at delta={spent.delta:g}"
    budget = f"epsilon={ledger.epsilon:g} at delta={ledger.delta:g}"
    return f"{n} fits, {used} spent of {budget}; one of epsilon={left} still fits"


# ---- a new hospital -----------------------------------------------------------------------------


def _init(asked: argparse.Namespace) -> None:
    """Write a new hospital's files, none over an old one, and print the line to send."""
    folder, name = asked.folder.absolute(), asked.name
    words = _words_of(asked, folder)
    for part, mode in ((".", 0o755), ("state", 0o700), ("run", 0o755)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part).chmod(mode)
    _write(folder / "hospital.toml", "hospital.toml", words, 0o600)
    for each in ("gate", "line"):
        _write(folder / f"skdpfl-{each}-{name}.service", f"{each}.service", words, 0o644)
    print(f"{folder}: look at hospital.toml; the line to send:", file=sys.stderr)
    print(f'{name} = "{list(_settings.read_keys(folder / "state" / f"{name}.key"))[-1]}"')


def _words_of(asked: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Return what is filled into a hospital's files."""
    records, program = asked.records.absolute(), Path(sys.executable).absolute()
    in_a_home = any(p.is_relative_to(h) for p in (folder, records, program) for h in _HOMES)
    how = {key: value for key in _READING if (value := getattr(asked, key))}
    host_and_port(asked.server)
    whole = all(each.lstrip("-").isdecimal() for each in asked.classes)
    classes = tuple(int(each) if whole else each for each in asked.classes)
    table = RecordsTable(asked.name, (), asked.target, file=records, classes=classes or None, **how)
    features, texts = columns_of(table)
    if texts:
        print(f"{records}: left out of features, as they hold text: {texts}", file=sys.stderr)
    return {
        "name": _text(asked.name),
        "stem": asked.name,
        "user": asked.user,
        "carrier": asked.carrier or f"{asked.user}-line",
        "command": f"{sys.executable} -m skdpfl",
        "folder": str(folder),
        "home": "read-only" if in_a_home else "yes",
        "server": asked.server,
        "records": _text(str(records)),
        "features": ", ".join(map(_text, features)),
        "target": _text(asked.target),
        "approval": "false" if asked.unattended else "true ",
        "users": _text(asked.carrier) if asked.carrier else "",
        "reading": "".join(f"{key} = {_text(value)}\n" for key, value in how.items()),
        "classes": f"classes = {json.dumps(classes, ensure_ascii=False)}\n" if classes else "",
    }


def _text(value: str) -> str:
    """Return a text as TOML has it."""
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, template: str, words: dict[str, Any], mode: int) -> None:
    """Write a new file from a template."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write((_KIT / template).read_text().format(**words))


_NUMBER = "number", {"help": 'the number of the fit, as in pending; refuse takes "all", too'}
_NEW = "add a new key, used once it is on the roster; then delete the old line"
#: purpose of each command, and its arguments besides the file
_COMMANDS: dict[str, tuple[Any, ...]] = {
    "serve": (serve, "answer letters at the socket, until the process is ended"),
    "check": (
        _check,
        "read everything as the gate would, and print its settings",
        ("--offer", {"type": Path, "help": "the file of an offer, to see its cost"}),
    ),
    "key": (
        _key,
        "make this silo's key if there is none, and print its line for rosters",
        ("--new", {"action": "store_true", "help": _NEW}),
    ),
    "join": (
        _join,
        "name a signed roster in the file, after it was verified",
        ("roster", {"type": Path, "help": "the file that the consortium signed"}),
        ("signer", {"help": "its public key, learnt without the server"}),
    ),
    "status": (_status, "check that the gate answers; status 1 if it does not"),
    "pending": (_pending, "list the fits that a person has to approve"),
    "approve": (_say, "approve a fit", _NUMBER),
    "refuse": (_say, "refuse a fit", _NUMBER),
    "audit": (_audit, "print the log for auditors; status 1 if it was changed"),
    "ledger": (_ledger, "list the cost of each fit"),
    "predict": (
        _predict,
        "predict new records with a joint model and this silo's own part",
        ("model", {"type": Path, "help": "the joint model: JSON, as to_dict() gives it"}),
        ("rows", {"type": Path, "help": "a CSV file with the features of new records"}),
        ("to", {"type": Path, "help": "the CSV file to write; it must stay at this silo"}),
        ("--head", {"choices": (*HEADS, "none"), "default": HEADS[0], "help": "the own part"}),
    ),
}
#: commands without a hospital's file
_ALONE: dict[str, tuple[Any, ...]] = {
    "init": (
        _init,
        "write a new hospital's file, key, folders and systemd units; print its public line",
        ("name", {"help": "the silo's name: its identity"}),
        ("--records", {"type": Path, "required": True, "help": "a CSV or Parquet file"}),
        ("--target", {"required": True, "help": "the column to be predicted"}),
        ("--classes", {"nargs": "*", "default": (), "help": "all labels; none: numbers"}),
        ("--folder", {"type": Path, "default": Path(), "help": "where the files are written"}),
        ("--user", {"default": "skdpfl", "help": "the gate's user, for the systemd unit"}),
        ("--carrier", {"default": "", "help": "the user who may bring letters"}),
        ("--server", {"default": "server.example.org:7443", "help": "HOST:PORT, for the unit"}),
        *((f"--{name}", {"default": "", "help": f"the CSV file's {name}"}) for name in _READING),
        ("--unattended", {"action": "store_true", "help": "no person approves fits"}),
    ),
    "connect": (
        _connect,
        "carry letters between a server, which is dialled, and the gate, until it is ended",
        ("address", {"help": "the server, as HOST:PORT"}),
        ("--socket", {"type": Path, "required": True, "help": "the gate's socket"}),
        ("--certificate", {"type": Path, "required": True, "help": "the server's (PEM)"}),
        ("--once", {"action": "store_true", "help": "end when the line ends"}),
    ),
}
_ROSTER: tuple[Any, ...] = (
    ("lines", {"nargs": "+", "type": Path, "help": "files with the lines of hospitals"}),
    ("--key", {"type": Path, "required": True, "help": "the consortium's key; made if new"}),
    ("--until", {"type": datetime.date.fromisoformat, "required": True, "help": "2027-11-30"}),
    ("--to", {"type": Path, "required": True, "help": "the file to write"}),
)
