"""How a family of estimators trains: its algorithm, its choices for "auto", and its constants.

:class:`Method` is the base class of the families. It gets a request and settings before the plan is
made, and a :class:`Committed` afterwards, when noise and scales are known.

Published step sizes need constants of the objective, computed here from public or released numbers.
With rows of root mean square norm rho (including the intercept's 1), P parameters, a loss with
curvature c and Lipschitz constant l in the raw prediction, and clip norm C::

    smoothness   beta = c rho^2 + alpha        of the *mean* loss: its Hessian is at most c E a a^T
    lipschitz    L    = min(C, l rho)
    variance     s^2  = P sigma^2 + (1 - q) L^2 / B     sigma: the plan's noise on a round's mean,
                                                        B: records of a round
    distance     radius, or the norm for predictions of ordinary size: 3 (margins) or 1 (scaled
                 targets) times sqrt(k (d + 1)) / rho
    excess       the loss of the model 0 (for regression: of targets in [-1, 1])

Privacy does not depend on them; inexact ones cost accuracy only.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, NamedTuple

from skdpfl._warnings import warn
from skdpfl.algorithms import Algorithm, FedAvg, MinibatchSGD, whole_silo_control_rate
from skdpfl.algorithms.theory import lowy2023_smoothing
from skdpfl.choosing._request import PublicFacts, Request
from skdpfl.losses import Loss
from skdpfl.models import RuleTask
from skdpfl.privacy.mechanisms import Mechanism, WholeMessages, mechanism_for
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.sampling import Sampling

#: typical raw predictions
_MARGIN, _TARGET = 3.0, 1.0


@dataclass(frozen=True)
class Settings:
    """The settings of a fit, with every "auto" resolved.

    ``steps`` is the number of private gradients per silo in each round; ``rate`` the share of its
    records that a step reads. ``server_step`` is the server's learning rate for the mean update;
    ``falls``: it decreases linearly to 0 in the second half of the rounds, and the last model is
    used.
    """

    steps: tuple[int, ...]
    learning_rate: float
    clip_norm: float
    rate: float
    sampling: Sampling
    momentum: float = 0.0
    server_step: float = 1.0
    falls: bool = False

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.steps)

    @property
    def server_steps(self) -> float | tuple[float, ...]:
        """The server's step, or that of each round if it decreases to 0 in the second half."""
        if not self.falls:
            return self.server_step
        shares = [min(1.0, 2 * (1 - r / self.n_rounds)) for r in range(self.n_rounds)]
        return tuple(self.server_step * share for share in shares)


class Measured(NamedTuple):
    """L and V of :mod:`skdpfl.choosing._final_step`, measured in fits without privacy."""

    whole: float
    drawn: float


@dataclass(frozen=True, eq=False)
class Committed:
    """What is known after planning and scaling, before training; ``epsilon`` is the price.

    ``scaled_row`` is the mean squared norm of scaled rows, and ``largest_square`` a bound of their
    mean square in any direction, None if unknown; ``measured`` is None in private fits and if the
    learning rate was given. ``largest_target`` is the largest scaled target, infinite in private
    fits.
    """

    request: Request
    settings: Settings
    plan: PrivacyPlan
    epsilon: float
    scaled_row: float | None
    measured: Measured | None = None
    largest_target: float = math.inf
    largest_square: float | None = None

    @property
    def is_deterministic(self) -> bool:
        """Whether rounds are without noise and sampling, so that averaging models does not help."""
        return self.measured is not None and not self.measured.drawn

    @property
    def squared_row(self) -> float:
        """rho^2; if unknown, that of standardised rows."""
        d = self.request.model.n_features
        squared = d if self.scaled_row is None else self.scaled_row
        return squared + float(self.request.fit_intercept)


class Training(NamedTuple):
    """The training to run, with all constants; ``average``: over which rounds."""

    algorithm: Algorithm
    loss: Loss
    settings: Settings
    average: bool | float = True


@dataclass(frozen=True)
class Constants:
    """Constants of the objective and of its gradients, as in the module's docstring."""

    smoothness: float
    strong_convexity: float
    variance: float
    distance: float
    excess: float


def constants_of(loss: Loss, committed: Committed) -> Constants:
    """Return the constants of a (smooth) loss under a plan."""
    k, alpha = committed.request.facts.n_outputs, committed.request.alpha
    return Constants(
        smoothness=_smoothness(loss, committed) + alpha,
        strong_convexity=alpha,
        variance=_variance(loss, committed),
        distance=distance_of(committed),
        excess=loss.loss_at_zero(k),
    )


def smoothed(loss: Loss, committed: Committed) -> Loss:
    """Return the Moreau envelope of a non-smooth loss, smoothed by about the noise's effect.

    The larger of the two published parameters (convex; strongly convex for alpha > 0) is taken:
    both are optimal up to constants, and the envelope lies within L^2 / (2 b) of the loss. The
    envelope is in the parameters of a linear model; other models use subgradients of the loss
    itself.
    """
    if not (loss.can_be_smoothed and committed.request.model.is_linear):
        return loss.bounded(committed.largest_target)
    plan, request, facts = committed.plan, committed.request, committed.request.facts
    n_silos = max(1.0, plan.silo_fraction * facts.n_silos)
    smoothing = partial(
        lowy2023_smoothing,
        lipschitz=lipschitz_of(loss, committed),
        n_records=max(1, round(facts.n_protected / facts.n_silos)),
        n_silos=n_silos,
        n_parameters=request.model.size,
        epsilon=min(committed.epsilon, 1e6),  # without noise the number of records decides
        delta=float(plan.delta.min()),
    )
    b = smoothing(diameter=2 * distance_of(committed))
    if request.alpha > 0:
        b = max(b, smoothing(strong_convexity=request.alpha))
    return loss.smoothed(b)


def distance_of(committed: Committed) -> float:
    """Return the expected distance of the optimum from 0."""
    request = committed.request
    if request.radius is not None:
        return request.radius
    return ordinary_distance(request.facts, committed.squared_row)


def ordinary_distance(facts: PublicFacts, squared_row: float) -> float:
    """Return the norm of a model with typical predictions."""
    size = _MARGIN if facts.is_classifier else _TARGET
    if not squared_row:  # all features are ignored, and there is no intercept
        return size
    return size * math.sqrt(facts.n_outputs * (facts.n_features + 1) / squared_row)


def lipschitz_of(loss: Loss, committed: Committed) -> float:
    """Return L; residuals count as 1 where neither the loss nor clipping bounds gradients."""
    bound = loss.lipschitz(committed.request.facts.n_outputs)
    bound = bound if math.isfinite(bound) else 1.0
    return min(committed.plan.clip_norm, bound * math.sqrt(committed.squared_row))


def _variance(loss: Loss, committed: Committed) -> float:
    plan = committed.plan
    noise = plan.mechanism.noise_on_mean(plan)
    batch = plan.silo_fraction * float(plan.expected_sizes.sum())
    missing = 1 - float((plan.expected_sizes / plan.silo_sizes).mean())
    noise_squared = committed.request.model.size * noise**2
    return noise_squared + missing * lipschitz_of(loss, committed) ** 2 / batch


def _smoothness(loss: Loss, committed: Committed) -> float:
    """Return beta without the penalty; the curvature at raw prediction 0 if it has no bound."""
    bound = loss.smoothness(committed.request.facts.n_outputs, committed.squared_row)
    return bound if math.isfinite(bound) else committed.squared_row


#: noise of a whole fit, in norms of a message, beyond which silos that are hidden say little
_FAINT_LABELS, _FAINT_NUMBERS = 0.45, 0.27
#: learning rate of control variates where some silos take part in a round and unit="record"
_SLOW = 0.2


def control_rate(committed: Committed) -> float:
    """Return the learning rate of SCAFFOLD's control variates: lower under noise on messages.

    With unit="record" and partial participation, the noise in a control variate is reused many
    rounds later. With a given learning rate the fit is the published algorithm.
    """
    plan = committed.plan
    if not plan.private:
        return 1.0
    if plan.unit != "silo":
        return _SLOW if plan.silo_fraction < 1 and committed.request.chooses_step else 1.0
    return whole_silo_control_rate(plan.n_rounds, plan.silo_fraction, relative_noise(committed))


def relative_noise(committed: Committed) -> float:
    """Return the norm of the noise on a round's mean message, in clip norms."""
    plan = committed.plan
    assert isinstance(plan.mechanism, WholeMessages)
    return plan.mechanism.noise_norm(plan, committed.request.model.size) / plan.clip_norm


def warn_of_noise(committed: Committed) -> None:
    """Warn if noise dominates the average of all rounds.

    The limits are by experiment: beyond them most regressions end near the target's mean or below
    it, and most classifiers near chance.
    """
    plan, request = committed.plan, committed.request
    if plan.unit != "silo" or not plan.private or request.promise.epsilon is None:
        return
    noise = relative_noise(committed) / plan.n_rounds**0.5
    limit = _FAINT_LABELS if request.facts.is_classifier else _FAINT_NUMBERS
    if noise <= limit:
        return
    excess, of_sum = noise / limit, plan.trust != "silo"  # whose noise does not grow with silos
    needed = plan.n_silos * (excess if of_sum else excess**2)
    warn(
        f"Hiding a whole silo among {plan.n_silos} takes so much noise that "
        f"{'nothing' if noise > 1 else 'little or nothing'} can be learnt: averaged over all "
        f"rounds it is {noise:.2g} times the largest norm of a silo's message. About {needed:.2g} "
        "silos are needed at this budget"
        + ("" if of_sum or request.facts.elsewhere else ', fewer with trust="secagg" or "server"')
        + '; unit="record" protects single records with far less.'
    )


@dataclass(frozen=True)
class Method:
    """Base class; subclasses have the parameters of their family.

    Subclasses must implement :meth:`algorithm`.
    """

    #: where noise is added; None: determined by unit and trust
    given_mechanism: Mechanism | None = field(default=None, kw_only=True)
    #: whether the algorithm sets its own step sizes, so that ``learning_rate`` has no effect
    has_own_step: ClassVar[bool] = False

    @property
    def takes_plain_steps(self) -> bool:
        """Whether "auto" chooses the steps by a model's rules."""
        return not self.has_own_step

    def algorithm(self, request: Request, settings: Settings) -> Algorithm:
        """Return the algorithm with these settings."""
        raise NotImplementedError

    def local_steps(self, request: Request) -> int:
        """Return the number of local steps for "auto"."""
        return 1

    def n_rounds(self, request: Request, default: int) -> int:
        """Return the number of rounds for "auto"."""
        return default

    def sampling(self, request: Request, n_steps: int) -> Sampling | None:
        """Return how records are drawn; None: as the request says."""
        return None

    def has_momentum(self, request: Request) -> bool:
        """Whether "auto" uses momentum at the server."""
        return False

    def silo_learning_rate(self, committed: Committed, noise: float, task: RuleTask) -> float:
        """Return the local step of whole silos for "auto"."""
        return committed.request.model.rules.silo_learning_rate(
            committed.settings.steps, noise, task
        )

    def mechanism(self, request: Request) -> Mechanism:
        """Return the mechanism, which determines where noise is added."""
        return self.given_mechanism or mechanism_for(request.promise.unit, request.promise.trust)

    def training(self, algorithm: Algorithm, committed: Committed) -> Training:
        """Return the training to run; constants may depend on the plan's noise and the scales.

        It must not change the releases: the plan is already priced.
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
        if set(settings.steps) == {1} and request.promise.unit != "silo":
            return MinibatchSGD(step * server, settings.momentum)
        return FedAvg(step, settings.steps, settings.server_steps, settings.momentum)

    def has_momentum(self, request: Request) -> bool:
        """Whether steps are those of minibatch SGD, with no given momentum."""
        return request.takes_one_step and request.momentum is None


@dataclass(frozen=True)
class GivenAlgorithm(Method):
    """A given algorithm object; the plan charges the gradients that it declares."""

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
