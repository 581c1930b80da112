"""Four gates on this computer, by sockets: what a round costs without Flower.

    python examples/sockets.py

Each gate is ``skdpfl silo serve`` in a process of its own. Between machines, each hospital opens a
tunnel to the server (``ssh -N -R 7001:/run/skdpfl/north.socket server``); the rest is the same.
The model is compared with that of one process: the same, bit for bit.
"""

import argparse
import os
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
from skdpfl.remote import RemoteFederation, SocketCourier

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

[log]
file = "gate.log"
"""


def start_gate(folder: Path, name: str, X: np.ndarray, y: np.ndarray) -> subprocess.Popen:
    """Write a hospital's files and start its gate."""
    folder.mkdir(mode=0o700)
    pd.DataFrame(X, columns=FEATURES).assign(ill=y).to_csv(folder / "records.csv", index=False)
    (folder / "hospital.toml").write_text(TOML.format(name=name))
    for path in folder.iterdir():
        path.chmod(0o600)
    command = [sys.executable, "-m", "skdpfl", "silo", "serve", str(folder / "hospital.toml")]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=os.environ | one_thread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
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
                gates.append(start_gate(Path(out, name), name, data.data[mine], data.target[mine]))
            while not all(map(os.path.exists, addresses.values())):
                if any(gate.poll() is not None for gate in gates):
                    raise SystemExit("A gate ended.")
                time.sleep(0.05)
            facts = Schema(dict.fromkeys(NAMES, 500), n_features=len(FEATURES))
            federation = RemoteFederation(
                SocketCourier(addresses), facts, classes=[0, 1], estimator="four gates"
            )
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
        f"{rounds} rounds of {len(NAMES)} gates: {seconds:.2f} s, {seconds / rounds:.3f} s a round"
    )
    if not np.array_equal(coef, model.coef_):
        raise SystemExit("The model differs from that of one process.")
    print("The same model as in one process, bit for bit.")


if __name__ == "__main__":
    main()
