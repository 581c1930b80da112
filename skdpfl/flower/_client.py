"""A silo as a Flower app: each message meets the silo's gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from skdpfl.flower._letter import content_of, letter_in
from skdpfl.flower._resident import GATES, asked, leave_behind, socket_of
from skdpfl.remote import Terms

#: what an operator wrote into the SuperNode's ``--node-config``
Config = Mapping[str, Any]


def client_app(
    load_silo: Callable[[Config], Any],
    *,
    ledger: Callable[[Config], Any],
    terms: Terms | None = None,
    allow_simulation: bool = False,
    keep_alive: float = 300.0,
) -> ClientApp:
    """Return a silo's app.

    Flower starts a process for each message, so whatever a silo remembers is in its ledger's
    folder. The first one leaves a process behind that answers the next ones' letters, because
    importing takes longer than answering.

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
    keep_alive : float, default=300.0
        Seconds that the process which stays waits for the next letter; 0: none stays. Where this
        function is called in a module's top level only.

    Returns
    -------
    ClientApp
        What a SuperNode runs.

    See Also
    --------
    skdpfl.remote.Gate : What the silo checks before it answers.
    """
    app, number, module = ClientApp(), len(GATES), load_silo.__module__

    def gate(config: Config) -> Any:
        from skdpfl.remote import Gate  # it takes longer to import than Flower

        silo, paid = load_silo(config), ledger(config)
        return Gate(silo, paid, terms=terms, allow_simulation=allow_simulation)

    def here(config: Config, letter: bytes) -> bytes:
        from skdpfl.remote import answer_of

        return answer_of(lambda: gate(config), letter)

    def answered(config: Config, letter: bytes) -> bytes:
        if not keep_alive:
            return here(config, letter)
        path = socket_of(module, number, config)
        reply = asked(path, letter)
        if reply is None:
            leave_behind(path, keep_alive, module, number, config)
            reply = here(config, letter)
        return reply

    def answer(message: Message, context: Context) -> Message:
        """Answer; Flower would send the words of an error to the server."""
        try:
            reply = answered(context.node_config, letter_in(message))
        except (Exception, SystemExit) as error:
            reply = _without_words(error)
        return Message(content_of(reply), reply_to=message)

    GATES.append(gate)
    app.query()(answer)  # who are you?
    app.train()(answer)
    return app


def _without_words(error: BaseException) -> bytes:
    """Return a refusal that tells nothing of an error; the silo's log does."""
    from skdpfl.remote import answer_of

    def raised() -> Any:
        raise error

    return answer_of(raised, b"")
