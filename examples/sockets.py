"""Four gates on this computer, by sockets: what a round costs without Flower.

    python examples/sockets.py           letters go to the gates' sockets
    python examples/sockets.py --dial    as between computers: each hospital dials the server

Each gate is ``skdpfl silo serve`` in a process of its own; with ``--dial`` so is ``skdpfl silo
connect``. The model is compared with that of one process: the same, bit for bit.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from skdpfl import ISRLDPClassifier
from skdpfl.datasets import make_federated_classification
from skdpfl.federation import Schema
from skdpfl.remote import (
    LineCourier,
    RemoteFederation,
    SocketCourier,
    new_silo_key,
    public_key,
)

NAMES = ("east", "north", "south", "west")
FEATURES = ["a", "b", "c", "d"]
#: allow_simulation: the noise follows from a seed here, so that the models can be compared
TOML = """
socket = "socket"

[records]
name = "{name}"
file = "records.csv"
features = ["a", "b", "c", "d"]
target = "ill"
classes = [0, 1]

[terms]
epsilon = 3.0
delta = 1e-4
allow_simulation = true

[ledger]
file = "ledger"
epsilon = 5.0
delta = 1e-4

[roster]
key = "key"

[log]
file = "gate.log"
"""


def silo(*words: object) -> subprocess.Popen:
    """Start a command of an operator."""
    command = [sys.executable, "-m", "skdpfl", "silo", *map(str, words)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=os.environ | one_thread)


def start_gate(folder: Path, name: str, key: str, X: np.ndarray, y: np.ndarray) -> subprocess.Popen:
    """Write a hospital's files and start its gate."""
    folder.mkdir(mode=0o700)
    (folder / "key").write_text(key)
    pd.DataFrame(X, columns=FEATURES).assign(ill=y).to_csv(folder / "records.csv", index=False)
    (folder / "hospital.toml").write_text(TOML.format(name=name))
    for path in folder.iterdir():
        path.chmod(0o600)
    return silo("serve", folder / "hospital.toml")


def dialled(out: Path, keys: dict, sockets: dict, started: list) -> LineCourier:
    """Open a server's port, and have each hospital dial it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    public = {name: public_key(key) for name, key in keys.items()}
    courier = LineCourier(address, public, folder=out)
    for each in sockets.values():
        words = "--socket", each, "--certificate", out / "server.crt"
        started.append(silo("connect", address, *words))
    return courier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--dial", action="store_true")
    asked = parser.parse_args()
    rounds, keys = asked.rounds, {name: new_silo_key() for name in NAMES}
    data = make_federated_classification(
        4, 500, n_classes=2, n_features=len(FEATURES), random_state=0
    )
    silos = np.array(NAMES)[data.silos]
    model = ISRLDPClassifier(
        3.0, delta=1e-4, n_rounds=rounds, feature_bounds=(-9, 9), classes=[0, 1], random_state=0
    )
    with tempfile.TemporaryDirectory() as out:
        gates, addresses = [], {name: f"{out}/{name}/socket" for name in NAMES}
        try:
            for name in NAMES:
                mine = silos == name
                gates.append(
                    start_gate(
                        Path(out, name), name, keys[name], data.data[mine], data.target[mine]
                    )
                )
            while not all(map(os.path.exists, addresses.values())):
                if any(gate.poll() is not None for gate in gates):
                    raise SystemExit("A gate ended.")
                time.sleep(0.05)
            courier = SocketCourier(addresses)
            if asked.dial:
                courier = dialled(Path(out), keys, addresses, gates)
                courier.deliver(dict.fromkeys(NAMES, b""))  # wait for all
            facts = Schema(dict.fromkeys(NAMES, 500), n_features=len(FEATURES))
            federation = RemoteFederation(courier, facts, classes=[0, 1], estimator="four gates")
            start = time.perf_counter()
            model.fit_federation(federation, facts)
            seconds = time.perf_counter() - start
        finally:
            for gate in gates:
                gate.terminate()
                gate.wait()
    coef = model.coef_
    model.fit(data.data, data.target, silos=silos)
    print(
        f"{rounds} rounds of {len(NAMES)} gates: {seconds:.2f} s in all, "
        f"{np.median(federation.round_seconds):.3f} s a round (median)"
    )
    if not np.array_equal(coef, model.coef_):
        raise SystemExit("The model differs from that of one process.")
    print("The same model as in one process, bit for bit.")


if __name__ == "__main__":
    main()
