"""A silo's apps: one that carries letters to its gate, one that is the gate, for simulations."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from skdpfl.remote import Terms, ask_gate, receive, send

#: what an operator wrote into the SuperNode's ``--node-config``
Config = Mapping[str, Any]
_RECORD, _BYTES, _LINE = "skdpfl", "letter", "line"
#: the name in certificates of lines; each is pinned, so it says nothing
LINE_NAME = "line.skdpfl"
#: seconds for a new line to be opened, from either side
LINE_PATIENCE = 20.0
#: seconds of silence until a side is asked whether it is there, between two questions; how many
_IDLE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


def content_of(letter: bytes, invitation: Mapping[str, str | bytes] | None = None) -> RecordDict:
    """Return what a Flower message carries: a letter, and where a line can be opened."""
    content = RecordDict({_RECORD: ConfigRecord({_BYTES: letter})})
    if invitation is not None:
        content[_LINE] = ConfigRecord(dict(invitation))
    return content


def letter_in(message: Message) -> bytes:
    """Return the letter in a message; empty where there is none."""
    if message.has_error():
        return b""
    letter = message.content.config_records.get(_RECORD, {}).get(_BYTES, b"")
    return letter if isinstance(letter, bytes) else b""


def served(invitation: Mapping[str, object], ask: Callable[[bytes], bytes]) -> bool:
    """Answer the letters of a line until the server closes it; False if none could be opened."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        tls.load_verify_locations(cadata=str(invitation["certificate"]))
        host, _, port = str(invitation["address"]).rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=LINE_PATIENCE)
        line = tls.wrap_socket(plain, server_hostname=LINE_NAME)
    except (OSError, KeyError, ValueError):
        return False
    with line, suppress(OSError):
        token = invitation["token"]
        send(line, token if isinstance(token, bytes) else b"")
        kept_alive(line).settimeout(None)
        while True:
            send(line, ask(receive(line)))
    return True


def kept_alive(line: socket.socket) -> socket.socket:
    """Have the system notice where the other side is gone without a word."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _IDLE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return line


def gate_app() -> ClientApp:
    """Return an app that carries letters to the silo's gate (``skdpfl silo serve``).

    A SuperNode's ``--node-config`` says where that is: ``socket="/run/skdpfl/north.socket"``; or
    ``socket="127.0.0.1:7070" token="/path/to/token"``. Whatever app a run brings, the SuperNode's
    user can read no record, ledger or key: those belong to the gate's user. Where the server
    invites (``server_app(..., line=)``), one process carries all letters of a fit.

    Returns
    -------
    ClientApp
        What a SuperNode runs.

    See Also
    --------
    client_app : A gate inside the app, for simulations.
    server_app : The server's app.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        where = context.node_config
        token = b""
        if "token" in where:
            with open(str(where["token"]), "rb") as file:
                token = file.read().strip()

        def ask(letter: bytes) -> bytes:
            try:
                return ask_gate(str(where["socket"]), letter, token=token)
            except OSError:  # Flower would send the words of the error to the server
                return b""

        invitation = message.content.config_records.get(_LINE)
        if invitation is not None and served(invitation, ask):
            return Message(content_of(b""), reply_to=message)
        return Message(content_of(ask(letter_in(message))), reply_to=message)

    app.query()(answer)  # who are you?
    app.train()(answer)
    return app


def client_app(
    load_silo: Callable[[Config], Any],
    *,
    ledger: Callable[[Config], Any],
    terms: Terms | None = None,
    allow_simulation: bool = False,
) -> ClientApp:
    """Return an app that is a silo's gate itself: for simulations.

    Whoever starts a run brings this program, so the records must be no secret to them, and the
    ledger is theirs. Where they are one, the gate is a service of the silo's
    (``skdpfl silo serve``), and :func:`gate_app` carries its letters.

    Parameters
    ----------
    load_silo : callable
        ``load_silo(node_config)`` returns the silo's
        :class:`~skdpfl.remote.SiloRecords`; the same rows in the same order each time.
    ledger : callable
        ``ledger(node_config)`` returns the silo's budget, a
        :class:`~skdpfl.privacy.PrivacyLedger` with a file.
    terms : Terms, optional
        What the silo's operator agreed to.
    allow_simulation : bool, default=False
        Take part in simulations, whose noise the server knows.

    Returns
    -------
    ClientApp
        What a SuperNode runs.

    See Also
    --------
    gate_app : An app that carries letters to a gate of the silo's own.
    skdpfl.remote.Gate : What the silo checks before it answers.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        """Answer; Flower would send the words of an error to the server."""
        from skdpfl.remote import Gate, answer_of  # it takes longer to import than Flower

        def gate() -> Gate:
            config = context.node_config
            silo, paid = load_silo(config), ledger(config)
            return Gate(silo, paid, terms=terms, allow_simulation=allow_simulation)

        return Message(content_of(answer_of(gate, letter_in(message))), reply_to=message)

    app.query()(answer)  # who are you?
    app.train()(answer)
    return app
