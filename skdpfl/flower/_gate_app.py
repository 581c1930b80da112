"""A silo's app that carries letters to its gate, and can do nothing else."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from skdpfl.flower._letter import content_of, letter_in
from skdpfl.remote import ask_gate


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
