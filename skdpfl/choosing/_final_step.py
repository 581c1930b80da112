"""The learning rate of a fit, after planning: from the plan's noise, or from the data.

In private fits the learning rate follows from noise and scales. Fits without privacy take the
largest one that the curvature of the objective on the data allows.

Notation: rows a (including the intercept's 1), a loss of curvature h, silos of weight w and n
records, momentum m, shares q of records and f of silos that a round reads, K local steps, and the
server's step g::

    L_i  = h (largest eigenvalue of silo i's mean a a^T) + alpha
    L    = the same of all silos' weighted mean
    V    = (1 - q) / (q f) max_i(w_i / n_i) h max |a|^2  +  (1 - f) / f max_i w_i L_i
    V_i  = (1 - q) / (q n_i) h max |a|^2

V is the contribution of sampling: the Hessian H' of a round has E H'^2 <= H^2 + V H, so errors
shrink in mean square with the step sizes

    one step a round        g eta = 1 / (L / p + V / (1 - m)),   p = 1.8 (1 + m), or 1 where the
                                    curvature is not constant and m > 0: longer steps may cycle
    local steps               eta = 0.9 / max_i(L_i + V_i), where each silo's steps contract, and
                                    the server's steps of s = g M max_i w_i silos' lengths do not
                                    overshoot: at most 1.5 / (s K max L_i) if s > 1.5
    ... corrected by          eta at most 1 / (g K (L + 3 V)) as well: corrections computed at
    control variates                another model are wrong by (H_i - H) times the distance to it

Non-smooth losses, smoothed by b, have curvature b / |a|^2 in a record, as do rows of norm 1 with h
= b.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdpfl._warnings import warn
from skdpfl.algorithms import FedExp, GradientMethod, Scaffold
from skdpfl.choosing._method import smoothed, warn_of_noise
from skdpfl.choosing._noise_level import noise_of_plan
from skdpfl.choosing._recipe import Recipe, Settings
from skdpfl.federation import PIECE
from skdpfl.models import ExpandedTable
from skdpfl.privacy.sampling import Disjoint
from skdpfl.scaling import Scales
from skdpfl.silos import Silos

#: with more columns than this a Gram matrix costs more than products with the data
_COLUMNS, _POWERS = 300, 40
#: how many times longer than stable ones steps may be that fall to 0: label-free, no momentum (1:
#: log loss +.0085; 6: -.0018; eight tables of rare columns, 5 steps, epsilon 30)
_FALLING = 3.0


@dataclass(frozen=True, eq=False)
class Curvature:
    """The largest curvatures of the objective with a smooth loss, computed from the data."""

    X: np.ndarray | ExpandedTable
    silos: Silos
    scales: Scales
    recipe: Recipe
    factors: np.ndarray | None = None  # what the records' losses are multiplied by

    @cached_property
    def whole(self) -> float:
        """L."""
        weights = self.recipe.plan.weights / self._sizes

        def blocks() -> Iterator[np.ndarray]:
            for i in range(0, len(self.X), PIECE):
                codes = self.silos.codes[i : i + PIECE]
                yield self._rows(slice(i, i + PIECE)) * np.sqrt(weights[codes])[:, None]

        return self._curvature_along(largest_eigenvalue(blocks))

    @cached_property
    def of_silos(self) -> np.ndarray:
        """L_i, shape (n_silos,)."""
        order = np.argsort(self.silos.codes, kind="stable")
        ends = np.cumsum(self._sizes)
        each = (order[end - n : end] for n, end in zip(self._sizes, ends, strict=True))
        values = [
            largest_eigenvalue(lambda rows=rows: [self._rows(rows) / math.sqrt(len(rows))])  # type: ignore[misc]
            for rows in each
        ]
        return np.array([self._curvature_along(value) for value in values])

    @cached_property
    def sampled(self) -> float:
        """V."""
        plan, curvature = self.recipe.plan, 0.0
        if self.missing:
            heaviest = float((plan.weights / self._sizes).max())
            curvature = self.missing / plan.silo_fraction * heaviest * self._longest
        if plan.silo_fraction < 1:
            worst = float((plan.weights * self.of_silos).max())
            curvature += (1 - plan.silo_fraction) / plan.silo_fraction * worst
        return curvature

    @property
    def missing(self) -> float:
        """(1 - q) / q."""
        sampling, rate = self.recipe.plan.sampling, self.recipe.settings.rate
        return 1 / (1 / sampling.n_parts if isinstance(sampling, Disjoint) else rate) - 1

    @property
    def steepest(self) -> float:
        """max_i(L_i + V_i)."""
        sampled = self.missing / self._sizes * self._longest if self.missing else 0.0
        return float((self.of_silos + sampled).max())

    @cached_property
    def _sizes(self) -> np.ndarray:
        return np.bincount(self.silos.codes, minlength=self.recipe.facts.n_silos)

    @cached_property
    def _longest(self) -> float:
        """The largest curvature of a single record."""
        starts = range(0, len(self.X), PIECE)
        blocks = (self._rows(slice(i, i + PIECE)) for i in starts)
        longest = max(float(np.square(rows).sum(axis=1).max()) for rows in blocks)
        return self._curvature_along(longest) - self.recipe.alpha  # penalties are not sampled

    def _curvature_along(self, squared: float) -> float:
        """Return the objective's curvature along rows of this mean square."""
        recipe = self.recipe
        return recipe.loss.smoothness(recipe.facts.n_outputs, 1.0) * squared + recipe.alpha

    def _rows(self, which: slice | np.ndarray) -> np.ndarray:
        """Return the rows a, with the intercept's 1; normalised for smoothed losses."""
        rows = self.scales.features.transform(np.asarray(self.X[which]))
        rows = rows.astype(np.float64, copy=False)
        if self.recipe.fit_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        if math.isinf(self.recipe.loss.curvature(self.recipe.facts.n_outputs)):
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.maximum(norms, np.finfo(np.float64).tiny)
        if self.factors is not None:
            rows = rows * np.sqrt(self.factors[which], dtype=np.float64)[:, None]
        return rows


def with_curvature(
    recipe: Recipe,
    X: np.ndarray | ExpandedTable,
    silos: Silos,
    scales: Scales,
    factors: np.ndarray | None = None,
) -> Recipe:
    """Return the recipe with the curvature on the data and, if "auto", the learning rate.

    ``factors`` (n,) are the records' weights; None: 1.
    """
    smooth = replace(recipe, loss=smoothed(recipe))
    curvature, settings = Curvature(X, silos, scales, smooth, factors), recipe.settings
    if recipe.chooses_step:
        settings = replace(settings, learning_rate=bearable_step(curvature))
    return replace(recipe, settings=settings, measured=(curvature.whole, curvature.sampled))


def bearable_step(curvature: Curvature) -> float:
    """Return the largest learning rate that converges; see the module."""
    recipe = curvature.recipe
    settings, plan, algorithm = recipe.settings, recipe.plan, recipe.algorithm
    server = settings.server_step
    n_steps, at_server = max(settings.steps), isinstance(algorithm, GradientMethod)
    if curvature.steepest == 0.0:  # all features are 0, and there is no intercept
        return 1.0
    if at_server or (n_steps == 1 and not isinstance(algorithm, FedExp)):
        momentum = settings.momentum if at_server else 0.0
        plain = recipe.loss.is_quadratic or not momentum
        pace = 1.8 * (1 + momentum) if plain else 1.0  # longer steps may cycle
        sampled = curvature.sampled * (3 if isinstance(algorithm, Scaffold) else 1)
        return 1 / (curvature.whole / pace + sampled / (1 - momentum)) / server
    eta = 0.9 / curvature.steepest
    pace = server * plan.n_silos * float(plan.weights.max())
    if pace > 1.5:
        eta = min(eta, 1.5 / (pace * n_steps * float(curvature.of_silos.max())))
    if isinstance(algorithm, Scaffold):
        eta = min(eta, 1 / (server * n_steps * (curvature.whole + 3 * curvature.sampled)))
    return eta


def largest_eigenvalue(blocks: Callable[[], Iterable[np.ndarray]]) -> float:
    """Return the largest eigenvalue of the sum of a a^T over all rows, or slightly more.

    Many columns: by power iteration, which converges from below, plus 5 %.
    """
    first = next(iter(blocks()))
    d = first.shape[1]
    if d <= _COLUMNS:
        gram = np.zeros((d, d))
        for rows in blocks():
            gram += rows.T @ rows
        return float(np.linalg.eigvalsh(gram)[-1]) if np.isfinite(gram).all() else math.inf
    v: np.ndarray = np.random.default_rng(0).normal(size=(d,))
    eigenvalue = 0.0
    for _ in range(_POWERS):
        v /= np.linalg.norm(v)
        image = np.zeros(d)
        for rows in blocks():
            image += rows.T @ (rows @ v)
        v, eigenvalue = image, float(np.linalg.norm(image))
        if not 0 < eigenvalue < math.inf:
            return eigenvalue
    return 1.05 * eigenvalue


#: asks the silos for the curvature of their records
Measure = Callable[[Recipe], Recipe]


def finish_recipe(recipe: Recipe, measure: Measure) -> Recipe:
    """Return the recipe of the rounds, with all constants; a given learning rate is kept.

    The releases do not depend on it: the plan is already priced.
    """
    recipe = with_clipped_quantile(_with_step(recipe, measure))
    helps = recipe.model.rules.averages or recipe.promise.hides_silos
    exact = recipe.measured is not None and not recipe.measured[1]  # nor are silos sampled
    average = recipe.average
    if average is True and (exact or not helps or recipe.settings.falls):
        average = False  # there is no noise to average, or steps that fall have done it
    warn_of_noise(recipe)
    algorithm, loss = recipe.method.algorithm(recipe), smoothed(recipe)
    recipe = replace(recipe, algorithm=algorithm, loss=loss, average=average)
    return recipe.method.with_constants(recipe)


def _with_step(recipe: Recipe, measure: Measure) -> Recipe:
    """Return the recipe with an automatic learning rate, by the plan's noise or the curvature.

    The curvature is available for linear models only; others use the rule for no noise.
    """
    own = recipe.method.has_own_step
    if recipe.learning_rate is not None and not own:
        _warn_if_penalty_diverges(recipe)
    measured = not (recipe.plan.private or own) and recipe.model.is_linear
    if measured and recipe.learning_rate is None:
        return measure(recipe)
    return replace(recipe, settings=_with_rate(recipe)) if recipe.chooses_step else recipe


def _with_rate(recipe: Recipe) -> Settings:
    """Return the settings with the model's rules' step and momentum, for the noise of the plan."""
    now, noise = recipe.settings, noise_of_plan(recipe.plan)
    task = recipe.task(recipe.squared_row - recipe.fit_intercept, recipe.largest_square)
    rules, server = recipe.model.rules, now.server_step
    if now.falls and not now.momentum:  # longer at first, stable before they end
        task = task._replace(steepest=(task.steepest or task.squared_row) / _FALLING)
    if recipe.promise.hides_silos:
        eta = recipe.method.silo_learning_rate(recipe, noise, task)
        rate = rules.with_penalty(eta / server, recipe.alpha, max(1.0, server), now.momentum)
        return replace(now, learning_rate=rate)
    split = recipe.global_learning_rate is None and server > 1
    most = max(now.steps) if split else 1
    # a round's gradients near one model are one step, or few, which the curvature bounds as a whole
    together = max(1.0, most / rules.steps_at_once(now.clip_norm, len(now.steps), task))
    n_steps = sum(now.steps) / together
    momentum = now.momentum
    if recipe.momentum is None:
        momentum = min(momentum, rules.needed_momentum(now.clip_norm, n_steps, noise, task))
    eta = rules.learning_rate(now.clip_norm, n_steps, momentum, noise, task) / together
    rate = rules.with_penalty(eta / server, recipe.alpha, max(1.0, server * most), momentum)
    return replace(now, learning_rate=rate, momentum=momentum)


def _warn_if_penalty_diverges(recipe: Recipe) -> None:
    """Warn of a learning rate that diverges because of the penalty alone."""
    settings, rate = recipe.settings, recipe.settings.learning_rate
    pace = rate * recipe.alpha * max(1.0, settings.server_step)
    if pace > 2 * (1 + settings.momentum):
        warn(
            f"learning_rate={rate:g} with alpha={recipe.alpha:g} diverges: the penalty subtracts "
            f'{pace:.3g} times the weights in a step. Give a smaller learning_rate, or "auto".'
        )


def with_clipped_quantile(recipe: Recipe) -> Recipe:
    """Return the recipe with the quantile of clipped slopes, if the level is calibrated.

    Slopes -q and 1 - q that are clipped to kappa balance at q' = a / (a + b), a = min(q, kappa) and
    b = min(1 - q, kappa), instead of q. The loss at q' differs from that at q by a slope that is
    the same for all records; with it all gradients would be clipped. It is for linear models; kappa
    is that of a typical row.
    """
    q, clip = recipe.loss.quantile_level, recipe.settings.clip_norm
    if q is None or not recipe.model.is_linear or recipe.calibration is None:
        return recipe
    kappa = clip / math.sqrt(recipe.squared_row)
    low, high = min(q, kappa), min(1 - q, kappa)
    return replace(recipe, loss=recipe.loss.at_quantile(low / (low + high)))
