"""What silos are asked about their records before the rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from skdpfl.federation._data import SiloData
from skdpfl.privacy.randomness.streams import Streams


class Question(ABC):
    """A question that each silo answers with some numbers, by itself noised or exact.

    It is public and can be pickled. ``purpose`` and ``number`` name the stream that a silo draws
    the noise of its answer from, so it answers each number of a purpose once. Whoever asks has paid
    for the answers. An answer is a function of the silo's own records, to the last bit.
    """

    purpose: str
    number: int

    @abstractmethod
    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Answer for the silos whose records are in ``data``.

        Parameters
        ----------
        data : SiloData
            Records as they are, before any scaling; silos that are elsewhere have none.
        streams : Streams
            The silos' random streams.

        Yields
        ------
        silos : ndarray of shape (n,)
            Some of the silos, increasing; each once.
        answers : ndarray of shape (n, width)
            Their answers.
        """
