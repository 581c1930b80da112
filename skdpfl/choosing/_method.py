"""How a family of estimators trains: its algorithm, and what its "auto" means."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from skdpfl.algorithms import Algorithm, FedAvg, MinibatchSGD
from skdpfl.choosing._committed import Committed, Training, smoothed
from skdpfl.choosing._facts import Settings
from skdpfl.choosing._request import Request
from skdpfl.choosing._whole_silos import warn_of_noise
from skdpfl.privacy.mechanisms import Mechanism, mechanism_for


@dataclass(frozen=True)
class Method:
    """Base class; a method holds what a family has as parameters of its own.

    Subclasses must implement :meth:`algorithm`.
    """

    #: where the noise is; None: what unit and trust stand for
    given_mechanism: Mechanism | None = field(default=None, kw_only=True)
    #: whether the algorithm brings its steps: ``learning_rate`` is not for it
    has_own_step: ClassVar[bool] = False

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return the algorithm that runs with these settings."""
        raise NotImplementedError

    def local_steps(self, request: Request) -> int:
        """Return the number of local steps that "auto" means."""
        return 1

    def n_rounds(self, request: Request, default: int) -> int:
        """Return the number of rounds that "auto" means."""
        return default

    def has_momentum(self, request: Request) -> bool:
        """Whether the server's steps get momentum that was not asked for."""
        return False

    def mechanism(self, request: Request) -> Mechanism:
        """Return where the noise is."""
        return self.given_mechanism or mechanism_for(
            request.guarantee.unit, request.guarantee.trust
        )

    def training(self, algorithm: Algorithm, committed: Committed) -> Training:
        """Return what runs, now that the plan stands: its noise and the scales may set constants.

        Nothing here may change what is released: the plan has been priced.
        """
        warn_of_noise(committed)
        loss = smoothed(committed.request.loss, committed)
        return Training(algorithm, loss, committed.settings)


@dataclass(frozen=True)
class Averaging(Method):
    """Federated averaging; with one private gradient a round it is minibatch SGD."""

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return FedAvg, or what is the same and has its momentum at the server."""
        step, server = settings.learning_rate, settings.server_step
        if set(settings.steps) == {1} and request.guarantee.unit == "record":
            return MinibatchSGD(step * server, settings.momentum)
        return FedAvg(step, settings.steps, server, settings.momentum)


@dataclass(frozen=True)
class GivenAlgorithm(Method):
    """An algorithm object: it declares its gradients, and the plan charges them."""

    given: Algorithm
    has_own_step: ClassVar[bool] = True

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return what was given."""
        return self.given

    def training(self, algorithm: Algorithm, committed: Committed) -> Training:
        """Return what runs; its step is that of the algorithm, None if it has none."""
        training = super().training(algorithm, committed)
        rate = getattr(algorithm, "learning_rate", None)
        settings = replace(training.settings, learning_rate=rate)  # type: ignore[arg-type]
        return training._replace(settings=settings)
