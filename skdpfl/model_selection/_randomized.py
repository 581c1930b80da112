"""A search over hyper-parameters within one budget; see DPRandomizedSearchCV.

With ``trust="silo"`` and ``"secagg"`` the server sees every run, so hiding the other runs would
gain nothing: a fixed number of fits is charged. With ``trust="server"`` there is a random number of
runs, and only the best is released (:mod:`skdpfl.privacy.spending.cost`); callbacks are
removed and warnings suppressed meanwhile, since they would reveal the other runs.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import _safe_indexing

from skdpfl._arguments import check_count, check_positive, check_share
from skdpfl._compat import CallbackSupportMixin, with_callbacks
from skdpfl._functions import Declared
from skdpfl._surface import not_elsewhere
from skdpfl._survival_times import refuse_survival
from skdpfl._warnings import warn, warnings_off
from skdpfl.encoding import typed
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.model_selection import _wrapped
from skdpfl.model_selection._candidates import (
    Candidate,
    Runs,
    SearchBudget,
    Space,
    divide_budget,
    within,
)
from skdpfl.model_selection._shared_budget import SharedBudget, model_of
from skdpfl.model_selection.scoring import NoisyScore, split
from skdpfl.privacy.calibration import check_budget_parameters, delta_of
from skdpfl.privacy.events import Exact, Guarantee
from skdpfl.privacy.randomness.streams import Streams, streams_for
from skdpfl.privacy.spending.cost import Repetition
from skdpfl.privacy.spending.ledger import Recorded
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.table import Owners

#: above it pricing the runs takes longer than anyone waits
MOST_RUNS = 10_000
#: rows on which the steps before the last are tried, to see their columns
_ROWS = 1000
#: candidates that are drawn to divide the budget of a secret search
REFERENCE = 16


@dataclass(eq=False, repr=False)
class DPRandomizedSearchCV(
    CallbackSupportMixin, Recorded, _wrapped.BestModel, MetaEstimatorMixin, BaseEstimator
):
    """Randomised search under one privacy budget.

    Parameters
    ----------
    estimator : estimator
        An estimator of this library, except with ``trust="shuffler"``, a pipeline that ends in
        one, or a :class:`SharedBudget` of such a pipeline; a regressor may be in a scikit-learn
        ``TransformedTargetRegressor`` whose transformer learns nothing. Its ``epsilon`` and
        ``delta`` are overridden. Private steps before the last are fitted in every run, and get
        their parts of the run's budget as in a SharedBudget, whose ``shares`` are used if one is
        given. Others should learn nothing or be frozen (:class:`sklearn.frozen.FrozenEstimator`): a
        step that learns without privacy makes the cost infinite, with a warning.
    param_distributions : mapping or list of mappings
        As in RandomizedSearchCV. They are public and must not depend on the data. With
        ``trust="silo"`` or ``"secagg"`` a grid of lists is sampled without replacement until all
        points are drawn; there is a warning if it has fewer points than runs.
    n_iter : int, default=8
        The number of candidates; with ``trust="server"`` the expected number of runs.
    epsilon : float, default=1.0
        The budget of the whole search.
    delta : "auto" or float, default="auto"
        Its delta; "auto" is the largest power of ten that is at most 1 / (10 n_records), or
        1 / (10 n_persons) or 1 / (10 n_silos) with ``unit="person"`` or ``"silo"``.
    holdout : float, default=0.2
        The share of each silo's records (persons, with all their records) that is held out to score
        the candidates; with ``unit="silo"`` the share of whole silos.
    scoring : str or None, default=None
        The score to maximise, as in :func:`skdpfl.inspection.private_score`: "accuracy" (the
        default for classifiers), "balanced_accuracy", "neg_log_loss", "neg_brier_score",
        "calibration_error" (of which the negative is taken), "roc_auc", "average_precision"; for
        regressors "r2", "neg_mean_absolute_error", "d2_poisson"; their default is described at
        ``best_score_``. Losses and errors of a record are clipped at a bound.
    public : collection of str, default=()
        Names of steps, each a ``FunctionTransformer`` whose function you declare to treat each row
        by itself; functions are tested on made-up rows first.
    random_state : int, RandomState, Generator or None, default=None
        None: cryptographically secure noise; anything else is for simulations. Every run has fresh
        noise.

    Attributes
    ----------
    best_estimator_ : estimator
        The model of the best run, without a refit, which would cost privacy again. (Its own
        ``privacy_spent_`` is the cost of that fit only.)
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its noisy score: by default accuracy; for regressors one minus the mean squared error
        divided by the squared half range of ``target_bounds`` (if targets are transformed, of what
        the inverse makes of them), with each record's term clipped at one. Records have equal
        weight; with ``unit="person"`` or ``"silo"`` persons or silos have, each with the mean over
        its records.
    privacy_spent_ : PrivacySpent
        The privacy cost of the whole search.
    candidates_ : DataFrame
        All candidates with their noisy scores; not available with ``trust="server"``, where only
        the best is released.
    fit_epsilon_ : float
        The epsilon of each run.

    See Also
    --------
    skdpfl.privacy_spent : Privacy cost of other searches, such as GridSearchCV.

    Notes
    -----
    **Formal guarantee.** The search is (epsilon, delta)-DP for one record, or with
    ``unit="person"`` or ``"silo"`` for one person or silo with all its records, under the
    estimator's ``trust`` and ``neighbours``. Neighbouring data have the same split, since it is
    drawn from public numbers. So the record, person or silo in which they differ is used either for
    training in both, or for scoring in both. (Persons are drawn by number, in the order of ids;
    another id in a person's place leaves the law of the split as it is.)

    - Training: only the fits read it, those of private steps before the last included, whose
      releases follow from public numbers and are part of each run's price. They compose
      (``trust="silo"`` or ``"secagg"``; each candidate's plan is priced as it then runs), or their
      largest Renyi divergence prices keeping the best of a random number of runs
      (``trust="server"``). Scores read other records, and the choice depends on scores and fitted
      models: post-processing.
    - Scoring: models do not depend on it. For each candidate a record, or the mean over a silo's,
      enters one noised sum of bounded terms (:class:`skdpfl.federation.BoundedSum`), whatever the
      model ("roc_auc": three sums). The mu of n Gaussian releases add in squares to that of the
      priced multiplier. With ``trust="server"`` each run's score has its own noise, independent of
      the number of runs: a run is one mechanism.

    The reported cost is the larger of the two.

    A search is worth its cost if candidates differ by more than the noise that dividing the budget
    adds: with n candidates each fit has about epsilon / sqrt(n). "auto" parameters cost nothing.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.model_selection import DPRandomizedSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranges = [100, 100, 1000, 10_000, 1, 10, 10, 1, 1, 1] * 3  # what a data sheet says
    >>> search = DPRandomizedSearchCV(
    ...     ISRLDPClassifier(scaling=None, n_rounds=20, learning_rate=0.5),
    ...     {"clip_norm": loguniform(0.01, 1)}, n_iter=3, epsilon=3.0, random_state=0)
    >>> search.fit(X / ranges, y).privacy_spent_
    PrivacySpent(ε=3.00, δ=0.0001, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    """

    __metadata_request__fit = {"silos": True, "persons": True}  # noqa: RUF012

    fit_federation = not_elsewhere(
        "Fit each candidate separately, which is charged to each silo, and compare them by "
        "skdpfl.remote.score_federation."
    )

    estimator: Any
    param_distributions: Any
    _: KW_ONLY
    n_iter: int = 8
    epsilon: float = 1.0
    delta: Any = "auto"
    holdout: float = 0.2
    scoring: str | None = None
    public: Any = ()
    random_state: Any = None

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, silos: Any = None, persons: Any = None
    ) -> DPRandomizedSearchCV:
        """Run the search, and keep the best run's model.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records of all silos.
        y : array-like of shape (n_samples,)
            Their targets.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless the estimator has a ``silo_column``.
        persons : array-like of shape (n_samples,), default=None
            With ``unit="person"``: each record's person, unless the estimator has a
            ``person_column``.

        Returns
        -------
        self : DPRandomizedSearchCV
        """
        inner, guarantee = self._check()
        alone = inner is self.estimator
        named = _wrapped.owner_columns(model_of(self.estimator))
        X, y = _wrapped.readable(X if alone else typed(X, named), y, alone)
        owners, streams = Owners.read(X, silos, persons, inner), streams_for(self.random_state)
        parts, groups = split(owners, guarantee.unit, float(self.holdout), streams), owners.silos
        scores = NoisyScore(model_of(self.estimator), guarantee, parts, self.scoring)
        scores.measure(scores.labels(y))
        n_silos, n = len(owners.sizes), int(owners.sizes.sum())
        delta = delta_of(self.delta, n_silos if guarantee.unit == "silo" else n)
        count, law = self._runs(guarantee, streams)
        some = np.union1d(
            np.arange(min(_ROWS, len(groups.codes))),
            np.unique(groups.codes, return_index=True)[1],
        )
        each = (X, silos, persons)
        few = [None if part is None else _safe_indexing(part, some) for part in each]
        public = partial(self._candidates, streams=streams, sizes=parts.sizes, few=few, y=y)
        quiet = warnings_off if law else nullcontext
        with quiet():
            candidates = public("candidates", count, distinct=law is None)
            # the division of the budget is published, so it must not reveal secret runs: it is
            # computed for other draws from the same distribution
            reference = public("reference", REFERENCE, distinct=False) if law else candidates
            trials = [candidate.model() for candidate in [*reference, *candidates]]
            _wrapped.check_protection(trials, inner)
            declared = Declared(self.public, getattr(self.estimator, "public", ()))
            unpaid = _wrapped.unpaid_steps(trials, declared, X)
            prices = [candidate.price for candidate in reference]
            budget = divide_budget(guarantee.neighbours, prices, self.epsilon, delta, law)
        for path, step in unpaid.items():
            text = _wrapped.unpaid_text(path, step)
            warn(f"{text} So the cost of the search is infinite.", PrivacyLeakWarning)
        spent = self._spent(budget, delta, guarantee, streams, exact=bool(unpaid))
        self._charge(spent)
        runs = Runs(self, None if law else count)
        runs.warn_of_hidden_callbacks(self.estimator)
        with quiet():
            own = [within(budget, c.price, delta, law, guarantee.neighbours) for c in candidates]
            seeds = [_wrapped.seed_from(streams, "run", i) for i in range(count)]
            models = [
                candidate.fit(
                    (X, y, silos, persons), parts.train, (e, delta), seed, runs, paid=not unpaid
                )
                for candidate, e, seed in zip(candidates, own, seeds, strict=True)
            ]
            noisy = scores.of(models, X, y, budget.score_noise, streams)
        runs.end()
        self._set_results([c.params for c in candidates], models, noisy, guarantee)
        self.privacy_spent_, self.fit_epsilon_ = spent, float(budget.epsilon)
        return self

    def _check(self) -> tuple[Any, Guarantee]:
        """Check the parameters; return the estimator that is searched and the guarantee."""
        _wrapped.check_budgets(Space(self.param_distributions).names)
        check_count("n_iter", self.n_iter, high=MOST_RUNS, words=", for each run is priced")
        check_share("holdout", self.holdout)
        check_positive("epsilon", self.epsilon)
        check_budget_parameters(self.epsilon, self.delta)
        if isinstance(self.estimator, SharedBudget):
            self.estimator.check_model()
        _, inner = _wrapped.last_step(model_of(self.estimator))
        refuse_survival(inner, "DPRandomizedSearchCV")
        return inner, _wrapped.protection_of(inner)

    def _runs(self, guarantee: Guarantee, streams: Streams) -> tuple[int, Repetition | None]:
        """Return the number of runs, and its distribution if it is secret."""
        if guarantee.trust != "server" or self.n_iter == 1:
            Space(self.param_distributions).warn_of_repeats(self.n_iter)
            return int(self.n_iter), None
        law = Repetition(float(self.n_iter))
        return law.draw(streams.stream("repetitions")), law

    def _candidates(
        self, purpose: str, count: int, *, streams: Streams, distinct: bool, **data: Any
    ) -> list[Candidate]:
        """Draw candidates; independent ones for secret runs.

        Secret runs have separate seeds: the best run's point is published, so its 31-bit seed can
        be found, and must not reveal the points of the others.
        """
        space = Space(self.param_distributions)
        numbers = [int(streams.stream(purpose, i).integers(0, 2**31, ())) for i in range(count)]
        if distinct:
            points = space.draw(count, numbers[0], distinct=True)
        else:
            points = [space.draw(1, number, distinct=False)[0] for number in numbers]
        seeds = [_wrapped.seed_from(streams, f"{purpose} schedule", i) for i in range(count)]
        return [
            Candidate(self.estimator, point, schedule=streams_for(seed), **data)
            for point, seed in zip(points, seeds, strict=True)
        ]

    def _spent(
        self,
        budget: SearchBudget,
        delta: float,
        guarantee: Guarantee,
        streams: Streams,
        *,
        exact: bool,
    ) -> PrivacySpent:
        """Return the costs of training and of scoring, which use different data."""
        parts = [*budget.cost, ((Exact(), 1),)] if exact else budget.cost
        return PrivacySpent.from_compositions(
            guarantee,
            delta=delta,
            compositions=parts,
            n_releases=max(sum(count for _, count in part) for part in parts),
            simulation_seeds=frozenset(() if streams.seed is None else (streams.seed,)),
        )

    def _set_results(
        self,
        points: list[dict[str, Any]],
        models: list[Any],
        noisy: np.ndarray,
        guarantee: Guarantee,
    ) -> None:
        """Set the attributes; with trust="server" only those of the best run."""
        best = int(np.argmax(noisy))
        self.best_estimator_, self.best_params_ = models[best], points[best]
        self.best_score_ = float(noisy[best])
        if guarantee.trust != "server":
            self.candidates_ = pd.DataFrame(points).assign(noisy_score=noisy)
        elif hasattr(self, "candidates_"):
            del self.candidates_
