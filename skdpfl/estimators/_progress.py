"""The progress bar of ``verbose``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

#: characters of the plain bar, and the least number of seconds between two updates
WIDTH, PAUSE = 30, 0.1


@contextmanager
def progress_bar(verbose: Any, name: str, n_rounds: int) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each round; the bar is always closed."""
    if not verbose:
        yield lambda: None
        return
    with _bar(name, n_rounds) as advance:
        yield advance


def _bar(name: str, n_rounds: int) -> AbstractContextManager[Callable[[], None]]:
    """Return rich's bar, or a plain one if rich is missing or already shows another bar."""
    try:
        from rich import get_console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        return _plain(name, n_rounds)
    if getattr(get_console(), "_live", None) or getattr(get_console(), "_live_stack", None):
        return _plain(name, n_rounds)  # there is a bar of a search, or of a fit in another thread
    return _rich(
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds,"),
            TimeElapsedColumn(),
            TextColumn("passed,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=get_console(),
        ),
        name,
        n_rounds,
    )


@contextmanager
def _rich(progress: Any, name: str, n_rounds: int) -> Iterator[Callable[[], None]]:
    with progress:
        task = progress.add_task(name, total=n_rounds)
        yield lambda: progress.advance(task)


@contextmanager
def _plain(name: str, n_rounds: int) -> Iterator[Callable[[], None]]:
    bar = PlainBar(name, n_rounds)
    try:
        yield bar.advance
    finally:
        bar.close()


class PlainBar:
    """A bar in one line: updated on a terminal, else written once at the end."""

    def __init__(self, name: str, n_rounds: int) -> None:
        self._name, self._n_rounds, self._done = name, n_rounds, 0
        self._start, self._shown = time.perf_counter(), -PAUSE
        self._again = sys.stdout.isatty()

    def advance(self) -> None:
        """Count a round."""
        self._done += 1
        now = time.perf_counter() - self._start
        if self._again and now - self._shown >= PAUSE:
            self._shown = now
            self._write("\r")

    def close(self) -> None:
        """Write the last state and end the line."""
        self._write("\r" if self._again else "")
        print(flush=True)

    def _write(self, before: str) -> None:
        seconds = time.perf_counter() - self._start
        left = seconds * (self._n_rounds / max(self._done, 1) - 1)
        full = round(WIDTH * self._done / self._n_rounds)
        line = "#" * full + "." * (WIDTH - full)
        times = f"{seconds:.0f} s passed, {left:.0f} s left "
        text = f"{self._name} [{line}] {self._done}/{self._n_rounds} rounds, {times}"
        print(before + text, end="", flush=True)
