"""What a search over processes, and the first import, cost beside what they are made of.

40 candidates of ISRLDPRegressor on the medical costs (W2's data), one split, fitted and scored: one
after the other by hand, and by GridSearchCV; and as many fits that only take as long, for what a
search costs whatever it fits. Processor time is that of all processes. A first search starts its
workers, each of which imports everything.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit

import skdpfl
from benchmarks.speed_parts.timing import ROOT, Times, short
from benchmarks.speed_parts.workloads import insurance
from benchmarks.tables import markdown

GRID = {
    "clip_norm": [0.25, 0.5, 1, 2, 4],
    "learning_rate": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8],
}
OURS = "from skdpfl import ISRLDPClassifier"
THEIRS = "from sklearn.linear_model import LogisticRegression"


class Idler(RegressorMixin, BaseEstimator):
    """Fits nothing, for some seconds of processor time."""

    def __init__(self, seconds: float = 0.0, number: int = 0) -> None:
        self.seconds, self.number = seconds, number

    def fit(self, X: np.ndarray, y: np.ndarray) -> Idler:
        """Count the seconds."""
        self.end_ = time.process_time() + self.seconds
        while time.process_time() < self.end_:
            pass
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return zeros."""
        return np.zeros(len(X))


def measure_searches(quick: bool) -> str:
    """Return two tables: searches, and imports in new processes."""
    data = insurance()
    split = ShuffleSplit(1, test_size=0.2, random_state=0)
    model, grid = skdpfl.ISRLDPRegressor(random_state=0), GRID
    if quick:
        grid = {name: values[:2] for name, values in GRID.items()}
    n = math.prod(map(len, grid.values()))

    def by_hand() -> None:
        train, test = next(split.split(data.X))
        for clip_norm, rate in product(*grid.values()):
            model.set_params(clip_norm=clip_norm, learning_rate=rate)
            model.fit(data.X[train], data.y[train], silos=data.silos[train])
            model.score(data.X[test], data.y[test])

    def search(estimator: object, grid: dict, n_jobs: int, **routed: np.ndarray) -> None:
        GridSearchCV(estimator, grid, cv=split, n_jobs=n_jobs, refit=False).fit(
            data.X, data.y, **routed
        )

    def ours(n_jobs: int) -> None:
        with sklearn.config_context(enable_metadata_routing=True):
            fresh = skdpfl.ISRLDPRegressor(random_state=0).set_fit_request(silos=True)
            search(fresh, grid, n_jobs, silos=data.silos)

    by_hand()
    a_fit = _timed(by_hand)[1] / n

    def idle(n_jobs: int) -> None:
        search(Idler(a_fit), {"number": range(n)}, n_jobs)

    rows: dict[str, Callable[[], None]] = {
        "fits and scores by hand": by_hand,
        "GridSearchCV, n_jobs=1": lambda: ours(1),
        "GridSearchCV, n_jobs=2": lambda: ours(2),
        "fits that only take as long, n_jobs=1": lambda: idle(1),
        "fits that only take as long, n_jobs=2": lambda: idle(2),
        "n_jobs=2, scikit-learn's Ridge": lambda: search(Ridge(), {"alpha": range(1, n + 1)}, 2),
    }
    first = _timed(rows["GridSearchCV, n_jobs=2"])
    taken: dict[str, list[Times]] = {name: [] for name in rows}
    for _ in range(1 if quick else 9):
        for name, row in rows.items():
            taken[name].append(_timed(row))
    medians = {name: tuple(np.median(times, axis=0)) for name, times in taken.items()}
    medians["GridSearchCV, n_jobs=2, a process's first"] = first
    half = medians["fits and scores by hand"][0] / 2
    heads = [f"{n} candidates", "wall", "processor", "wall / half of the fits"]
    lines = [
        [name, short(wall), short(cpu), f"{wall / half:.2f}"]
        for name, (wall, cpu) in medians.items()
    ]
    return f"{markdown(heads, lines)}\n\n{_imports(1 if quick else 9)}"


def _imports(repeats: int) -> str:
    """Return a table of imports in turns, whole processes."""
    taken: dict[str, list[Times]] = {OURS: [], THEIRS: []}
    for line in (*taken, *list(taken) * repeats):
        command = [sys.executable, "-c", line]
        taken[line].append(_timed(partial(subprocess.run, command, check=True, cwd=ROOT)))
    medians = {line: np.median(times[1:], axis=0) for line, times in taken.items()}
    heads = ["a process that runs", "wall", "processor", "processor / the last"]
    last = medians[THEIRS][1]
    return markdown(heads, [
        [f"`{line}`", short(wall), short(cpu), f"{cpu / last:.2f}"]
        for line, (wall, cpu) in medians.items()
    ])  # fmt: skip


def _timed(work: Callable[[], object]) -> Times:
    wall, cpu = time.perf_counter(), _processor()
    work()
    return time.perf_counter() - wall, _processor() - cpu


def _processor() -> float:
    """Return the processor time of this process and its children: waited for, or alive (Linux)."""
    times, me = os.times(), str(os.getpid())
    total = times.user + times.system + times.children_user + times.children_system
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        if fields[1] == me:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
