"""The silo's apps: one carries letters to its gate; one is the gate, for simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from skdpfl.remote import Terms, ask_gate, dial

#: the SuperNode's ``--node-config``, by its operator
Config = Mapping[str, Any]
_RECORD, _BYTES, _LINE = "skdpfl", "letter", "line"


def content_of(letter: bytes, invitation: Mapping[str, str | bytes] | None = None) -> RecordDict:
    """Return the content of a Flower message: a letter, and where to open a line."""
    content = RecordDict({_RECORD: ConfigRecord({_BYTES: letter})})
    if invitation is not None:
        content[_LINE] = ConfigRecord(dict(invitation))
    return content


def letter_in(message: Message) -> bytes:
    """Return the letter in a message; empty if there is none."""
    if message.has_error():
        return b""
    letter = message.content.config_records.get(_RECORD, {}).get(_BYTES, b"")
    return letter if isinstance(letter, bytes) else b""


def served(invitation: Mapping[str, Any], ask: Callable[[bytes], bytes]) -> bool:
    """Answer letters on a line until the server closes it; False if it failed to open."""
    try:
        address, certificate = str(invitation["address"]), str(invitation["certificate"])
        dial(address, certificate.encode(), ask, token=invitation["token"])
    except (ConnectionError, KeyError):
        return False
    return True


def gate_app() -> ClientApp:
    """Return an app that carries letters to the silo's gate (``skdpfl silo serve``).

    A SuperNode's ``--node-config`` has its path: ``socket="/run/skdpfl/north.socket"``. Whatever
    app a run brings, the SuperNode's user cannot read records, ledger or keys, which belong to the
    gate's user. If the server opens lines (``server_app(..., line=)``), one process carries all
    letters of a fit.

    Returns
    -------
    ClientApp
        What a SuperNode runs.

    See Also
    --------
    client_app : A gate inside the app, for simulations.
    server_app : The server's app.
    """

    def answer(message: Message, config: Config) -> bytes:
        def ask(letter: bytes) -> bytes:
            try:
                return ask_gate(str(config["socket"]), letter)
            except OSError:  # Flower would send the words of the error to the server
                return b""

        invitation = message.content.config_records.get(_LINE)
        if invitation is not None and served(invitation, ask):
            return b""
        return ask(letter_in(message))

    return _app(answer)


def client_app(
    load_silo: Callable[[Config], Any],
    *,
    ledger: Callable[[Config], Any],
    terms: Terms | None = None,
    allow_simulation: bool = False,
) -> ClientApp:
    """Return an app that is a silo's gate itself: for simulations.

    Whoever starts a run brings this program and can read the records and change the ledger, so use
    it only if the records are not secret. Otherwise the silo runs its gate as a service (``skdpfl
    silo serve``), and :func:`gate_app` carries its letters.

    Parameters
    ----------
    load_silo : callable
        ``load_silo(node_config)`` returns the silo's :class:`~skdpfl.remote.SiloRecords`, with the
        same rows in the same order each time.
    ledger : callable
        ``ledger(node_config)`` returns the silo's budget, a
        :class:`~skdpfl.privacy.PrivacyLedger` with a file.
    terms : Terms, optional
        The operator's terms.
    allow_simulation : bool, default=False
        Whether to take part in simulations, in which the server knows the noise.

    Returns
    -------
    ClientApp
        What a SuperNode runs.

    See Also
    --------
    gate_app : An app that carries letters to a gate of the silo's own.
    skdpfl.remote.Gate : What the silo checks before it answers.
    """

    def answer(message: Message, config: Config) -> bytes:
        """Answer without raising: Flower would send an error's text to the server."""
        from skdpfl.remote import Gate, answer_of  # it takes longer to import than Flower

        def gate() -> Gate:
            silo, paid = load_silo(config), ledger(config)
            return Gate(silo, paid, terms=terms, allow_simulation=allow_simulation)

        return answer_of(gate, letter_in(message))

    return _app(answer)


def _app(answer: Callable[[Message, Config], bytes]) -> ClientApp:
    app = ClientApp()

    def reply(message: Message, context: Context) -> Message:
        return Message(content_of(answer(message, context.node_config)), reply_to=message)

    app.query()(reply)  # who are you?
    app.train()(reply)
    return app
