"""Support for several versions of scikit-learn, for polars and pyarrow tables, and BLAS threads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks

    _SEES_POLARS = True
except ImportError:  # scikit-learn < 1.9
    _SEES_POLARS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement where scikit-learn has no callbacks: an empty mixin."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Replacement where scikit-learn has no callbacks: return the method unchanged."""
        return method


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # lists the loaded libraries once: 0.5 ms


def one_blas_thread() -> Any:
    """Limit BLAS to one thread, so that results do not depend on the number of cores."""
    return _controller().limit(limits=1, user_api="blas")


def with_names(X: Any) -> Any:
    """Return X as a frame whose column names scikit-learn sees."""
    if _SEES_POLARS or isinstance(X, pd.DataFrame) or not hasattr(X, "columns"):
        return X
    return pd.DataFrame(X.to_numpy(), columns=list(X.columns))


def as_frame(X: Any) -> Any:
    """Return a pyarrow table as a pandas frame, all else as it is; raise for names given twice."""
    library = type(X).__module__.partition(".")[0]
    if library == "polars" and hasattr(X, "collect"):
        raise ValueError("A LazyFrame has no rows yet: give frame.collect().")
    is_arrow = library == "pyarrow" and hasattr(X, "to_pandas")
    columns = X.columns if isinstance(X, pd.DataFrame) else X.schema.names if is_arrow else ()
    names = pd.Index(columns)
    if not names.is_unique:
        twice = names[names.duplicated()][0]
        raise ValueError(f"X has several columns named {twice!r}: rename them.")
    if not is_arrow:
        return X
    # gaps would make objects of flags; columns are not copied
    flags = {str(kind): pd.BooleanDtype() for kind in X.schema.types if str(kind) == "bool"}
    return X.to_pandas(
        split_blocks=True, date_as_object=False, types_mapper=lambda kind: flags.get(str(kind))
    )


#: attributes that scikit-learn keeps on an estimator while its callbacks run
_CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


@contextmanager
def fitting(estimator: Any) -> Iterator[None]:
    """Restore all attributes if the block raises, so that no estimator is left half fitted.

    NumPy's floating-point warnings and errors are off inside: they could reveal a single record.
    """
    before = dict(vars(estimator))
    try:
        with np.errstate(all="ignore"):
            yield
    except BaseException:
        now = vars(estimator)
        callbacks = {name: now[name] for name in _CALLBACK_STATE if name in now}
        now.clear()
        now.update(before | callbacks)  # scikit-learn tears its callbacks down afterwards
        raise
