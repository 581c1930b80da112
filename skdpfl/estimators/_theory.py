"""The constants that published steps are made of, from public or paid-for numbers.

With rows of root mean square norm rho (the intercept's 1 counted), P parameters, a loss of
curvature c and Lipschitz constant l in the raw prediction, clip norm C::

    smoothness   beta = c rho^2 + alpha        of the *mean* loss: its Hessian is at most c E a a^T
    lipschitz    L    = min(C, l rho)
    variance     s^2  = P sigma^2 + (1 - q) L^2 / B     sigma: the plan's noise on a round's mean,
                                                        B: records of a round
    distance     radius, or else what predictions of ordinary size need: 3 (margins) or 1 (scaled
                 targets) times sqrt(k (d + 1)) / rho
    excess       the loss of the model 0 (for regression: of targets in [-1, 1])

None of them decides privacy; wrong ones cost accuracy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from skdpfl.algorithms import Algorithm
from skdpfl.algorithms.theory import lowy2023_smoothing
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.losses import Loss
from skdpfl.privacy.plan import PrivacyPlan

#: raw predictions of ordinary size
_MARGIN, _TARGET = 3.0, 1.0


class Measured(NamedTuple):
    """Where nothing is to be hidden: L and V of :mod:`skdpfl.estimators._exact`."""

    whole: float
    drawn: float


@dataclass(frozen=True, eq=False)
class Committed:
    """What is known once the plan stands and the scales are found; ``epsilon`` is what is spent.

    ``row_norm`` is the root mean square norm of scaled rows, None if nobody knows it; ``measured``
    is None where records are protected, and where the step is given.
    """

    facts: Facts
    settings: Settings
    plan: PrivacyPlan
    epsilon: float
    alpha: float
    fit_intercept: bool
    row_norm: float | None
    measured: Measured | None = None

    @property
    def is_still(self) -> bool:
        """Whether rounds have nothing random that an average of their models would help against."""
        return self.measured is not None and not self.measured.drawn

    @property
    def squared_row(self) -> float:
        """rho^2; rows of unknown norm count as standardised."""
        d = self.facts.n_features
        return (d if self.row_norm is None else self.row_norm**2) + float(self.fit_intercept)

    @property
    def n_parameters(self) -> int:
        """P."""
        return (self.facts.n_features + self.fit_intercept) * self.facts.n_outputs


class Training(NamedTuple):
    """What runs: all constants filled in."""

    algorithm: Algorithm
    loss: Loss
    settings: Settings


@dataclass(frozen=True)
class Constants:
    """See the module."""

    smoothness: float
    strong_convexity: float
    variance: float
    distance: float
    excess: float


def constants_of(loss: Loss, known: Committed, radius: float | None = None) -> Constants:
    """Return the constants of a (smooth) loss under a plan."""
    k = known.facts.n_outputs
    return Constants(
        smoothness=loss.smoothness(k, known.squared_row) + known.alpha,
        strong_convexity=known.alpha,
        variance=_variance(loss, known),
        distance=distance_of(known, radius),
        excess=loss.loss_at_zero(k),
    )


def smoothed(loss: Loss, known: Committed, radius: float | None = None) -> Loss:
    """Return a loss with a kink as its Moreau envelope, smoothed as far as noise hides it anyway.

    The larger of the two published parameters (convex; strongly convex for alpha > 0) is taken:
    both are optimal up to constants, and the envelope lies within L^2 / (2 b) of the loss.
    """
    if not loss.can_be_smoothed:
        return loss
    plan, facts = known.plan, known.facts
    n_silos = max(1.0, plan.silo_fraction * facts.n_silos)
    smoothing = partial(
        lowy2023_smoothing,
        lipschitz=_lipschitz(loss, known),
        n_records=max(1, round(facts.n_protected / facts.n_silos)),
        n_silos=n_silos,
        n_parameters=known.n_parameters,
        epsilon=min(known.epsilon, 1e6),  # without noise the records' number decides
        delta=float(plan.delta.min()),
    )
    b = smoothing(diameter=2 * distance_of(known, radius))
    if known.alpha > 0:
        b = max(b, smoothing(strong_convexity=known.alpha))
    return loss.smoothed(b)


def distance_of(known: Committed, radius: float | None) -> float:
    """Return how far from 0 the optimum may be expected."""
    return ordinary_distance(known.facts, known.squared_row) if radius is None else radius


def ordinary_distance(facts: Facts, squared_row: float) -> float:
    """Return the norm of a model whose predictions are of ordinary size."""
    size = _MARGIN if facts.is_classifier else _TARGET
    return size * math.sqrt(facts.n_outputs * (facts.n_features + 1) / squared_row)


def _lipschitz(loss: Loss, known: Committed) -> float:
    """Return L; a loss without any and a plan without clipping count as residuals of 1."""
    bound = loss.lipschitz(known.facts.n_outputs)
    bound = bound if math.isfinite(bound) else 1.0
    return min(known.plan.clip_norm, bound * math.sqrt(known.squared_row))


def _variance(loss: Loss, known: Committed) -> float:
    plan = known.plan
    noise = plan.mechanism.noise_on_mean(plan)
    batch = plan.silo_fraction * float(plan.expected_sizes.sum())
    missing = 1 - float((plan.expected_sizes / plan.silo_sizes).mean())
    return known.n_parameters * noise**2 + missing * _lipschitz(loss, known) ** 2 / batch
