"""A kit for a new hospital: its file, key, folders and systemd units, with the right rights."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from skdpfl.service._settings import BadFile, read_keys
from skdpfl.service._tables import read_file

#: templates of a hospital's file, and of the units of its gate and its line to a server
_KIT = Path(__file__).parent / "kit"
#: how a CSV file may be read
READING = "separator", "decimal", "encoding"
#: folders that a unit sees only where it needs something in them
_HOMES = "/home", "/root", "/run/user"


def init(asked: argparse.Namespace) -> None:
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
    print(f'{name} = "{list(read_keys(folder / "state" / f"{name}.key"))[-1]}"')


def _words_of(asked: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Return what is filled into a hospital's files."""
    records, program = asked.records.absolute(), Path(sys.executable).absolute()
    in_a_home = any(p.is_relative_to(h) for p in (folder, records, program) for h in _HOMES)
    how = {key: value for key in READING if (value := getattr(asked, key))}
    first = next(read_file(records, how.get("separator", ","), how.get("encoding", "utf-8")))
    columns = list(first)
    if asked.target not in columns:
        raise BadFile(f"{records}: there is no column {asked.target!r}; there are {columns}")
    labels = [each if each.lstrip("-").isdecimal() else _text(each) for each in asked.classes]
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
        "features": ", ".join(_text(each) for each in columns if each != asked.target),
        "target": _text(asked.target),
        "approval": "false" if asked.unattended else "true ",
        "users": _text(asked.carrier) if asked.carrier else "",
        "reading": "".join(f"{key} = {_text(value)}\n" for key, value in how.items()),
        "classes": f"classes = [{', '.join(labels)}]\n" if labels else "",
    }


def _text(value: str) -> str:
    """Return a text as TOML has it."""
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, template: str, words: dict[str, Any], mode: int) -> None:
    """Write a new file from a template."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write((_KIT / template).read_text().format(**words))
