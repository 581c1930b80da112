"""A consortium's roster as one signed file, which each hospital verifies.

::

    {"serial": 3, "until": "2027-11-30", "silos": {"north": key, ...}, "signature": ...}

The file is signed with a key of the consortium, whose public part operators tell each other once,
without the server; whoever has the private part decides who is in the roster, so it is not the
server's. A later file has a larger serial number: with it keys are added, replaced and revoked, and
a gate that has seen it takes no earlier one.
"""

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skdpfl._durable import replace_file
from skdpfl.remote import new_silo_key, public_key, sign_text, signed_by

_LABEL = "skdpfl roster 1 "


class BadFile(ValueError):
    """An operator's file, or a roster, is invalid; the text is one line."""


def read_roster(path: Path, signer: str) -> dict[str, Any]:
    """Return a roster's serial number and keys; raise a BadFile unless its signer made it."""
    try:
        roster = json.loads(path.read_bytes())
        text = _text(roster)
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
    private = read_key(key)
    serial = 1 + (read_roster(path, public_key(private))["serial"] if path.exists() else 0)
    roster = {"serial": serial, "until": until, "silos": dict(sorted(silos.items()))}
    roster["signature"] = sign_text(private, _text(roster))
    replace_file(path, json.dumps(roster, indent=1).encode(), 0o644)
    return roster


def _text(roster: Mapping[str, Any]) -> str:
    """Return what is signed."""
    alike = {name: roster[name] for name in ("serial", "silos", "until")}
    return _LABEL + json.dumps(alike, sort_keys=True, separators=(",", ":"))


def read_key(path: Path) -> str:
    """Return the private key in a file, which is made if it is not there."""
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(new_silo_key() + "\n")
    return path.read_text("ascii").strip()


def lines_of(paths: Sequence[Path]) -> dict[str, str]:
    """Return the names and keys of hospitals' public lines, ``name = "key"``."""
    keys: dict[str, str] = {}
    for path in paths:
        for line in filter(None, map(str.strip, path.read_text("utf-8").splitlines())):
            name, _, key = (part.strip().strip('"') for part in line.partition("="))
            if keys.setdefault(name, key) != key or not name:
                raise BadFile(f"{path}: two keys of {name!r}")
    return keys
