"""How the time of a fit grows with rounds, rows and silos, and how much memory it takes.

rounds  5 silos of 200 records, 10 features, a fifth of the records a round
rows    10 silos, 20 features, 20 rounds of a tenth of the records
silos   one million rows, 10 rounds of everybody, one local step in float32; and whole silos,
        50 rounds of 100 silos
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import skdpfl
from benchmarks.tables import markdown

COMMON = {"epsilon": None, "noise_multiplier": 2.0, "scaling": None, "random_state": 0}
COMMON |= {"clip_norm": 1.0, "learning_rate": 0.5}


class Point(NamedTuple):
    """A fit: how many of what, its seconds, the bytes of X and those allocated beside the data."""

    number: int
    seconds: float
    data: int
    memory: int


class Growth(NamedTuple):
    """Fits over the number of rounds, of rows, and of silos."""

    rounds: list[Point]
    rows: list[Point]
    silos: list[Point]
    whole: list[Point]

    def table(self) -> str:
        """Return the numbers as markdown."""
        names = ("rounds", "rows", "silos (records protected)", "silos (whole silos protected)")
        lines = [
            [name, f"{p.number:,}", f"{p.seconds:.3g}", _mb(p.data), _mb(p.memory)]
            for name, points in zip(names, self, strict=True)
            for p in points
        ]
        return markdown(["grows", "number", "seconds", "X, MB", "beside it at most, MB"], lines)


def measure_growth(quick: bool) -> Growth:
    """Measure; seconds by the best of some runs, memory by one more."""
    top = 4 if quick else 7
    rounds = [_records(10**k, 1000, 10, 5, 10**k, 0.2) for k in range(1, 3 if quick else 5)]
    rows = [_records(10**k, 10**k, 20, 10, 20, 0.1) for k in range(3, top + 1)]
    n = 10**4 if quick else 10**6
    counts = [10**k for k in range(0, 3 if quick else 6)]
    silos, whole = ([_silos(n, m, unit) for m in counts] for unit in (False, True))
    return Growth(rounds, rows, silos, whole)


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f}" if n_bytes > 1e7 else f"{n_bytes / 1e6:.2g}"


def _data(n: int, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    return X, (X[:, 0] > 0).astype(np.int8)


def _records(number: int, n: int, d: int, m: int, n_rounds: int, rate: float) -> Point:
    X, y = _data(n, d)
    model = skdpfl.ISRLDPClassifier(n_rounds=n_rounds, sampling_rate=rate, **COMMON)
    return _measured(number, X, partial(model.fit, X, y, silos=np.arange(n) * m // n))


def _silos(n: int, m: int, whole: bool) -> Point:
    X, y = _data(n)
    silos = np.random.default_rng(1).permutation(n) % m
    if whole:
        who = {"unit": "silo", "trust": "server", "cohort": "poisson"}
        share = min(1.0, 100 / m)
        model = skdpfl.DPFedAvgClassifier(
            n_rounds=50, local_steps=1, sampling_rate=1.0, silo_fraction=share, **who, **COMMON
        )
    else:
        model = skdpfl.DPFedAvgClassifier(n_rounds=10, local_steps=1, sampling_rate=1.0, **COMMON)
    return _measured(m, X, partial(model.fit, X, y, silos=silos))


def _measured(number: int, X: np.ndarray, fit: Callable[[], object]) -> Point:
    seconds = []
    while len(seconds) < 2 or (sum(seconds) < 0.5 and len(seconds) < 9):
        start = time.perf_counter()
        fit()
        seconds.append(time.perf_counter() - start)
    tracemalloc.start()
    fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Point(number, min(seconds), X.nbytes, peak)


def draw(growth: Growth, path: Path) -> None:
    """Draw the seconds over the numbers, with lines of slope one for comparison."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "speed", "svg.fonttype": "none"}
    figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
    silos = {"each record protected": growth.silos, "whole silos protected": growth.whole}
    sides = {"rounds": {"": growth.rounds}, "rows": {"": growth.rows}, "silos": silos}
    for axis, (label, lines) in zip(axes, sides.items(), strict=True):
        for name, points in lines.items():
            axis.plot([p.number for p in points], [p.seconds for p in points], "o-", label=name)
        axis.set(xscale="log", yscale="log", xlabel=f"number of {label}")
        axis.grid(alpha=0.3)
    for axis, points in zip(axes, (growth.rounds, growth.rows), strict=False):
        (first, *_), (last, seconds, *_) = points[0], points[-1]
        ends = [seconds * first / last, seconds]
        axis.plot([first, last], ends, "--", color="grey", label="in proportion")
        axis.legend(handles=axis.lines[1:], frameon=False)
    axes[2].legend(frameon=False)
    axes[0].set_ylabel("seconds of a fit")
    figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
