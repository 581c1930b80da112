"""A kit for a new hospital: its file, key, folders and systemd units, with the right rights."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from skdpfl.remote import public_key
from skdpfl.service._consortium import read_key, read_roster
from skdpfl.service._tables import read_file

#: templates of a hospital's file, and of the units of its gate and its line to a server
_KIT = Path(__file__).parent / "kit"
_UNITS = "gate", "line"
#: how a CSV file may be read
READING = "separator", "decimal", "encoding"


def write_kit(
    name: str,
    folder: Path,
    *,
    records: Path,
    target: str,
    classes: Sequence[str],
    user: str,
    approval: bool,
    carrier: str = "",
    **reading: str,
) -> str:
    """Write a hospital's files, none over an old one; return its public line for the roster."""
    folder, records = folder.absolute(), records.absolute()
    how = {key: value for key, value in reading.items() if value}
    columns = list(read_file(records, how.get("separator", ","), how.get("encoding", "utf-8"), 1))
    if target not in columns:
        raise ValueError(f"{records}: there is no column {target!r}; there are {columns}")
    for part, mode in ((".", 0o755), ("state", 0o700), ("run", 0o755)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part).chmod(mode)
    labels = [each if each.lstrip("-").isdecimal() else f'"{each}"' for each in classes]
    words = {
        "name": name,
        "records": records,
        "features": ", ".join(f'"{each}"' for each in columns if each != target),
        "target": target,
        "approval": "true " if approval else "false",
        "users": f'"{carrier}"' if carrier else "",
        "reading": "".join(f'{key} = "{value}"\n' for key, value in how.items()),
        "classes": f"classes = [{', '.join(labels)}]\n" if labels else "",
    }
    _write(folder / "hospital.toml", (_KIT / "hospital.toml").read_text().format(**words), 0o600)
    command = f"{sys.executable} -m skdpfl"
    unit = {
        "name": name,
        "user": user,
        "carrier": carrier or f"{user}-line",
        "command": command,
        "folder": folder,
    }
    for each in _UNITS:
        text = (_KIT / f"{each}.service").read_text().format(**unit)
        _write(folder / f"skdpfl-{each}-{name}.service", text, 0o644)
    return f'{name} = "{public_key(read_key(folder / "state" / f"{name}.key"))}"'


def join(file: Path, name: str, roster: Path, signer: str) -> None:
    """Have a hospital's file name a signed roster, which is verified and has this silo."""
    if name not in read_roster(roster, signer)["silos"]:
        raise ValueError(f"{roster}: it has no silo {name!r}")
    lines = f'[roster]\nsigned = "{roster.absolute()}"\nsigner = "{signer}"\n'
    text = file.read_text("utf-8")
    if "\nsigned = " in text or text.count("[roster]\n") != 1:
        raise ValueError(f"{file}: it names a roster; edit signed and signer there")
    file.write_text(text.replace("[roster]\n", lines), "utf-8")


def _write(path: Path, text: str, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
