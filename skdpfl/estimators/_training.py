"""The training of an estimator: choose, plan, charge the ledgers, run, unpack.

Everything before the run uses public numbers only. The run reads the records.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, expit, logit, ndtr, softmax
from sklearn.base import BaseEstimator

from skdpfl._compat import CallbackSupportMixin, one_blas_thread
from skdpfl._warnings import warn
from skdpfl.algorithms.average_noise import average_responses
from skdpfl.choosing import (
    Method,
    PublicFacts,
    Recipe,
    advice_on_noise,
    choose_within_budget,
    clipped_without_labels,
    encoded,
    find_scales,
    finish_recipe,
    make_plan,
    noise_of_plan,
    read_recipe,
    with_curves,
    with_encoding,
)
from skdpfl.engine import Progress, last_rounds, run
from skdpfl.estimators._checkpoint import KeptFit
from skdpfl.estimators._data import DataSource
from skdpfl.estimators._intervals import fitted_intervals
from skdpfl.estimators._noise_error import Path
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.federation import Federation, SiloData, Work
from skdpfl.losses import NAMED, LogLoss, Loss, SquaredError, loss_for
from skdpfl.models import LinearModel, OneSlope
from skdpfl.privacy.events import masks_of, trust_name
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.sampling import Disjoint
from skdpfl.privacy.spending.ledger import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.scaling import (
    SURE_DEVIATIONS,
    AffineScaling,
    Calibrated,
    CalibrationRun,
    CurveScaling,
    EventsPlan,
    IdentityScaling,
    LabelShares,
    Scales,
    ShrinkPlan,
    first_log_hazard,
    first_raw_prediction,
)

#: deviations of the raw prediction, and their probabilities
_AT = np.linspace(-4.0, 4.0, 801)
_WEIGHTS = np.exp(-_AT * _AT / 2) / np.exp(-_AT * _AT / 2).sum()
#: larger coefficients have squares that overflow
_DIVERGED = 1e50
#: the least slope, and the least share of a target's variance that is left
_LEAST_SLOPE, _LEAST_VARIANCE = 1e-3, 0.05


def shrunk(params: NDArray, work: Work, scales: Scales, n_last: int | None) -> NDArray:
    """Return the parameters with the coefficients of curves shrunk; as they are without any."""
    columns, plan, step = scales.features, work.plan, work.algorithm.heavy_ball()
    known = isinstance(work.loss, (LogLoss, SquaredError)) and plan.unit != "silo"
    if not (isinstance(columns, CurveScaling) and plan.private and known and step is not None):
        return params
    if not (np.abs(params) < _DIVERGED).all():  # it diverged
        return params
    assert isinstance(work.model, LinearModel)
    weights, at_zero = work.model.split(np.array(params, np.float64))
    for number, block in enumerate(columns.blocks):  # columns of 0 have coefficients of noise
        weights[columns.curves.places(number)] *= np.asarray(block.any(axis=0))[:, None]
    if len(at_zero) > 1:  # each class against the others
        at_zero = logit(softmax(at_zero))
    clip = plan.clip_norm / math.hypot(1.0, columns.row_norm or 0.0)
    slope_of = _of_labels if isinstance(work.loss, LogLoss) else _of_numbers
    noise = plan.mechanism.noise_on_mean(plan) * np.concatenate(plan.factors)
    share = float((np.square(plan.weights) / plan.known_sizes).sum())  # 1 / n
    for output, offset in zip(weights.T, at_zero.tolist(), strict=True):
        slope, square_of_slope = slope_of(float(np.linalg.norm(output)), offset, clip)
        for places, square in _blocks(columns):
            bend = np.array([slope * square])
            response = average_responses(bend, plan.n_rounds, *step, n_last)[:, 0]
            variance = float(np.square(noise * response).sum())
            sampled = square_of_slope * square * share
            variance += sampled * float(response.sum()) ** 2
            squared = float(np.square(output[places]).sum())
            output[places] *= max(0.0, 1.0 - len(places) * variance / max(squared, 1e-300))
    result = np.array(params)
    result[: weights.size] = weights.reshape(-1)
    return result


def _blocks(columns: CurveScaling) -> Iterator[tuple[NDArray, float]]:
    """Yield the indices of the coefficients that get one factor, and a column's mean square."""
    curves = columns.curves
    for number, block in enumerate(columns.blocks):
        places = curves.places(number)[1:][np.flatnonzero(block[:, 1:].any(axis=0))]
        yield places, 1 / max(1, len(places))
    has_curve = np.zeros(curves.low.size, bool)
    has_curve[[curve.column for curve in curves.curves]] = True
    both = np.flatnonzero(has_curve[curves.pairs].all(axis=1))
    yield curves.width - len(curves.pairs) + both, 1.0


def _of_labels(spread: float, offset: float, clip: float) -> tuple[float, float]:
    """Return the means of the slope of a label's gradient and of its squared derivative.

    The loss is the log loss, for probabilities around the offset's.
    """
    p = expit(offset + spread * _AT)
    wrong = 1 - p  # the derivative of a positive; that of a negative is p
    slope = p * wrong * (p * (wrong < clip) + wrong * (p < clip))
    squared = p * np.minimum(wrong, clip) ** 2 + wrong * np.minimum(p, clip) ** 2
    return max(_LEAST_SLOPE, float(_WEIGHTS @ slope)), float(_WEIGHTS @ squared)


def _of_numbers(spread: float, offset: float, clip: float) -> tuple[float, float]:
    """Return the same of a standardised target's squared error, with normal residuals."""
    residual = np.abs(_AT) * math.sqrt(max(_LEAST_VARIANCE, 1.0 - spread**2))
    inside, squared = _WEIGHTS @ (residual <= clip), _WEIGHTS @ np.minimum(residual, clip) ** 2
    return max(_LEAST_SLOPE, float(inside)), float(squared)


class AfterRound:
    """Called by the engine with the round's number and the current model; True stops the fit."""

    def __init__(
        self,
        estimator: Any,
        n_rounds: int,
        attributes: Callable[[np.ndarray], dict[str, Any]],
        records: Callable[[], tuple[np.ndarray, np.ndarray]],
    ) -> None:
        self._estimator, self._attributes = estimator, attributes
        self._data, self._warned = records, False
        self._lines = (
            PrintedRounds(type(estimator).__name__, n_rounds) if estimator.verbose else None
        )
        self._context = None
        if hasattr(estimator, "_skl_callbacks"):
            self._context = estimator._init_callback_context(max_subtasks=n_rounds)
            self._context.call_on_fit_task_begin(estimator=estimator)

    def __call__(self, r: int, params: np.ndarray) -> bool:
        """Call all callbacks; return whether one of them stops the fit."""
        if self._lines is not None:
            self._lines(r + 1)
        if (watch := getattr(self._estimator, "_watch", None)) is not None:
            watch(self._as_fitted(params))
        if self._context is None:
            return False
        round_ = self._context.subcontext(task_name="round")
        round_.call_on_fit_task_begin(estimator=self._estimator)
        return round_.call_on_fit_task_end(
            estimator=self._estimator,
            X=lambda: self._records(0),
            y=lambda: self._records(1),
            reconstruction_attributes=lambda: self._attributes(params),
        )

    def _as_fitted(self, params: np.ndarray) -> Any:
        twin = copy.copy(self._estimator)
        vars(twin).update(self._attributes(params))
        return twin

    def end(self) -> None:
        """End the fit's task."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._estimator)

    def _records(self, which: int) -> np.ndarray:
        if not self._warned:
            self._warned = True
            warn(
                "A callback reads the training records after each round; the privacy cost does "
                "not cover what it shows. Score on other data (ConvergenceDisplay takes X_test, "
                "y_test).",
                PrivacyLeakWarning,
            )
        return self._data()[which]


_DETERMINED = (
    " In a table with text, levels and gaps do: give levels as columns of 0 and 1 with one left "
    "out, and fill gaps by public constants."
)
#: lines that a fit prints, at most
_LINES = 10


class PrintedRounds:
    """Prints how far a fit is, at about ten rounds; it may go on after rounds of an earlier run."""

    def __init__(self, name: str, n_rounds: int) -> None:
        self._name, self._n_rounds, self._start = name, n_rounds, time.perf_counter()
        self._before: int | None = None

    def __call__(self, done: int) -> None:
        """Print a line if a further tenth of the rounds is done."""
        self._before = done - 1 if self._before is None else self._before
        tenth, before = (k * _LINES // self._n_rounds for k in (done, done - 1))
        if tenth > before:
            seconds = time.perf_counter() - self._start
            left = seconds * (self._n_rounds - done) / (done - self._before)
            times = f"{seconds:.0f} s passed, {left:.0f} s left"
            print(f"{self._name}: {done}/{self._n_rounds} rounds, {times}", flush=True)


#: an objective this many times that of the model 0 counts as divergence
_WORSE, _BLOCK = 2.0, 2**14


@dataclass(frozen=True, eq=False)
class Agreed:
    """A fit that its silos agreed to and that is charged to ledgers, before any record is read.

    ``noise`` are the server's random streams for setup sums, ``streams`` those of the rounds.
    """

    recipe: Recipe
    work: Work
    spent: PrivacySpent
    silos: Federation
    streams: Streams
    noise: Streams
    checkpoint: KeptFit
    data: DataSource
    n_jobs: int | None

    def encoded(self) -> Agreed:
        """Return the fit on a frame with the levels and ranges that silos' noisy sums show."""
        if (plan := self.recipe.encoding) is None:
            return self
        words, numbers = map(self.checkpoint.over, self.data.raw_federations(self.streams))
        encoding = plan.find(words, numbers, self.noise)
        data, recipe = self.data.encoded(encoding), encoded(self.recipe, encoding)
        silos = self.checkpoint.over(data.federation(self.streams, self.n_jobs))
        return replace(self, data=data, recipe=recipe, silos=silos)

    def started(self, keep_y: bool) -> Started:
        """Return the fit with all constants; it asks the silos for scales."""
        recipe, priced = self.recipe, self.work.plan
        plan, labels = recipe.calibration, LabelShares(recipe.facts.class_shares)
        if plan is not None:
            labels = plan.counted(self.silos, self.noise)
        scales = find_scales(recipe, self.silos, self.noise)
        row_norm, largest = scales.features.row_norm, scales.features.largest_square
        row = None if row_norm is None else row_norm**2
        if not (priced.private or recipe.model.is_linear):
            row = recipe.expected_row  # networks without privacy read public numbers only
        price = self.spent.epsilon
        recipe = replace(recipe, plan=priced, price=price, scaled_row=row, largest_square=largest)
        recipe = finish_recipe(recipe, partial(self.data.with_curvature, scales=scales))
        model = recipe.model.started(scales)
        whole = recipe.promise.hides_silos and recipe.chooses_step and recipe.loss.link == "logit"
        if isinstance(model, LinearModel) and (whole or isinstance(plan, ShrinkPlan)):
            known = first_raw_prediction(labels, self.work.class_weights)
            model = replace(model, start=known)
        elif isinstance(model, OneSlope) and isinstance(plan, EventsPlan):
            model = replace(model, start=first_log_hazard(labels))
        work = replace(
            self.work,
            model=model,
            loss=recipe.loss.of_scaled(scales.target.scale),
            algorithm=recipe.algorithm,
            features=scales.features_map,
            target=scales.target_map,
        )
        now = {"recipe": recipe, "work": work, "data": self.data.for_callbacks(keep_y)}
        return Started(**(vars(self) | now), labels=labels, scales=scales)


@dataclass(frozen=True, eq=False)
class Started(Agreed):
    """A fit whose rounds can be run; it keeps only the data that callbacks may read."""

    labels: LabelShares
    scales: Scales

    def calibrated(self, params: np.ndarray) -> Calibrated:
        """Return parameters after shrinking and calibration, which may ask the silos once more."""
        average = self.recipe.average
        n_last = None if average is True else last_rounds(average, self.work.plan.n_rounds)
        params = shrunk(params, self.work, self.scales, n_last)
        if (plan := self.recipe.calibration) is None:
            return Calibrated(params)
        asked = self.silos, self.work, params, self.noise, self.labels
        return plan.calibrated(CalibrationRun(plan, *asked, n_last))


class Trained(CallbackSupportMixin, Recorded, BaseEstimator):
    """Base class of estimators that are trained on a source of data, here or elsewhere."""

    model: Any
    random_state: Any
    n_jobs: int | None
    verbose: int
    #: the protected unit, if it is not a parameter
    unit = "record"

    # ---- what families, classifiers and regressors define --------------------------------------

    def _method(self) -> Method:
        """Return the training method of the family."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """Return the loss with the given parameters."""
        loss = vars(self)["loss"]
        return loss if isinstance(loss, Loss) else NAMED[loss]()

    def _is_classifier(self) -> bool:
        raise NotImplementedError

    def _unpack_outcome(self, outcome: Progress) -> None:
        """Set fitted attributes from the final state of the algorithm."""
        self.clip_norm_ = outcome.clip_norm

    # ---- training ------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        """Return all parameters by name, with ``unit`` and the resolved ``trust``."""
        parameters, trust = self.get_params(deep=False), self.trust
        return parameters | {
            "unit": self.unit,
            "trust": trust_name(trust),
            "masks": masks_of(trust),
        }

    def _recipe(self, facts: PublicFacts) -> Recipe:
        """Return what is asked: the parameters, for data with these public numbers."""
        recipe = read_recipe(self._parameters(), facts, self._method(), self._loss())
        recipe = with_curves(with_encoding(recipe, self.model), self.model)
        return clipped_without_labels(recipe)

    def _schedule_from(self, streams: Streams) -> Streams:
        """Return the streams of the public schedule; a search sets those of its plan."""
        own: Callable[[], Streams] | None = self.__dict__.get("_schedule_streams")
        return streams if own is None else own()

    def _train(self, data: DataSource) -> Any:
        """Choose, plan, charge the ledgers, run, unpack; records are read through ``data`` only."""
        agreed = self._agree(data)
        self._told_of_silos: list[bool] = []  # the models of its rounds share it
        with one_blas_thread():
            fit = agreed.encoded().started(keep_y=hasattr(self, "_skl_callbacks"))
            del data, agreed  # and with them what no callback reads
            self.schema_ = fit.data.facts.encoding
            path = Path(fit.work, fit.recipe.average, fit.checkpoint.progress)
            outcome = self._run(fit, path)
            calibrated = fit.calibrated(outcome.params)
        earlier = advice_on_noise(fit.recipe, fit.recipe.facts.class_shares)
        if not earlier and (advice := advice_on_noise(fit.recipe, fit.labels.shares)):
            warn(advice)
        here = getattr(fit.silos, "data", None)  # other back ends do not have the records here
        warn_if_diverged(outcome.params, fit.work, here)
        if not earlier:
            warn_if_faint(outcome, fit)
        self._noise_error, self._ranges = path.error(fit.scales, calibrated), fit.recipe.ranges
        self.__dict__.update(self._fitted(fit, calibrated.params))
        self._unpack_outcome(outcome)
        if hasattr(self, "calibrate") and self._is_classifier():
            self.temperature_ = 1 / calibrated.factor
            shares = fit.labels.shares if fit.recipe.calibration is not None else None
            self.class_shares_ = None if shares is None else np.array(shares)
        elif hasattr(self, "calibrate"):
            self.shift_ = calibrated.shift * fit.scales.target.scale
        self.plan_, self.privacy_spent_, self.n_iter_ = fit.work.plan, fit.spent, outcome.n_rounds
        self._set_intervals(fit, calibrated.params)
        return self

    def _set_intervals(self, fit: Started, params: np.ndarray) -> None:
        """Ask for the sums of intervals, if they are planned, and set their attributes."""
        plan = fit.recipe.interval_plan
        for name in ("_intervals", "coef_estimate_", "coef_covariance_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if plan is None:
            return
        asked = fit.silos, fit.work, params, fit.scales, fit.noise
        intervals = fitted_intervals(plan, *asked, self)
        intervals.set_on(self)
        if why := intervals.refused(self.coef_.size):
            hidden = intervals.step.inverse is None and not intervals.step.far
            warn(
                f"No coefficient has an interval, and the budget is spent: {why}."
                + (_DETERMINED if hidden else "")
            )

    def _agree(self, data: DataSource) -> Agreed:
        """Choose and plan, let the silos check the plan, and charge the ledgers."""
        streams = data.streams(self.random_state)
        schedule = self._schedule_from(streams)
        recipe = choose_within_budget(self._recipe(data.facts), schedule)
        plan = make_plan(recipe, schedule)
        if data.may_miss:  # the noise of silos that may be missing hides nobody else's records
            plan = replace(plan, gradients_only=False)
        checkpoint = KeptFit.of(self, data, recipe.model, recipe.algorithm)
        plan = checkpoint.planned(plan)
        spent = _priced(plan, data, streams)
        federation = data.federation(streams, self.n_jobs)
        work = Work(recipe.model, recipe.loss, recipe.algorithm, plan, data.dtype, recipe.alpha)
        curves = recipe.curves  # silos check the widths of maps, whose numbers are found later
        even = None if curves is None else curves.scaling_of(curves.even(), IdentityScaling())
        work = replace(work, class_weights=data.class_weights, features=even)
        federation.agree(work, recipe.sums, streams.seed)
        checkpoint.begin(plan, self._charge(spent, checkpoint.paid_to, **data.marks()))
        if advice := advice_on_noise(recipe, recipe.facts.class_shares):
            warn(advice)
        silos, noise = checkpoint.over(federation), checkpoint.noise(streams)
        return Agreed(recipe, work, spent, silos, streams, noise, checkpoint, data, self.n_jobs)

    def _run(self, fit: Started, path: Path) -> Progress:
        """Run all rounds, and call the callbacks after each."""
        n_rounds, checkpoint = fit.work.plan.n_rounds, fit.checkpoint
        fitted, records = partial(self._fitted, fit), partial(self._labelled, fit.data)
        after = AfterRound(self, n_rounds, fitted, records)
        if checkpoint.progress is not None:
            checkpoint.restore(fit.silos, fit.work)

        def keep(now: Progress) -> None:
            path.add(now)
            checkpoint.keep(fit.silos, now)

        outcome = run(
            fit.work,
            fit.silos,
            fit.streams,
            average=fit.recipe.average,
            on_round=after,
            after=checkpoint.progress,
            keep=path.add if checkpoint.path is None else keep,
        )
        after.end()
        return outcome

    def _labelled(self, data: DataSource) -> tuple[np.ndarray, np.ndarray]:
        """Return the records with their targets decoded."""
        X, y = data.records()
        return X, self.classes_[y] if self._is_classifier() else y

    def _fitted(self, fit: Started, params: np.ndarray) -> dict[str, Any]:
        """Return the fitted attributes, of the model and of its data."""
        work, settings, scales = fit.work, fit.recipe.settings, fit.scales
        dealt = work.plan.sampling
        attributes = {name: value for name, value in vars(self).items() if name.endswith("_")}
        attributes |= work.model.fitted_attributes(
            params, scales, is_classifier=self._is_classifier()
        )
        attributes |= {
            "model_": work.model,
            "scaling_": scales.features,
            "silo_ids_": fit.recipe.facts.silo_ids.to_numpy(),
            "_has_exposure": fit.recipe.facts.has_exposure,
            "n_rounds_": settings.n_rounds,
            "clip_norm_": work.plan.clip_norm,
            "learning_rate_": settings.learning_rate,
            "smoothing_": work.loss.smoothing,
            "sampling_rate_": 1 / dealt.n_parts if isinstance(dealt, Disjoint) else settings.rate,
        }
        if hasattr(self, "local_steps"):
            steps = settings.steps
            attributes["local_steps_"] = steps[0] if len(set(steps)) == 1 else steps
        if hasattr(self, "global_learning_rate"):
            attributes["global_learning_rate_"] = settings.server_step
        return attributes


def _priced(plan: PrivacyPlan, data: DataSource, streams: Streams) -> PrivacySpent:
    """Return the cost of the plan, with a digest of the assignment to silos unless secret."""
    # it depends on secrets of other units: on sizes, on ids and on how many rows they have
    digest = data.assignment() if plan.unit == "record" else None
    seed = streams.seed if streams.is_simulation else None
    return plan.spent(assignment=digest, simulation_seed=seed)


def warn_if_diverged(params: np.ndarray, work: Work, data: SiloData | None) -> None:
    """Warn if the model is not finite or (without privacy) worse than the zero model.

    In private fits the objective is secret; with remote data it is unknown.
    """
    if not np.isfinite(params).all():
        warn("The model is not finite: the steps diverged. Give a smaller learning_rate.")
    elif not work.plan.private and data is not None:
        reached, nothing = objective(params, work, data), objective(0 * params, work, data)
        if not reached <= _WORSE * nothing:
            warn(
                f"The steps diverged: the objective is {reached:.3g}, and that of a model of zeros "
                f"{nothing:.3g}. Give a smaller learning_rate."
            )


_FAINT = (
    "The coefficients do not surely exceed their noise: the features say little about the target, "
    "or it varies by far less than {:.1g}, by which it was divided, so predictions may be far off. "
    "Give target_bounds=(low, high), a public range that is no wider than the target's values, and "
    "feature_bounds, or a larger budget."
)


def warn_if_faint(outcome: Progress, fit: Started) -> None:
    """Warn of coefficients within their noise, where the target's scale was estimated.

    In units of this scale let noise have the variance v in what each of P uncorrelated features of
    the expected mean square adds, by an average over the second half of the rounds. Predictions are
    worse than the mean if P v exceeds what features explain. So the variance that is added is at
    most about 2 P v then, however much too large the scale is. Where counts doubt it, features may
    have too large scales as well: then nothing draws the noise in their coefficients back.
    """
    recipe, plan, model, scales = fit.recipe, fit.work.plan, fit.work.model, fit.scales
    asked = recipe.scaling_plan.reads_target and recipe.doubts_coefficients
    square = recipe.expected_row / recipe.model.n_features
    if scales.coarse_target or not (plan.private and asked and square):
        return
    assert isinstance(model, LinearModel)
    part = recipe.expected.curvature * square + recipe.alpha
    if plan.unit == "silo":  # a message goes this part of the way
        settings = recipe.settings
        part = 1 - (1 - min(settings.learning_rate * part, 1.0)) ** max(settings.steps)
        part = min(part, 2 / plan.n_rounds) if scales.narrow_target else part
    noise = math.sqrt(2 * square) * noise_of_plan(plan) * outcome.clip_norm / part
    added, columns = model.split(np.array(outcome.params, np.float64))[0][:, 0], scales.features
    if isinstance(columns, AffineScaling) and columns.spread is not None:
        # 0 where noise hides the spread, or where features are ignored
        added *= np.where(columns.spread > 0, columns.spread, np.isfinite(columns.scale))
    else:
        added *= math.sqrt(square)
    if added @ added < noise**2 * chdtri(added.size, ndtr(-SURE_DEVIATIONS)):
        warn(_FAINT.format(scales.target.scale))


def objective(params: np.ndarray, work: Work, data: SiloData) -> float:
    """Return the mean loss over all records plus the penalty."""
    total, n = 0.0, len(data.y)
    params = params.astype(np.float64)
    for i in range(0, n, _BLOCK):
        X, y = data.at(slice(i, i + _BLOCK))
        loss = loss_for(work.loss, y)
        total += len(y) / n * float(work.model.mean_loss(params, X, y, loss))
    return total + float(work.penalty @ np.square(params)) / 2
