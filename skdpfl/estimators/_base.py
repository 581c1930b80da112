"""The only fit and predict: read, decide, plan, run, unpack.

``fit`` reads as a table of contents. Everything before the run uses public numbers only; the data
are touched by validation (whose errors are visible outputs: NaN, a single class) and by the run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpfl._compat import CallbackSupportMixin, with_callbacks, with_names
from skdpfl.algorithms import Algorithm
from skdpfl.engine import Outcome, run
from skdpfl.estimators._checks import check_shape
from skdpfl.estimators._diverged import warn_if_diverged, warn_if_penalty_diverges
from skdpfl.estimators._exact import Records, measured
from skdpfl.estimators._facts import Facts, Settings
from skdpfl.estimators._family import Family
from skdpfl.estimators._fit_context import one_blas_thread, unchanged_on_error
from skdpfl.estimators._parameters import check_parameters
from skdpfl.estimators._planning import make_plan
from skdpfl.estimators._refusals import refuse_arguments, refuse_sparse
from skdpfl.estimators._rounds import AfterRound
from skdpfl.estimators._settle import informed, settle
from skdpfl.estimators._theory import Committed, Training
from skdpfl.estimators._warnings import warn
from skdpfl.federation import LocalFederation, SiloData, Work
from skdpfl.models import LinearModel
from skdpfl.preprocessing._scaling import IdentityScaling, Scales
from skdpfl.preprocessing._unreadable import advising
from skdpfl.privacy.plan import PrivacyPlan
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.sampling import Disjoint
from skdpfl.privacy.spending.recording import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.silos import Silos, read_silos, split_silo_column, without_column


class Problem(NamedTuple):
    """The validated data of a fit and their public numbers."""

    X: np.ndarray
    y: np.ndarray
    silos: Silos
    facts: Facts

    def grouped(self, keep_y: bool) -> Problem:
        """Return the problem without what the rounds do not read: codes, and as a rule targets."""
        y = self.y if keep_y else self.y[:0].copy()
        silos = self.silos._replace(codes=self.silos.codes[:0].copy(), rows=None)
        return self._replace(y=y, silos=silos)


class FederatedEstimator(Family, CallbackSupportMixin, Recorded, BaseEstimator):
    """Base of all estimators: parameters and algorithms are the subclasses' business."""

    __metadata_request__fit = {"silos": True}  # noqa: RUF012

    # ---- fit ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any, *unnamed: Any, silos: Any = None, **refused: Any) -> Any:
        """Train a model under the privacy budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos, in any order.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo id. Without it (and without ``silo_column``) all records are one
            silo, which is central differential privacy.
        *unnamed
            Refused: silos go by name.
        **refused
            Anything else is refused in words; ``sample_weight`` is not supported.

        Returns
        -------
        self : object
            The fitted estimator. A fit that fails leaves the estimator as it was.
        """
        refuse_arguments(self, unnamed, refused)
        # a warning (or, by np.seterr, an error) of arithmetic would tell of a single wild record
        with unchanged_on_error(self), np.errstate(all="ignore"):
            return self._fit(X, y, silos)

    def _fit(self, X: Any, y: Any, silos: Any) -> Any:
        check_parameters(self)
        problem = self._read(X, y, silos)
        streams = streams_for(self.random_state)
        settled = settle(self, problem.facts)
        algorithm = self._algorithm(settled.settings, problem.facts)
        plan = make_plan(self, problem.facts, settled, algorithm, self._schedule_from(streams))
        spent = _priced(plan, problem.silos, streams)
        self._charge(spent)
        if settled.advice:
            warn(settled.advice)
        with one_blas_thread():
            scales = settled.scaling.find(problem.X, problem.y, problem.silos, streams)
            known = self._committed(problem.facts, settled.settings, plan, spent, scales)
            known = self._informed(algorithm, known, problem, scales)
            training = self._training(self._algorithm(known.settings, known.facts), known)
            work = self._work(problem.facts, training, plan, streams, problem.X.dtype)
            federation = self._federation(problem, scales)
            problem = problem.grouped(keep_y=hasattr(self, "_skl_callbacks"))
            outcome = self._run(problem, scales, training, work, federation, known.is_still)
        here = getattr(federation, "data", None)  # other back ends have the records elsewhere
        warn_if_diverged(outcome.params, work, here)
        self._unpack(problem, training.settings, scales, work, outcome.params)
        self._unpack_outcome(outcome)
        self.plan_, self.privacy_spent_, self.n_iter_ = plan, spent, outcome.n_rounds
        return self

    def _run(
        self,
        problem: Problem,
        scales: Scales,
        training: Training,
        work: Work,
        federation: LocalFederation,
        is_still: bool,
    ) -> Outcome:
        """Run all rounds, telling the callbacks of each."""
        after = AfterRound(
            self,
            work.plan.n_rounds,
            partial(self._as_fitted, problem, training.settings, scales, work),
            lambda: (problem.X, self._labels(problem.y)),
        )
        average = self.average and not is_still
        outcome = run(work, federation, average=average, on_round=after)
        after.end()
        return outcome

    def plan_for(self, *, silo_sizes: Any, n_features: int, n_classes: int = 2) -> PrivacyPlan:
        """Return the plan that a fit on such data would run, without any data.

        Parameters
        ----------
        silo_sizes : mapping or sequence
            Each silo's number of records.
        n_features : int
            The number of features, the silo column not counted.
        n_classes : int, default=2
            The number of labels (classifiers only).

        Returns
        -------
        PrivacyPlan
            Noise, rounds and, by ``plan.spent()``, the cost.
        """
        check_parameters(self)
        sizes = check_shape(silo_sizes, n_features, n_classes)
        outputs = self._loss().n_outputs(n_classes if self._is_classifier() else None)
        facts = self._facts(sizes.index, sizes.to_numpy(), int(n_features), outputs)
        settled = settle(self, facts)
        algorithm = self._algorithm(settled.settings, facts)
        streams = streams_for(copy.deepcopy(self.random_state))  # a fit draws the same schedule
        return make_plan(self, facts, settled, algorithm, self._schedule_from(streams))

    def _schedule_from(self, streams: Streams) -> Streams:
        """Return what the public schedule is drawn from: a search has priced one beforehand."""
        given: Callable[[], Streams] | None = self.__dict__.get("_schedule_streams")
        return streams if given is None else given()

    def _read(self, X: Any, y: Any, silos: Any) -> Problem:
        """Validate the data; nothing is learnt from them here but their public numbers."""
        refuse_sparse(X)
        features, silos = split_silo_column(X, silos, self.silo_column)
        with advising(features, y):
            features, y = validate_data(
                self,
                with_names(features),
                y,
                dtype=[np.float64, np.float32],
                ensure_min_samples=2,
                **self._y_checks(),
            )
            y = self._encode(y, features.dtype)
        read = read_silos(silos, len(features), X)
        facts = self._facts(read.ids, read.sizes, features.shape[1], self._n_outputs())
        return Problem(features, y, read, facts)

    def _facts(self, ids: pd.Index, sizes: np.ndarray, n_features: int, n_outputs: int) -> Facts:
        """Return the public numbers; whole silos hide their sizes as well."""
        public = None if getattr(self, "unit", "record") == "silo" else sizes
        return Facts(ids, public, n_features, n_outputs, self._is_classifier())

    def _work(
        self,
        facts: Facts,
        training: Training,
        plan: PrivacyPlan,
        streams: Any,
        dtype: np.dtype,
    ) -> Work:
        model = LinearModel(facts.n_features, facts.n_outputs, bool(self.fit_intercept))
        algorithm, loss, _ = training
        return Work(model, loss, algorithm, plan, streams, dtype, float(self.alpha))

    def _committed(
        self,
        facts: Facts,
        settings: Settings,
        plan: PrivacyPlan,
        spent: PrivacySpent,
        scales: Scales,
    ) -> Committed:
        row_norm, alpha = scales.features.row_norm, float(self.alpha)
        return Committed(facts, settings, plan, spent.epsilon, alpha, self.fit_intercept, row_norm)

    def _informed(
        self, algorithm: Algorithm, known: Committed, problem: Problem, scales: Scales
    ) -> Committed:
        """Return what is known with the step for the noise, or for the data if nothing is hidden.

        A given step stays.
        """
        warn_if_penalty_diverges(self, known.settings.momentum)
        given = not isinstance(self.learning_rate, str) or getattr(self, "algorithm", None)
        if known.plan.private:
            return informed(self, known)
        if given:
            return known
        return measured(self, algorithm, known, Records(problem.X, problem.silos), scales)

    def _federation(self, problem: Problem, scales: Scales) -> LocalFederation:
        X, y, silos, facts = problem
        target = self._scaled_target(y, scales)
        data = SiloData.from_codes(
            X,
            target,
            silos.codes,
            facts.n_silos,
            None if isinstance(scales.features, IdentityScaling) else scales.features.transform,
            X.dtype if facts.n_outputs == 1 else None,
        )
        return LocalFederation(data, self.n_jobs)

    def _labels(self, y: np.ndarray) -> np.ndarray:
        """Return targets as they were given, from how they are coded inside."""
        return self.classes_[y] if self._is_classifier() else y

    def _as_fitted(self, *args: Any) -> dict[str, Any]:
        """Return the fitted attributes that ``_unpack`` would set, without setting them."""
        twin = copy.copy(self)
        twin._unpack(*args)
        return {name: value for name, value in vars(twin).items() if name.endswith("_")}

    def _unpack(
        self, problem: Problem, settings: Settings, scales: Scales, work: Work, params: np.ndarray
    ) -> None:
        """Set the fitted attributes."""
        self.model_, kind = work.model, self._is_classifier()
        for name, value in work.model.fitted_attributes(params, scales, is_classifier=kind).items():
            setattr(self, name, value)
        self.scaling_ = scales.features
        self.silo_ids_ = problem.silos.ids.to_numpy()
        self.n_rounds_, self.clip_norm_ = settings.n_rounds, settings.clip_norm
        self.learning_rate_ = settings.learning_rate
        if hasattr(self, "local_steps"):
            self.local_steps_ = _one_or_all(settings.steps)
        dealt = work.plan.sampling
        self.sampling_rate_ = 1 / dealt.n_parts if isinstance(dealt, Disjoint) else settings.rate

    # ---- predict -----------------------------------------------------------------------------

    def _raw(self, X: Any) -> np.ndarray:
        """Return raw predictions (n, k) of new records."""
        check_is_fitted(self)
        refuse_sparse(X)
        X = with_names(without_column(X, self.silo_column))
        with advising(X):
            X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        if not self.scaling_.affine:
            X = self.scaling_.transform(X)
        return self.model_.raw_of_fitted(vars(self), X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _priced(plan: PrivacyPlan, silos: Silos, streams: Streams) -> PrivacySpent:
    """Return the cost of the plan; it says which records were where, unless that is a secret."""
    digest = None if plan.unit == "silo" else silos.digest()  # it could tell sizes
    seed = streams.seed if streams.is_simulation else None
    return plan.spent(assignment=digest, simulation_seed=seed)


def _one_or_all(steps: tuple[int, ...]) -> int | tuple[int, ...]:
    """Return the number that all rounds share, or every round's."""
    return steps[0] if len(set(steps)) == 1 else steps
