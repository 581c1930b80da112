"""What private randomness costs: ``python benchmarks/noise.py``.

Two tables, best and median of many repetitions on one thread:

1. normals a second, for each source of bits, as integers (what a release needs) and as floats,
   and NumPy's ziggurat for comparison;
2. one step of a silo of the FEMNIST logistic regression (400 of 2,000 records, 784 features, 47
   classes, 36,895 float32 parameters): batch, gradient with its gathering, noise, release, and the
   share of noise and release in the step, the caches as cold as the gradient leaves them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.tables import header
from skdpfl.losses import LogLoss
from skdpfl.models import LinearModel, Records
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.randomness.words import AesWords, ShakeWords, SimulationWords
from skdpfl.privacy.release import grid_for, snapped_release

SOURCES: dict[str, Callable] = {
    "AES-256-CTR (default)": AesWords,
    "SHAKE-256 (no cryptography)": ShakeWords,
    "simulation (int seed)": lambda: SimulationWords(0),
}
SIZE = 785 * 47


def timed(function: Callable, repeats: int) -> np.ndarray:
    """Return the microseconds of each of ``repeats`` calls."""
    times = np.empty(repeats)
    for i in range(repeats):
        start = time.perf_counter()
        function()
        times[i] = 1e6 * (time.perf_counter() - start)
    return times


def speeds(repeats: int) -> None:
    """Print millions of normals a second: a vector of 36,895, and ten of them in one draw."""
    print(f"{'million normals / s':32}{'36,895':>18}{'10 x 36,895':>18}")
    rng, out = np.random.Generator(np.random.SFC64(0)), np.empty(SIZE)
    rows = {"NumPy ziggurat, SFC64, float64": lambda n: rng.standard_normal(out=out[:n])}
    for name, make in SOURCES.items():
        stream = Streams(make()).stream("noise")
        for what, draw in (
            ("int32", lambda n, s=stream: s.units(n, np.float32)),
            ("float32", lambda n, s=stream: s.normal(n, np.float32)),
            ("float64", lambda n, s=stream: s.normal(n, np.float64)),
        ):
            rows[f"{name.split(' (')[0]}, {what}"] = draw
    for name, draw in rows.items():
        cells = []
        for n in (SIZE, 10 * SIZE) if "ziggurat" not in name else (SIZE,):
            times = timed(lambda n=n, draw=draw: draw(n), max(5, repeats // (n // SIZE)))
            cells.append(f"{n / times.min():7.0f} ({n / np.median(times):5.0f})")
        print(f"{name:32}" + "".join(f"{c:>18}" for c in cells))
    print()


def step(make: Callable, repeats: int) -> np.ndarray:
    """Return (repeats, 5) microseconds: batch, gradient, noise, release, update."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 784), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, model, loss = rng.integers(0, 47, 2000), LinearModel(784, 47, True), LogLoss()
    norms, params = model.squared_row_norms(X), np.zeros(SIZE, np.float32)
    streams, gamma = Streams(make()), grid_for(60.0, 550.0, np.float32)
    times = np.empty((repeats, 5))
    for i in range(repeats):
        marks = [time.perf_counter()]
        batch = streams.stream("batch", 0, i).poisson_sample(2000, 0.2)
        marks.append(time.perf_counter())
        total = model.clipped_gradient_sums(
            params,
            Records.of_silos(X, [batch]),
            y[batch],
            loss,
            clip_norm=1.0,
            squared_norms=norms[batch],
        )
        marks.append(time.perf_counter())
        units = streams.units_block("noise", [0], i, SIZE, np.float32)
        marks.append(time.perf_counter())
        snapped_release(total, units, gamma, out=total)
        marks.append(time.perf_counter())
        params -= np.float32(1e-3 / 400) * total[0]
        marks.append(time.perf_counter())
        times[i] = 1e6 * np.diff(marks)
    return times


def steps(repeats: int) -> None:
    """Print what a private step is made of: medians, then the best of each part."""
    A, W = np.ones((400, 784), np.float32), np.ones((784, 47), np.float32)
    R = A @ W
    products = timed(lambda: (A @ W, A.T @ R), repeats)
    names = ["batch", "gradient", "noise", "release", "update", "share"]
    print(f"{'us a step: medians, best':32}" + "".join(f"{n:>10}" for n in names))
    for name, make in SOURCES.items():
        times = step(make, repeats)
        for label, row in ((name, np.median(times, axis=0)), ("", times.min(axis=0))):
            share = row[2:4].sum() / row.sum()
            print(f"{label:32}" + "".join(f"{t:10.0f}" for t in row) + f"{share:10.1%}")
    print(f"(its two products alone: {np.median(products):.0f}, {products.min():.0f})\n")


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    repeats = 40 if parser.parse_args().quick else 400
    print(header(), "\n")
    speeds(repeats)
    steps(repeats)


if __name__ == "__main__":
    main()
