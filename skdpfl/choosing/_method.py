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
    """Base class; subclasses hold the parameters that only their family has.

    Subclasses must implement :meth:`algorithm`.
    """

    #: where noise is added; None: determined by unit and trust
    given_mechanism: Mechanism | None = field(default=None, kw_only=True)
    #: whether the algorithm sets its own step sizes, so that ``learning_rate`` has no effect
    has_own_step: ClassVar[bool] = False

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return the algorithm with these settings."""
        raise NotImplementedError

    def local_steps(self, request: Request) -> int:
        """Return the number of local steps that "auto" means."""
        return 1

    def n_rounds(self, request: Request, default: int) -> int:
        """Return the number of rounds that "auto" means."""
        return default

    def has_momentum(self, request: Request) -> bool:
        """Whether "auto" uses momentum at the server."""
        return False

    def mechanism(self, request: Request) -> Mechanism:
        """Return the mechanism, which says where noise is added."""
        return self.given_mechanism or mechanism_for(
            request.guarantee.unit, request.guarantee.trust
        )

    def training(self, algorithm: Algorithm, committed: Committed) -> Training:
        """Return the training to run; constants may depend on the plan's noise and the scales.

        Must not change what is released: the plan has been priced.
        """
        warn_of_noise(committed)
        loss = smoothed(committed.request.loss, committed)
        return Training(algorithm, loss, committed.settings)


@dataclass(frozen=True)
class Averaging(Method):
    """Federated averaging; the same as minibatch SGD with one local step."""

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return FedAvg, or minibatch SGD, which is the same and has momentum."""
        step, server = settings.learning_rate, settings.server_step
        if set(settings.steps) == {1} and request.guarantee.unit == "record":
            return MinibatchSGD(step * server, settings.momentum)
        return FedAvg(step, settings.steps, server, settings.momentum)


@dataclass(frozen=True)
class GivenAlgorithm(Method):
    """An algorithm object; the plan charges the gradients that it declares."""

    given: Algorithm
    has_own_step: ClassVar[bool] = True

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return the given algorithm."""
        return self.given

    def training(self, algorithm: Algorithm, committed: Committed) -> Training:
        """Return the training with the algorithm's learning rate, None if it has none."""
        training = super().training(algorithm, committed)
        rate = getattr(algorithm, "learning_rate", None)
        settings = replace(training.settings, learning_rate=rate)  # type: ignore[arg-type]
        return training._replace(settings=settings)
