"""What each SuperNode runs: it carries letters to the hospital's gate, ``skdpfl silo serve``.

It knows the path of a socket (``--node-config``) and no record, ledger or key. Anybody who may
start a run can bring another program; that one can reach no more.
"""

from flwr.app import Message, RecordDict

from skdpfl.flower import gate_app

app = gate_app()


@app.query("nothing")
def nothing(message, context):
    """Answer nothing: what a message costs Flower itself."""
    return Message(RecordDict(), reply_to=message)
