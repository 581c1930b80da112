"""How much memory fits take beside the data, each fit in a process of its own.

Anonymous memory is what a process has allocated, without the pages of mapped files, as Linux counts
it (RssAnon), looked at every 5 ms; the whole of Python and its packages is part of it.

large      float32 X in a file, memory-mapped, 4 GB: 20 silos x 50,000 records x 1,000 features;
           in order and mixed, batches and everybody, scales given and found
curves     1,000,000 records of 20 single-precision numbers in memory, ten silos
W3         as :mod:`benchmarks.speed_parts.workloads` has it, all data in memory
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import skdpfl
from benchmarks.speed_parts.growth import COMMON
from benchmarks.speed_parts.workloads import Sizes, fit_w3, many_silos
from benchmarks.tables import markdown

STATUS = Path("/proc/self/status")
#: silos, records of each, features
LARGE, SMALL = (20, 50_000, 1000), (20, 500, 1000)

FITS = {
    "local steps": lambda: skdpfl.DPScaffoldClassifier(
        n_rounds=2, local_steps=10, sampling_rate=0.01, **COMMON
    ),
    "everybody": lambda: skdpfl.ISRLDPClassifier(n_rounds=2, sampling_rate=1.0, **COMMON),
    "scales found": lambda: skdpfl.ISRLDPClassifier(
        n_rounds=2, sampling_rate=0.1, **COMMON | {"scaling": "private"}
    ),
}

CASES = [("in order", "local steps"), ("mixed", "local steps")]
CASES += [("in order", "scales found"), ("mixed", "everybody")]


class Watch:
    """A thread that keeps the largest RssAnon, in bytes."""

    def __init__(self) -> None:
        self.most = anonymous()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, anonymous())

    def end(self) -> int:
        """Return the largest."""
        self._over.set()
        self._thread.join()
        return max(self.most, anonymous())


def anonymous() -> int:
    """Return this process's anonymous memory in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def measure_memory(quick: bool) -> str:
    """Return a table of all fits."""
    if not STATUS.exists():
        return "Memory is measured on Linux only."
    lines = []
    shape = SMALL if quick else LARGE
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "X", shape)
        for order, fit in CASES:
            name = f"{4 * np.prod(shape) / 1e9:.2g} GB on disk, {order}"
            lines.append(_row(name, fit, [folder, *map(str, shape), order, fit]))
    n = 20_000 if quick else 1_000_000
    lines.append(_row(f"{n * 20 * 4 / 1e6:.2g} MB in memory", "curves", [str(n)]))
    sizes = Sizes(w3_silos=500, w3_rounds=10) if quick else Sizes()
    name = f"W3, {sizes.w3_silos * 20 * 20 * 4 / 1e6:.2g} MB in memory"
    lines.append(_row(name, "W3", [str(sizes.w3_silos), str(sizes.w3_rounds)]))
    return markdown(["data", "fit", "seconds", "anonymous memory before", "at most"], lines)


def write(path: Path, shape: tuple[int, int, int]) -> None:
    """Write X, silo by silo."""
    n_silos, n, d = shape
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(n_silos):
            rng.standard_normal((n, d), dtype=np.float32).tofile(file)


def _row(data: str, fit: str, arguments: list[str]) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.speed_parts.memory", *arguments]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    seconds, before, most = map(float, done.stdout.split())
    return [data, fit, f"{seconds:.3g}", _mega(before), _mega(most)]


def _large(folder: str, n_silos: int, n: int, d: int, order: str, fit: str) -> Callable:
    """Return a fit to the memory-mapped file."""
    X = np.memmap(Path(folder) / "X", np.float32, "r", shape=(n_silos * n, d))
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, len(X)).astype(np.int8)
    silos = np.repeat(np.arange(n_silos), n)
    if order == "mixed":
        silos = rng.permutation(silos)
    return lambda: FITS[fit]().fit(X, y, silos=silos)


def _curves(n: int) -> Callable:
    """Return an additive fit to records in memory."""
    X = np.random.default_rng(0).standard_normal((n, 20), dtype=np.float32)
    model = skdpfl.ISRLDPClassifier(3.0, model="additive", feature_bounds=(-4, 4), trust="server")
    model.set_params(random_state=0)
    return lambda: model.fit(X, X[:, 0] > 0, silos=np.arange(n) % 10)


def main() -> None:
    """Fit once and print seconds, anonymous memory before and at most."""
    if len(sys.argv) == 2:
        fit = _curves(int(sys.argv[1]))
    elif len(sys.argv) == 3:
        sizes = Sizes(w3_silos=int(sys.argv[1]), w3_rounds=int(sys.argv[2]))
        fit = partial(fit_w3, many_silos(sizes), sizes)
    else:
        folder, *shape, order, name = sys.argv[1:]
        fit = _large(folder, *map(int, shape), order, name)
    before, start = anonymous(), time.perf_counter()
    watch = Watch()
    fit()
    print(time.perf_counter() - start, before, watch.end())


if __name__ == "__main__":
    main()


def _mega(size: float) -> str:
    return f"{size / 1e6:.0f}\N{NO-BREAK SPACE}MB"
