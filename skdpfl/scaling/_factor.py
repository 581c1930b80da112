"""What two noisy slopes tell of the factor on raw predictions of a classifier: a posterior.

The model of predictions, with x a record's raw prediction less the mean of all, z = b + t (x + a)
what a factor t makes of it (b the anchor, a what the mean is away from it), q the labels' shares::

    x        normal, of variance V for each output
    labels   have the log odds  b_q + (u / V^0.5) x       u: how far the true ones reach; b_q goes
                                                          with the shares q
    log V    = log of what is told, +- its deviation      of linear models 0.8 |w|^2 of an output
    u        = V^0.5 t*                                   t* is the best factor
    t*       = m +- 0.6 m, m = 1 where training moves predictions little, 0.64 where it does; or
    u        = 0 +- 0.12, with odds  (s R^2 / 0.03)^1.5 (E / V)^2        s, R: see _temperature

A penalty alpha |w|^2 / 2 is what the slope of the loss balances at t = 1, so m is larger by
alpha |w|^2 / (V / (4 R)).

E is the V that noise alone would give: coefficients that are longer than that show a signal, at no
cost. A slope that was seen is what this says of its cut terms (normal quantiles stand for x; of
several outputs, fixed draws), but for noise and an error of 0.15 of the slope without a signal.

The factor is the one of the least expected loss. In it losses above that of the constant of the
shares count more, so a model is seldom worse than the constant and nobody told::

    s                                         up to 0.002   0.005 to 0.01   from 0.03 on
    equal labels   all that is above, times   1.5           1.5             0
    rare labels    all that is above, times   0             0               0.7
                   above by more than 0.005   1             16              0

Rare labels have the weight min(1, 3 (R - 1)), equal ones the rest. From 0.03 on noise drowns the
signal, and a warning says so (`excess_noise` of :mod:`skdpfl.models`). Between these s the numbers
are interpolated in log s. Where t is small, b goes to the log odds of q. All constants are by
experiment, on tables that are not those of benchmarks/auto/unseen.py, on those of rare.py and on
the data sets of hard.py beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import log_softmax, ndtri, softmax

from skdpfl.scaling._maps import Array

#: u that are thought of, and the width of each; log V in deviations
_REACH = np.concatenate([[0.0], np.geomspace(0.05, 6.0, 27)])
_WIDTH, _SPREADS = np.gradient(_REACH), np.array([-1.5, -0.75, 0.0, 0.75, 1.5])
#: factors that are thought of, times V^0.5
_FACTORS = np.geomspace(0.02, 5.0, 50)
#: t* with a signal, up to the first walk of predictions and from the second on; its deviation, in
#: t*; that of u without one
_SIGNAL, _WALKS, _SPREAD, _NONE = (1.0, 0.64), (1.0, 2.0), 0.6, 0.12
#: s R^2 at which both are as likely; the exponents of s R^2 and of E / V
_EVEN, _ODDS, _LONGER = 0.03, 1.5, 2.0
#: the largest odds; the error of the model of slopes
_MOST_ODDS, _MISFIT = 1e3, 0.15
#: how many times once more losses above the constant's count, by s: all of them, of equal labels
#: and of rare ones; and of rare ones those above by more than the last number
_NOISES = np.log([0.002, 0.005, 0.01, 0.03])
_EQUAL, _RARE = (1.5, 1.5, 1.5, 0.0), (0.0, 0.0, 0.0, 0.7)
_RARE_FAR, _FAR = (1.0, 16.0, 16.0, 0.0), 0.005
#: V^0.5 t where slopes are asked for: first (t = 1 at most), and at least
_ASKED, _ASKED_LEAST = 1.5, 0.5
#: t below which the anchor goes to the log odds of the shares
_FAINT = 0.6
#: variances of a normal variable's log odds are as this to those of a logistic one
_PROBIT = math.pi / 8
#: normal quantiles, or draws and their mirror images, of at most so many numbers
_POINTS, _NUMBERS = 32, 6400


@dataclass(frozen=True)
class FactorPrior:
    """What is known of a trained model before slopes are asked for.

    Parameters
    ----------
    level : float
        The noise s of the whole fit, in clip norms.
    walk : float
        How far the training's noise moves a typical raw prediction.
    variance, doubt : float
        The typical V, and the deviation of its logarithm.
    longer : float
        V / E; 1 where that is not known.
    shares : tuple of float, optional
        The labels' shares; public or paid for.
    pull : float
        The anchor's weight v.
    intercepts : tuple of float
        The trained intercept of each output.
    penalty : float, default=0.0
        alpha |w|^2 of the model.
    """

    level: float
    walk: float
    variance: float
    doubt: float
    longer: float
    shares: tuple[float, ...] | None = None
    pull: float = 0.0
    intercepts: tuple[float, ...] = (0.0,)
    penalty: float = 0.0

    def anchor(self, factor: float = _FAINT) -> tuple[float, ...]:
        """Return b of each output, for a factor; empty: 0."""
        if self.shares is None:
            return ()
        return tuple((pull_at(self.pull, factor) * np.array(log_odds(self.shares))).tolist())


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """The posterior of V and u, by `after`; ``noise`` and ``cut`` are those of mean slopes."""

    prior: FactorPrior
    noise: float
    cut: float

    @property
    def first(self) -> float:
        """The factor that the first slope is asked for at."""
        return min(1.0, _ASKED / math.sqrt(self.prior.variance))

    @property
    def least(self) -> float:
        """The smallest factor at which a slope is computed."""
        return _ASKED_LEAST / math.sqrt(self.prior.variance)

    def factor(self, seen: list[tuple[float, float]]) -> float:
        """Return the factor, after slopes were seen at factors."""
        factors, likely = _FACTORS / math.sqrt(self.prior.variance), self._likely(seen)
        loss = (self._lost * likely).sum(axis=(1, 2)) + self.prior.penalty * factors**2 / 2
        best = int(np.clip(loss.argmin(), 1, len(loss) - 2))
        below, least, above = loss[best - 1 : best + 2]
        bend = below - 2 * least + above
        off = float(np.clip((below - above) / (2 * bend), -1, 1)) if bend > 0 else 0.0
        return float(factors[best] * (factors[1] / factors[0]) ** off)

    def slopes(self, factor: float) -> Array:
        """Return the mean cut slope at a factor (V, u)."""
        if factor not in self._found:
            self._found[factor] = self._slopes(factor)
        return self._found[factor]

    @cached_property
    def _found(self) -> dict[float, Array]:
        """What `slopes` returned before."""
        return {}

    def _slopes(self, factor: float) -> Array:
        base = np.asarray(self.prior.anchor() or (0.0,))
        away = factor * (self._points + self._away(base))
        likely, steps = softmax(_of_labels(base + away), axis=-1), _of_labels(away)
        of_labels = (likely * steps).sum(axis=-1, keepdims=True) - steps
        cut = np.clip(of_labels, -self.cut, self.cut)
        return np.asarray(
            ((self._true - likely[:, None]) * cut[:, None]).sum(axis=-1).mean(axis=-1)
        )

    def expected(self, seen: list[tuple[float, float]], factor: float) -> float:
        """Return the expected slope at a factor, after slopes were seen."""
        return float((self._likely(seen) * self.slopes(factor)).sum())

    def _likely(self, seen: list[tuple[float, float]]) -> Array:
        """Return the probabilities of V and u."""
        logs = self._expected - np.square(_SPREADS)[:, None] / 2
        for factor, slope in seen:
            told = self.slopes(factor)
            variance = self.noise**2 + np.square(_MISFIT * told[:, :1])
            logs = logs - np.square(slope - told) / (2 * variance) - np.log(variance) / 2
        likely = np.exp(logs - logs.max()) * _WIDTH
        return np.asarray(likely / likely.sum())

    @cached_property
    def _expected(self) -> Array:
        prior, root = self.prior, math.sqrt(self.prior.variance)
        best = float(np.interp(prior.walk, _WALKS, _SIGNAL))
        best += prior.penalty * 4 * rarity_of(prior.shares) / prior.variance
        odds = (prior.level * rarity_of(prior.shares) ** 2 / _EVEN) ** _ODDS / prior.longer**_LONGER
        without = 2 / _NONE * np.exp(-np.square(_REACH / _NONE) / 2) * min(odds, _MOST_ODDS)
        wide = _SPREAD * best
        signal = np.exp(-np.square((_REACH / root - best) / wide) / 2) / (wide * root)
        logs: Array = np.log(without + signal + 1e-300)
        return logs

    @cached_property
    def _variances(self) -> Array:
        return self.prior.variance * np.exp(self.prior.doubt * _SPREADS)

    @cached_property
    def _points(self) -> Array:
        """x (V, m, k)."""
        return np.sqrt(self._variances)[:, None, None] * _points(len(self.prior.intercepts))

    @cached_property
    def _log_odds(self) -> Array:
        """Of the shares (k,); 0 where they are not known."""
        shares, k = self.prior.shares, len(self.prior.intercepts)
        return np.zeros(k) if shares is None else np.array(log_odds(shares))

    @cached_property
    def _true(self) -> Array:
        """Probabilities of labels (V, u, m, K)."""
        slopes = _REACH / np.sqrt(self._variances)[:, None]
        base = self._log_odds * np.sqrt(1 + _PROBIT * np.square(_REACH))[:, None]
        x = self._points[:, None]
        found: Array = softmax(_of_labels(base[:, None] + slopes[:, :, None, None] * x), axis=-1)
        return found

    def _away(self, base: Array) -> Array:
        """Return a (k,): what the mean prediction is away from an anchor; of two labels known."""
        prior = self.prior
        if prior.shares is None or len(prior.shares) != 2:
            return np.zeros(len(prior.intercepts))
        return np.asarray(prior.intercepts) - base

    @cached_property
    def _lost(self) -> Array:
        """The loss less that of the constant, and what counts more of it (factors, V, u).

        The loss is that with the anchor that slopes are seen with; whether it is above the
        constant's is told with the anchor of the factor.
        """
        factors = (_FACTORS / math.sqrt(self.prior.variance))[:, None, None, None]
        constant = log_softmax(_of_labels(self._log_odds))
        found = []
        for pull in (self.prior.pull, pull_at(self.prior.pull, factors)):
            base = pull * self._log_odds
            raw = base + factors * (self._points + self._away(base))
            more = log_softmax(_of_labels(raw), axis=-1) - constant
            found.append(
                np.einsum("vuml,tvml->tvu", self._true, more, optimize=True) / raw.shape[2]
            )
        gains, final = found
        return np.asarray(-gains + self._counted_more(-final))

    def _counted_more(self, above: Array) -> Array:
        """Return what losses above the constant's by so much count more."""
        noise = math.log(self.prior.level) if self.prior.level > 0 else -math.inf
        equal, rare, far = (np.interp(noise, _NOISES, f) for f in (_EQUAL, _RARE, _RARE_FAR))
        part = min(1.0, 3 * (rarity_of(self.prior.shares) - 1))
        times = (1 - part) * equal + part * rare
        more = times * np.maximum(0, above) + part * far * np.maximum(0, above - _FAR)
        return np.asarray(more)


def pull_at(weight: float, factor: Any) -> Any:
    """Return the anchor's weight at a factor: 1 where that is 0."""
    return 1 - (1 - weight) * np.minimum(1.0, factor / _FAINT)


@lru_cache(maxsize=16)
def _points(n_outputs: int) -> Array:
    """Return points (m, k) that stand for independent standard normal variables."""
    if n_outputs == 1:
        quantiles: Array = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
        return quantiles
    half = min(_POINTS, max(4, _NUMBERS // (2 * n_outputs)))
    drawn = np.random.default_rng(0).normal(size=(half, n_outputs))
    return np.concatenate([drawn, -drawn])


def _of_labels(raw: Array) -> Array:
    """Return raw predictions of all labels (.., K)."""
    return raw if raw.shape[-1] > 1 else np.concatenate([np.zeros_like(raw), raw], axis=-1)


def rarity_of(shares: tuple[float, ...] | None) -> float:
    """Return R, 1 if shares are not known."""
    return 1.0 if shares is None else rarity(shares)


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
