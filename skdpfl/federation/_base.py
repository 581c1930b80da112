"""The base class of back ends, which hold the silos' data and memory and compute for them.

A back end is one class with :meth:`Federation.start` and :meth:`Federation.round`. The same work
and the same streams give the same messages on every back end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skdpfl.algorithms import Algorithm, Released
from skdpfl.federation._question import Question
from skdpfl.losses import Loss
from skdpfl.models import Model
from skdpfl.privacy.plan import PrivacyPlan

#: no silos
NOBODY = np.zeros(0, dtype=int)


class Map(Protocol):
    """A public map of features, or of targets."""

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return the mapped values, in their dtype."""


@dataclass(frozen=True)
class Work:
    """The work of a fit: the same for the server and all silos, without data and random numbers.

    ::

        minimise  sum_i w_i mean_j loss(y_ij, model(params, x_ij)) + alpha / 2 |params|^2

    by ``algorithm``, under ``plan``. It can be pickled and sent to remote silos. Random streams are
    not part of it: the server has those of cohorts and of noise on the sum, each silo those of its
    batches and its noise.

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
        The dtype of the data and the parameters.
    alpha : float, default=0.0
        Strength of the penalty.
    features, target : Map, optional
        The maps of features and targets; None: no scaling.
    class_weights : tuple of float, optional
        What losses are multiplied by, for each class code; None: 1.

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
    features: Map | None = None
    target: Map | None = None
    class_weights: tuple[float, ...] | None = None

    @property
    def target_dtype(self) -> np.dtype | None:
        """The dtype of targets: that of the model, None for class codes, which keep theirs."""
        return self.dtype if self.model.n_outputs == 1 else None

    @property
    def memory_size(self) -> int:
        """The size of the vector that a silo keeps between its rounds."""
        return self.algorithm.memory_size(self.model.size)

    @property
    def penalty(self) -> np.ndarray:
        """The factor of the parameters in the penalty's gradient, (size,): see `penalty_mask`."""
        return self.alpha * self.model.penalty_mask()


class Federation(ABC):
    """A set of silos that answer questions before training and then take part in rounds.

    Answers and messages may come in any order and in any pieces: they are added in the order of the
    silos, and the model is the same, bit for bit.
    """

    @property
    @abstractmethod
    def n_silos(self) -> int:
        """The number of silos."""

    def agree(  # noqa: B027
        self, work: Work, before: object, after: object, seed: int | None
    ) -> None:
        """Tell all silos what the fit will release, before any is asked; by default nothing.

        ``work`` has the plan, without maps: its step sizes may change once scales are found, its
        classes and what it releases do not. ``before`` and ``after`` say what is asked beside the
        rounds (scales, the scale of raw predictions), ``seed`` is that of a simulation. An error is
        raised if a silo does not agree, or has none of the work's classes; nobody has paid then.
        """

    def ask(self, question: Question) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ask all silos about their records.

        Yields
        ------
        silos : ndarray of shape (n,)
            Some of the silos; each is yielded once.
        answers : ndarray of shape (n, width)
            Their answers.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot be asked about records ({type(question).__name__}); "
            "give feature_bounds (and target_bounds), or scaling=None for data that are scaled."
        )

    @property
    def may_miss(self) -> bool:
        """Whether a round may end without the messages of some of its cohort."""
        return False

    def absent(self) -> np.ndarray:
        """Return the silos of the last round's cohort whose messages did not come."""
        return NOBODY

    @abstractmethod
    def start(self, work: Work) -> None:
        """Start a fit; forget earlier ones."""

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
            Their messages, with the additional numbers that the mechanism sends. If the mechanism
            is ``noised_later``, gradients are without the penalty's.
        """

    def on_release(self, round: int, released: Released) -> None:  # noqa: B027
        """Receive what a round released, which is public; by default nothing is done with it."""
