"""What silos keep between rounds; nothing is allocated for silos that never took part."""

from __future__ import annotations

import numpy as np


class Memory:
    """A table of vectors, one a silo, zero until written."""

    def __init__(self, n_silos: int, size: int, dtype: np.dtype) -> None:
        self._slot = np.full(n_silos, -1, dtype=np.int64)
        self._rows = np.zeros((0, size), dtype=dtype)
        self._used = 0
        self.size = size

    def read(self, silos: np.ndarray) -> np.ndarray:
        """Return the vectors of ``silos``, shape (n, size)."""
        if not self.size:
            return np.zeros((len(silos), 0), dtype=self._rows.dtype)
        slots = self._slot[silos]
        values = np.zeros((len(silos), self.size), dtype=self._rows.dtype)
        known = slots >= 0
        values[known] = self._rows[slots[known]]
        return values

    def write(self, silos: np.ndarray, values: np.ndarray) -> None:
        """Keep ``values`` for ``silos``."""
        if not self.size:
            return
        new = silos[self._slot[silos] < 0]
        self._slot[new] = np.arange(self._used, self._used + len(new))
        self._used += len(new)
        if self._used > len(self._rows):
            grown = min(len(self._slot), max(self._used, 2 * len(self._rows)))
            rows = np.zeros((grown, self.size), dtype=self._rows.dtype)
            rows[: len(self._rows)] = self._rows
            self._rows = rows
        self._rows[self._slot[silos]] = values
