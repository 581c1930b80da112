"""Direct connections (lines) from silos' apps to the server for the duration of a fit.

A Flower message takes seconds: a SuperNode that finds none sleeps 3 s, and each message starts a
process. So the first message is an invitation: the app, which runs until the fit ends, opens a line
to the server, which then carries all letters. A line uses TLS with a certificate that the server
makes for each run; certificate and token come with the invitation, as safely as Flower's messages.
If no line can be opened, letters are sent as messages.
"""

from __future__ import annotations

import datetime
import queue
import secrets
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

from skdpfl.flower._client import LINE_NAME, LINE_PATIENCE, kept_alive
from skdpfl.remote import (
    Doorway,
    Hello,
    Introduction,
    Places,
    WireError,
    pack,
    receive,
    send,
    unpack,
)

_TOKEN = 32
#: silos that open a line at one time, and those of one address
_PLACES = Places(all=128, of_one=64)


class Met(NamedTuple):
    """A silo that opened a line with this token."""

    token: bytes
    silo: Introduction
    line: socket.socket


class Door:
    """The server's port for lines, ``host:port`` for silos' apps.

    ``met`` has the silos that connected; a thread for each waits for its name.
    """

    def __init__(self, address: str) -> None:
        self._address, self._tokens = address, set[bytes]()
        self.met: queue.SimpleQueue[Met] = queue.SimpleQueue()
        self._socket = _listening(address)
        self._tls, self._certificate = _own_certificate()
        doorway = Doorway(self._socket, self._meet, _PLACES)
        threading.Thread(target=doorway.serve, daemon=True).start()

    def invitation(self) -> tuple[bytes, dict[str, str | bytes]]:
        """Return a token, and the invitation with which one app can open one line."""
        token = secrets.token_bytes(_TOKEN)
        self._tokens.add(token)
        return token, {"address": self._address, "token": token, "certificate": self._certificate}

    def close(self) -> None:
        """Stop listening; open lines stay open."""
        with suppress(OSError):  # wakes who waits there
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _meet(self, plain: socket.socket, short: bool) -> None:
        """Accept a connection with a valid token and ask for its silo; close others."""
        with ExitStack() as stack, suppress(OSError, WireError):
            plain.settimeout(LINE_PATIENCE)
            stack.enter_context(plain)
            line = stack.enter_context(self._tls.wrap_socket(plain, server_side=True))
            token = receive(line, most=_TOKEN, seconds=LINE_PATIENCE, idle=LINE_PATIENCE)
            if token not in self._tokens:
                return
            self._tokens.discard(token)
            send(line, pack(Hello()))
            silo = unpack(receive(line, most=2**16, seconds=LINE_PATIENCE))
            if isinstance(silo, Introduction):
                self.met.put(Met(token, silo, kept_alive(line)))
                stack.pop_all()


def _listening(address: str) -> socket.socket:
    """Listen at a port; retry while a killed run's process still holds it."""
    host, _, port = address.rpartition(":")
    here, last = (
        host if host in ("127.0.0.1", "localhost") else "",
        time.monotonic() + LINE_PATIENCE,
    )
    while True:
        try:
            return socket.create_server((here, int(port)))
        except OSError:
            if time.monotonic() > last:
                raise
            time.sleep(0.5)


class OpenLine:
    """One silo's line; it carries one letter at a time."""

    def __init__(self, line: socket.socket, timeout: float) -> None:
        self._line, self._turn, self._guard = line, threading.Lock(), threading.Lock()
        self._asked: dict[bytes, Callable[[bytes | None], object]] = {}
        self._timeout = timeout

    def ask(self, letter: bytes, tell: Callable[[bytes | None], object]) -> None:
        """Send a letter in its own thread and report the answer; None if the line is closed.

        A letter that is under way is not sent again.
        """
        with self._guard:
            is_new = letter not in self._asked
            self._asked[letter] = tell
        if is_new:
            threading.Thread(target=self._carry, args=(letter,), daemon=True).start()

    def _carry(self, letter: bytes) -> None:
        answer: bytes | None = None
        try:
            with self._turn:
                send(self._line, letter, seconds=self._timeout)
                answer = receive(self._line, seconds=self._timeout, idle=self._timeout)
        except OSError:
            self.close()
        with self._guard:
            tell = self._asked.pop(letter)
        tell(answer)

    def close(self) -> None:
        """Close the line, which ends its app."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()


def _own_certificate() -> tuple[ssl.SSLContext, str]:
    """Return a TLS context with a new key, and its self-signed certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, LINE_NAME)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(LINE_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:  # its owner's alone
        file.write(private + certificate)
        file.flush()
        tls.load_cert_chain(file.name)
    return tls, certificate.decode()
