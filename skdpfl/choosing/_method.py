"""Constants of the objective, and the methods of federated averaging and given algorithms.

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
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from skdpfl._warnings import warn
from skdpfl.algorithms import Algorithm, FedAvg, MinibatchSGD, whole_silo_control_rate
from skdpfl.algorithms.theory import lowy2023_smoothing
from skdpfl.choosing._noise_level import rounded_up
from skdpfl.choosing._recipe import Method, PublicFacts, Recipe
from skdpfl.losses import Loss
from skdpfl.privacy.mechanisms import WholeMessages

#: typical raw predictions of labels and numbers, in the papers' constants
_MARGIN, _TARGET = 3.0, 1.0


@dataclass(frozen=True)
class Constants:
    """Constants of the objective and of its gradients, as in the module's docstring."""

    smoothness: float
    strong_convexity: float
    variance: float
    distance: float
    excess: float


def constants_of(recipe: Recipe) -> Constants:
    """Return the constants of a (smooth) loss under a plan."""
    return Constants(
        smoothness=_smoothness(recipe) + recipe.alpha,
        strong_convexity=recipe.alpha,
        variance=_variance(recipe),
        distance=distance_of(recipe),
        excess=recipe.loss.loss_at_zero(recipe.facts.n_outputs),
    )


def smoothed(recipe: Recipe) -> Loss:
    """Return the Moreau envelope of a non-smooth loss, smoothed by about the noise's effect.

    The larger of the two published parameters (convex; strongly convex for alpha > 0) is taken:
    both are optimal up to constants, and the envelope lies within L^2 / (2 b) of the loss. The
    envelope is in the parameters of a linear model; other models use subgradients of the loss
    itself.
    """
    plan, facts, loss = recipe.plan, recipe.facts, recipe.loss
    if not (loss.can_be_smoothed and recipe.model.is_linear):
        return loss.bounded(recipe.largest_target)
    smoothing = partial(
        lowy2023_smoothing,
        lipschitz=lipschitz_of(recipe),
        n_records=max(1, round(facts.n_protected / facts.n_silos)),
        n_silos=max(1.0, plan.silo_fraction * facts.n_silos),
        n_parameters=recipe.model.size,
        epsilon=min(recipe.price, 1e6),  # without noise the number of records decides
        delta=float(plan.delta.min()),
    )
    b = smoothing(diameter=2 * distance_of(recipe))
    if recipe.alpha > 0:
        b = max(b, smoothing(strong_convexity=recipe.alpha))
    return loss.smoothed(b)


def distance_of(recipe: Recipe) -> float:
    """Return the expected distance of the optimum from 0."""
    if recipe.radius is not None:
        return recipe.radius
    return ordinary_distance(recipe.facts, recipe.squared_row)


def ordinary_distance(facts: PublicFacts, squared_row: float) -> float:
    """Return the norm of a model with typical predictions."""
    size = _MARGIN if facts.is_classifier else _TARGET
    if not squared_row:  # all features are ignored, and there is no intercept
        return size
    return size * math.sqrt(facts.n_outputs * (facts.n_features + 1) / squared_row)


def lipschitz_of(recipe: Recipe) -> float:
    """Return L; residuals count as 1 where neither the loss nor clipping bounds gradients."""
    bound = recipe.loss.lipschitz(recipe.facts.n_outputs)
    bound = bound if math.isfinite(bound) else 1.0
    return min(recipe.plan.clip_norm, bound * math.sqrt(recipe.squared_row))


def _variance(recipe: Recipe) -> float:
    plan = recipe.plan
    noise = plan.mechanism.noise_on_mean(plan)
    batch = plan.silo_fraction * float(plan.expected_sizes.sum())
    missing = 1 - float((plan.expected_sizes / plan.silo_sizes).mean())
    return recipe.model.size * noise**2 + missing * lipschitz_of(recipe) ** 2 / batch


def _smoothness(recipe: Recipe) -> float:
    """Return beta without the penalty; the curvature at raw prediction 0 if it has no bound."""
    bound = recipe.loss.smoothness(recipe.facts.n_outputs, recipe.squared_row)
    return bound if math.isfinite(bound) else recipe.squared_row


#: noise of a whole fit, in norms of a message, beyond which silos that are hidden say little
_FAINT_LABELS, _FAINT_NUMBERS = 0.45, 0.27
#: learning rate of control variates where some silos take part in a round and unit="record" (1: AUC
#: -.0028, -.055 at worst)
_SLOW = 0.2


def control_rate(recipe: Recipe) -> float:
    """Return the learning rate of SCAFFOLD's control variates: lower under noise on messages.

    With unit="record" and partial participation, the noise in a control variate is reused many
    rounds later. With a given learning rate the fit is the published algorithm.
    """
    plan = recipe.plan
    if not plan.private:
        return 1.0
    if plan.unit != "silo":
        return _SLOW if plan.silo_fraction < 1 and recipe.chooses_step else 1.0
    return whole_silo_control_rate(plan.n_rounds, plan.silo_fraction, relative_noise(recipe))


def relative_noise(recipe: Recipe) -> float:
    """Return the norm of the noise on a round's mean message, in clip norms."""
    plan = recipe.plan
    assert isinstance(plan.mechanism, WholeMessages)
    return plan.mechanism.noise_norm(plan, recipe.model.size) / plan.clip_norm


def warn_of_noise(recipe: Recipe) -> None:
    """Warn if noise dominates the average of all rounds.

    The limits are by experiment: beyond them most regressions end near the target's mean or below
    it, and most classifiers near chance.
    """
    plan = recipe.plan
    if plan.unit != "silo" or not plan.private or recipe.promise.epsilon is None:
        return
    noise = relative_noise(recipe) / plan.n_rounds**0.5
    limit = _FAINT_LABELS if recipe.facts.is_classifier else _FAINT_NUMBERS
    if noise <= limit:
        return
    excess, of_sum = noise / limit, plan.trust != "silo"  # whose noise does not grow with silos
    needed = plan.n_silos * (excess if of_sum else excess**2)
    warn(
        f"Hiding a whole silo among {plan.n_silos} takes so much noise that "
        f"{'nothing' if noise > 1 else 'little or nothing'} can be learnt: averaged over all "
        f"rounds it is {noise:.2g} times the largest norm of a silo's message. About "
        f"{rounded_up(needed)} silos are needed at this budget"
        + ("" if of_sum or recipe.facts.elsewhere else ', fewer with trust="secagg" or "server"')
        + '; unit="record" protects single records with far less.'
    )


@dataclass(frozen=True)
class Averaging(Method):
    """Federated averaging; the same as minibatch SGD with one local step."""

    def algorithm(self, recipe: Recipe) -> Algorithm:
        """Return FedAvg, or minibatch SGD, which is the same and has momentum."""
        settings = recipe.settings
        if set(settings.steps) == {1} and recipe.promise.unit != "silo":
            return MinibatchSGD(settings.learning_rate * settings.server_step, settings.momentum)
        step, server = settings.learning_rate, settings.server_steps
        return FedAvg(step, settings.steps, server, settings.momentum)

    def has_momentum(self, recipe: Recipe) -> bool:
        """Whether steps are those of minibatch SGD, with no given momentum."""
        return recipe.takes_one_step and recipe.momentum is None


@dataclass(frozen=True)
class GivenAlgorithm(Method):
    """A given algorithm object; the plan charges the gradients that it declares."""

    fixed: Algorithm
    has_own_step: ClassVar[bool] = True

    def algorithm(self, recipe: Recipe) -> Algorithm:
        """Return the given algorithm."""
        return self.fixed

    def with_constants(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the algorithm's learning rate, None if it has none."""
        rate = getattr(recipe.algorithm, "learning_rate", None)
        settings = replace(recipe.settings, learning_rate=rate)  # type: ignore[arg-type]
        return replace(recipe, settings=settings)
