"""A silo's apps: one that carries letters to its gate, one that is the gate, for simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from skdpfl.remote import Terms, ask_gate

#: what an operator wrote into the SuperNode's ``--node-config``
Config = Mapping[str, Any]
_RECORD, _BYTES = "skdpfl", "letter"


def content_of(letter: bytes) -> RecordDict:
    """Return what a Flower message carries."""
    return RecordDict({_RECORD: ConfigRecord({_BYTES: letter})})


def letter_in(message: Message) -> bytes:
    """Return the letter in a message; empty where there is none."""
    if message.has_error():
        return b""
    letter = message.content.config_records.get(_RECORD, {}).get(_BYTES, b"")
    return letter if isinstance(letter, bytes) else b""


def gate_app() -> ClientApp:
    """Return an app that carries letters to the silo's gate (``skdpfl silo serve``).

    A SuperNode's ``--node-config`` says where that is: ``socket="/run/skdpfl/north.socket"``; or
    ``socket="127.0.0.1:7070" token="/path/to/token"``. Whatever app a run brings, the SuperNode's
    user can read no record, ledger or key: those belong to the gate's user.

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
        try:
            reply = ask_gate(str(where["socket"]), letter_in(message), token=token)
        except OSError:  # Flower would send the words of the error to the server
            reply = b""
        return Message(content_of(reply), reply_to=message)

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
