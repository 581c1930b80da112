"""Other people's packages, each in an environment of its own, made on demand."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.speed_parts.timing import Times
from benchmarks.speed_parts.workloads import Data

HERE = Path(__file__).parent
PACKAGES = {
    "opacus": ["opacus==1.6.0", "torch==2.13.0"],
    "pfl": ["pfl==0.6.0", "dp-accounting<0.6", "torch==2.13.0"],
}


def python_of(peer: str, envs: Path) -> Path:
    """Return the peer's interpreter; makes the environment if it is not there (about 1 GB)."""
    python = envs / peer / "bin" / "python"
    done = envs / peer / ".installed"
    if not done.exists():
        print(f"installing {peer} into {envs / peer} ...", file=sys.stderr)
        venv.create(envs / peer, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[peer]]
        subprocess.run(install, check=True)
        done.touch()
    return python


def save(data: Data, path: Path, **numbers: int) -> Path:
    """Write a workload's data, sorted by silo, for a peer to read."""
    order = np.argsort(data.silos, kind="stable")
    n_silos = int(data.silos.max()) + 1
    np.savez(path, X=data.X[order], y=data.y[order], n_silos=n_silos, **numbers)
    return path


class Opacus:
    """A process that runs a round whenever it is told to; it ends when this one does."""

    def __init__(self, python: Path, data: Path, threads: int, *numbers: int) -> None:
        command = [python, HERE / "peer_opacus.py", data, threads, *numbers]
        ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([str(word) for word in command], text=True, **ends)
        self._line()

    def __call__(self) -> list[Times]:
        """Run a round."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        wall, cpu = self._line().split()
        return [(float(wall), float(cpu))]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("Opacus stopped; run peer_opacus.py by hand to see why.")
        return line


def pfl(python: Path, data: Path, what: str, units: int) -> Callable[[], list[Times]]:
    """Return a run of ``units`` units of work."""

    def run() -> list[Times]:
        command = [python, HERE / "peer_pfl.py", data, 1, what, units]
        done = subprocess.run(
            [str(word) for word in command], check=True, capture_output=True, text=True
        )
        lines = done.stdout.strip().splitlines()[-units:]
        return [(float(w), float(c)) for w, c in (line.split() for line in lines)]

    return run
