"""Where the silos live: their data, their memory and who computes for them.

A back end is one class with :meth:`Federation.start` and :meth:`Federation.round`. The same work
and the same streams give the same messages on every back end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl.algorithms import Algorithm
from skdpfl.losses import Loss
from skdpfl.models import Model
from skdpfl.privacy.plan import PrivacyPlan


@dataclass(frozen=True)
class Work:
    """What a fit does: the same for the server and all silos, without data or random numbers.

    ::

        minimise  sum_i w_i mean_j loss(y_ij, model(params, x_ij)) + alpha / 2 |params|^2

    by ``algorithm``, under ``plan``. It can be pickled and sent to silos elsewhere. Whoever runs it
    brings random streams of their own: the server those of cohorts and of the aggregate's noise,
    each silo those of its batches and its noise.

    Parameters
    ----------
    model : Model
        Raw predictions and clipped gradients.
    loss : Loss
        The loss of a record.
    algorithm : Algorithm
        The server's and the silos' part of a round.
    plan : PrivacyPlan
        Rounds, steps, sampling, weights and noise.
    dtype : dtype
        What the data and the parameters are in.
    alpha : float, default=0.0
        The penalty's strength.

    See Also
    --------
    skdpfl.federation.Silo : One silo, which runs its part of the work.
    """

    model: Model
    loss: Loss
    algorithm: Algorithm
    plan: PrivacyPlan
    dtype: np.dtype
    alpha: float = 0.0

    @property
    def memory_size(self) -> int:
        """The length of the vector that a silo keeps between its rounds."""
        return self.algorithm.memory_size(self.model.size)

    @property
    def penalty(self) -> np.ndarray:
        """What the penalty's gradient multiplies the parameters by, (size,): see `penalty_mask`."""
        return self.alpha * self.model.penalty_mask()


class Federation(ABC):
    """A set of silos that can be asked to take part in rounds.

    Messages may come in any order and in any pieces: the engine adds them up in the order of the
    silos, and the model is the same, bit for bit.
    """

    @property
    @abstractmethod
    def n_silos(self) -> int:
        """How many silos there are."""

    @abstractmethod
    def start(self, work: Work) -> None:
        """Forget earlier fits and get ready for this one."""

    @abstractmethod
    def round(
        self, round: int, shared: Any, cohort: np.ndarray, clip_norm: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Run a round with the silos in ``cohort`` (increasing indices).

        ``clip_norm`` is the norm that whole messages are clipped to (unit "silo").

        Yields
        ------
        silos : ndarray of shape (n,)
            Some of the cohort; each of its silos is yielded once.
        messages : ndarray of shape (n, size + n_extra)
            Their messages as they left the silos, with what the mechanism sends beside them.
            Where it is ``noised_later``, gradients are without the penalty's.
        """
