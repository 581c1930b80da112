"""The surroundings of a fit: all or nothing, and the same on any number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

from skdpfl._compat import CALLBACK_STATE


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Put all attributes back if an error leaves the block: never a half-fitted estimator."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        now = vars(estimator)
        callbacks = {name: now[name] for name in CALLBACK_STATE if name in now}
        now.clear()
        now.update(before | callbacks)  # scikit-learn tears its callbacks down afterwards
        raise


_CONTROLLER: ThreadpoolController | None = None


def one_blas_thread() -> Any:
    """Limit BLAS to one thread: silos are the parallelism, and results do not depend on cores."""
    global _CONTROLLER
    if _CONTROLLER is None:
        _CONTROLLER = ThreadpoolController()  # lists the loaded libraries once: 0.5 ms
    return _CONTROLLER.limit(limits=1, user_api="blas")
