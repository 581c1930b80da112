"""What scikit-learn lacks: callbacks and polars names (1.8), silo columns of pyarrow tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    _SEES_POLARS = True
except ImportError:  # scikit-learn < 1.9
    _SEES_POLARS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in: no callbacks can be set."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


def with_names(X: Any) -> Any:
    """Return X as a frame whose column names scikit-learn sees."""
    if _SEES_POLARS or isinstance(X, pd.DataFrame) or not hasattr(X, "columns"):
        return X
    return pd.DataFrame(X.to_numpy(), columns=list(X.columns))


def as_frame(X: Any) -> Any:
    """Return a pyarrow table as a pandas frame; anything else as it is."""
    is_arrow = type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "to_pandas")
    return X.to_pandas(split_blocks=True) if is_arrow else X  # columns are not copied


#: attributes that scikit-learn keeps on an estimator while its callbacks run
CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")

__all__ = ["CALLBACK_STATE", "CallbackSupportMixin", "as_frame", "with_callbacks", "with_names"]
