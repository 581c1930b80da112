"""Silos of a fit that goes on after its process was killed, and the noise that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from skdpfl.algorithms import Released
from skdpfl.federation import Federation, LocalFederation, Question, Silo, Work
from skdpfl.privacy.randomness.streams import Shape, Streams
from skdpfl.privacy.randomness.words import Silos

#: the silos' answers to a question: those of the first time
Ask = Callable[[Federation, Question], list[tuple[Any, Any]]]


class KeptNoise(Streams):
    """Streams whose blocks of units are drawn once, also if the fit goes on in another process.

    ``keep`` puts those in ``drawn`` on disk, before they are used.
    """

    def __init__(
        self, streams: Streams, drawn: dict[str, np.ndarray], keep: Callable[[], None]
    ) -> None:
        super().__init__(streams._source)
        self._drawn, self._keep = drawn, keep

    def units_block(
        self, purpose: str, silos: Silos, round: int, shape: Shape, dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        name = f"{purpose} {round}"
        if name not in self._drawn:
            self._drawn[name] = super().units_block(purpose, silos, round, shape, dtype)
            self._keep()
        return self._drawn[name].copy()


class Resumable(Federation):
    """Silos in this process that can be saved and started again."""

    def __init__(self, inner: LocalFederation, ask: Ask) -> None:
        self._inner, self._ask = inner, ask

    @property
    def n_silos(self) -> int:
        return self._inner.n_silos

    @property
    def data(self) -> Any:
        """The records."""
        return self._inner.data

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from self._ask(self._inner, question)

    def start(self, work: Work) -> None:
        self._inner.start(work)

    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from self._inner.round(round, shared, cohort, clip_norm)

    def on_release(self, round: int, released: Released) -> None:
        self._inner.on_release(round, released)

    def save(self) -> tuple[dict[str, Any], ...]:
        """Return the states of silos that took part."""
        took_part = np.flatnonzero(self._inner.kept.n_answered).tolist()
        return tuple(Silo(self._inner, i).save() for i in took_part)

    def resume(self, work: Work, silos: tuple[dict[str, Any], ...]) -> None:
        """Start, and go on from saved states."""
        self._inner.start(work)
        for saved in silos:
            Silo(self._inner, int(saved["index"])).restore(saved)
