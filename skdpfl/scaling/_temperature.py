"""The scale of a classifier's raw predictions, found after training.

**Two classes, clipped without labels** (`skdpfl.losses.LogLoss`). Clipped gradients balance at the
true coefficients, so only the noise makes predictions too far from the constant with the labels'
shares, at which rounds begin. They are shrunk towards it by a factor that costs nothing. For P
scaled, uncorrelated columns whose true coefficients have variance A, rounds that end early reach a
part of these, and coefficients w have the variance T::

    f, b     min(1, C / (rho max(p, 1 - p))), p (1 - p)   gradients keep the part f of their slopes
    c_r      what noise in round r does to a coefficient, where the curvature is f b
    v, a     sum (s_r c_r)^2, -f b sum c_r                variance by noise, the part reached
    T        a^2 (A + 1 / (n b)) + k v                    k = 1/1.6, 1 or 1.6, alike
    P A      = V, V / (V + 0.3) uniform in (0, 1)         the variance of true log odds
    t        = E(a A / T | |w|^2),  |w|^2 ~ T chi^2 of P degrees of freedom;  at most 1

On 1,200 drawn tables of 400 to 6,000 records (benchmarks/auto/unseen.py) log losses are 0.0019
lower in the mean than with rounds that begin at 0 and v as at their end. k stands for curvatures
and columns that differ: without it 30 fits end above the constant by 0.01 unwarned, with it 28, and
rare labels at epsilon 0.5 lose 0.017 instead of 0.002. Where rounds are not single steps of
constant length a = 1, and v = (s C / (f b))^2, s the noise of the whole fit. The noise of a
mechanism from outside, whose steps may share it, is not known: there the prior decides.

**Others.** With clipped gradients and noise, predictions rank labels well but are too large or too
small as log odds. One factor t corrects most of this. With z a record's raw prediction and l its
loss::

    q        the labels' shares, if they are public
    R        = (1 - 1 / K) / (1 - sum q^2), how rare labels are: 1 for K equal shares, or unknown
    S        = s R^1.5                   s: the noise of the whole fit, in clip norms
    slope_j  = d l(y_j, t z_j) / d log t = sum over outputs of (dl / dz)(t z_j) t z_j
    e_j      = sum over labels of p(label) slope_j(label) cut to [-c, c], p the model's at t
    c_j      = slope_j cut to [-c, c], less e_j; times the record's weight; cut again, and rounded
               towards 0 to a multiple of 2^-20; not finite: 0
    g        = the noisy mean of c_j                          see _calibration, with the guarantee

Clipping shortens the large slopes, those of misclassified records; e_j, which is 0 without
clipping, compensates for that: if probabilities are correct, c_j is 0 on average.

Two such means, the second at the factor that the first suggests, determine t (see below). They cost
4 % of mu^2 (training has 2 % more noise). With public shares (1 - t) v log q is added then, centred
(two labels: the log odds), v = 1 / (1 + (0.015 / S)^2): where noise hides the signal, the constant
model with these shares is left.

**Counts of two labels**, before anything else is asked, for the first rule. A record adds 1/2 or
-1/2 by its label. The counts spend 1 % of mu^2, up to 15 % if the error of the shares would exceed
0.015. The share is the posterior mean under a prior Beta(3/2, 3/2): where noise hides it, a half
does little harm. The constants were chosen by experiment (benchmarks/auto/rare.py).

**The posterior of t**, from two noisy slopes. With x a record's raw prediction::

    x        normal, of variance V for each output
    labels   have the log odds  t* x                   t* is the best factor
    log t*   = log(0.7 / (1 + 24 S)) +- 0.7

V is 0.8 |w|^2 of an output of a linear model, and 1.5 for others. A slope that was seen is what
this says of its cut terms (normal quantiles stand for x; of several outputs, fixed draws), but for
noise and an error of 0.15 of the slope without a signal. The factor is the one of the least
expected loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, ndtri, softmax

from skdpfl.algorithms.average_noise import average_responses
from skdpfl.federation import BoundedSum, Federation, SiloData, SumPlan, Work
from skdpfl.privacy.mechanisms import mechanism_for
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling import _calibration
from skdpfl.scaling._maps import Array

#: grid of factors
_FACTORS = np.geomspace(0.01, 4.0, 49)
#: the prior's median of t* without noise, how much S lowers it, and its deviation of log t*
_BEST_FACTOR, _BY_NOISE, _WIDE = 0.7, 24.0, 0.7
#: the error of the model of slopes
_MISFIT = 0.15
#: V^0.5 t where slopes are asked for: first (t = 1 at most), and at least
_ASKED, _ASKED_LEAST = 1.5, 0.5
#: normal quantiles, or draws and their mirror images, of at most so many numbers
_POINTS, _NUMBERS = 32, 6400


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """The posterior of t*.

    Parameters
    ----------
    variance : float
        V.
    n_outputs : int
        The number of raw predictions of a record.
    level : float
        S.
    noise, cut : float
        Those of mean slopes.
    penalty : float, default=0.0
        alpha |w|^2 of the model.
    """

    variance: float
    n_outputs: int
    level: float
    noise: float
    cut: float
    penalty: float = 0.0

    @property
    def first(self) -> float:
        """The factor that the first slope is asked for at."""
        return min(1.0, _ASKED / math.sqrt(self.variance))

    @property
    def least(self) -> float:
        """The smallest factor at which a slope is computed."""
        return _ASKED_LEAST / math.sqrt(self.variance)

    def factor(self, seen: list[tuple[float, float]]) -> float:
        """Return the factor, after slopes were seen at factors."""
        loss = self._losses @ self._likely(seen)
        loss += self.penalty * _FACTORS**2 / 2
        best = int(np.clip(loss.argmin(), 1, len(loss) - 2))
        below, least, above = loss[best - 1 : best + 2]
        bend = below - 2 * least + above
        off = float(np.clip((below - above) / (2 * bend), -1, 1)) if bend > 0 else 0.0
        return float(_FACTORS[best] * (_FACTORS[1] / _FACTORS[0]) ** off)

    def slopes(self, factor: float) -> Array:
        """Return the mean cut slope at a factor (t*,)."""
        away = factor * self._x
        likely, steps = softmax(of_labels(away), axis=-1), of_labels(away)
        each = (likely * steps).sum(axis=-1, keepdims=True) - steps
        cut = np.clip(each, -self.cut, self.cut)
        slopes: Array = ((self._true - likely) * cut).sum(axis=-1).mean(axis=-1)
        return slopes

    def expected(self, seen: list[tuple[float, float]], factor: float) -> float:
        """Return the expected slope at a factor, after slopes were seen."""
        return float(self._likely(seen) @ self.slopes(factor))

    def _likely(self, seen: list[tuple[float, float]]) -> Array:
        """Return the probabilities of t*."""
        median = _BEST_FACTOR / (1 + _BY_NOISE * self.level)
        logs = -np.square(np.log(_FACTORS / median) / _WIDE) / 2
        for factor, slope in seen:
            expected = self.slopes(factor)
            variance = self.noise**2 + np.square(_MISFIT * expected[:1])
            logs = logs - np.square(slope - expected) / (2 * variance) - np.log(variance) / 2
        likely = np.exp(logs - logs.max())
        return np.asarray(likely / likely.sum())

    @cached_property
    def _x(self) -> Array:
        """x (m, k)."""
        return math.sqrt(self.variance) * _points(self.n_outputs)

    def _raw(self) -> Array:
        """Return raw predictions at all factors (factors, m, k)."""
        return _FACTORS[:, None, None] * self._x

    @cached_property
    def _true(self) -> Array:
        """Probabilities of labels (t*, m, K)."""
        probabilities: Array = softmax(of_labels(self._raw()), axis=-1)
        return probabilities

    @cached_property
    def _losses(self) -> Array:
        """The expected loss (factors, t*)."""
        logs = log_softmax(of_labels(self._raw()), axis=-1)
        return np.asarray(-np.tensordot(logs, self._true, axes=((1, 2), (1, 2))) / logs.shape[1])


@lru_cache(maxsize=16)
def _points(n_outputs: int) -> Array:
    """Return points (m, k) that stand for independent standard normal variables."""
    if n_outputs == 1:
        quantiles: Array = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
        return quantiles
    half = min(_POINTS, max(4, _NUMBERS // (2 * n_outputs)))
    drawn = np.random.default_rng(0).normal(size=(half, n_outputs))
    return np.concatenate([drawn, -drawn])


def of_labels(raw: Any) -> Array:
    """Return raw predictions of all labels (.., K)."""
    return raw if raw.shape[-1] > 1 else np.concatenate([np.zeros_like(raw), raw], axis=-1)


#: V over |w|^2 of a linear model, and at least; V of other models
_OF_COEFFICIENTS, _LEAST_VARIANCE, _TYPICAL = 0.8, 1e-6, 1.5
#: the cut is as wide as this noise on the mean slope allows, and at least so wide
_NOISE, _LEAST_CUT = 0.05, 0.7
#: S at which an anchor beside slopes is half the log odds; the exponent of R in S
_ANCHORED, _POWER = 0.015, 1.5
#: the prior's median of V without slopes, and the factor within which the noise's v is known
_MEDIAN, _WITHIN = 0.3, 1.6
#: the wanted error of a share, and the least and largest part of mu^2 for counts
_ERROR, _COUNTS = 0.015, (0.01, 0.15)


@dataclass(frozen=True, eq=False)
class Labels(BoundedSum):
    """The count of the second of two labels: 1/2 for each record with it, -1/2 for others."""

    on_grid: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def radius(self) -> float:
        return 0.5

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if n_classes != 2:
            raise ValueError("Labels are counted where there are two.")

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        if len(here := np.flatnonzero(data.sizes)):
            rows, edges = data.rows_together(here)
            halves = np.where(data.y[rows] == 1, 0.5, -0.5)
            yield here, np.add.reduceat(halves, edges[:-1])


@dataclass(frozen=True, eq=False)
class Slopes(_calibration.PredictionSum):
    """The sum of records' clipped slopes in the logarithm of a factor on raw predictions."""

    factor: float
    cut: float

    @property
    def radius(self) -> float:
        return self.cut

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        _calibration.finite(self.factor)
        if not 0 < self.cut <= _calibration.MOST_CUT:
            raise ValueError(
                f"Slopes' clip value must be in (0, {_calibration.MOST_CUT}]; got {self.cut!r}."
            )

    def model_params(self, work: Work) -> np.ndarray:
        return np.asarray(work.model.rescaled(self.params, self.factor))

    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        slopes = (loss.gradient(y, raw) * raw).sum(axis=-1)
        return slope_terms(centred_slopes(raw, slopes, self.cut) * weights, self.cut)


_LABELS = Labels()


@dataclass(frozen=True, eq=False)
class ScalePlan(_calibration.CalibrationPlan):
    """Base class: the scale of raw predictions, from the noise of the fit and more.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation; records are protected.
    shares : tuple of float, optional
        The labels' shares, if they are public.
    """

    shares: tuple[float, ...] | None = None
    purpose = "temperature"

    @cached_property
    def level(self) -> float:
        """s: the noise of a mean of terms up to 1 for the whole budget."""
        tenth = SumPlan(self.budgets, self.purpose, (self.spent(0.1),))
        return 0.1 * tenth.noise(0, _LABELS) / _LABELS.radius

    def counted(self, federation: Federation, streams: Streams) -> _calibration.LabelShares:
        return _calibration.LabelShares(self.shares)

    def rated(self, shares: tuple[float, ...] | None) -> float:
        """Return S, for shares in what is minimised."""
        return self.level * (1.0 if shares is None else rarity(shares)) ** _POWER

    def _weighted(self, run: _calibration.CalibrationRun) -> tuple[float, ...] | None:
        """Return the labels' shares in the weighted objective; None if a label has weight 0."""
        return weighted_shares(run.labels.shares, run.work.class_weights)


@dataclass(frozen=True, eq=False)
class ShrinkPlan(ScalePlan):
    """A factor that follows from the noise and the labels' shares.

    ``counts``: whether labels are counted first, if there are two whose shares are not public.
    """

    counts: bool = False
    evaluations, share = 0, 0.0

    @cached_property
    def labels(self) -> SumPlan:
        """The plan of the labels' count, if it is needed."""
        counts = (self.spent(self._share_of_counts),) if self.counts else ()
        return SumPlan(self.budgets, "labels", counts)

    @cached_property
    def _share_of_counts(self) -> float:
        """The part of mu that counts spend."""
        least, most = _COUNTS
        wanted = (self.level / self.budgets.excess * _LABELS.radius / _ERROR) ** 2
        return math.sqrt(min(most, max(least, wanted)))

    def counted(self, federation: Federation, streams: Streams) -> _calibration.LabelShares:
        if not self.counts:
            return super().counted(federation, streams)
        found = 0.5 + float(self.labels.question(0, _LABELS).mean(federation, streams))
        noise, least = self.labels.noise(0, _LABELS), 1 / (float(self.budgets.units.sum()) + 2)
        share = posterior_share(found, noise, least)
        return _calibration.LabelShares((1 - share, share), noise / (share * (1 - share)))

    def start(self, labels: _calibration.LabelShares, weights: Any) -> float:
        """Return the raw prediction at which rounds begin: the constant's, if it is known."""
        shares = weighted_shares(labels.shares, weights)
        return 0.0 if shares is None or len(shares) > 2 else log_odds(shares)[0]

    def calibrated(self, run: _calibration.CalibrationRun) -> _calibration.Calibrated:
        weighted, model = self._weighted(run), run.work.model
        reached, factor = self._reached_and_factor(run, weighted)
        anchor = () if weighted is None else log_odds(weighted)
        moved = rescale_towards_anchor(model, run.params, factor, anchor)
        doubt = (1 - min(1.0, reached) * factor) * run.labels.error
        intercept = model.intercept_mask() if anchor and doubt else None
        errors = () if intercept is None else ((doubt, intercept),)
        return _calibration.Calibrated(moved, factor, errors=errors)

    def _reached_and_factor(
        self, run: _calibration.CalibrationRun, shares: tuple[float, ...] | None
    ) -> tuple[float, float]:
        """Return a and t."""
        model, plan, params = run.work.model, run.work.plan, run.params.astype(np.float64)
        own = params if (mask := model.intercept_mask()) is None else params[mask == 0]
        own, bend = own[own != 0], 1 / 4 if shares is None else shares[0] * shares[1]
        n, most = max(1, own.size), 1 / 2 if shares is None else max(shares)
        sampled = 1 / (bend * float(self.budgets.units.sum()))
        bend *= min(1.0, plan.clip_norm / (math.sqrt(n + 1) * most))
        known = type(plan.mechanism) is type(mechanism_for(plan.unit, plan.trust))
        step, reached = run.work.algorithm.heavy_ball(), 1.0
        variance = (self.level * plan.clip_norm / bend) ** 2
        if known and step is not None:
            along = np.array([bend + run.work.alpha])
            response = average_responses(along, plan.n_rounds, *step, run.n_last)[:, 0]
            noise = plan.mechanism.noise_on_mean(plan) * np.concatenate(plan.factors)
            variance = float(np.square(noise * response).sum())
            reached = -float(along[0] * response.sum())
        n_seen, squared = (n, min(1e30, float(own @ own))) if known else (0, 0.0)
        return reached, part_of_signal(n, n_seen, squared, reached, variance, sampled)


@dataclass(frozen=True, eq=False)
class TemperaturePlan(ScalePlan):
    """The sums from which the factor is estimated, and their cost, from public numbers."""

    evaluations, share = 2, math.sqrt(0.04 / 2)

    @cached_property
    def cut(self) -> float:
        """c, a public number."""
        per = self._noise(1.0)
        most = _calibration.MOST_CUT
        return min(most, max(_LEAST_CUT, _NOISE / per)) if per > 0 else most

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of the mean slope."""
        return self._noise(self.cut)

    def _noise(self, cut: float) -> float:
        """Standard deviation of the noise of the mean slope, clipped to ``cut``."""
        return self.sums.noise(0, Slopes(np.zeros(0), 1.0, cut))

    def asks(self, params: np.ndarray, value: float) -> _calibration.PredictionSum:
        return Slopes(params, value, self.cut)

    def calibrated(self, run: _calibration.CalibrationRun) -> _calibration.Calibrated:
        shares, model = self._weighted(run), run.work.model
        level = self.rated(shares)
        factor, error = self.find(run.mean, self.posterior(run, level))
        near = 1 / (1 + (_ANCHORED / level) ** 2) if level > 0 else 0.0
        anchor = () if shares is None else tuple(near * odds for odds in log_odds(shares))
        moved = rescale_towards_anchor(model, run.params, factor, anchor)
        along = np.asarray(model.rescaled(run.params, factor), np.float64)
        return _calibration.Calibrated(moved, factor, errors=((error, along),))

    def posterior(self, run: _calibration.CalibrationRun, level: float) -> FactorPosterior:
        """Return what is known before slopes are asked for; ``level`` is S."""
        model, values = run.work.model, run.params.astype(np.float64)
        mask, intercept, variance = model.output_mask(), model.intercept_mask(), _TYPICAL
        if model.is_linear:
            own = values if intercept is None else values[intercept == 0]
            variance = max(_OF_COEFFICIENTS * float(own @ own) / model.n_outputs, _LEAST_VARIANCE)
        scaled = run.work.penalty if mask is None else run.work.penalty * mask
        penalty = float(np.square(values) @ scaled)
        known = model.n_outputs, level, self.noise, self.cut, penalty
        return FactorPosterior(variance, *known)

    def find(
        self, mean: Callable[[Any, int], float], posterior: FactorPosterior
    ) -> tuple[float, float]:
        """Return the factor, and the noise of its logarithm.

        Parameters
        ----------
        mean : callable
            The noisy mean of the terms at a factor; the number counts the calls.
        posterior : FactorPosterior
            What is known before.
        """
        factor = posterior.first
        seen: list[tuple[float, float]] = []
        for number in range(self.evaluations):
            t = max(posterior.least, factor)
            seen.append((t, mean(t, number)))
            factor = posterior.factor(seen)
        return factor, self._error(posterior, seen)

    def _error(self, posterior: FactorPosterior, seen: list[tuple[float, float]]) -> float:
        """Return the standard deviation of the factor's logarithm due to the slopes' noise.

        Each slope is changed by one standard deviation in turn. A change of the first also moves
        the factor at which the second is taken, which changes the second by what is expected.
        """
        (a, at_a), (b, at_b) = seen
        best = posterior.factor(seen)
        moved = a, at_a + self.noise
        c = max(posterior.least, posterior.factor([moved]))
        there = at_b + posterior.expected(seen, c) - posterior.expected(seen, b)
        others = [moved, (c, there)], [seen[0], (b, at_b + self.noise)]
        factors = [posterior.factor(other) for other in others]
        return math.hypot(*(math.log(factor / best) for factor in factors))


def rescale_towards_anchor(
    model: Any, params: np.ndarray, factor: float, anchor: tuple[float, ...]
) -> np.ndarray:
    """Return the parameters (P,) with their distance from the anchor scaled by ``factor``."""
    moved: np.ndarray = model.rescaled(params, factor)
    if anchor:
        moved = moved.copy()
        moved[model.intercept_mask() > 0] += np.asarray(anchor) * (1 - factor)
    return moved


def part_of_signal(
    n: int, n_seen: int, squared: float, reached: float, noise: float, sampled: float
) -> float:
    """Return t for n coefficients; ``n_seen`` of them have the sum of squares ``squared``."""
    shares = (np.arange(100) + 0.5) / 100
    true = _MEDIAN * shares[:, None] / (1 - shares[:, None]) / n
    variance = reached**2 * (true + sampled) + noise * np.array([1 / _WITHIN, 1.0, _WITHIN])
    logs = -(n_seen * np.log(variance) + squared / variance) / 2
    likely = np.exp(logs - logs.max())
    return min(1.0, float((likely * reached * true / variance).sum() / likely.sum()))


def weighted_shares(
    shares: tuple[float, ...] | None, weights: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    """Return the labels' shares in the weighted objective; None if a label has weight 0."""
    if weights is None or shares is None:
        return shares
    both = [share * weight for share, weight in zip(shares, weights, strict=True)]
    return tuple(value / sum(both) for value in both) if min(both) > 0 else None


def posterior_share(found: float, noise: float, least: float) -> float:
    """Return the posterior mean of a share from a noisy count, under a prior Beta(3/2, 3/2)."""
    if noise > 0:
        grid = np.linspace(max(0.0, found - 6 * noise), min(1.0, found + 6 * noise), 2001)
        if grid[0] >= grid[-1]:  # far outside
            return min(1 - least, max(least, found))
        away = np.square((grid - found) / noise)
        likely = np.exp(-0.5 * (away - away.min())) * np.sqrt(grid * (1 - grid))
        found = float(likely @ grid / likely.sum())
    return min(1 - least, max(least, found))


def centred_slopes(raw: Array, slopes: Array, cut: float) -> Array:
    """Return slopes (n,) clipped to [-cut, cut], minus their expectation over labels.

    ``raw``, log odds (n, 1) or (n, K), determine the labels' probabilities.
    """
    likely, z = softmax(of_labels(raw), axis=-1), of_labels(raw)
    each = (likely * z).sum(axis=-1, keepdims=True) - z
    mean: Array = (likely * np.clip(each, -cut, cut)).sum(axis=-1)
    return np.clip(slopes, -cut, cut) - mean


def slope_terms(slopes: Array, cut: float) -> Array:
    """Return the terms of records' slopes (n,): clipped, on the grid of terms; 0 if not finite."""
    terms = np.where(np.isfinite(slopes), slopes, 0.0).astype(np.float64)
    return np.trunc(np.clip(terms, -cut, cut) / _calibration.STEP) * _calibration.STEP


def rarity(shares: tuple[float, ...]) -> float:
    """Return R: how much smaller the variance of labels is than that of equally frequent ones."""
    return (1 - 1 / len(shares)) / max(1e-6, 1 - sum(share**2 for share in shares))


def log_odds(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the raw predictions of the constant with these shares, one for each output."""
    logs = [math.log(share) for share in shares]
    if len(logs) == 2:
        return (logs[1] - logs[0],)
    centre = sum(logs) / len(logs)
    return tuple(value - centre for value in logs)
