"""Carry letters between a server, which is dialled by gRPC, and the gate of this computer.

The process has the gate's socket and the server's certificate, and nothing that is secret: it runs
as a user of its own, with a network, which the gate has not.
"""

import argparse
import sys
import time

from skdpfl import remote

#: seconds until the server is dialled again
_AGAIN = 5.0


def connect(asked: argparse.Namespace) -> int:
    """Dial the server, and again when the line ends; status 1 if one line could not be opened."""
    certificate = asked.certificate.read_bytes()

    def ask(letter: bytes) -> bytes:
        try:
            return remote.ask_gate(str(asked.socket), letter, signing=True)
        except OSError as error:
            _say(f"no gate at {asked.socket} ({error.strerror or error})")
            return b""

    while True:
        try:
            remote.dial(asked.address, certificate, ask)
            _say(f"{asked.address} closed the line")
            status = 0
        except ConnectionError as error:
            _say(str(error))
            status = 1
        if asked.once:
            return status
        time.sleep(_AGAIN)


def _say(what: str) -> None:
    print(f"skdpfl silo connect: {' '.join(what.split())}", file=sys.stderr, flush=True)
