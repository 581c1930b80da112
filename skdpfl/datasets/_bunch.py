"""What every data set here comes as: a Bunch with data, target and silos."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skdpfl._arguments import check_count

Bounds = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Records:
    """The records of a data set before they take the shape the caller asked for."""

    data: Any  # ndarray or DataFrame of shape (n, d)
    target: np.ndarray  # (n,)
    silos: np.ndarray  # (n,)
    feature_names: Sequence[str]
    target_name: str = "target"
    feature_bounds: Bounds | None = None


def check_frame_options(as_frame, silo_column) -> None:
    """A silo column needs a frame to sit in."""
    if silo_column is not None and not as_frame:
        raise ValueError(f"silo_column={silo_column!r} needs as_frame=True")


def to_bunch(
    records: Records, *, as_frame: bool, return_X_y: bool, silo_column: str | None, **extra
):
    """Give the Bunch (or data and target only); `extra` are further entries of the Bunch."""
    check_frame_options(as_frame, silo_column)
    shape = _as_frames if as_frame else _as_arrays
    data, target, silos, frame, bounds = shape(records, silo_column)
    if return_X_y:
        return data, target
    if records.feature_bounds is not None:
        extra["feature_bounds"] = bounds
    return Bunch(
        data=data,
        target=target,
        silos=silos,
        frame=frame,
        feature_names=list(records.feature_names),
        **extra,
    )


def _as_arrays(records: Records, _):
    """Arrays; bounds as two arrays in the order of the columns."""
    bounds = None
    if (known := records.feature_bounds) is not None:
        pairs = np.array([known[name] for name in records.feature_names], dtype=float)
        bounds = (pairs[:, 0], pairs[:, 1])
    return np.asarray(records.data), records.target, records.silos, None, bounds


def _as_frames(records: Records, silo_column):
    """Frames; bounds as a mapping column -> (low, high)."""
    data = pd.DataFrame(records.data, columns=list(records.feature_names))
    target = pd.Series(records.target, index=data.index, name=records.target_name)
    silos = pd.Series(records.silos, index=data.index, name=silo_column or "silo")
    if silos.name in data.columns:
        raise ValueError(f"silo_column={silo_column!r} is already the name of a feature")
    frame = pd.concat([data, silos, target], axis=1)
    if silo_column is not None:
        data = frame.drop(columns=records.target_name)
    bounds = None if records.feature_bounds is None else dict(records.feature_bounds)
    return data, target, silos, frame, bounds


def check_sizes(n_records, n_silos: int) -> np.ndarray:
    """Records per silo from one integer for all or one for each."""
    if np.ndim(n_records) == 0:
        return np.full(n_silos, check_count("n_records", n_records))
    sizes = np.asarray(n_records)
    if sizes.shape != (n_silos,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise ValueError(
            "n_records must be an integer >= 1, or n_silos of them "
            f"(n_silos={n_silos}), got {n_records!r}"
        )
    return sizes.astype(np.int64)
