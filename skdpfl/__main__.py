"""The command ``skdpfl``: what is done without writing a program.

skdpfl silo serve hospital.toml     and check, status, pending, approve, refuse, ledger
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skdpfl.service.commands import add_commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its status."""
    parser = argparse.ArgumentParser(prog="skdpfl", description="Private federated learning.")
    parts = parser.add_subparsers(dest="part", required=True)
    words = "a silo's gate, as a service of its own"
    add_commands(parts.add_parser("silo", help=words, description=words))
    asked = parser.parse_args(arguments)
    status: int = asked.run(asked)
    return status


if __name__ == "__main__":
    sys.exit(main())
