"""Calibration of a trained model's predictions, within the budget.

::

    c_j    = a record's term: |c_j| <= c, from the record, the model and what was released before
    m      = sum_i w_i S_i / n_i           S_i the noised sum over silo i's records

The scale of a classifier's raw predictions is estimated from several such means, the level of a
quantile's predictions from others. Terms are multiples of 2^-20 and at most 4 for any record, so
float64 sums 2^31 of them without rounding, in any order; :mod:`skdpfl.federation` proves the cost
of a sum.

**The scale: two classes, clipped without labels** (`skdpfl.losses.LogLoss`). Clipped gradients
balance at the true coefficients, so noise alone makes predictions too far from the constant with
the labels' shares, at which rounds begin, and rounds that end early leave them too near. They are
scaled about it by a factor that costs nothing. The correlations of P scaled columns have
eigenvalues l of mean 1; no more is known, so l is exponential. Along each, true coefficients have
variance A, rounds that end early reach a part of these, and coefficients w have the variance T::

    f        min(1, C / (rho max(p, 1 - p)))       gradients keep the part f of their slopes
    b        p (1 - p) / (1 + pi |w|^2 / 8)^0.5    the mean slope of a label where log odds are
                                                   normal, with the variance |w|^2
    c_r      what noise in round r does to a coefficient, where the curvature is h = f b l + alpha
    v, a     sum (s_r c_r)^2, -h sum c_r           variance by noise; the part reached, for which
                                                   the exponent in b is 1
    T        a^2 (A + 1 / (n b l)) + v
    P A      = V, V / (V + 0.3) uniform in (0, 1)  the variance of true log odds
    t        = E(<l a> A / <T>) / E(<l T> / <T>)   <> is the mean over l
               given |w|^2 ~ <T> chi^2 of P degrees of freedom

t minimises the expected mean square of errors of log odds. The mean gradient at coefficients of
length x, in their direction, is b x. It has the slope b over the whole way to x, and one with the
exponent 1.5 at its end: a takes the geometric mean. All columns may vary in one direction, l = P,
which few rounds reach far more than these l: t is at most 2 / a there, as more than twice the true
log odds are worse than the constant. An h in which rounds would diverge is cut to 3/4 of the least
such, as no direction has it: else one column at epsilon 30 had t = .65. Where rounds are not single
steps of constant length l = a = 1, b = p (1 - p), and v = (s C / (f b))^2, s the noise of the whole
fit. The noise of a mechanism from outside, whose steps may share it, is not known: there the prior
decides.

**The scale: others.** With clipped gradients and noise, predictions rank labels well but are too
large or too small as log odds. One factor t corrects most of this. With z a record's raw prediction
and l its loss::

    q        the labels' shares, if they are public
    R        = (1 - 1 / K) / (1 - sum q^2), how rare labels are: 1 for K equal shares, or unknown
    S        = s R^1.5                   s: the noise of the whole fit, in clip norms
    slope_j  = d l(y_j, t z_j) / d log t = sum over outputs of (dl / dz)(t z_j) t z_j
    e_j      = sum over labels of p(label) slope_j(label) cut to [-c, c], p the model's at t
    c_j      = slope_j cut to [-c, c], less e_j; times the record's weight; cut again, and rounded
               towards 0 to a multiple of 2^-20; not finite: 0
    g        = the noisy mean of c_j                          as above, with the guarantee

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

**Counts of events and of time**, where targets are censored times, at most 1 horizon: a record adds
1/2 or -1/2 by whether it has an event, and its time less 1/2. They spend as much, by the same rule.
The quotient of the two means, each under the prior above, is a hazard, at which rounds begin in all
intervals. From one event a record and horizon, noisy rounds do not come down to few events.

**The posterior of t**, from two noisy slopes. With x a record's raw prediction::

    x        normal, of variance V for each output
    labels   have the log odds  t* x                   t* is the best factor
    log t*   = log(0.7 / (1 + 24 S)) +- 0.7

V is 0.8 |w|^2 of an output of a linear model, and 1.5 for others. A slope that was seen is what
this says of its cut terms (normal quantiles stand for x; of several outputs, fixed draws), but for
noise and an error of 0.15 of the slope without a signal. The factor is the one of the least
expected loss, without the penalty: it may undo what alpha has shrunk.

**The level of a quantile's predictions.** Clipped to kappa, the slopes -q and 1 - q of records
balance at a quantile q' other than the requested q
(:func:`skdpfl.choosing._final_step.with_clipped_quantile`). Noise and smoothing also change the
share of targets below predictions. One shift d of all predictions brings this share to q; with z_j
a record's prediction and y_j its target, in scaled units::

    c_j    = 1/2 if y_j <= z_j + d, else -1/2              (also where something is not a number)
    F      = 1/2 + the noisy mean of c_j                   as above, with the guarantee
    model    F(d) = sigmoid(logit q + (d - d*) / tau)      d* the shift that is looked for
    prior    d* - tau (logit q - logit q') ~ Student's t with 4 degrees of freedom, scale 0.25;
             log tau alike within its grid
    d        the least one whose share of targets below, in the mean over the posterior, is q

At the start, and after each noisy mean, the posterior is computed on a grid of d* and tau. The next
mean is taken at its d; the last d is the shift. Each mean is weighted by its known noise (and 0.01
for the model), so the prior dominates if noise is large. All means together cost 4 % of mu^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import log_softmax, ndtri, softmax

from skdpfl.algorithms import is_vector
from skdpfl.algorithms.average_noise import average_responses, settled
from skdpfl.federation import BoundedSum, Federation, SiloBudgets, SiloData, SumPlan, Work
from skdpfl.privacy.mechanisms import mechanism_for
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.scaling._maps import Array
from skdpfl.scaling._moments import STEP

#: the largest cut
MOST_CUT = 4.0
#: records whose raw predictions are held at once
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class PredictionSum(BoundedSum):
    """Base class of sums of one bounded number per record, computed from a model's prediction."""

    params: np.ndarray
    on_grid = True

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @abstractmethod
    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        """Return the terms (n,) of records with these raw predictions (n, k)."""

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if work is None or not is_vector(self.params, work.model.size):
            raise ValueError(
                "A sum over predictions needs a model, which this fit does not have yet."
            )

    def model_params(self, work: Work) -> np.ndarray:
        """Return the parameters of the model that predicts."""
        return self.params

    def sums(self, data: SiloData, work: Work) -> Iterator[tuple[np.ndarray, Array]]:
        """See `BoundedSum.sums`.

        Notes
        -----
        A silo's sum depends on its own records only, to the last bit: raw predictions are computed
        silo by silo, terms record by record, and their sum is exact.
        """
        work = work.apart()
        maps = work.features, work.target, work.target_dtype, work.class_weights
        data, params = data.mapped(*maps), self.model_params(work)
        sums = np.zeros(len(data.sizes))
        for silos, rows in data.alike(_BLOCK):
            y = data.targets(rows)
            targets, weights = (y, 1.0) if y.dtype.names is None else (y["target"], y["weight"])
            X = data.at(rows, work.dtype)[0]
            raw = work.model.raw(params, X.reshape(len(silos), -1, X.shape[-1]))
            terms = self.of_predictions(raw.reshape(len(y), -1), targets, weights, work.loss)
            sums[silos] += terms.reshape(len(silos), -1).sum(axis=1)
        here = np.flatnonzero(data.sizes)
        yield here, sums[here]


class LabelShares(NamedTuple):
    """The labels' shares, public or counted (None: unknown), and the error of their log odds."""

    shares: tuple[float, ...] | None = None
    error: float = 0.0


class Calibrated(NamedTuple):
    """A model's parameters after calibration, with the estimated factor or shift.

    ``errors`` are standard deviations of the parameters due to the noise of the releases, each with
    its direction.
    """

    params: np.ndarray
    factor: float = 1.0
    shift: float = 0.0
    errors: tuple[tuple[float, np.ndarray], ...] = ()


@dataclass(frozen=True, eq=False)
class CalibrationPlan(ABC):
    """Base class: the sums for a calibration, and their cost, from public numbers.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation; records are protected.
    """

    budgets: SiloBudgets
    #: purpose of the sums, their number, and the part of mu that each of them spends
    purpose: ClassVar[str]
    evaluations: ClassVar[int]
    share: ClassVar[float]

    def asks(self, params: np.ndarray, value: Any) -> PredictionSum:
        """Return the sum at a factor, or a shift, of predictions."""
        raise NotImplementedError(f"{type(self).__name__} asks nothing of a trained model.")

    @abstractmethod
    def calibrated(self, run: CalibrationRun) -> Calibrated:
        """Return the model after calibration."""

    @cached_property
    def labels(self) -> SumPlan:
        """The plan of the labels' count before training; empty if they are not counted."""
        return SumPlan(self.budgets, "labels", ())

    def counted(self, federation: Federation, streams: Streams) -> LabelShares:
        """Return the labels' shares, which may be counted; before anything else is asked."""
        return LabelShares()

    @cached_property
    def sums(self) -> SumPlan:
        """The plan of the sums; each costs at most mu = 1."""
        return SumPlan(self.budgets, self.purpose, (self.spent(self.share),) * self.evaluations)

    def spent(self, share: float) -> Array:
        """Return the mu that each silo spends on a sum, at most 1; inf for exact ones."""
        mu, finite = self.budgets.spends, np.isfinite(self.budgets.spends)
        return np.where(finite, np.minimum(share * np.where(finite, mu, 0.0), 1.0), np.inf)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a mean."""
        return self.sums.noise(0, self.asks(np.zeros(0), 1.0))


class CalibrationRun(NamedTuple):
    """A plan, a trained model, the silos, the server's random streams, and labels' shares.

    The model is the average of ``n_last`` rounds' models; None: of the second half.
    """

    plan: CalibrationPlan
    federation: Federation
    work: Work
    params: np.ndarray
    streams: Streams
    labels: LabelShares = LabelShares()
    n_last: int | None = None

    def mean(self, value: Any, number: int) -> float:
        """Return the noisy mean term."""
        plan, budgets = self.plan, self.plan.budgets
        question = plan.sums.question(number, plan.asks(self.params, value), self.work)
        sums = question.each(self.federation, self.streams)
        if budgets.as_one:
            return float(sums[0] / budgets.units.sum())
        return float(budgets.weights @ (sums / budgets.units))


def finite(value: float) -> float:
    """Return a finite number, or raise."""
    if not math.isfinite(value):
        raise ValueError(
            f"The factor or shift of predictions must be a finite number; got {value!r}."
        )
    return value


#: grid of factors
_FACTORS = np.geomspace(0.01, 4.0, 49)
#: the prior's median of t* without noise, how much S lowers it, and its deviation of log t* (the
#: median alone, no slopes: log loss +.015, +.078 at worst)
_BEST_FACTOR, _BY_NOISE, _WIDE = 0.7, 24.0, 0.7
#: the error of the model of slopes (none: log loss +.013 at worst)
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
    """

    variance: float
    n_outputs: int
    level: float
    noise: float
    cut: float

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
    normals = np.random.default_rng(0).normal(size=(half, n_outputs))
    return np.concatenate([normals, -normals])


def of_labels(raw: Any) -> Array:
    """Return raw predictions of all labels (.., K)."""
    return raw if raw.shape[-1] > 1 else np.concatenate([np.zeros_like(raw), raw], axis=-1)


#: V over |w|^2 of a linear model, and at least; V of other models
_OF_COEFFICIENTS, _LEAST_VARIANCE, _TYPICAL = 0.8, 1e-6, 1.5
#: the cut is as wide as this noise on the mean slope allows, and at least so wide
_NOISE, _LEAST_CUT = 0.05, 0.7
#: S at which an anchor beside slopes is half the log odds (0, always the whole: log loss +.0052; no
#: anchor: +.020 at worst); the exponent of R in S
_ANCHORED, _POWER = 0.015, 1.5
#: the prior's median of V without slopes
_MEDIAN = 0.3
#: the middles of so many equal parts of (0, 1)
_UNIFORM = (np.arange(100) + 0.5) / 100
#: the wanted error of a share, and the least and largest part of mu^2 for counts (always 1 %: log
#: loss +.0122; 4 %: +.0046)
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
class Slopes(PredictionSum):
    """The sum of records' clipped slopes in the logarithm of a factor on raw predictions."""

    factor: float
    cut: float

    @property
    def radius(self) -> float:
        return self.cut

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        finite(self.factor)
        if not 0 < self.cut <= MOST_CUT:
            raise ValueError(f"Slopes' clip value must be in (0, {MOST_CUT}]; got {self.cut!r}.")

    def model_params(self, work: Work) -> np.ndarray:
        return np.asarray(work.model.rescaled(self.params, self.factor))

    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        slopes = (loss.gradient(y, raw) * raw).sum(axis=-1)
        return slope_terms(centred_slopes(raw, slopes, self.cut) * weights, self.cut)


@dataclass(frozen=True, eq=False)
class Events(BoundedSum):
    """The counts of events and of time, each less 1/2 a record.

    Targets are times in horizons, those without an event with the sign -; the terms of any other
    numbers are bounded as well.
    """

    on_grid: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)

    @property
    def radius(self) -> float:
        return math.sqrt(0.5)

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        if n_classes is not None:
            raise ValueError("Events are counted where targets are times.")

    def sums(self, data: SiloData, work: Any) -> Iterator[tuple[np.ndarray, Array]]:
        if len(here := np.flatnonzero(data.sizes)):
            rows, edges = data.rows_together(here)
            y = np.asarray(data.y[rows], np.float64)
            time = np.trunc(np.minimum(np.abs(y), 1.0) / STEP) * STEP
            terms = np.column_stack([~np.signbit(y), time]) - 0.5
            terms[~np.isfinite(y)] = 0.0
            yield here, np.add.reduceat(terms, edges[:-1], axis=0)


_LABELS, _EVENTS = Labels(), Events()


@dataclass(frozen=True, eq=False)
class ScalePlan(CalibrationPlan):
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

    def counted(self, federation: Federation, streams: Streams) -> LabelShares:
        return LabelShares(self.shares)

    @cached_property
    def _share_of_counts(self) -> float:
        """The part of mu that counts before training spend."""
        least, most = _COUNTS
        wanted = (self.level / self.budgets.excess * _LABELS.radius / _ERROR) ** 2
        return math.sqrt(min(most, max(least, wanted)))

    def rated(self, shares: tuple[float, ...] | None) -> float:
        """Return S, for shares in what is minimised."""
        return self.level * (1.0 if shares is None else rarity(shares)) ** _POWER

    def _weighted(self, run: CalibrationRun) -> tuple[float, ...] | None:
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

    def counted(self, federation: Federation, streams: Streams) -> LabelShares:
        if not self.counts:
            return super().counted(federation, streams)
        noisy = 0.5 + float(self.labels.question(0, _LABELS).mean(federation, streams))
        noise, least = self.labels.noise(0, _LABELS), 1 / (float(self.budgets.units.sum()) + 2)
        share = posterior_share(noisy, noise, least)
        return LabelShares((1 - share, share), noise / (share * (1 - share)))

    def calibrated(self, run: CalibrationRun) -> Calibrated:
        weighted, model = self._weighted(run), run.work.model
        reached, factor = self._reached_and_factor(run, weighted)
        anchor = () if weighted is None else log_odds(weighted)
        moved = rescale_towards_anchor(model, run.params, factor, anchor)
        doubt = (1 - min(1.0, reached) * factor) * run.labels.error
        intercept = model.intercept_mask() if anchor and doubt else None
        errors = () if intercept is None else ((doubt, intercept),)
        return Calibrated(moved, factor, errors=errors)

    def _reached_and_factor(
        self, run: CalibrationRun, shares: tuple[float, ...] | None
    ) -> tuple[float, float]:
        """Return a and t."""
        model, plan, params = run.work.model, run.work.plan, run.params.astype(np.float64)
        own = params if (mask := model.intercept_mask()) is None else params[mask == 0]
        own, bend = own[own != 0], 1 / 4 if shares is None else shares[0] * shares[1]
        n, largest = max(1, own.size), 1 / 2 if shares is None else max(shares)
        sampled = 1 / (bend * float(self.budgets.units.sum()))
        bend *= min(1.0, plan.clip_norm / (math.sqrt(n + 1) * largest))
        known = type(plan.mechanism) is type(mechanism_for(plan.unit, plan.trust))
        n_seen, squared = (n, min(1e30, float(own @ own))) if known else (0, 0.0)
        step, unit = run.work.algorithm.heavy_ball(), np.ones(1)
        along = Directions(unit, unit, (self.level * plan.clip_norm / bend) ** 2 * unit)
        limit = math.inf
        if known and step is not None:
            values, spread = -np.log(_UNIFORM[2::5]), math.sqrt(1 + math.pi / 8 * squared)
            bends, sampled = bend / spread * values, sampled * spread
            three = np.concatenate([bends, bends / spread, [bend / spread * n]])
            slopes = settled(three + run.work.alpha, *step)
            responses = average_responses(slopes, plan.n_rounds, *step, run.n_last)
            noise = plan.mechanism.noise_on_mean(plan) * np.concatenate(plan.factors)
            variances = (np.square(noise) @ np.square(responses))[: len(values)]
            *_, reached, (most,) = np.split(-slopes * responses.sum(axis=0), [len(values), -1])
            along, limit = Directions(values, reached, variances), 2 / max(float(most), 1e-300)
        factor = min(limit, part_of_signal(n, n_seen, squared, along, sampled))
        return float(along.reached.mean()), factor


@dataclass(frozen=True, eq=False)
class EventsPlan(ScalePlan):
    """Counts of events and of the time that records were observed: their quotient is a hazard."""

    evaluations, share = 0, 0.0

    @cached_property
    def labels(self) -> SumPlan:
        """The plan of the counts."""
        return SumPlan(self.budgets, "events", (self.spent(self._share_of_counts),))

    def counted(self, federation: Federation, streams: Streams) -> LabelShares:
        """Return the shares without and with an event in a horizon if none were censored."""
        means = 0.5 + np.asarray(self.labels.question(0, _EVENTS).mean(federation, streams))
        noise, least = self.labels.noise(0, _EVENTS), 1 / (float(self.budgets.units.sum()) + 2)
        events, time = (posterior_share(float(mean), noise, least) for mean in means)
        without = max(math.exp(-events / time), least)
        return LabelShares((without, 1 - without), noise * math.hypot(1 / events, 1 / time))

    def calibrated(self, run: CalibrationRun) -> Calibrated:
        along = 1 - run.work.model.penalty_mask()  # noisy rounds may not leave where they began
        return Calibrated(run.params, errors=((run.labels.error, along),))


@dataclass(frozen=True, eq=False)
class TemperaturePlan(ScalePlan):
    """The sums from which the factor is estimated, and their cost, from public numbers."""

    #: 4 % of mu^2 (up to 12 % where noise is large: no better)
    evaluations, share = 2, math.sqrt(0.04 / 2)

    @cached_property
    def cut(self) -> float:
        """c, a public number."""
        per = self._noise(1.0)
        most = MOST_CUT
        return min(most, max(_LEAST_CUT, _NOISE / per)) if per > 0 else most

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of the mean slope."""
        return self._noise(self.cut)

    def _noise(self, cut: float) -> float:
        """Standard deviation of the noise of the mean slope, clipped to ``cut``."""
        return self.sums.noise(0, Slopes(np.zeros(0), 1.0, cut))

    def asks(self, params: np.ndarray, value: float) -> PredictionSum:
        return Slopes(params, value, self.cut)

    def calibrated(self, run: CalibrationRun) -> Calibrated:
        shares, model = self._weighted(run), run.work.model
        level = self.rated(shares)
        factor, error = self.find(run.mean, self.posterior(run, level))
        near = 1 / (1 + (_ANCHORED / level) ** 2) if level > 0 else 0.0
        anchor = () if shares is None else tuple(near * odds for odds in log_odds(shares))
        moved = rescale_towards_anchor(model, run.params, factor, anchor)
        along = np.asarray(model.rescaled(run.params, factor), np.float64)
        return Calibrated(moved, factor, errors=((error, along),))

    def posterior(self, run: CalibrationRun, level: float) -> FactorPosterior:
        """Return what is known before slopes are asked for; ``level`` is S."""
        model, values = run.work.model, run.params.astype(np.float64)
        intercept, variance = model.intercept_mask(), _TYPICAL
        if model.is_linear:
            own = values if intercept is None else values[intercept == 0]
            variance = max(_OF_COEFFICIENTS * float(own @ own) / model.n_outputs, _LEAST_VARIANCE)
        return FactorPosterior(variance, model.n_outputs, level, self.noise, self.cut)

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


class Directions(NamedTuple):
    """Directions of coefficients: eigenvalues of the columns, parts reached, variances by noise."""

    eigenvalues: Array
    reached: Array
    noise: Array


def part_of_signal(n: int, n_seen: int, squared: float, along: Directions, sampled: float) -> float:
    """Return t for n coefficients; ``n_seen`` of them have the sum of squares ``squared``."""
    (values, a, noise), true = along, _MEDIAN * _UNIFORM / (1 - _UNIFORM) / n
    variances = np.outer(true, a**2) + a**2 * sampled / values + noise
    mean = variances.mean(axis=1)
    logs = -(n_seen * np.log(mean) + squared / mean) / 2
    likely = np.exp(logs - logs.max()) / mean
    return float((likely @ true) * (values @ a) / (likely @ (variances @ values)))


def weighted_shares(
    shares: tuple[float, ...] | None, weights: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    """Return the labels' shares in the weighted objective; None if a label has weight 0."""
    if weights is None or shares is None:
        return shares
    both = [share * weight for share, weight in zip(shares, weights, strict=True)]
    return tuple(value / sum(both) for value in both) if min(both) > 0 else None


def first_raw_prediction(labels: LabelShares, weights: tuple[float, ...] | None) -> float:
    """Return where rounds of two classes begin: the constant's raw prediction, if it is known.

    Columns then do none of the intercept's work. ``weights`` are those of classes.
    """
    shares = weighted_shares(labels.shares, weights)
    return 0.0 if shares is None or len(shares) > 2 else log_odds(shares)[0]


def first_log_hazard(labels: LabelShares) -> float:
    """Return where rounds of survival begin: the log hazard per horizon; 0 where it is unknown."""
    return 0.0 if labels.shares is None else math.log(-math.log(labels.shares[0]))


def posterior_share(share: float, noise: float, least: float) -> float:
    """Return the posterior mean of a share from a noisy count, under a prior Beta(3/2, 3/2)."""
    if noise > 0:
        grid = np.linspace(max(0.0, share - 6 * noise), min(1.0, share + 6 * noise), 2001)
        if grid[0] >= grid[-1]:  # far outside
            return min(1 - least, max(least, share))
        away = np.square((grid - share) / noise)
        likely = np.exp(-0.5 * (away - away.min())) * np.sqrt(grid * (1 - grid))
        share = float(likely @ grid / likely.sum())
    return min(1 - least, max(least, share))


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
    return np.trunc(np.clip(terms, -cut, cut) / STEP) * STEP


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


#: the grid of shifts, and of tau; the prior's scale and degrees of freedom; the model's error
_SHIFTS, _SLOPES = np.linspace(-2.5, 2.5, 161), np.geomspace(0.02, 1.2, 11)
_PRIOR, _FREEDOM, _SHIFT_MISFIT = 0.25, 4.0, 0.01


@dataclass(frozen=True, eq=False)
class Below(PredictionSum):
    """The count of targets below raw predictions plus a shift: 1/2 for each, -1/2 for others.

    Weights of records are ignored.
    """

    shift: float

    @property
    def radius(self) -> float:
        return 0.5

    def check(self, n_features: int, n_classes: int | None, work: Any) -> None:
        super().check(n_features, n_classes, work)
        finite(self.shift)

    def of_predictions(self, raw: Array, y: Array, weights: Array | float, loss: Any) -> Array:
        moved = raw[:, 0] + raw.dtype.type(self.shift)
        return np.where(y <= moved, 0.5, -0.5)


@dataclass(frozen=True, eq=False)
class ShiftPlan(CalibrationPlan):
    """The counts that estimate the shift, and their cost, from public numbers.

    Parameters
    ----------
    budgets : SiloBudgets
        Silo sizes, budgets as mu, trust and relation; records are protected.
    quantile : float, default=0.5
        The wanted share of targets below predictions.
    """

    quantile: float = 0.5
    purpose = "shift"
    #: 4 % of mu^2, as a temperature's
    evaluations, share = 6, math.sqrt(0.04 / 6)

    def asks(self, params: np.ndarray, value: float) -> Below:
        return Below(params, value)

    def calibrated(self, run: CalibrationRun) -> Calibrated:
        trained, intercept = run.work.loss.quantile_level, run.work.model.intercept_mask()
        assert trained is not None
        assert intercept is not None
        shift, error = self.find(run.mean, trained)
        moved = run.params + (shift * intercept).astype(run.params.dtype)
        return Calibrated(moved, shift=shift, errors=((error, intercept),))

    def find(self, mean: Callable[[float, int], float], trained: float) -> tuple[float, float]:
        """Return the shift of predictions, and the posterior's standard deviation.

        Parameters
        ----------
        mean : callable
            The noisy mean of the terms at a shift d; the number counts the calls.
        trained : float
            The quantile that the model was trained for.
        """
        shifts, slopes = _SHIFTS[:, None], _SLOPES[None, :]
        wanted, noise = _logit(self.quantile), math.hypot(self.noise, _SHIFT_MISFIT)
        away = (shifts - slopes * (wanted - _logit(trained))) / _PRIOR
        likely = -(_FREEDOM + 1) / 2 * np.log1p(away**2 / _FREEDOM)
        at_all, number = _below(wanted, _SHIFTS[:, None, None], shifts, slopes), 0
        while True:
            weights = np.exp(likely - likely.max())
            weights /= weights.sum()
            shares = (at_all * weights).sum(axis=(1, 2))
            shift = float(np.interp(self.quantile, shares, _SHIFTS))
            if number == self.evaluations:
                break
            share = 0.5 + mean(shift, number)
            likely -= 0.5 * ((share - _below(wanted, shift, shifts, slopes)) / noise) ** 2
            number += 1
        return shift, math.sqrt(float((weights * (shifts - shift) ** 2).sum()))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _below(wanted: float, shift: float | Array, true: Array, slopes: Array) -> Array:
    """Return the share of targets below predictions plus ``shift``."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-(wanted + (shift - true) / slopes))))
