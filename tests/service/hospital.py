"""A hospital with files of its own, whose gate is a process, and silos that are not."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from skdpfl.remote import Hello, ask_gate, pack
from tests.remote.silos_here import Here, problem

ROOT = Path(__file__).parents[2]
FEATURES = ["a", "b", "c", "d"]
TOML = """
socket = "{socket}"

[records]
name = "north"
file = "records.csv"
features = ["a", "b", "c", "d"]
target = "ill"
classes = [0, 1]

[terms]
epsilon = 3.0
delta = 1e-3
allow_simulation = true
{terms}

[ledger]
file = "north.ledger"
epsilon = 5.0
delta = 1e-3

[roster]
{roster}

[log]
file = "gate.log"
"""


def frame():
    """Return the records of the silo "north"."""
    X, y, silos = problem()
    return pd.DataFrame(X[silos == 1], columns=FEATURES).assign(ill=y[silos == 1])


class Hospital:
    """A folder with a hospital's files, and its gate while it runs."""

    def __init__(self, folder, *, socket="north.socket", terms="", roster="users = []"):
        self.folder, self.file, self.process = folder, folder / "hospital.toml", None
        folder.mkdir(exist_ok=True)
        self.write("records.csv", frame().to_csv(index=False))
        text = TOML.format(socket=socket, terms=terms, roster=roster)
        self.write("hospital.toml", text)
        self.socket = str(folder / socket)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)

    def start(self, **options):
        """Start the gate, and wait until it answers."""
        command = [sys.executable, "-m", "skdpfl", "silo", "serve", str(self.file)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, env=environment, cwd="/", **options)
        return self

    def wait(self, patience=180.0):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the gate ended: {self.process.returncode}")
            if os.path.exists(self.socket):
                try:
                    return ask_gate(self.socket, pack(Hello()))
                except OSError:
                    pass
            time.sleep(0.05)
        raise TimeoutError

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


class WithGate(Here):
    """Silos in this process, but for "north", whose gate is a service."""

    def __init__(self, folder, hospital, *, meanwhile=lambda count: None):
        super().__init__(folder, problem())
        self.hospital, self.meanwhile = hospital, meanwhile

    def deliver(self, letters):
        came = super().deliver({n: v for n, v in letters.items() if n != "north"})
        if "north" in letters:
            self.letters.append(("north", letters["north"]))
            self.meanwhile(len(self.letters))
            try:
                came["north"] = ask_gate(self.hospital.socket, letters["north"])
            except OSError:
                self.hospital.start().wait()  # as a supervisor does
        return came


def same(one, other):
    return np.array_equal(one.coef_, other.coef_) and np.array_equal(
        one.intercept_, other.intercept_
    )
