"""The constants in published step sizes, computed from public or released numbers.

With rows of root mean square norm rho (the intercept's 1 counted), P parameters, a loss of
curvature c and Lipschitz constant l in the raw prediction, clip norm C::

    smoothness   beta = c rho^2 + alpha        of the *mean* loss: its Hessian is at most c E a a^T
    lipschitz    L    = min(C, l rho)
    variance     s^2  = P sigma^2 + (1 - q) L^2 / B     sigma: the plan's noise on a round's mean,
                                                        B: records of a round
    distance     radius, or else what predictions of ordinary size need: 3 (margins) or 1 (scaled
                 targets) times sqrt(k (d + 1)) / rho
    excess       the loss of the model 0 (for regression: of targets in [-1, 1])

Privacy does not depend on them; inexact ones cost accuracy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from skdpfl.algorithms import Algorithm
from skdpfl.algorithms.theory import lowy2023_smoothing
from skdpfl.choosing._facts import Facts, Settings
from skdpfl.choosing._request import Request
from skdpfl.losses import Loss
from skdpfl.privacy.plan import PrivacyPlan

#: typical raw predictions
_MARGIN, _TARGET = 3.0, 1.0


class Measured(NamedTuple):
    """L and V of :mod:`skdpfl.choosing._exact`, measured in fits without privacy."""

    whole: float
    drawn: float


@dataclass(frozen=True, eq=False)
class Committed:
    """What is known after planning and scaling, before training; ``epsilon`` is the price.

    ``row_norm`` is the root mean square norm of scaled rows, None if unknown; ``measured`` is None
    in private fits and where the learning rate was given. ``largest_target`` is the largest scaled
    target, infinite in private fits.
    """

    request: Request
    settings: Settings
    plan: PrivacyPlan
    epsilon: float
    row_norm: float | None
    measured: Measured | None = None
    largest_target: float = math.inf

    @property
    def is_deterministic(self) -> bool:
        """Whether rounds are without noise and sampling, so that averaging models does not help."""
        return self.measured is not None and not self.measured.drawn

    @property
    def squared_row(self) -> float:
        """rho^2; that of standardised rows if unknown."""
        d = self.request.model.n_features
        squared = d if self.row_norm is None else self.row_norm**2
        return squared + float(self.request.fit_intercept)


class Training(NamedTuple):
    """The training to run, with all constants; ``average``: over which rounds.

    ``walk`` is how far noise is expected to move a typical prediction.
    """

    algorithm: Algorithm
    loss: Loss
    settings: Settings
    average: bool | float = True
    walk: float = 0.0


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
    both are optimal up to constants, and the envelope lies within L^2 / (2 b) of the loss.
    It is one in the parameters of a linear model; others take subgradients of the loss as it is.
    """
    if not (loss.can_be_smoothed and committed.request.model.is_linear):
        return loss.bounded(committed.largest_target)
    plan, request, facts = committed.plan, committed.request, committed.request.facts
    n_silos = max(1.0, plan.silo_fraction * facts.n_silos)
    smoothing = partial(
        lowy2023_smoothing,
        lipschitz=_lipschitz(loss, committed),
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


def ordinary_distance(facts: Facts, squared_row: float) -> float:
    """Return the norm of a model with typical predictions."""
    size = _MARGIN if facts.is_classifier else _TARGET
    return size * math.sqrt(facts.n_outputs * (facts.n_features + 1) / squared_row)


def _lipschitz(loss: Loss, committed: Committed) -> float:
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
    return noise_squared + missing * _lipschitz(loss, committed) ** 2 / batch


def _smoothness(loss: Loss, committed: Committed) -> float:
    """Return beta without the penalty; the curvature at raw prediction 0 if it has no bound."""
    bound = loss.smoothness(committed.request.facts.n_outputs, committed.squared_row)
    return bound if math.isfinite(bound) else committed.squared_row
