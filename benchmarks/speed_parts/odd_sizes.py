"""Fits of large and odd sizes, each in a process of its own: processor time and memory.

Each has 20 features in float32 and 10 silos in mixed order unless its name says otherwise. Seconds
are those of the program and, after a plus, of the system, which clears memory. Memory is anonymous
(:mod:`benchmarks.speed_parts.memory`), at most during the fit, beside what the process had with its
data before; a thread of the benchmark looks every 5 ms.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import skdpfl
from benchmarks.speed_parts.growth import COMMON
from benchmarks.speed_parts.memory import STATUS, Watch, anonymous

ROOT = Path(__file__).resolve().parents[2]
WHOLE = {"unit": "silo", "trust": "server", "cohort": "poisson", "sampling_rate": 1.0}
Fit = Callable[[], object]


def _data(n: int, d: int = 20, m: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    return X, (X[:, 0] > 0).astype(np.int8), rng.permutation(n) % m


def _records(layout: Callable[[np.ndarray], Any], n: int, d: int = 20) -> Fit:
    """Return a fit of 20 rounds of a tenth of the records."""
    X, y, silos = _data(n, d)
    table = layout(X)
    del X
    model = skdpfl.ISRLDPClassifier(n_rounds=20, sampling_rate=0.1, **COMMON)
    return lambda: model.fit(table, y, silos=silos)


def _in_a_file(X: np.ndarray) -> np.ndarray:
    path = Path(tempfile.gettempdir()) / "skdpfl-odd-sizes"
    X.tofile(path)
    table = np.memmap(path, X.dtype, "r", shape=X.shape)
    path.unlink()  # the map keeps it
    return table


def _silos(n: int, m: int, **options: Any) -> Fit:
    """Return a fit of 10 rounds."""
    X, y, silos = _data(n, m=m)
    model = skdpfl.DPFedAvgClassifier(n_rounds=10, **COMMON | options)
    return lambda: model.fit(X, y, silos=silos)


def _classes(n: int, m: int, k: int) -> Fit:
    """Return a fit of 5 rounds of a tenth of the silos, with 5 local steps."""
    X, _, silos = _data(n, m=m)
    y = np.random.default_rng(1).permutation(n) % k
    share = {"silo_fraction": 0.1, "n_rounds": 5, "local_steps": 5}
    model = skdpfl.DPFedAvgClassifier(**WHOLE, **share, **COMMON)
    return lambda: model.fit(X, y, silos=silos)


def _budgets(n: int, m: int) -> Fit:
    """Return a fit of 10 rounds in which each silo has its own epsilon."""
    X, y, silos = _data(n, m=m)
    epsilon = dict(enumerate(np.linspace(0.5, 8, m).tolist()))
    options = COMMON | {"epsilon": epsilon, "noise_multiplier": None}
    model = skdpfl.ISRLDPClassifier(n_rounds=10, sampling_rate=1.0, **options)
    return lambda: model.fit(X, y, silos=silos)


def _rounds(n_rounds: int, watched: bool = False) -> Fit:
    """Return a fit of 5 silos of 200 records, with or without a callback and a progress bar."""
    X, y, silos = _data(1000, 10, 5)
    model = skdpfl.ISRLDPClassifier(
        n_rounds=n_rounds, sampling_rate=0.2, verbose=int(watched), **COMMON
    )
    if watched:
        from benchmarks.speed_parts.timing import RoundClock

        model.set_callbacks(RoundClock())
    return lambda: model.fit(X, y, silos=silos)


#: name -> a fit, its data made; ``n`` is divided by 100 in a quick run
CASES: dict[str, Callable[[int], Fit]] = {
    "10,000,000 records": lambda by: _records(np.asarray, 10**7 // by),
    "the same, data frame": lambda by: _records(pd.DataFrame, 10**7 // by),
    "the same, memory-mapped": lambda by: _records(_in_a_file, 10**7 // by),
    "1,000,000 silos of 4": lambda by: _silos(
        4 * 10**6 // by, 10**6 // by, local_steps=1, sampling_rate=1.0
    ),
    "the same, whole silos, 100 a round": lambda by: _silos(
        4 * 10**6 // by, 10**6 // by, local_steps=1, silo_fraction=1e-4 * by, **WHOLE
    ),
    "5,000 records of 20,000 features": lambda by: _records(np.asarray, 5000, 20_000 // by),
    "the same, Fortran order": lambda by: _records(np.asfortranarray, 5000, 20_000 // by),
    "5,000 whole silos, 1,000 classes": lambda by: _classes(100_000 // by, 5000 // by, 1000 // by),
    "10,000 silos of 10,000 budgets": lambda by: _budgets(200_000 // by, 10_000 // by),
    "5,000 rounds": lambda by: _rounds(5000 // by),
    "the same, callback and progress bar": lambda by: _rounds(5000 // by, watched=True),
}


def measure_odd_sizes(quick: bool) -> str:
    """Return a table of all fits, measured one after the other; quick ones in this process."""
    if not STATUS.exists():
        return "Measured on Linux only."
    lines = ["| data | processor seconds | memory, MB |", "|---|---|---|"]
    for name in CASES:
        if quick:
            found = _measured(name, 100)
        else:
            command = [sys.executable, "-m", "benchmarks.speed_parts.odd_sizes", name]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            found = done.stdout.splitlines()[-1]
        lines.append(f"| {name} | {found} |")
    return "\n".join(lines)


def _measured(name: str, by: int) -> str:
    """Return the seconds and the memory of a fit."""
    fit = CASES[name](by)
    before, start, watch = anonymous(), os.times(), Watch()
    fit()
    end = os.times()
    seconds, system = end.user - start.user, end.system - start.system
    return f"{seconds:.3g} + {system:.2g} | {max(0, watch.end() - before) / 1e6:,.0f}"


if __name__ == "__main__":
    print("\n" + _measured(sys.argv[1], 1))
