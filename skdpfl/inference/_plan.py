r"""The plan of intervals: the sums asked at the fitted model, their cost, and expected widths.

::

    mu^2 of a fit    30 % the fit: scales, rounds, counts of labels, as without intervals
                     70 % the sums at its model (skdpfl.inference._sums)
        labels, counts, times: score .42, curvature .28; "robust": .36, .24, meat .10
        numbers: residuals' size .04, moments .66; "robust": .04, .54, meat .12

    a    = N mu / (sqrt(f) k^1.5)         N records, k parameters, f = m (trust "silo", m silos),
                                          m / (m - t) ("secagg"), 1 ("server"); below 7: refused

The rounds are the first stage: their model is the pilot at which the sums are asked, and stays the
model of predictions. The sums give the estimate, unshrunk, and its interval (`_fieller`).

Formal guarantee
----------------
All shares are constants, and a is public. The sums are in the plan of the fit before a record is
read: the accountant composes them with the rounds, and silos elsewhere price them by themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, norm

from skdpfl.federation import Federation, SiloBudgets, SumPlan, Work
from skdpfl.inference import _sums
from skdpfl.inference._fieller import Array, NewtonStep, unpacked
from skdpfl.privacy.calibration import automatic_delta
from skdpfl.privacy.events import Trust, read_guarantee
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.randomness.streams import Streams

Kind = Literal["labels", "counts", "numbers", "times"]
Covariance = Literal["model", "robust", "silos"]

#: parts of mu^2, in the order in which the sums are asked; numbers: of residuals' size, moments
_PARTS: dict[tuple[bool, bool], tuple[float, ...]] = {
    (False, False): (0.42, 0.28),
    (False, True): (0.36, 0.24, 0.10),
    (True, False): (0.04, 0.66),
    (True, True): (0.04, 0.54, 0.12),
}
#: the part of mu^2 that all sums spend
PART = 0.70
#: tables with a smaller a are refused, and fewer silos as replicates
LEAST, LEAST_SILOS = 7.0, 10
#: a pilot whose events differ from the records' by this factor, and so many deviations of noise, is
#: far: it may be a fifth off where step and curvature then are
_MANY_TIMES, _SURELY = 1.2, 2.0
_FAR = (
    "the fit did not come near the events' number, so its curvature is not theirs: leave "
    "learning_rate and calibrate as they are, give counts closer target_bounds, or a larger budget"
)
#: the slope at a typical record
_SLOPES: dict[str, float] = {"labels": 0.25, "counts": 1.0, "times": 0.5}
#: the largest noise of outer products over the curvature, for persons, and as asked for
_PRECISE_NOISE, _USEFUL_NOISE = 0.25, 0.75
#: values of R over the root mean square norm of rows
_RADII = (1.0, 1.15, 1.35, 1.6, 2.0, 3.0)
#: C over R b, and K over R^2 h, at a typical record; b and h of labels at probability 1/2 to 3/4
_OF_SCORE = {"labels": 1.5, "counts": 1.2, "times": 1.0}
_OF_CURVATURE = {"labels": 1.0, "counts": 2.0, "times": 1.2}
#: E min(1, |e| / 2) over the deviation of e, and the share of normal errors within 2.5 deviations
_MEAN_SIZE, _WITHIN = math.sqrt(2 / math.pi) / 2, 2 * float(norm.cdf(_sums.CUT)) - 1
#: the least and largest deviation of residuals, in the target's; E w^2 without an intercept
_SIGMA, _ROWS_LEFT = (0.05, 1.0), 0.9


@dataclass(frozen=True, eq=False)
class IntervalPlan:
    """The sums for intervals.

    Parameters
    ----------
    budgets : SiloBudgets
        The silos' sizes, and the mu of the whole fit.
    kind : {"labels", "counts", "numbers", "times"}
        The targets; times of survival.
    k : int
        The number of parameters, with intercepts.
    intercept : int
        The number of intercepts: the intervals of a hazard.
    covariance : {"model", "robust", "silos"}
        Where the score's variance comes from.
    limited : bool
        Whether features are clipped to the map's limits, as the user asked.
    cuts : tuple of float
        The inner ends of a hazard's intervals, in shares of the horizon.
    """

    budgets: SiloBudgets
    kind: Kind
    k: int
    intercept: int = 1
    covariance: Covariance = "model"
    limited: bool = False
    cuts: tuple[float, ...] = ()

    @cached_property
    def parts(self) -> tuple[float, ...]:
        """The parts of mu^2 of the sums."""
        return _PARTS[self.kind == "numbers", self.uses_meat]

    @cached_property
    def uses_meat(self) -> bool:
        """Whether the scores' outer products are released.

        For persons, whose rows are not independent, they are where they are precise. Else the
        curvature is an upper bound of the scores' variance: that of a mean is at most the mean one.
        """
        clustered = self.budgets.unit == "person" and self.covariance == "model"
        return self.covariance == "robust" or (clustered and self._error_of_meat < _PRECISE_NOISE)

    @property
    def _error_of_meat(self) -> float:
        """The noise in the outer products over the curvature, about."""
        part, radius = _PARTS[self.kind == "numbers", True][2], self.longest * math.sqrt(self.k)
        slope = 1.0 if self.kind == "numbers" else _SLOPES[self.kind]
        limit = _sums.CUT * radius
        if self.kind != "numbers":
            limit = _OF_SCORE[self.kind] * radius * _bound(self.kind, slope)
        return math.sqrt(2) * limit**2 * self._noise_of_mean(part) / slope

    @cached_property
    def sums(self) -> SumPlan:
        """The plan of the sums."""
        mus = tuple(math.sqrt(part) * self.budgets.spends for part in self.parts)
        return SumPlan(self.budgets, "intervals", mus)

    @property
    def a(self) -> float:
        """How much the table and the budget can tell: N mu / (sqrt(f) k^1.5)."""
        noise = self._noise_of_mean(1.0)
        return math.inf if not noise else 1 / (noise * self.k**1.5)

    def _noise_of_mean(self, part: float) -> float:
        """Deviation of the noise of a mean of terms with diameter 1, for a part of mu^2.

        Under zero-out it is that of twice the radius, which costs as much.
        """
        budgets = self.budgets
        mu = math.sqrt(part) * budgets.spends
        halved = 1.0 if budgets.neighbours == "replace" else 2.0
        return budgets.excess * budgets.noise_of_mean(1 / (mu * halved)) if np.all(mu) else math.inf

    @cached_property
    def longest(self) -> float:
        """R over the root mean square norm of rows: where expected widths are least."""
        return min(_RADII, key=self._half_width)

    def length(self, row_norm: float | None) -> float:
        """Return R for rows with this root mean square norm (None: 1 a feature; any fits zeros)."""
        norm = math.sqrt(self.k - self.intercept) if row_norm is None else row_norm
        return self.longest * (math.hypot(norm, float(self.intercept > 0)) or 1.0)

    @property
    def _longer(self) -> float:
        """What a hazard's intervals add to the squared norm of curvature's rows, about."""
        return 1.5 * (self.intercept - 1) if self.kind == "times" else 0.0

    @property
    def stretch(self) -> Array:
        """The factors (k,) of the step's parameters: sqrt(B) for the log hazards of B intervals."""
        n = self.intercept if self.kind == "times" else 0
        return np.append(np.ones(self.k - n), np.full(n, math.sqrt(max(n, 1))))

    def expected_width(self, confidence: float = 0.95) -> float:
        """Return the expected width for a coefficient of a standardised feature.

        Other features are uncorrelated and effects are small: odds are even, counts have the mean
        1, residuals the deviation 1.
        """
        return 2 * float(norm.ppf((1 + confidence) / 2)) * self._half_width(self.longest)

    def _half_width(self, longest: float) -> float:
        """Return the expected standard error, with rows cut at this R over their norm."""
        n, d = float(self.budgets.units.sum()), self.k - self.intercept
        radius = longest * math.sqrt(d + (self.intercept > 0))
        squares = chi2.ppf((np.arange(64) + 0.5) / 64, d)
        whole = squares + (self.intercept > 0)
        left = float((squares * np.minimum(1, radius**2 / whole)).mean() / squares.mean())
        if self.kind == "numbers":
            slope, score, curvature = 1.0, _sums.CUT * radius, 2 * radius**2
            numbers = 1, 1
        else:
            slope = _SLOPES[self.kind]
            bound = _bound(self.kind, slope)
            score = _OF_SCORE[self.kind] * radius * bound
            curvature = _OF_CURVATURE[self.kind] * (radius**2 + self._longer) * slope
            numbers = 0, 1
        parts = _PARTS[self.kind == "numbers", self.covariance == "robust"]
        of_score, of_curvature = (n * self._noise_of_mean(parts[i]) for i in numbers)
        noise, fisher = (2 * score * of_score) ** 2, n * slope * left
        missed = noise / fisher**2 * self.k  # |u|^2: the pilot's error, and the step's
        return math.sqrt(fisher + noise + (curvature * of_curvature) ** 2 * missed) / fisher

    def check(self, delta: float) -> None:
        """Raise, before a record is read, if the table is too small for the budget."""
        m = self.budgets.n_silos
        if self.covariance == "silos" and (m < LEAST_SILOS or self.budgets.as_one):
            raise ValueError(
                f'covariance="silos" needs at least {LEAST_SILOS} silos, and trust="silo"; got '
                f"{m}, trust={self.budgets.trust!r}."
            )
        if self.a >= LEAST and self.covariance == "robust" and self._error_of_meat > _USEFUL_NOISE:
            raise ValueError(
                'covariance="robust": the noise would hide the variance of the scores (it is '
                f'{self._error_of_meat:.2g} times as large). Use covariance="model", or about '
                f"{self._error_of_meat / _USEFUL_NOISE:.2g} times the records."
            )
        if self.a >= LEAST:
            return
        short, n = LEAST / self.a, float(self.budgets.units.sum())
        mu = float(self.budgets.spends.min())
        raise ValueError(
            f'inference="intervals": {n:,.0f} records are too few for intervals of {self.k} '
            f"coefficients at this budget (a = {self.a:.2g}, at least {LEAST:g}); nothing has been "
            f"spent. About {_up(n * short)} records would do, or an epsilon of about "
            f"{_up(gaussian_epsilon(mu * short, delta))}, or "
            f"{max(1, int((self.k**1.5 / short) ** (2 / 3)))} coefficients with intercepts."
        )

    # ---- the sums ----------------------------------------------------------------------------

    def step(self, run: IntervalRun) -> NewtonStep:
        """Ask the silos, and return the Newton step from the fitted model."""
        if self.kind == "numbers":
            return self._linear(run)
        slope = _typical(run) or _SLOPES[self.kind]
        bound = _bound(self.kind, slope)
        cuts = (
            _OF_SCORE[self.kind] * run.length * bound,
            _OF_CURVATURE[self.kind] * (run.length**2 + self._longer) * slope,
        )
        known = run.pilot, bool(self.intercept), self.limited
        score, curvature, of_meat = self._asked(known, cuts, run.scale / run.exposure)
        meat = of_meat if self.uses_meat else None
        scores, curvatures = run.total(0, score), run.total(1, curvature)
        each, t = [self._structured(own) for own in curvatures], self.stretch
        noises = run.noise(0, score), run.noise(1, curvature)
        both = scores.sum(axis=0), np.sum(each, axis=0)
        far = self.kind == "counts" and self.intercept > 0 and self._is_far(*both, noises)
        step = NewtonStep(
            run.pilot / t,
            both[0] * t,
            both[1],
            noises[0] * t,
            noises[1],
            meat=None if meat is None else unpacked(run.total(2, meat)[0], self.k) * np.outer(t, t),
            each=self._each(scores * t, each),
            far=_FAR if far else "",
        )
        return from_events(step, self.intercept) if self.kind == "times" else step

    def _is_far(self, score: Array, curvature: Array, noises: tuple[float, float]) -> bool:
        """Whether there are surely other numbers of events than the pilot says, by much.

        Where it has r times as many, the curvature and the slopes' step are about r times as large
        as they should be. The intercept's sums are of events (counts, whose variance is their mean)
        less expected ones, and of expected ones.
        """
        expected = float(curvature[-1, -1])
        events = expected + float(score[-1])
        noise = math.sqrt(noises[0] ** 2 + noises[1] ** 2 + max(events, 0.0))
        return (
            events - _SURELY * noise > _MANY_TIMES * expected
            or _MANY_TIMES * (events + _SURELY * noise) < expected
        )

    def _structured(self, own: Array) -> Array:
        """Return a curvature from its packed numbers; log hazards have none in common."""
        matrix = unpacked(own, self.k)
        if self.kind == "times":
            own_part = np.arange(self.k) >= self.k - self.intercept
            matrix[np.outer(own_part, own_part) & ~np.eye(self.k, dtype=bool)] = 0.0
        return matrix

    def basis(self, step: NewtonStep, used: NDArray[np.bool_]) -> Array:
        """Return the directions (k, k') of the step: the used parameters, or groups of them.

        Where the noise hides the hazard of an interval with few at risk, it is grouped with a
        neighbour: both change from the pilot by the same factor. So short or late intervals do not
        widen the slopes' intervals; the hazards' ratio is the pilot's, for few events only.
        """
        groups = [np.array([i]) for i in np.flatnonzero(used)]
        n_slopes = len(groups) - (self.intercept if self.kind == "times" else 0)
        while len(groups) > n_slopes + 1:
            own = step.along(_columns(groups, self.k))
            diagonal = own.curvature.diagonal()[n_slopes:]
            if diagonal.min() > own.least_curvature and not own.refused:
                break
            i = int(np.argmin(diagonal))
            before = i + 1 == len(diagonal) or (i > 0 and diagonal[i - 1] < diagonal[i + 1])
            i += n_slopes - before
            groups[i : i + 2] = [np.concatenate(groups[i : i + 2])]
        return _columns(groups, self.k)

    def _asked(self, known: Any, cuts: tuple[float, float], scale: float) -> tuple[Any, Any, Any]:
        """Return the sums of score, curvature and outer products."""
        own: tuple[Any, ...] = *known, *cuts, self.kind == "counts", scale
        kinds: Any = _sums.PilotScores, _sums.PilotCurvature
        if self.kind == "times":
            kinds, own = (_sums.HazardScores, _sums.HazardCurvature), (*known, self.cuts, *cuts)
        return kinds[0](*own), kinds[1](*own), kinds[0](*own, products=self._products)

    @property
    def _products(self) -> Literal["records", "persons"]:
        """What the outer products of the meat are of."""
        return "persons" if self.budgets.unit == "person" else "records"

    def _each(self, scores: Array, curvatures: list[Array]) -> tuple[Array, Array] | None:
        return (scores, np.array(curvatures)) if self.covariance == "silos" else None

    def _linear(self, run: IntervalRun) -> NewtonStep:
        """Return the step of the linear model, from the moments of rows and residuals."""
        known = run.pilot, bool(self.intercept), self.limited
        size = float(run.total(0, _sums.ResidualSize(*known)).sum()) / run.n
        sigma = float(np.clip(size / _MEAN_SIZE, *_SIGMA))
        what, k = _sums.LinearMoments(*known, run.length, sigma), self.k
        sums = [unpacked(own, k + 1) for own in run.total(1, what)]
        scores = np.array([own[:k, k] for own in sums]) / what.factor
        curvatures = [own[:k, :k] * (_WITHIN / sigma) for own in sums]
        total, noise = np.sum(sums, axis=0), run.noise(1, what)
        weights = total[k - 1, k - 1] if self.intercept else _ROWS_LEFT * run.n
        spread = max(float(total[k, k] / what.factor**2 / weights), 0.0)
        meat = None
        if self.uses_meat:
            of_meat = _sums.LinearMeat(*known, run.length, sigma, products=self._products)
            meat = unpacked(run.total(2, of_meat)[0], k)
        return NewtonStep(
            run.pilot,
            scores.sum(axis=0),
            np.sum(curvatures, axis=0),
            noise / (math.sqrt(2) * what.factor),
            noise * _WITHIN / sigma,
            dispersion=min(max(spread, 0.5), 2.0) * sigma / _WITHIN,
            meat=meat,
            each=self._each(scores, curvatures),
        )


@dataclass(frozen=True, eq=False)
class IntervalRun:
    """A plan, the fitted model and what its sums need, and the silos.

    ``pilot`` (k,) are the model's parameters, ``length`` is R. Counts were divided by ``scale``,
    and exposures by ``exposure``, a typical one.
    """

    plan: IntervalPlan
    federation: Federation
    work: Work
    streams: Streams
    pilot: Array
    length: float
    scale: float = 1.0
    exposure: float = 1.0

    @property
    def n(self) -> float:
        """The number of records, in units of the most reliable silo's."""
        return 1 / self._largest

    @cached_property
    def _largest(self) -> float:
        """The largest weight of a record in the common mean."""
        budgets = self.plan.budgets
        return float((budgets.weights / budgets.units).max())

    def total(self, number: int, what: _sums.PilotSum) -> Array:
        """Return the noisy sum over all records (1, *shape), or over each silo's (m, *shape).

        Records of silos with smaller budgets have a weight below 1.
        """
        question = self.plan.sums.question(number, what, self.work)
        if self.plan.covariance == "silos":
            return question.each(self.federation, self.streams)
        return question.mean(self.federation, self.streams)[None] / self._largest

    def noise(self, number: int, what: _sums.PilotSum) -> float:
        """Return the deviation of the noise in each number of the total."""
        if self.plan.covariance == "silos":
            std = self.plan.sums.noised(number, what).std
            return float(np.sqrt(std @ std))
        return self.plan.sums.noise(number, what) / self._largest


def from_events(step: NewtonStep, n: int) -> NewtonStep:
    """Return the step of a hazard's slopes, as from n log hazards that fit the number of events.

    Where O events are for E expected ones, all hazards times r = O / E have the curvature r J and
    the score S - (r - 1) J e, e the common log hazard. So the step from there is, for slopes,
    (r J)^-1 S; scores vary by r J, too. A relative error f of r is one of J: its part in V(u), at
    this step, is f^2 S S'. Log hazards would need their own change, log r, and are not shown.
    """
    expected = float(step.curvature.diagonal()[-n:].sum()) / n
    events = max(0.0, expected + float(step.score[-n:].sum()) / math.sqrt(n))
    ratio = events / expected if expected > 0 else 0.0  # 0: the noise hides the curvature
    error = float(np.max(step.score_noise)) / events if ratio else 0.0
    curvature = ratio * step.curvature
    own = curvature if step.meat is None else step.meat
    return replace(
        step,
        curvature=curvature,
        curvature_noise=ratio * step.curvature_noise,
        meat=own + error**2 * np.outer(step.score, step.score),
        each=None if step.each is None else (step.each[0], ratio * step.each[1]),
    )


def _columns(groups: list[NDArray[np.intp]], k: int) -> Array:
    """Return an orthonormal column for each group of parameters."""
    columns = np.zeros((k, len(groups)))
    for i, own in enumerate(groups):
        columns[own, i] = 1 / math.sqrt(len(own))
    return columns


def _bound(kind: Kind, slope: float) -> float:
    """Return a residual's bound at a record with this slope."""
    if kind == "counts":
        return _sums.CUT * math.sqrt(slope)
    return 0.5 if kind == "labels" else max(1.0, slope)


def _typical(run: IntervalRun) -> float:
    """Return the mean count, or the hazard over the horizon, of a row of zeros; 0: labels."""
    plan = run.plan
    if plan.kind == "counts":
        at_zero = float(run.pilot[-1]) if plan.intercept else 0.0
        return run.scale * math.exp(min(max(at_zero, -10.0), 10.0))
    if plan.kind == "times":
        hazards = np.exp(np.clip(run.pilot[-plan.intercept :], -10.0, 10.0))
        return float(np.clip(np.diff([0.0, *plan.cuts, 1.0]) @ hazards, 0.1, 3.0))
    return 0.0


def _up(value: float) -> str:
    """Return a positive number with two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:,.12g}"


def expected_width(
    *,
    silo_sizes: ArrayLike,
    n_features: int,
    epsilon: float = 1.0,
    delta: float | str = "auto",
    trust: Trust = "silo",
    loss: str = "log_loss",
    confidence: float = 0.95,
    fit_intercept: bool = True,
) -> float:
    """Return the expected width of a coefficient's interval, before anything is spent.

    It is that of a standardised feature that is not correlated with others, where effects are
    small: labels are even, counts have the mean 1, and residuals the deviation 1. Rare labels and
    correlated features have wider ones.

    Parameters
    ----------
    silo_sizes : mapping or sequence of int
        The silos' numbers of records.
    n_features : int
        The number of features (columns after encoding).
    epsilon : float, default=1.0
        The budget of the whole fit; ``inf``: the width without privacy.
    delta : "auto" or float, default="auto"
        The delta of the budget.
    trust : {"silo", "secagg", "server"}, default="silo"
        Whom a person in the data has to trust.
    loss : {"log_loss", "squared_error", "poisson"}, default="log_loss"
        The loss of the model.
    confidence : float, default=0.95
        The probability with which an interval covers.
    fit_intercept : bool, default=True
        Whether the model has an intercept.

    Returns
    -------
    float
        The width; ``inf`` for tables that would be refused.

    See Also
    --------
    skdpfl.inspection.CoefficientDisplay : The intervals of a fit.

    Examples
    --------
    >>> from skdpfl.inference import expected_width
    >>> study = {"silo_sizes": [1000] * 3, "n_features": 5}
    >>> [round(expected_width(epsilon=epsilon, **study), 2) for epsilon in (3.0, float("inf"))]
    [0.18, 0.14]
    """
    listed: Any = silo_sizes
    sizes = np.array(list(dict(listed).values() if hasattr(listed, "keys") else listed))
    kinds: dict[str, Kind] = {"log_loss": "labels", "squared_error": "numbers", "poisson": "counts"}
    if loss not in kinds:
        raise ValueError(f"Intervals are for the losses {', '.join(kinds)}; got {loss!r}.")
    chosen_delta = automatic_delta(int(sizes.sum())) if delta == "auto" else float(delta)
    mu = math.inf if math.isinf(epsilon) else gaussian_mu(float(epsilon), chosen_delta)
    guarantee = read_guarantee("record", trust, "replace")
    budgets = SiloBudgets.of(guarantee, sizes, mu)
    plan = IntervalPlan(budgets, kinds[loss], n_features + fit_intercept, int(fit_intercept))
    return plan.expected_width(confidence) if plan.a >= LEAST else math.inf
