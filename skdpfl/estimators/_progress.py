"""Callbacks after each round of a fit, and the lines of ``verbose``.

A callback gets the model that the fit would return if it stopped now. That model is covered by the
plan, which is charged in full even if the fit stops early. Only callbacks that require the training
records get them, with a PrivacyLeakWarning.
"""

import copy
import time
from collections.abc import Callable
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
    ) -> None:
        self._estimator, self._attributes = estimator, attributes
        self._data, self._warned = records, False
        self._lines = (
            PrintedRounds(type(estimator).__name__, n_rounds) if estimator.verbose else None
        )
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            context = estimator._init_callback_context(max_subtasks=n_rounds)
            self._context = context if hasattr(estimator, "_skl_callbacks") else None
            context.call_on_fit_task_begin(estimator=estimator)

    def __call__(self, r: int, params: np.ndarray) -> bool:
        """Call all callbacks; return whether one of them stops the fit."""
        if self._lines is not None:
            self._lines(r + 1)
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


#: lines that a fit prints, at most
_LINES = 10


class PrintedRounds:
    """Prints how far a fit is, at about ten rounds; it may go on after rounds of an earlier run."""

    def __init__(self, name: str, n_rounds: int) -> None:
        self._name, self._n_rounds, self._start = name, n_rounds, time.perf_counter()
        self._before: int | None = None

    def __call__(self, done: int) -> None:
        """Print a line if a further tenth of the rounds is done."""
        self._before = done - 1 if self._before is None else self._before
        tenth, before = (k * _LINES // self._n_rounds for k in (done, done - 1))
        if tenth > before:
            seconds = time.perf_counter() - self._start
            left = seconds * (self._n_rounds - done) / (done - self._before)
            times = f"{seconds:.0f} s passed, {left:.0f} s left"
            print(f"{self._name}: {done}/{self._n_rounds} rounds, {times}", flush=True)
