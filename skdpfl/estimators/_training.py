"""The training of an estimator: choose, plan, charge the ledgers, run, unpack.

Everything before the run uses public numbers only. The run reads the records.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpfl._compat import CallbackSupportMixin
from skdpfl._warnings import warn
from skdpfl.choosing import (
    Choice,
    Committed,
    Method,
    PublicFacts,
    Request,
    Settings,
    Training,
    choose,
    final_training,
    make_plan,
    read_request,
)
from skdpfl.engine import Progress, run
from skdpfl.estimators._checkpoint import KeptFit
from skdpfl.estimators._context import AfterRound, one_blas_thread
from skdpfl.estimators._data import DataSource
from skdpfl.estimators._noise_error import Path
from skdpfl.estimators._progress import progress_bar
from skdpfl.federation import Federation, SiloData, Work
from skdpfl.losses import Loss, loss_for
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.sampling import Disjoint
from skdpfl.privacy.spending.recording import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.scaling import Calibrated, Scales, calibrated

#: an objective this many times that of the model 0 counts as divergence
_WORSE, _BLOCK = 2.0, 2**14


#: what was chosen, checked by the silos and charged before any record is read
Agreed = tuple[Request, Method, Choice, Work, PrivacySpent, Federation, Streams, KeptFit]


class Trained(CallbackSupportMixin, Recorded, BaseEstimator):
    """Base class of estimators that are trained on a source of data, here or elsewhere."""

    random_state: Any
    n_jobs: int | None
    verbose: int
    #: what is protected, if it is not a parameter
    unit = "record"

    # ---- what families, classifiers and regressors define --------------------------------------

    def _method(self) -> Method:
        """Return the training method of the family."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """Return the loss with the given parameters."""
        raise NotImplementedError

    def _is_classifier(self) -> bool:
        raise NotImplementedError

    def _unpack_outcome(self, outcome: Progress) -> None:
        """Set fitted attributes from the final state of the algorithm."""
        self.clip_norm_ = outcome.clip_norm

    # ---- training ------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        """Return all parameters by name, and ``unit`` if it is not one."""
        return self.get_params(deep=False) | {"unit": self.unit}

    def _request(self, facts: PublicFacts) -> Request:
        """Return the request: the parameters, for data with these public numbers."""
        return read_request(self._parameters(), facts, self._loss())

    def _schedule_from(self, streams: Streams) -> Streams:
        """Return the streams of the public schedule; a search sets those of the priced plan."""
        given: Callable[[], Streams] | None = self.__dict__.get("_schedule_streams")
        return streams if given is None else given()

    def _train(self, data: DataSource) -> Any:
        """Choose, plan, charge the ledgers, run, unpack; records are read through ``data`` only."""
        request, method, choice, work, spent, federation, streams, kept = self._agree(data)
        self._told_of_silos: list[bool] = []  # the models of its rounds share it
        with one_blas_thread():
            federation, noise = kept.over(federation), kept.noise(streams)
            scales = choice.scaling.find(federation, noise)
            row_norm = scales.features.row_norm
            committed = Committed(request, choice.settings, work.plan, spent.epsilon, row_norm)
            training = final_training(committed, method, partial(data.curvature, scales))
            model, (algorithm, loss) = request.model.started(scales), training[:2]
            work = replace(work, model=model, loss=loss, algorithm=algorithm)
            work = replace(work, features=scales.features_map, target=scales.target_map)
            data = data.for_callbacks(keep_y=hasattr(self, "_skl_callbacks"))
            where = work, federation, streams
            path = Path(work, training.average, kept.progress)
            outcome = self._run(data, scales, training, where, kept, path)
            found = Calibrated(outcome.params)
            if choice.calibration is not None:
                trained = federation, work, outcome.params
                found = calibrated(choice.calibration, *trained, noise, training.walk)
        here = getattr(federation, "data", None)  # other back ends do not have the records here
        warn_if_diverged(outcome.params, work, here)
        self._noise_error = path.error(scales, found)
        self._unpack(request.facts, training.settings, scales, work, found.params)
        self._unpack_outcome(outcome)
        if hasattr(self, "calibrate") and self._is_classifier():
            self.temperature_ = 1 / found.factor
        elif hasattr(self, "calibrate"):
            self.shift_ = found.shift * scales.target.scale
        self.plan_, self.privacy_spent_, self.n_iter_ = work.plan, spent, outcome.n_rounds
        return self

    def _agree(self, data: DataSource) -> Agreed:
        """Choose and plan, let the silos check the plan, and charge the ledgers."""
        streams, method = streams_for(self.random_state), self._method()
        request = self._request(data.facts)
        choice = choose(request, method)
        plan = make_plan(request, method, choice, self._schedule_from(streams))
        if data.may_miss:  # the noise of silos that may be missing hides nobody else's records
            plan = replace(plan, gradients_only=False)
        kept = KeptFit.of(self, data, request.model)
        plan = kept.planned(plan)
        spent = _priced(plan, data, streams)
        federation = data.federation(streams, self.n_jobs)
        algorithm, alpha = method.algorithm(request, choice.settings), request.alpha
        work = Work(request.model, request.loss, algorithm, plan, data.dtype, alpha)
        work = replace(work, class_weights=data.class_weights)
        federation.agree(work, choice.scaling.plan, choice.calibration, streams.seed)
        kept.begin(plan, self._charge(spent, kept.paid_to))
        if choice.advice:
            warn(choice.advice)
        return request, method, choice, work, spent, federation, streams, kept

    def _run(
        self,
        data: DataSource,
        scales: Scales,
        training: Training,
        where: tuple[Work, Federation, Streams],
        kept: KeptFit,
        path: Path,
    ) -> Progress:
        """Run all rounds, and call the callbacks after each."""
        work = where[0]
        n_rounds, name = work.plan.n_rounds, type(self).__name__
        with progress_bar(self.verbose, name, n_rounds) as advance:
            after = AfterRound(
                self,
                n_rounds,
                partial(self._as_fitted, data.facts, training.settings, scales, work),
                lambda: self._labelled(*data.records()),
                advance,
            )
            if kept.progress is not None:
                kept.restore(where[1], work)

            def keep(now: Progress) -> None:
                path.add(now)
                kept.keep(where[1], now)

            outcome = run(
                *where,
                average=training.average,
                on_round=after,
                after=kept.progress,
                keep=keep if kept.on_disk else path.add,
            )
        after.end()
        return outcome

    def _labelled(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return records with their targets decoded."""
        return X, self.classes_[y] if self._is_classifier() else y

    def _as_fitted(self, *args: Any) -> dict[str, Any]:
        """Return the attributes that ``_unpack`` would set."""
        twin = copy.copy(self)
        twin._unpack(*args)
        return {name: value for name, value in vars(twin).items() if name.endswith("_")}

    def _unpack(
        self, facts: PublicFacts, settings: Settings, scales: Scales, work: Work, params: np.ndarray
    ) -> None:
        """Set the fitted attributes."""
        self.model_, kind = work.model, self._is_classifier()
        for name, value in work.model.fitted_attributes(params, scales, is_classifier=kind).items():
            setattr(self, name, value)
        self.scaling_ = scales.features
        self.silo_ids_ = facts.silo_ids.to_numpy()
        self.n_rounds_, self.clip_norm_ = settings.n_rounds, work.plan.clip_norm
        self.learning_rate_, self.smoothing_ = settings.learning_rate, work.loss.smoothing
        if hasattr(self, "local_steps"):
            self.local_steps_ = _one_or_all(settings.steps)
        if hasattr(self, "global_learning_rate"):
            self.global_learning_rate_ = settings.server_step
        dealt = work.plan.sampling
        self.sampling_rate_ = 1 / dealt.n_parts if isinstance(dealt, Disjoint) else settings.rate


def _priced(plan: PrivacyPlan, data: DataSource, streams: Streams) -> PrivacySpent:
    """Return the cost of the plan, with a digest of the assignment to silos unless secret."""
    digest = None if plan.unit == "silo" else data.assignment()  # it depends on the sizes
    seed = streams.seed if streams.is_simulation else None
    return plan.spent(assignment=digest, simulation_seed=seed)


def _one_or_all(steps: tuple[int, ...]) -> int | tuple[int, ...]:
    """Return the number of steps if it is the same in all rounds, else all of them."""
    return steps[0] if len(set(steps)) == 1 else steps


def warn_if_diverged(params: np.ndarray, work: Work, data: SiloData | None) -> None:
    """Warn if the model is not finite or (without privacy) worse than the model 0.

    In private fits the objective is secret; with remote data it is unknown.
    """
    if not np.isfinite(params).all():
        warn("The model is not finite: the steps diverged. Give a smaller learning_rate.")
    elif not work.plan.private and data is not None:
        found, nothing = objective(params, work, data), objective(0 * params, work, data)
        if not found <= _WORSE * nothing:
            warn(
                f"The steps diverged: the objective is {found:.3g} where the model 0 has "
                f"{nothing:.3g}. Give a smaller learning_rate."
            )


def objective(params: np.ndarray, work: Work, data: SiloData) -> float:
    """Return the mean loss over all records plus the penalty."""
    total, n = 0.0, len(data.y)
    params = params.astype(np.float64)
    for i in range(0, n, _BLOCK):
        X, y = data.at(slice(i, i + _BLOCK))
        loss = loss_for(work.loss, y)
        total += len(y) / n * float(work.model.mean_loss(params, X, y, loss))
    return total + float(work.penalty @ np.square(params)) / 2
