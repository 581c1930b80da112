"""Survival times as users give them: events and times, the horizon, and intervals of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdpfl._arguments import check_count, naming_no_values

#: intervals of a horizon, beyond which a hazard is noise
MOST_INTERVALS = 1_000
#: pairs that are compared at once
_PAIRS = 2**22
_SHAPE = (
    "y must have an event (True or False) and a time for each record: a structured array with one "
    "bool and one number, as scikit-survival's Surv makes, or a frame with one bool and one number "
    "column"
)


def read_survival(y: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return events (n,) and times (n,); raise if they are missing or invalid.

    The errors quote no value.
    """
    columns = _columns(y)
    events = [name for name, values in columns.items() if _is_flag(values)]
    times = [name for name in columns if name not in events]
    if len(columns) != 2 or len(events) != 1:
        kinds = {str(name): str(values.dtype) for name, values in columns.items()}
        raise ValueError(f"{_SHAPE}; got {kinds or type(y).__name__}.")
    event, time = columns[events[0]], columns[times[0]]
    if event.isna().any():
        raise ValueError(f"The event, column {events[0]!r} of y, is missing in some records.")
    with naming_no_values(time, "time"):
        if time.dtype.kind not in "iuf" and not pd.api.types.is_numeric_dtype(time.dtype):
            raise ValueError(f"The time, column {times[0]!r} of y, must be a number; count days.")
        numbers = time.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all():
        raise ValueError(f"The time, column {times[0]!r} of y, is missing or not finite somewhere.")
    if (numbers < 0).any():
        raise ValueError(f"The time, column {times[0]!r} of y, must be at least 0; some are below.")
    return event.to_numpy(bool), numbers


def _columns(y: Any) -> dict[Any, pd.Series]:
    """Return the columns of a structured array or a frame; none of anything else."""
    if hasattr(y, "columns") and hasattr(y, "to_pandas") and not isinstance(y, pd.DataFrame):
        y = y.to_pandas()
    if isinstance(y, pd.DataFrame):
        return {name: y[name] for name in y.columns} if y.columns.is_unique else {}
    values = np.asarray(y)
    if values.dtype.names is None or values.ndim != 1:
        return {}
    return {name: pd.Series(values[name]) for name in values.dtype.names}


def _is_flag(values: pd.Series) -> bool:
    return bool(pd.api.types.is_bool_dtype(values.dtype))


def refuse_survival(estimator: Any, where: str) -> None:
    """Raise for a survival model where only labels and numbers are supported."""
    if hasattr(estimator, "predict_survival_function"):
        raise ValueError(
            f"{where} takes classifiers and regressors; {type(estimator).__name__} has events and "
            "times, which are not supported there yet."
        )


def read_horizon(target_bounds: Any) -> float:
    """Return the horizon of target_bounds=(0, horizon); raise if they are anything else."""
    words = "target_bounds must be (0, horizon), the public time up to which events are read"
    try:
        low, high = (float(each) for each in target_bounds)
    except (TypeError, ValueError):
        raise ValueError(f"{words}; got {target_bounds!r}.") from None
    if low != 0 or not 0 < high < np.inf:
        raise ValueError(f"{words}; got {target_bounds!r}.")
    return high


def read_intervals(breaks: Any, horizon: float) -> NDArray[np.float64]:
    """Return the inner ends of the intervals: of equal ones, or as they are listed."""
    if np.ndim(breaks) == 0:
        n = check_count("breaks", breaks, words=" (or a list of times within target_bounds)")
        if n > MOST_INTERVALS:
            raise ValueError(f"breaks must be at most {MOST_INTERVALS}; got {breaks!r}.")
        return horizon * np.arange(1, n) / n
    try:
        cuts = np.asarray(breaks, np.float64)
    except (TypeError, ValueError):
        cuts = np.full(1, np.nan)
    inner = cuts.ndim == 1 and bool((np.diff([0.0, *cuts, horizon]) > 0).all())
    if not inner or len(cuts) >= MOST_INTERVALS:
        raise ValueError(
            "breaks must be a number of intervals, or a list of increasing times within "
            f"target_bounds=(0, {horizon:g}), without its ends; got {breaks!r}."
        )
    return cuts


def concordance(event: NDArray, time: NDArray, risk: NDArray) -> float:
    """Return Harrell's C: over comparable pairs, the share with risks in the order of events.

    A pair is comparable if one has an event before the other's time, or at the time at which the
    other is censored. Equal risks count one half; NaN without such a pair.
    """
    at = np.flatnonzero(event)
    ordered = comparable = 0.0
    step = max(1, _PAIRS // max(1, len(time)))
    for i in range(0, len(at), step):
        some = at[i : i + step, None]
        after = (time[some] < time) | ((time[some] == time) & ~event)
        higher, equal = risk[some] > risk, risk[some] == risk
        comparable += float(after.sum())
        ordered += float((after & higher).sum()) + float((after & equal).sum()) / 2
    return ordered / comparable if comparable else float("nan")
