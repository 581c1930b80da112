"""Four hospitals' files for trials, and what is checked after three fits by any engine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import study

from skdpfl.datasets import make_federated_classification
from skdpfl.privacy import PrivacyLedger
from skdpfl.remote import new_silo_key, public_key

BIN, BEGIN = Path(sys.executable).parent, time.monotonic()
#: what each hospital's operator writes down; here the records are public, and the noise follows
#: from a seed, so that the models can be compared with those of one process
TOML = """
socket = "socket"

[records]
name = "{name}"
file = "records.csv"
features = {features}
target = "ill"
classes = [0, 1]

[terms]
epsilon = 3.0
delta = 1e-4
allow_simulation = true

[ledger]                  # three fits of at most 3, no fourth
file = "ledger"
epsilon = 6.5
delta = 1e-4

[roster]
key = "key"
silos = {{ {roster} }}

[log]
file = "gate.log"
"""


def say(what):
    """Print what is done, as it is done."""
    print(f"{time.monotonic() - BEGIN:6.1f} s  {what}", flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, log, environment):
    """Start a program of this environment in a session of its own, its output in a log."""
    words = [str(BIN / command[0]), *map(str, command[1:])]
    options = {"env": environment, "start_new_session": True}
    with log.open("ab") as file:
        return subprocess.Popen(words, stdout=file, stderr=file, **options)


def gate_command(out, name):
    """Return the command of a hospital's own service, with its records and its ledger."""
    return ["python", "-m", "skdpfl", "silo", "serve", out / "hospitals" / name / "hospital.toml"]


def end(process):
    """Kill a process and all that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_port(port, patience=60):
    last = time.monotonic() + patience
    while time.monotonic() < last:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"Nothing listens at port {port}; see the logs.")


def records():
    """Return the records of all hospitals, the same each time, and whose they are."""
    data = make_federated_classification(
        4, [*study.SIZES.values()], n_features=len(study.FEATURES), n_classes=2, random_state=0
    )
    return data.data, data.target, np.array(list(study.SIZES))[data.silos]


def write_records(out):
    """Write each hospital's records to a file of its own."""
    (X, y, silos), private = records(), {name: new_silo_key() for name in study.SIZES}
    roster = ", ".join(f'{name} = "{public_key(key)}"' for name, key in private.items())
    for name in study.SIZES:
        folder, mine = out / "hospitals" / name, silos == name
        folder.mkdir(mode=0o700, parents=True)
        table = pd.DataFrame(X[mine], columns=study.FEATURES).assign(ill=y[mine])
        table.to_csv(folder / "records.csv", index=False)
        (folder / "key").write_text(private[name])  # skdpfl silo key makes one
        text = TOML.format(name=name, features=json.dumps(study.FEATURES), roster=roster)
        (folder / "hospital.toml").write_text(text)
        for path in folder.iterdir():
            path.chmod(0o600)
        say(f"{folder}: {mine.sum()} records")


def answers(out, name):
    """Return how many answers a hospital's memory counts."""
    count = out / "hospitals" / name / "ledger.count"
    return int(count.read_text().split()[0]) if count.exists() else 0


def compare(out, fits, rounds):
    """Compare with fits in this process."""
    (X, y, silos), same = records(), {}
    for name in fits:
        model = study.model({"estimator": name, "rounds": rounds}).fit(X, y, silos=silos)
        with np.load(out / f"{name}.npz") as there:
            same[name] = bool(
                np.array_equal(model.coef_, there["coef"])
                and np.array_equal(model.intercept_, there["intercept"])
            )
    return same


def charged(out):
    """Return what each hospital's ledger holds: the cost of each fit, once."""
    found = {}
    for name in study.SIZES:
        ledger = PrivacyLedger(path=out / "hospitals" / name / "ledger", must_exist=True)
        found[name] = [(e.name.split(",")[0], e.spent.epsilon) for e in ledger.entries]
    return found


def check(result, fits):
    """End with an error where something is not as it should be."""
    if not all(result["bit-identical"].values()):
        raise SystemExit(f"Models differ from those of one process: {result['bit-identical']}")
    if "costs more than this silo's ledger has left" not in str(result["refused"]):
        raise SystemExit("The last fit was not refused.")
    for name, entries in result["charged"].items():
        once = [fit for fit, _ in entries] == [each.split("-")[0] for each in fits]
        if not once or any(epsilon > 3 for _, epsilon in entries):
            raise SystemExit(f"The ledger of {name} does not count each fit once: {entries}")
