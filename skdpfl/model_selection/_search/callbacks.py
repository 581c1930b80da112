"""Callbacks of a search: called for every run if all runs are public, else for none.

The number of runs of a secret search, their times and results have no privacy budget; a callback
(for example a progress bar) would reveal them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skdpfl._warnings import warn


class Runs:
    """Calls the callbacks of a search (from scikit-learn 1.9 on) for its runs.

    ``count`` is the number of runs; None if it is secret.
    """

    def __init__(self, search: Any, count: int | None) -> None:
        self._search, self._secret = search, count is None
        self._context = None
        if hasattr(search, "_init_callback_context"):
            self._context = search._init_callback_context(max_subtasks=count or 0)
            self._context.call_on_fit_task_begin(estimator=search)

    def warn_of_hidden_callbacks(self, model: Any) -> None:
        """Warn of callbacks that will not be called."""
        if self._secret and any(True for _ in callback_attributes(model)):
            warn(
                'Callbacks of the estimator are not called in a search with trust="server": they '
                "would show the number of runs and the models that lost, which is not paid for."
            )

    @contextmanager
    def run(self, model: Any) -> Iterator[None]:
        """Surround one run's fit, so that its rounds are counted under it."""
        if self._secret:
            remove_callbacks(model)
        if self._secret or self._context is None:
            yield
            return
        context = self._context.subcontext(task_name="candidate")
        with context.propagate_callback_context(model):
            context.call_on_fit_task_begin(estimator=self._search)
            yield
            context.call_on_fit_task_end(estimator=self._search)

    def end(self) -> None:
        """End the search's task."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._search)


def callback_attributes(model: Any) -> Iterator[tuple[Any, str]]:
    """Yield the parts of a model that callbacks are set on, and the attribute that holds them."""
    for part in (model, *model.get_params(deep=True).values()):
        for name in ("_skl_callbacks", "_watch"):
            if name in getattr(part, "__dict__", {}):
                yield part, name


def remove_callbacks(model: Any) -> None:
    """Remove the callbacks of a model and its parts, which would reveal a secret run."""
    for part, name in list(callback_attributes(model)):
        delattr(part, name)


@contextmanager
def warnings_off() -> Iterator[None]:
    """Suppress warnings, which would reveal information about a secret run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
