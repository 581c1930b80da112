"""The base class of back ends, the work of a fit, and public facts of the data.

A back end holds the silos' data and memory and computes for them. It is one class with
:meth:`Federation.start` and :meth:`Federation.round`. The same work and the same streams give the
same messages on every back end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from skdpfl.algorithms import Algorithm, Released
from skdpfl.encoding import Encoding
from skdpfl.federation._sums import BoundedSum, Question, SumPlan
from skdpfl.losses import Loss, record_by_record
from skdpfl.models import Model, one_by_one
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams

#: no silos
NOBODY = np.zeros(0, dtype=int)


class RecordMap(Protocol):
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
    features, target : RecordMap, optional
        The maps of features and targets; None: no scaling.
    class_weights : tuple of float, optional
        The weight of each class, by code; None: 1.

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
    features: RecordMap | None = None
    target: RecordMap | None = None
    class_weights: tuple[float, ...] | None = None

    def apart(self) -> Work:
        """Return the work with a model and a loss that cannot mix records."""
        model, loss = one_by_one(self.model), record_by_record(self.loss)
        return replace(self, model=model, loss=loss)

    @property
    def target_dtype(self) -> np.dtype | None:
        """The dtype of targets: that of the model; None for class codes, whose dtype is kept."""
        return self.dtype if self.model.n_outputs == 1 else None

    @property
    def memory_size(self) -> int:
        """The size of the vector that a silo keeps between its rounds."""
        return self.algorithm.memory_size(self.model.size)

    @cached_property
    def penalty(self) -> np.ndarray:
        """The factor of the parameters in the penalty's gradient, (size,): see `penalty_mask`."""
        return self.alpha * self.model.penalty_mask()


class Federation(ABC):
    """A set of silos, which answer requests for sums and take part in rounds.

    Answers and messages may arrive in any order and grouping: they are added in the order of the
    silos, so that the model is the same, bit for bit.
    """

    #: the public time up to which events are read, in a fit of survival times
    horizon: float | None = None
    #: whether records have exposures, in a fit of rates
    has_exposure = False
    #: whether silos hold frames, which they encode themselves
    reads_frames = False
    #: how frames are encoded before a question is answered; None: tables of numbers, or of the
    #: columns whose levels or ranges are not known yet
    encoding: Encoding | None = None

    @property
    @abstractmethod
    def n_silos(self) -> int:
        """The number of silos."""

    def agree(  # noqa: B027
        self, work: Work, sums: Sequence[SumPlan], seed: int | None
    ) -> None:
        """Inform all silos of what the fit will release, before any release; by default a no-op.

        ``work`` has the plan, without maps: step sizes may still change once scales are found, but
        not its classes and releases. ``sums`` are released besides the rounds (scales, the scale of
        raw predictions); ``seed`` is that of a simulation. An error is raised, before any silo has
        paid, if a silo does not agree, or does not have the work's classes.
        """

    def agree_on_sums(  # noqa: B027
        self, sums: Sequence[SumPlan], first: BoundedSum | None, delta: float, seed: int | None
    ) -> None:
        """Inform all silos of the sums that they will be asked for outside of fits.

        ``first`` is the first of them, if it is known; ``delta`` is that of their price.
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
            f"{type(self).__name__} cannot compute sums over records ({type(question).__name__}); "
            "give feature_bounds (and target_bounds), or scaling=None for scaled data."
        )

    def own_streams(self) -> Streams | None:
        """Return the server's random streams of a fit without a seed, if they are stored."""
        return None

    @property
    def may_miss(self) -> bool:
        """Whether a round may end without the messages of some of its cohort."""
        return False

    def absent(self) -> np.ndarray:
        """Return the silos that are missing in the last round's mean, or in the last sum."""
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
            is ``noised_later``, the gradient of the penalty is not included.
        """

    def gradients(self) -> Callable[[int, np.ndarray], np.ndarray] | None:
        """Return what gives all silos' messages (n_silos, size) of a round for a broadcast.

        None unless in each round each silo sends one gradient as it is, and all are here.
        """
        return None

    def end(self) -> None:  # noqa: B027
        """Inform all silos that the fit is complete; by default a no-op."""

    def on_release(self, round: int, released: Released) -> None:  # noqa: B027
        """Receive what a round released, which is public; by default a no-op."""


@dataclass(frozen=True)
class Schema:
    """Public facts of the silos' data, known before a fit.

    Parameters
    ----------
    silo_sizes : mapping
        The name of each silo and its number of records (of persons, with ``unit="person"``), in the
        order of the federation. With ``unit="silo"`` the numbers are not used.
    n_features : int
        The number of features.
    feature_names : sequence of str, optional
        The names of the features.
    dtype : {"float64", "float32", "object"}, default="float64"
        The dtype that silos compute in. "object": tables with text and missing values, for imputers
        and encoders.
    indicators : sequence of bool, optional
        Which features are known to be 0 or 1 (columns of dtype bool); they need no bounds.
    exposure : bool, default=False
        Whether the silos' records have exposures (``SiloRecords(exposure=)``), as in
        ``fit(..., exposure=)``: for models of rates.
    columns : mapping, optional
        The columns of silos' frames, in their order, that hold not only numbers: each one's range,
        levels or kind, as in an estimator's ``feature_bounds``, which may give the ranges of
        "number" and "date". Silos give the same to
        :class:`skdpfl.remote.SiloRecords`. Names and number of features follow.

    See Also
    --------
    skdpfl.federation.Federation : The silos.
    """

    silo_sizes: Mapping[object, int]
    n_features: int = 0
    feature_names: Sequence[str] | None = None
    dtype: Literal["float64", "float32", "object"] = "float64"
    indicators: Sequence[bool] | None = None
    exposure: bool = False
    columns: Mapping[Any, Any] | None = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "n_features", len(self.columns))
            object.__setattr__(self, "feature_names", list(self.columns))
        elif not self.n_features:
            raise ValueError("Give n_features, or the columns of silos' frames.")
