"""Questions to the silos about their records, before training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from skdpfl.federation._data import SiloData
from skdpfl.privacy.randomness.streams import Streams


class Question(ABC):
    """A question that each silo answers with some numbers, with noise or exactly.

    It is public and can be pickled. ``purpose`` and ``number`` name the random stream of the
    answer's noise, so that a silo answers each number of a purpose once. The plan charges the
    answers. An answer is a function of the silo's own records, to the last bit.
    """

    purpose: str
    number: int

    @property
    def asked(self) -> object:
        """What silos elsewhere need to know beside the plans that they agreed to."""
        raise ValueError(
            f"{type(self).__name__} asks for exact numbers (epsilon=inf), which silos elsewhere do "
            "not give out. Give a finite epsilon, or feature_bounds (and target_bounds), or "
            "scaling=None for data that are scaled."
        )

    @abstractmethod
    def answers(self, data: SiloData, streams: Streams) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Answer for the silos whose records are in ``data``.

        Parameters
        ----------
        data : SiloData
            Unscaled records; remote silos have none here.
        streams : Streams
            The silos' random streams.

        Yields
        ------
        silos : ndarray of shape (n,)
            Some of the silos, increasing; each once.
        answers : ndarray of shape (n, width)
            Their answers.
        """
