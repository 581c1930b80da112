"""The data of an audit's fits: canaries among the user's records, or in silos of given sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from skdpfl._arguments import check_count, refuse_sparse
from skdpfl._input_errors import advising
from skdpfl.federation import Schema, SiloData
from skdpfl.inspection.audits.canaries import MINUS, PLUS, SILENT
from skdpfl.inspection.audits.watch import Stage
from skdpfl.silos import read_silos

#: the size of the features of canaries: a record of norm far above any clip norm's reach
LONG = 1e3


@dataclass(frozen=True, eq=False)
class Base:
    """Records silo by silo: ``X``, coded targets ``y``, where silos start, and their ids."""

    X: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    ids: Sequence[Any]
    #: whether the records are the user's; others have gradients of zero
    given: bool
    names: Sequence[str] | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The silos' numbers of records."""
        return np.diff(self.starts)

    @property
    def schema(self) -> Schema:
        """What is public."""
        sizes = dict(zip(self.ids, self.sizes.tolist(), strict=True))
        return Schema(sizes, self.X.shape[1], feature_names=self.names)

    def stage(
        self,
        unit: str,
        coins: dict[int, list[bool]],
        *,
        zero_out: bool,
        aggregate: bool,
        turns: bool,
        loud_others: bool = False,
    ) -> Stage:
        """Return a fit's stage: ``coins`` are those of each attacked silo's canaries.

        ``loud_others``: records that are not the user's have the canary's gradient, not zero. A
        message that points elsewhere is hidden least among such.
        """
        X, y = self.X.copy(), self.y.astype(float)
        asked, n_features = self.X.copy(), self.X.shape[1]
        absent, rows = np.zeros(len(self.ids), bool), self._rows(max(map(len, coins.values())))
        if not self.given:
            y[:] = PLUS if loud_others else SILENT
            X[:] = rows[0] if loud_others else X
        for silo, flips in coins.items():
            start, stop = self.starts[silo], self.starts[silo + 1]
            if unit == "silo":
                absent[silo] = zero_out and not flips[0]
                X[start:stop], y[start:stop] = rows[0], PLUS if flips[0] else MINUS
                continue
            for j, flip in enumerate(flips):
                X[start + j] = rows[j]
                y[start + j] = PLUS if flip else SILENT if zero_out else MINUS
                asked[start + j] = (2 * flip - (not zero_out or flip)) * LONG * LONG
        assert X.shape[1] == n_features
        plain = SiloData(asked, self.y, self.starts)
        silo = next(iter(coins))
        return Stage(plain, SiloData(X, y, self.starts), rows, absent, aggregate, turns, silo)

    def _rows(self, m: int) -> np.ndarray:
        """Return the features (m, n_features) of canaries, at right angles."""
        if not self.given:
            return np.eye(m, self.X.shape[1]) * LONG
        # where the given records vary least
        axes = np.linalg.svd(self.X - self.X.mean(axis=0), full_matrices=True)[2]
        return axes[::-1][:m] * LONG * max(1.0, float(np.abs(self.X).max()))


def table_of(X: Any, y: Any = None) -> np.ndarray:
    """Return the user's features as numbers, or say what is wrong with them."""
    refuse_sparse(X)
    with advising(X, y):
        table: np.ndarray = check_array(X, dtype=np.float64, input_name="X")
    return table


def like(X: Any, table: np.ndarray) -> Any:
    """Return a table as a frame with the names of X, if X has some."""
    named = isinstance(X, pd.DataFrame)
    return pd.DataFrame(table, index=X.index, columns=X.columns) if named else table


def base_of_sizes(silo_sizes: Any, n_features: Any) -> Base:
    """Return silos of given sizes, whose records say nothing."""
    if silo_sizes is None or n_features is None:
        raise ValueError(
            "An audit needs silo_sizes and n_features, for worst-case records; or X, y and silos."
        )
    named = pd.Series(silo_sizes, dtype=object)
    sizes = np.array([check_count(f"silo_sizes[{silo!r}]", n) for silo, n in named.items()])
    width = check_count("n_features", n_features)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n = int(starts[-1])
    return Base(np.zeros((n, width)), np.zeros(n), starts, named.index.tolist(), False)


def base_of_data(X: Any, y: Any, silos: Any, classes: np.ndarray | None) -> Base:
    """Return the user's records, silo by silo."""
    table, target = table_of(X, y), np.asarray(y)
    read = read_silos(silos, len(table), X)
    codes = target.astype(float) if classes is None else np.searchsorted(classes, target)
    if classes is None and np.abs(codes).max() >= SILENT:
        raise ValueError(f"An audit needs targets below {SILENT:g}; scale y, and target_bounds.")
    order = np.argsort(read.codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(read.sizes)])
    ids, names = read.ids.tolist(), X.columns.tolist() if isinstance(X, pd.DataFrame) else None
    return Base(table[order], codes[order].astype(float), starts, ids, True, names)
