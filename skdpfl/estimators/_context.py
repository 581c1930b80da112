"""One thread for BLAS, and callbacks of a fit.

A callback gets the model that the fit would return if it stopped now. That model is covered by the
plan, which is charged in full even if the fit stops early. Only callbacks that require the training
records get them, with a PrivacyLeakWarning.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning

_CONTROLLER: ThreadpoolController | None = None


def one_blas_thread() -> Any:
    """Limit BLAS to one thread: threads are for silos, and results must not depend on cores."""
    global _CONTROLLER
    if _CONTROLLER is None:
        _CONTROLLER = ThreadpoolController()  # lists the loaded libraries once: 0.5 ms
    return _CONTROLLER.limit(limits=1, user_api="blas")


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
                "A callback reads the training records after each round; what it shows of them is "
                "not paid for. Score on other data (ConvergenceDisplay takes X_test, y_test).",
                PrivacyLeakWarning,
            )
        return self._data()[which]
