"""The command line interface ``skdpfl``.

skdpfl silo serve hospital.toml     and check, status, pending, approve, refuse, ledger
skdpfl silo init NAME ...           a new hospital's files and key
skdpfl consortium roster LINES ...  the hospitals' keys, signed, in one file
skdpfl ledger show FILE             the fits in a ledger's file, and what is left
"""

import argparse
import sys
from collections.abc import Sequence

from skdpfl._arguments import at_least, at_most
from skdpfl.exceptions import LedgerError
from skdpfl.privacy import PrivacyLedger
from skdpfl.service.commands import add_commands, add_consortium


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its status."""
    parser = argparse.ArgumentParser(
        prog="skdpfl", description="Differentially private federated learning."
    )
    parts = parser.add_subparsers(dest="part", required=True)
    words = "a silo's gate, as a service of its own"
    add_commands(parts.add_parser("silo", help=words, description=words))
    words = "the hospitals that fit together, by their keys"
    add_consortium(
        parts.add_parser("consortium", help=words, description=words).add_subparsers(
            dest="action", required=True
        )
    )
    words = "the budget of a data set, in a file"
    actions = parts.add_parser("ledger", help=words, description=words).add_subparsers(
        dest="action", required=True
    )
    show = actions.add_parser("show", help="print the fits in a ledger's file, and what is left")
    show.add_argument("file", help="the file (PrivacyLedger's path)")
    show.set_defaults(run=show_ledger)
    asked = parser.parse_args(arguments)
    status: int = asked.run(asked)
    return status


def show_ledger(asked: argparse.Namespace) -> int:
    """Print the fits of a ledger's file, and what is spent and left."""
    try:
        ledger = PrivacyLedger(path=asked.file, must_exist=True)
        table = ledger.table()
    except LedgerError as error:
        print(error, file=sys.stderr)
        return 1
    spent = table["spent"].iloc[-1] if len(table) else 0.0
    if len(table):
        print(table.to_string(index=False, float_format=at_most))
    if ledger.epsilon is None:
        print(f"No budget; epsilon {at_most(spent, 3)} at delta={ledger.delta:g}, composed.")
    else:
        print(
            f"{at_most(spent, 3)} of {ledger.epsilon:g} is spent at delta={ledger.delta:g}. The "
            f"largest epsilon that still fits is {at_least(ledger.remaining, 3)} (full batches)."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
