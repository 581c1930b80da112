"""A search over hyper-parameters whose whole cost is one budget.

Records are split by index, before anything is read, into training and scoring records. A record of
the first kind pays for the fits, one of the second kind for the scores: the price is the larger of
the two (parallel composition over a split that does not depend on the data).

``trust="silo"``: the server sees every run, so hiding the losers would buy nothing. A fixed number
of candidates is drawn, each fit is paid for, and so is one noisy vector of all scores per silo.

``trust="server"``: runs stay with the server. A random number of runs is made and only the best
one's candidate, model and noisy score are given out (:mod:`skdpfl.privacy.spending.repetition`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from skdpfl.model_selection._noisy_score import NoisyScore
from skdpfl.model_selection._search_budget import Price, automatic_delta, fit_budget, within
from skdpfl.model_selection._search_steps import (
    paying_step,
    unpaid_steps,
    warn_of,
    width_seen,
)
from skdpfl.privacy.events import Composition, Exact
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.recording import Recorded
from skdpfl.privacy.spending.repetition import Repetition
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.silos import Silos, read_silos, split_silo_column


def _best_has(method: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), method)

    return check


#: draws from the law of candidates that a secret search's budget is divided for
REFERENCE = 16


class Run(NamedTuple):
    """One candidate's fit."""

    params: dict[str, Any]
    model: Any


class DPRandomizedSearchCV(Recorded, MetaEstimatorMixin, BaseEstimator):
    """Randomised search under one privacy budget.

    Parameters
    ----------
    estimator : estimator
        One of this library's with ``unit="record"``, or a pipeline that ends in one. Its
        ``epsilon`` and ``delta`` are overridden. Other steps should learn nothing or be frozen
        (:class:`sklearn.frozen.FrozenEstimator`): one that learns without paying makes the cost
        infinite, with a warning; one that pays by itself is refused.
    param_distributions : mapping or list of mappings
        As in RandomizedSearchCV. They are public, and so must not have been chosen by the data.
        Under ``trust="silo"`` no point of a grid of lists is drawn twice while it has others.
    n_iter : int, default=8
        The number of candidates; under ``trust="server"`` the expected number of runs.
    epsilon : float, default=1.0
        The budget of the whole search.
    delta : "auto" or float, default="auto"
        Its delta; "auto" is the largest power of ten that is at most 1 / (10 n_records).
    holdout : float, default=0.2
        The share of each silo's records that scores the candidates and is not trained on.
    random_state : int, RandomState, Generator or None, default=None
        None draws cryptographic noise; anything else is a simulation. Every run has fresh noise.

    Attributes
    ----------
    best_estimator_ : estimator
        The best run's model. It is not fitted again: that would be paid twice.
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its noisy score: accuracy, or for regressors one minus the mean squared error over the
        squared half range of ``target_bounds``, each record's loss cut off at one.
    privacy_spent_ : PrivacySpent
        What the whole search cost.
    candidates_ : DataFrame
        All candidates with their noisy scores; only under ``trust="silo"``, where all are paid for.
    fit_epsilon_ : float
        The epsilon that each run was given.

    See Also
    --------
    skdpfl.privacy_spent : What a GridSearchCV would honestly have cost.

    Notes
    -----
    **Formal guarantee.** The search is (epsilon, delta)-DP for one record, by the module's
    argument: training records pay for the composed fits (``trust="silo"``) or for keeping the best
    of a random number of runs (``trust="server"``), scoring records for the noisy scores; the
    reported cost is the larger one.

    A search pays when candidates differ by more than the noise that dividing the budget adds: with
    n candidates each fit has about epsilon / sqrt(n). "auto" parameters cost nothing.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.model_selection import DPRandomizedSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = DPRandomizedSearchCV(
    ...     ISRLDPClassifier(scaling=None, n_rounds=20, learning_rate=0.5),
    ...     {"clip_norm": loguniform(0.01, 1)}, n_iter=3, epsilon=3.0, random_state=0)
    >>> search.fit(X / X.max(axis=0), y).privacy_spent_
    PrivacySpent(ε=3.00, δ=0.0001, unit='record', trust='silo')
    """

    __metadata_request__fit = {"silos": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 8,
        epsilon: float = 1.0,
        delta: Any = "auto",
        holdout: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.epsilon = epsilon
        self.delta = delta
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, silos: Any = None) -> DPRandomizedSearchCV:
        """Search, and keep the best run's model.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the estimator has a ``silo_column``.

        Returns
        -------
        self : DPRandomizedSearchCV
        """
        self._check()
        inner = paying_step(self.estimator)
        _, given = split_silo_column(X, silos, inner.silo_column)
        groups = read_silos(given, _num_samples(X), X)
        streams = streams_for(self.random_state)
        train, test = _split(groups, self.holdout, streams)
        score = NoisyScore(inner, groups.codes[test], len(groups.ids))
        count, repetition = self._runs(inner, streams)
        candidates = self._candidates("candidates", count, streams, repetition is None)
        delta = self._delta(len(groups.codes))
        sizes = dict(zip(groups.ids.tolist(), np.bincount(groups.codes[train]), strict=True))
        price = partial(self._price, sizes, X, y)
        # the division of the budget is published, so it must not tell which and how many runs
        # there are: where that is secret it is made for other draws from the same public law
        known = candidates
        if repetition is not None:
            known = self._candidates("reference", REFERENCE, streams)
        unpaid = unpaid_steps(self._model(params) for params in [*known, *candidates])
        warn_of(unpaid)
        prices = [price(params) for params in known]
        budget = fit_budget(inner, prices, self.epsilon, delta, repetition)
        seeds = frozenset() if streams.seed is None else frozenset({streams.seed})
        free = (((Exact(), 1),),) if unpaid else ()
        spent = self._spent((*budget.cost, *free), delta, inner, seeds)
        self._charge(spent)
        runs = []
        for i, params in enumerate(candidates):
            own = within(budget, price(params), delta, repetition, inner)
            runs.append(self._run(params, own, delta, i, streams, (X, y, silos), train))
        noisy = score.of([r.model for r in runs], X, y, test, budget.score_noise, streams)
        self._give_out(runs, noisy, inner)
        self.privacy_spent_, self.fit_epsilon_ = spent, budget.epsilon
        return self

    def _check(self) -> None:
        if not isinstance(self.n_iter, (int, np.integer)) or self.n_iter < 1:
            raise ValueError(f"n_iter must be an integer of at least 1; got {self.n_iter!r}.")
        if not 0 < self.holdout < 1:
            raise ValueError(f"holdout must be in (0, 1); got {self.holdout!r}.")
        if not (isinstance(self.epsilon, (int, float)) and 0 < self.epsilon < np.inf):
            raise ValueError(f"epsilon must be a finite number > 0; got {self.epsilon!r}.")
        inner = paying_step(self.estimator)
        if getattr(inner, "unit", "record") != "record" or inner.trust == "shuffler":
            raise ValueError(
                "DPRandomizedSearchCV searches estimators with unit='record' and trust='silo' or "
                f"'server'; got unit={getattr(inner, 'unit', 'record')!r}, trust={inner.trust!r}."
            )
        if not is_classifier(inner) and inner.target_bounds is None:
            raise ValueError(
                "A regressor's scores are bounded by its target_bounds=(low, high); give them."
            )

    def _runs(self, inner: Any, streams: Streams) -> tuple[int, Repetition | None]:
        """Return the number of runs, and the law it was drawn from if it is secret."""
        if inner.trust == "silo" or self.n_iter == 1:
            return int(self.n_iter), None
        law = Repetition(float(self.n_iter))
        return law.draw(streams.stream("repetitions")), law

    def _candidates(
        self, purpose: str, count: int, streams: Streams, distinct: bool = False
    ) -> list[dict[str, Any]]:
        """Draw candidates from the public law: independently, as secret runs have to be."""
        seed = int(streams.stream(purpose).integers(0, 2**31, ()))
        distributions = self.param_distributions
        if distinct and _n_points(distributions) >= count:  # no candidate twice
            return list(ParameterSampler(distributions, count, random_state=seed))
        return [
            next(iter(ParameterSampler(distributions, 1, random_state=seed + i)))
            for i in range(count)
        ]

    def _model(self, params: dict[str, Any]) -> Any:
        own = {name: clone(value, safe=False) for name, value in params.items()}
        return clone(self.estimator).set_params(**own)

    def _price(self, sizes: dict[Any, int], X: Any, y: Any, params: dict[str, Any]) -> Price:
        """Return the function (epsilon, delta) -> what a candidate's fit would cost."""
        model = self._model(params)
        inner, width = paying_step(model), width_seen(model, X)
        n_classes = len(np.unique(np.asarray(y))) if is_classifier(inner) else 2

        def price(epsilon: float, delta: float) -> PrivacySpent:
            inner.set_params(epsilon=epsilon, delta=delta, noise_multiplier=None)
            plan = inner.plan_for(silo_sizes=sizes, n_features=width, n_classes=n_classes)
            return plan.spent()

        return price

    def _delta(self, n_records: int) -> float:
        if isinstance(self.delta, str) and self.delta == "auto":
            return automatic_delta(n_records)
        if not (isinstance(self.delta, (int, float)) and 0 < self.delta < 1):
            raise ValueError(f'delta must be "auto" or a number in (0, 1); got {self.delta!r}.')
        return float(self.delta)

    def _spent(
        self, cost: tuple[Composition, ...], delta: float, inner: Any, seeds: frozenset[int]
    ) -> PrivacySpent:
        priced = [
            PrivacySpent.from_compositions(
                unit="record",
                trust=inner.trust,
                neighbours="replace" if inner.neighbours == "auto" else inner.neighbours,
                delta=delta,
                compositions=[part],
                n_releases=sum(count for _, count in part),
                simulation_seeds=seeds,
            )
            for part in cost
        ]
        return max(priced, key=lambda spent: spent.epsilon)

    def _run(
        self,
        params: dict[str, Any],
        epsilon: float,
        delta: float,
        number: int,
        streams: Streams,
        data: tuple[Any, Any, Any],
        train: np.ndarray,
    ) -> Run:
        X, y, silos = (None if part is None else _safe_indexing(part, train) for part in data)
        model = self._model(params)
        inner = paying_step(model)
        seed = None
        if streams.is_simulation:
            seed = int(streams.stream("run", number).integers(0, 2**31, ()))
        inner.set_params(
            epsilon=epsilon, delta=delta, noise_multiplier=None, random_state=seed, verbose=0
        )
        inner._covered = True  # this search has charged the ledgers
        routed = inner is model or get_config()["enable_metadata_routing"]
        name = "" if routed else f"{model.steps[-1][0]}__"
        model.fit(X, y, **({} if silos is None else {f"{name}silos": silos}))
        del inner._covered
        return Run(params, model)

    def _give_out(self, runs: list[Run], noisy: np.ndarray, inner: Any) -> None:
        """Set the attributes; under trust="server" nothing but the best run's."""
        best = int(np.argmax(noisy))
        self.best_estimator_, self.best_params_ = runs[best].model, runs[best].params
        self.best_score_ = float(noisy[best])
        if inner.trust == "silo":
            table = pd.DataFrame([run.params for run in runs])
            self.candidates_ = table.assign(noisy_score=noisy)
        elif hasattr(self, "candidates_"):
            del self.candidates_

    # ---- the best model's methods --------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the best model's predictions."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the best model's exact score on other records."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.score(X, y)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the best model's probabilities."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the best model's raw predictions."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    @property
    def classes_(self) -> np.ndarray:
        """The best model's labels."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.n_features_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags


def _n_points(distributions: Any) -> int:
    """Return the number of points of a grid of lists; 0 if some parameter has a distribution."""
    each = [distributions] if isinstance(distributions, Mapping) else distributions
    if any(hasattr(values, "rvs") for part in each for values in part.values()):
        return 0
    return len(ParameterGrid(distributions))


def _split(silos: Silos, holdout: float, streams: Streams) -> tuple[np.ndarray, np.ndarray]:
    """Return training and scoring rows: a share of each silo, whatever the data are."""
    order = streams.stream("holdout").permutation(len(silos.codes))
    rank = np.empty(len(order), dtype=np.int64)
    by_silo = order[np.argsort(silos.codes[order], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(silos.sizes)[:-1]])
    rank[by_silo] = np.arange(len(order)) - np.repeat(starts, silos.sizes)
    scored = np.maximum(1, np.round(holdout * silos.sizes)).astype(int)
    if (scored >= silos.sizes).any():
        silo = silos.ids[int(np.argmax(scored >= silos.sizes))]
        raise ValueError(f"Silo {silo!r} has too few records to hold {holdout:g} of them out.")
    test = rank < scored[silos.codes]
    return np.flatnonzero(~test), np.flatnonzero(test)
