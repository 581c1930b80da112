"""Classifiers on top of a fitted one, which learn one or two numbers from held-out records.

::

    DPCalibratedClassifier    "sigmoid"       one histogram of scores by label -> slope, intercept
                              "temperature"   slopes of the log loss in the inverse temperature
    DPThresholdClassifier                     one histogram of scores by label -> the best cut

Everything after the noised sums is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import isotonic_regression
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._arguments import check_choice
from skdpfl._surface import filled_docs, not_elsewhere
from skdpfl.model_selection.held_out import HeldOut, predicts_labels
from skdpfl.model_selection.scoring import codes_of, log_odds
from skdpfl.privacy.events import SecureAggregation
from skdpfl.privacy.spending.ledger import Recorded, mark_of
from skdpfl.privacy.spending.spent import PrivacySpent

#: bins of scores: a line needs few, and each adds noise
_BINS = 8
#: shares of the scores between which most are
_MOST_SCORES = (0.1, 0.9)
#: slopes per deviation of the scores; they are positive, so ranks never change
_LEAST_SLOPE, _MOST_SLOPE = 1e-3, 1e3
prefit_docs: Callable[[Any], Any] = filled_docs(
    {
        "estimator": """
    estimator : estimator
        A fitted classifier of any kind. Copies (``clone``, searches) lose its fit, unless it is in
        a ``FrozenEstimator``.""",
        "budget": """
    epsilon : float, default=1.0
        The privacy cost, in addition to that of the classifier.""",
        "shared": """
    [delta]
    [trust]
    [relation]
    unit : {"record", "person"}, default="record"
        What is protected. A person's rows in a silo count as one, by their mean; ``fit`` needs
        ``persons``, or X the classifier's ``person_column``.
    [random_state]""",
        "fitted": """
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray
        The labels.
    privacy_spent_ : PrivacySpent
        The cost of this step; :func:`skdpfl.privacy_spent` adds the classifier's.""",
    }
)


@dataclass(frozen=True, eq=False)
class ScoreTable(federation.ScoreHistogram):
    """Counts of scores by label in a few bins, with a typical score of each bin."""

    centres: np.ndarray | None = None
    reads: ClassVar[Any] = "log_odds"
    below: ClassVar[tuple[float, ...]] = tuple(i / _BINS for i in range(1, _BINS))

    def after(self, mean: np.ndarray, noise: float) -> Self:
        found = super().after(mean, noise)
        if not self.zoomed:
            return found
        low, high = self.quantiles(mean, _MOST_SCORES)
        ends = 2 * low - high, 2 * high - low  # noise in a far cell would move a bin there
        middles = [(i + 0.5) / _BINS for i in range(_BINS)]
        edges, centres = self.quantiles(mean, self.below), self.quantiles(mean, middles)
        edges, centres = np.clip(np.sort(edges), *ends), np.clip(centres, *ends)
        return replace(found, edges=edges, centres=centres)


@dataclass(frozen=True, eq=False)
class DecisionTable(ScoreTable):
    """The same of decision functions, where a model has one."""

    reads: ClassVar[Any] = "decisions"


class Prefit(Recorded, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base class of classifiers that learn a few numbers on top of a fitted one."""

    __metadata_request__fit = {"silos": True, "persons": True}  # noqa: RUF012
    holds = "estimator_"
    #: the classifier has a cost of its own
    pays_for_parts = False
    fit_federation = not_elsewhere("Let remote silos fit and score the classifier itself.")

    estimator: Any
    epsilon: float
    delta: Any
    trust: str | SecureAggregation
    neighbours: str
    unit: str
    random_state: Any
    privacy_spent_: PrivacySpent

    def fit(self, X: Any, y: Any, *, silos: Any = None, persons: Any = None) -> Self:
        """Learn from held-out records, within the budget.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records that the classifier was not fitted to, of all silos.
        y : array-like of shape (n_samples,)
            Their labels.
        silos : array-like of shape (n_samples,), default=None
            Each record's silo, unless X has the classifier's ``silo_column``. None: one silo.
        persons : array-like of shape (n_samples,), default=None
            With ``unit="person"``: each record's person.

        Returns
        -------
        self : object
        """
        model = self._checked()
        measure = self._measure(model)
        check_choice("unit", self.unit, ("record", "person"))
        names = ("epsilon", "delta", "trust", "neighbours", "unit", "random_state")
        asked = {name: getattr(self, name) for name in names}
        held = HeldOut.read(model, X, y, silos=silos, persons=persons, **asked)
        plans = held.plans([measure])
        spent = held.spent(plans)
        self._charge(spent, mark=mark_of(codes_of(y, np.asarray(model.classes_))))
        (found,) = held.release(model, [measure], plans)
        self._learn(found)
        self.estimator_, self.classes_ = model, np.asarray(model.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self.privacy_spent_ = spent
        return self

    def _checked(self) -> Any:
        """Return the classifier; raise unless it is one, and fitted."""
        model = self.estimator
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise NotFittedError(
                f"{type(self).__name__} needs a classifier that is fitted already, to other "
                "records. Copies lose their fit: FrozenEstimator(fitted) keeps it."
            ) from None
        if not predicts_labels(model):
            raise ValueError(f"estimator must be a classifier; got {type(model).__name__}.")
        return model

    def _measure(self, model: Any) -> federation.Measure:
        """Return the first sum, after checks of the parameters."""
        raise NotImplementedError

    def _learn(self, found: federation.Found) -> None:
        """Set the fitted attributes from the noised sums."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def check_two_labels(model: Any, what: str, instead: str = "") -> None:
    """Raise unless a classifier has two labels."""
    if len(model.classes_) != 2:
        raise ValueError(f"{what} needs two labels; got {len(model.classes_)}.{instead}")


def inner_has(name: str) -> Any:
    """Return a decorator: a method exists where the fitted classifier has it."""

    def check(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), name)

    return available_if(check)


def odds_of(model: Any, X: Any) -> np.ndarray:
    """Return decisions of a classifier of two labels, or its log-odds (n,)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), float).ravel()
    return log_odds(model.predict_proba(X)[:, 1])


def fitted_line(found: federation.Found) -> tuple[float, float]:
    """Return slope and intercept of a logistic regression on the noisy counts of a score table.

    The maximum likelihood differs from the classifier's own line, slope 1 and intercept 0, by
    delta. With H the curvature of the log loss there and G the covariance of its gradient due to
    noise, delta' H delta has about tr(H^-1 G) of noise; delta is shrunk by one less that part, as
    James and Stein do, so counts that are mostly noise leave the classifier as it is.
    """
    assert isinstance(found.measure, ScoreTable) and found.measure.centres is not None
    centres, counts = found.measure.centres, found.mean
    counts = counts + (1 - counts.sum()) / counts.size  # what they sum to without noise
    own = np.array([1.0, 0.0])
    delta = np.array(_likeliest_line(centres, counts)) - own
    columns = np.stack([centres, np.ones_like(centres)])
    p = expit((own + delta) @ columns)
    totals = np.maximum(counts.sum(axis=0), 0.0)
    curvature = (columns * (totals * p * (1 - p))) @ columns.T
    noise = found.noise**2 * (columns * (p**2 + (1 - p) ** 2)) @ columns.T
    floor = np.finfo(float).eps * np.trace(curvature) + np.finfo(float).tiny
    error = np.trace(np.linalg.solve(curvature + floor * np.eye(2), noise))
    moved = max(float(delta @ curvature @ delta), np.finfo(float).tiny)
    slope, intercept = own + max(0.0, 1.0 - error / moved) * delta
    return float(slope), float(intercept)


def _likeliest_line(centres: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Return slope and intercept of a logistic regression on noisy shares by label (2, n_bins).

    First the shares are projected to what they satisfy without noise: those of positives are in
    0..1 and rise with the score, as the slope is positive. Otherwise noise could make a bin's
    positives negative and the slope extreme.
    """
    totals = np.maximum(counts.sum(axis=0), 0.0)
    weights = np.maximum(totals, np.finfo(float).tiny)
    rising = isotonic_regression(np.clip(counts[1] / weights, 0.0, 1.0), sample_weight=weights)
    positive = rising * totals
    middle = float(np.average(centres, weights=totals))
    spread = math.sqrt(np.average(np.square(centres - middle), weights=totals)) or 1.0
    z, n = (centres - middle) / spread, totals.sum()

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        raw = line[0] * z + line[1]
        value = totals @ np.logaddexp(0.0, raw) - positive @ raw
        rest = totals * expit(raw) - positive
        return float(value / n), np.array([rest @ z, rest.sum()]) / n

    bounds = [(_LEAST_SLOPE, _MOST_SLOPE), (-_MOST_SLOPE, _MOST_SLOPE)]
    slope, intercept = minimize(loss, np.array([1.0, 0.0]), jac=True, bounds=bounds).x.tolist()
    return slope / spread, intercept - slope * middle / spread
