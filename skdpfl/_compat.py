"""What older versions of scikit-learn lack: callbacks, which came with 1.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in: no callbacks can be set."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[misc]
        """Return the method as it is."""
        return method


#: attributes that scikit-learn keeps on an estimator while its callbacks run
CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")

__all__ = ["CALLBACK_STATE", "CallbackSupportMixin", "with_callbacks"]
