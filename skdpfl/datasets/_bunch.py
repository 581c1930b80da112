"""What all data sets here share: a Bunch with data, target and silos, and parts of docstrings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skdpfl import _docs
from skdpfl._arguments import check_count


@dataclass(frozen=True)
class Table:
    """The records of a data set before they take the shape the caller asked for."""

    data: Any  # ndarray or DataFrame of shape (n, d)
    target: np.ndarray  # (n,)
    silos: np.ndarray  # (n,)
    feature_names: Sequence[str]
    target_name: str = "target"
    feature_bounds: Mapping[str, tuple[float, float]] | None = None

    def rows(self, which: np.ndarray) -> "Table":
        """Return some of the records."""
        some = {name: getattr(self, name)[which] for name in ("data", "target", "silos")}
        return replace(self, **some)


@dataclass(frozen=True)
class Shape:
    """The shape that the caller asked for: arguments that all functions here have."""

    as_frame: bool
    return_X_y: bool
    silo_column: str | None

    def __post_init__(self) -> None:
        if self.silo_column is not None and not self.as_frame:
            raise ValueError(f"silo_column={self.silo_column!r} needs as_frame=True")

    def bunch(self, table: Table, **extra: Any) -> Any:
        """Return the Bunch with further entries, or data and target only."""
        arrange = self._frames if self.as_frame else self._arrays
        data, target, silos, frame, bounds = arrange(table)
        if self.return_X_y:
            return data, target
        if table.feature_bounds is not None:
            extra["feature_bounds"] = bounds
        names = list(table.feature_names)
        return Bunch(
            data=data, target=target, silos=silos, frame=frame, feature_names=names, **extra
        )

    def _arrays(self, table: Table) -> tuple[Any, ...]:
        """Return arrays; bounds as two arrays in the order of the columns."""
        bounds = None
        if (declared := table.feature_bounds) is not None:
            pairs = np.array([declared[name] for name in table.feature_names], dtype=float)
            bounds = (pairs[:, 0], pairs[:, 1])
        return np.asarray(table.data), table.target, table.silos, None, bounds

    def _frames(self, table: Table) -> tuple[Any, ...]:
        """Return frames; bounds as a mapping column -> (low, high)."""
        data = pd.DataFrame(table.data, columns=list(table.feature_names))
        target = pd.Series(table.target, index=data.index, name=table.target_name)
        silos = pd.Series(table.silos, index=data.index, name=self.silo_column or "silo")
        if silos.name in data.columns:
            raise ValueError(f"silo_column={self.silo_column!r} is already the name of a feature")
        frame = pd.concat([data, silos, target], axis=1)
        if self.silo_column is not None:
            data = frame.drop(columns=table.target_name)
        bounds = None if table.feature_bounds is None else dict(table.feature_bounds)
        return data, target, silos, frame, bounds


def check_sizes(n_records: Any, n_silos: int) -> np.ndarray:
    """Return records per silo from one integer for all or one for each."""
    if np.ndim(n_records) == 0:
        return np.full(n_silos, check_count("n_records", n_records))
    sizes = np.asarray(n_records)
    if sizes.shape != (n_silos,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
        raise ValueError(
            "n_records must be an integer >= 1, or n_silos of them "
            f"(n_silos={n_silos}), got {n_records!r}"
        )
    return sizes.astype(np.int64)


#: decorator of the functions here, for the descriptions of arguments that several of them have
shared_docs = _docs.shared_docs(
    {
        "shape": """
    silo_column : str or None, default=None
        With ``as_frame=True``: put the silo ids into `data` as a column of this name.
    as_frame : bool, default=False
        Return pandas objects.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.""",
        "source": """
    data_home : str, path or None, default=None
        The cache; default ``$SKDPFL_CACHE``, else ``~/scikit_learn_data/skdpfl``.
    download_if_missing : bool, default=True
        If False, raise an OSError rather than download.
    cache : bool, default=True
        Keep what was downloaded.""",
        "encoding": """
    encoding : {"auto", "raw", "ordinal", "onehot"}, default="auto"
        Categories stay as they are (``"raw"``, needs `as_frame`), become their position in the
        documented list, or one column for each category but the first. ``"auto"`` is ``"raw"`` in
        frames and ``"onehot"`` in arrays. No encoding is learnt from the records.""",
        "dealing": """
    split : {"iid", "sorted", "dirichlet", "similarity", "one_class", "pairs"}, default="iid"
        How images are dealt to silos, see :func:`split_into_silos`.
    alpha : float, default=0.5
        For ``split="dirichlet"``.
    similarity : float, default=0.0
        For ``split="similarity"`` and ``"one_class"``.
    records_per_silo : int, default=None
        How many images a silo gets, at most. The others are the test set: the Bunch then has
        `data_test`, `target_test` and, since a silo may end before, `silo_sizes` as well. By
        default all images are dealt.
    unit_norm : bool, default=False
        Rows of Euclidean norm 1 (float32) instead of bytes. A function of each record alone.
    random_state : int, RandomState, Generator or None, default=0
        For the split.""",
    }
)
