"""The sum of a cohort's messages in the order of its silos."""

from __future__ import annotations

import numpy as np

#: numbers per product
AT_ONCE = 2**16


class CohortSum:
    """The weighted sum of a cohort's messages; its bits do not depend on their order of arrival.

    The cohort is cut into pieces of consecutive silos, whose lengths depend on its size and the
    width of messages only. A piece is added when all its messages have arrived, in one product in
    double precision, and pieces are added in order. If messages arrive in the order of the silos,
    one piece is held at a time; otherwise pieces wait for missing messages.

    Parameters
    ----------
    cohort : ndarray of shape (n,)
        The silos, increasing.
    weights : ndarray of shape (n,)
        Their weights.
    width : int
        The number of numbers in a message.
    """

    def __init__(self, cohort: np.ndarray, weights: np.ndarray, width: int) -> None:
        self._cohort, self._weights, self._width = cohort, weights, width
        self._rows = max(1, AT_ONCE // width)
        self._came: np.ndarray | None = None
        self._missing = len(cohort)
        #: incomplete pieces with their number of missing messages; sums of pieces that wait
        self._open: dict[int, tuple[np.ndarray, int]] = {}
        self._waiting: dict[int, np.ndarray] = {}
        self._total, self._next = np.zeros(width), 0

    def add(self, silos: np.ndarray, messages: np.ndarray) -> None:
        """Add the messages (n, width) of some of the silos."""
        cohort = self._cohort
        first = self._missing == len(cohort) == len(silos) <= self._rows
        # all of them, in order, in one piece
        if first and (silos is cohort or np.logical_and.reduce(silos == cohort)):
            self._missing = 0
            self._total += self._weights @ np.ascontiguousarray(messages, np.float64)
            return
        places = self._places(silos)
        pieces = places // self._rows
        for piece in np.unique(pieces).tolist():
            mine = pieces == piece
            self._fill(piece, places[mine] - piece * self._rows, messages[mine])

    def result(self) -> np.ndarray:
        """Return the sum; every silo's message must have arrived."""
        if self._missing:
            raise ValueError(f"{self._missing} of the cohort's silos sent no message.")
        return self._total

    def _places(self, silos: np.ndarray) -> np.ndarray:
        """Return the silos' positions in the cohort, and mark them as received."""
        cohort, places = self._cohort, np.searchsorted(self._cohort, silos)
        if self._came is None:
            self._came = np.full(len(cohort), not self._missing)
        came = self._came
        if (places == len(cohort)).any() or (cohort[places] != silos).any():
            raise ValueError("A message came from a silo that is not of the cohort.")
        if came[places].any() or len(np.unique(places)) < len(places):
            raise ValueError("A silo sent two messages in one round.")
        came[places] = True
        self._missing -= len(places)
        return places

    def _fill(self, piece: int, rows: np.ndarray, messages: np.ndarray) -> None:
        """Put messages at their rows of a piece, and add the piece if it is complete."""
        if piece not in self._open:
            n = min(self._rows, len(self._cohort) - piece * self._rows)
            self._open[piece] = np.empty((n, self._width)), n
        table, missing = self._open.pop(piece)
        table[rows] = messages
        if missing > len(rows):
            self._open[piece] = table, missing - len(rows)
        else:
            self._add_piece(piece, table)

    def _add_piece(self, piece: int, messages: np.ndarray) -> None:
        """Add a piece to the sum, and the pieces that waited for it."""
        weights = self._weights[piece * self._rows : (piece + 1) * self._rows]
        self._waiting[piece] = weights @ np.ascontiguousarray(messages, np.float64)
        while self._next in self._waiting:
            self._total += self._waiting.pop(self._next)
            self._next += 1
