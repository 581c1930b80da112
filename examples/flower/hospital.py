"""What each hospital runs: its records, its budget, and its terms.

Here the records are public and the noise follows from a seed, so that the model can be compared
with one that was fitted in one process. A hospital in earnest leaves out ``allow_simulation``.

What takes long to import is imported where it is used: Flower starts a process for each message.
"""

from pathlib import Path

from flwr.app import Message, RecordDict

from skdpfl.flower import client_app
from skdpfl.remote import Terms


def load(config):
    """Return the records of the hospital that the SuperNode was started for."""
    import numpy as np

    from skdpfl.remote import SiloRecords

    with np.load(config["records"]) as table:
        return SiloRecords(config["hospital"], table["X"], table["y"], classes=[0, 1])


def ledger(config):
    """Return the hospital's own budget: two fits of at most 3, no third."""
    from skdpfl.privacy import PrivacyLedger

    path = Path(config["ledgers"]) / f"{config['hospital']}.ledger"
    return PrivacyLedger(5.0, 1e-4, path=path)


app = client_app(load, ledger=ledger, terms=Terms(3.0, 1e-4), allow_simulation=True)


@app.query("nothing")
def nothing(message, context):
    """Answer nothing: what a message costs Flower itself."""
    return Message(RecordDict(), reply_to=message)
