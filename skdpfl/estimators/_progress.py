"""Callbacks after each round of a fit, and the progress bar of ``verbose``.

A callback gets the model that the fit would return if it stopped now. That model is covered by the
plan, which is charged in full even if the fit stops early. Only callbacks that require the training
records get them, with a PrivacyLeakWarning.
"""

import copy
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning


class AfterRound:
    """Called by the engine with the round's number and the current model; True stops the fit."""

    def __init__(
        self,
        estimator: Any,
        n_rounds: int,
        attributes: Callable[[np.ndarray], dict[str, Any]],
        records: Callable[[], tuple[np.ndarray, np.ndarray]],
        advance: Callable[[], None],
    ) -> None:
        self._estimator, self._attributes = estimator, attributes
        self._data, self._warned, self._advance = records, False, advance
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            context = estimator._init_callback_context(max_subtasks=n_rounds)
            self._context = context if hasattr(estimator, "_skl_callbacks") else None
            context.call_on_fit_task_begin(estimator=estimator)

    def __call__(self, r: int, params: np.ndarray) -> bool:
        """Call all callbacks; return whether one of them stops the fit."""
        self._advance()
        if (watch := getattr(self._estimator, "_watch", None)) is not None:
            watch(self._as_fitted(params))
        if self._context is None:
            return False
        round_ = self._context.subcontext(task_name="round")
        round_.call_on_fit_task_begin(estimator=self._estimator)
        return round_.call_on_fit_task_end(
            estimator=self._estimator,
            X=lambda: self._records(0),
            y=lambda: self._records(1),
            reconstruction_attributes=lambda: self._attributes(params),
        )

    def _as_fitted(self, params: np.ndarray) -> Any:
        twin = copy.copy(self._estimator)
        vars(twin).update(self._attributes(params))
        return twin

    def end(self) -> None:
        """End the fit's task."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)

    def _records(self, which: int) -> np.ndarray:
        if not self._warned:
            self._warned = True
            warn(
                "A callback reads the training records after each round; the privacy cost does "
                "not cover what it shows. Score on other data (ConvergenceDisplay takes X_test, "
                "y_test).",
                PrivacyLeakWarning,
            )
        return self._data()[which]


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
    """A progress bar in one line: updated on a terminal, otherwise written once at the end."""

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
