"""Timing on a machine that others may be using: wall and processor time, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.tables import markdown

ROOT = Path(__file__).resolve().parents[2]

#: seconds of wall and of processor time
Times = tuple[float, float]


@dataclass
class Contender:
    """Somebody's way to do a unit of work; ``run`` does it and returns the times of each unit.

    ``repeats`` is how often it takes part at most; None: as often as the others.
    """

    workload: str
    name: str
    run: Callable[[], Iterable[Times]]
    threads: int = 1
    note: str = ""
    repeats: int | None = None
    times: list[Times] = field(default_factory=list)

    def median(self, which: int) -> float:
        """Median of wall (0) or processor (1) seconds."""
        return float(np.median([t[which] for t in self.times]))


def timed(function: Callable[[], object]) -> Callable[[], list[Times]]:
    """Return a run that calls a function once."""

    def run() -> list[Times]:
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        return [(time.perf_counter() - wall, time.process_time() - cpu)]

    return run


def forget_prices() -> None:
    """Empty all caches of functions, except for the normal law's tables, which no price needs."""
    for name, module in list(sys.modules.items()):
        if name.startswith("skdpfl.") and not name.startswith("skdpfl.privacy.randomness."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def in_new_process(prepare: str, code: str) -> Callable[[], list[Times]]:
    """Return a run that times a line of code in a process that has run another."""
    clock = "import time; t, c = time.perf_counter(), time.process_time()"
    end = "print(time.perf_counter() - t, time.process_time() - c)"
    command = [sys.executable, "-c", "\n".join([prepare, clock, code, end])]

    def run() -> list[Times]:
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        wall, cpu = map(float, done.stdout.split())
        return [(wall, cpu)]

    return run


class RoundClock:
    """A scikit-learn callback: the times between the ends of a fit's rounds."""

    def __init__(self) -> None:
        self.ends: list[Times] = []

    def setup(self, estimator: object, context: object) -> None:
        """Nothing to prepare."""

    def teardown(self, estimator: object, context: object) -> None:
        """Nothing to put away."""

    def on_fit_task_begin(self, estimator: object, context: object) -> None:
        """Nothing happens before a round."""

    def on_fit_task_end(self, estimator: object, context: object) -> bool:
        """Note the time; the last call is that of the whole fit."""
        self.ends.append((time.perf_counter(), time.process_time()))
        return False

    def rounds(self) -> list[Times]:
        """Return the times of all rounds but the first."""
        return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(self.ends[:-1])]


def take_turns(contenders: list[Contender], repeats: int) -> None:
    """Run everybody once to warm up, then ``repeats`` times in turn."""
    for contender in contenders:
        contender.run()
    for number in range(repeats):
        for contender in contenders:
            if contender.repeats is None or number < contender.repeats:
                contender.times.extend(contender.run())


def load() -> str:
    """Say how busy the machine is."""
    return f"Load {os.getloadavg()[0]:.1f}, this process included."


def table(contenders: list[Contender]) -> str:
    """Return a markdown table; ratios are to our first contender of the same workload."""
    head = "workload", "who", "threads", "wall", "processor", "wall / ours", "processor / ours"
    rows = []
    for c in contenders:
        if c.times:
            ours = next(o for o in contenders if o.workload == c.workload and o.times)
            ratios = [f"{c.median(i) / ours.median(i):.3g}" for i in (0, 1)]
            name = f"{c.name} ({c.note})" if c.note else c.name
            times = [short(c.median(i)) for i in (0, 1)]
            rows.append([c.workload, name, c.threads, *times, *ratios])
    return markdown(head, rows)


def short(seconds: float) -> str:
    """Return a time with its unit."""
    number, unit = (1000 * seconds, "ms") if seconds < 1 else (seconds, "s")
    return f"{number:.3g}\N{NO-BREAK SPACE}{unit}"
