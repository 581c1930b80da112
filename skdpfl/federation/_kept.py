"""The state of silos between rounds; little memory is used for silos that never took part."""

from __future__ import annotations

import numpy as np


class Memory:
    """A table with a vector for each silo, zero until written."""

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
        written = slots >= 0
        values[written] = self._rows[slots[written]]
        return values

    def write(self, silos: np.ndarray, values: np.ndarray) -> None:
        """Set the vectors of ``silos``."""
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


class Kept:
    """The state of many silos in one fit: memory, deals, and the rounds that they answered."""

    def __init__(self, n_silos: int, size: int, dtype: np.dtype) -> None:
        self.memory = Memory(n_silos, size, dtype)
        #: of each silo that was dealt (sampling "disjoint"), the records of each part
        self.deals: dict[int, np.ndarray] = {}
        #: of each silo, the first round that it may still answer, and the number it answered
        self.next_round = np.zeros(n_silos, np.int32)
        self.n_answered = np.zeros(n_silos, np.int32)

    def answer(self, silos: np.ndarray, round: int) -> None:
        """Record that ``silos`` answer a round; raise unless it is later than their last one.

        A second answer would be a second release, and memory would be updated twice.
        """
        # increasing indices: all silos, if as many
        who = silos if len(silos) < len(self.next_round) else slice(None)
        if np.maximum.reduce(self.next_round[who], initial=0) > round:
            raise ValueError(f"Silos answer each round once and in order; asked again for {round}.")
        self.next_round[who] = round + 1
        self.n_answered[who] += 1
