"""A silo as a Flower app, for simulations: each message meets the silo's gate in the app."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from skdpfl.flower._letter import content_of, letter_in
from skdpfl.remote import Terms

#: what an operator wrote into the SuperNode's ``--node-config``
Config = Mapping[str, Any]


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
