"""Classifiers on top of a fitted one, which learn one or two numbers from held-out records.

::

    DPCalibratedClassifier    "sigmoid"       one histogram of scores by label -> slope, intercept
                              "temperature"   slopes of the log loss in the inverse temperature
    DPThresholdClassifier                     one histogram of scores by label -> the best cut

Everything after the noised sums is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import isotonic_regression
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._arguments import check_choice
from skdpfl._surface import filled_docs, not_elsewhere
from skdpfl._warnings import warn
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


#: inverse temperatures, and the range of log-probabilities that slopes are bounded by
_GRID, _RANGE = 2.0 ** np.arange(-4, 4), 12.0


@dataclass(frozen=True, eq=False)
class TemperatureSlopes(federation.Measure):
    """Slopes of the log loss of softmax(beta z) at the betas of a grid; z: log-probabilities.

    Formal guarantee
    ----------------
    With z in [-R, 0] a slope is E z - z_y, in [-R, R]: radius R sqrt(number of betas).
    """

    reads: ClassVar[Any] = "log_probabilities"

    @property
    def shape(self) -> tuple[int, ...]:
        return _GRID.shape

    @property
    def radius(self) -> float:
        return _RANGE * math.sqrt(len(_GRID))

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        known = (y >= 0) & np.isfinite(X.max(axis=1))
        z = np.where(known[:, None], X - X.max(axis=1, keepdims=True), 0.0)
        z = np.maximum(z, -_RANGE)
        own = z[np.arange(len(z)), np.maximum(y, 0).astype(int)]
        means = [np.einsum("nk,nk->n", softmax(beta * z, axis=1), z) for beta in _GRID]
        return (np.stack(means, axis=1) - own[:, None]) * known[:, None]

    def score(self, mean: np.ndarray, noise: float) -> float:
        """Return the inverse temperature at which the slope is zero."""
        logs, rising = np.log(_GRID), isotonic_regression(mean)
        if rising[0] >= 0 or rising[-1] <= 0:
            return float(_GRID[0] if rising[0] >= 0 else _GRID[-1])
        return float(np.exp(brentq(PchipInterpolator(logs, rising), logs[0], logs[-1])))


@prefit_docs
@dataclass(eq=False, repr=False)
class DPCalibratedClassifier(Prefit):
    """Calibrate the probabilities of a fitted classifier on held-out records, privately.

    Ranks of records do not change with two labels, nor do predicted labels with more.

    Parameters
    ----------
    [estimator]
    [budget]
    method : {"sigmoid", "temperature"}, default="sigmoid"
        "sigmoid" (Platt scaling, two labels): the probability is that of a logistic regression on
        the classifier's decision function, or on its log-odds, drawn to the classifier's own by the
        part of the difference that is noise. "temperature": log-probabilities are
        divided by one number, for any number of labels; noise can make them worse than
        they were (at epsilon 1 it did with 1,000 records, for some models with 2,000).
    [shared]

    Attributes
    ----------
    slope_, intercept_ : float
        Of the logistic regression ("sigmoid"). The slope is positive.
    temperature_ : float
        The divisor of log-probabilities ("temperature").
    [fitted]

    See Also
    --------
    DPThresholdClassifier : Chooses the cut between labels.
    skdpfl.inspection.DPCalibrationDisplay : A private calibration curve.
    sklearn.calibration.CalibratedClassifierCV : Without privacy.

    Notes
    -----
    **Formal guarantee.** "sigmoid": each record is counted once in each of three noised sums of
    radius 1 and diameter sqrt(2): in a cell of its score, twice, and in one of 8 bins of the
    score, by its label. "temperature": one noised sum of the slopes of each record's log loss at
    eight temperatures, each within [-12, 12]. What is learnt is a function of these sums, which
    open ledgers are charged for before records are read. The classifier's own cost is in addition.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from skdpfl import DPCalibratedClassifier, ISRLDPClassifier, privacy_spent
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 800, n_classes=2, n_features=5, random_state=0)
    >>> X, y, silos = data.data, data.target, data.silos
    >>> clf = ISRLDPClassifier(epsilon=2.0, feature_bounds=(-9, 9), random_state=0)
    >>> clf = clf.fit(X[::2], y[::2], silos=silos[::2])
    >>> model = DPCalibratedClassifier(FrozenEstimator(clf), epsilon=1.0, random_state=1)
    >>> model = model.fit(X[1::2], y[1::2], silos=silos[1::2])
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    >>> round(model.privacy_spent_.epsilon, 2), privacy_spent(model).epsilon > 2.0
    (1.0, True)
    """

    estimator: Any
    _: KW_ONLY
    epsilon: float = 1.0
    method: str = "sigmoid"
    delta: Any = "auto"
    trust: str | SecureAggregation = "silo"
    neighbours: str = "replace"
    unit: str = "record"
    random_state: Any = None

    def _measure(self, model: Any) -> federation.Measure:
        check_choice("method", self.method, ("sigmoid", "temperature"))
        if self.method == "temperature":
            if not hasattr(model, "predict_proba"):
                raise ValueError(
                    f"{type(model).__name__} has no predict_proba for a temperature; "
                    'method="sigmoid" takes a decision function.'
                )
            return TemperatureSlopes()
        check_two_labels(model, 'method="sigmoid"', ' Use method="temperature".')
        return DecisionTable()

    def _learn(self, found: federation.Found) -> None:
        for name in ("slope_", "intercept_", "temperature_"):
            self.__dict__.pop(name, None)
        if self.method == "temperature":
            self.temperature_ = 1 / found.score
        elif found.measure.has_both(found.mean, found.noise):
            self.slope_, self.intercept_ = fitted_line(found)
        else:
            warn(
                "Noise leaves the calibration undefined, so probabilities stay as they are: give a "
                "larger epsilon, or more records."
            )
            self.slope_, self.intercept_ = 1.0, 0.0

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return calibrated probabilities of the labels.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        if hasattr(self, "temperature_"):
            with np.errstate(divide="ignore"):
                logs = np.log(self.estimator_.predict_proba(X))
            return np.asarray(softmax(logs / self.temperature_, axis=1))
        raw = self.slope_ * odds_of(self.estimator_, X) + self.intercept_
        return np.column_stack([expit(-raw), expit(raw)])

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of the largest calibrated probability.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])


_SCORINGS = ("balanced_accuracy", "accuracy", "f1")
_ERRORS = ("false_negative", "false_positive")


@prefit_docs
@dataclass(eq=False, repr=False)
class DPThresholdClassifier(Prefit):
    """Choose the cut between two labels of a fitted classifier on held-out records, privately.

    Parameters
    ----------
    [estimator]
    scoring : {"balanced_accuracy", "accuracy", "f1"}, default="balanced_accuracy"
        What the cut makes largest; not used with ``costs``.
    costs : mapping, default=None
        What errors cost, from public knowledge: ``{"false_positive": 1, "false_negative": 9}``. The
        cut then makes the expected cost least.
    [budget]
    [shared]

    Attributes
    ----------
    threshold_ : float
        Records at or above it get the second label: a probability of the second label, or a value
        of the decision function if the classifier has no ``predict_proba``.
    [fitted]

    See Also
    --------
    DPCalibratedClassifier : Calibrates probabilities.
    sklearn.model_selection.TunedThresholdClassifierCV : Without privacy.

    Notes
    -----
    **Formal guarantee.** Each record is counted once in each of three noised sums of radius 1 and
    diameter sqrt(2) (:class:`skdpfl.federation.BoundedSum`): in a cell of the score, twice, and in
    one of 8 bins of the score, by its label. The cut is a function of these counts, which open
    ledgers are charged for before records are read. The classifier's own cost is in addition.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from skdpfl import DPThresholdClassifier, ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> data = make_federated_classification(3, 800, n_classes=2, n_features=5, random_state=0)
    >>> X, y, silos = data.data, data.target, data.silos
    >>> clf = ISRLDPClassifier(epsilon=2.0, feature_bounds=(-9, 9), random_state=0)
    >>> clf = clf.fit(X[::2], y[::2], silos=silos[::2])
    >>> costs = {"false_positive": 1, "false_negative": 9}
    >>> model = DPThresholdClassifier(
    ...     FrozenEstimator(clf), costs=costs, epsilon=1.0, random_state=1)
    >>> model = model.fit(X[1::2], y[1::2], silos=silos[1::2])
    >>> model.threshold_ < 0.5
    True
    """

    estimator: Any
    _: KW_ONLY
    scoring: str = "balanced_accuracy"
    costs: Mapping[str, float] | None = None
    epsilon: float = 1.0
    delta: Any = "auto"
    trust: str | SecureAggregation = "silo"
    neighbours: str = "replace"
    unit: str = "record"
    random_state: Any = None

    def _measure(self, model: Any) -> federation.Measure:
        check_choice("scoring", self.scoring, _SCORINGS)
        _check_costs(self.costs)
        check_two_labels(model, "A threshold")
        return ScoreTable()

    def _learn(self, found: federation.Found) -> None:
        self._of_chances = hasattr(self.estimator, "predict_proba")
        cut = 0.0
        if self.costs is not None or found.measure.has_both(found.mean, found.noise):
            cut = best_cut(found, self.scoring, self.costs)
        else:
            warn(
                "Noise leaves the best cut undefined, so it is the usual one: give a larger "
                "epsilon or more records."
            )
        self.threshold_ = float(expit(cut)) if self._of_chances else cut

    def predict(self, X: Any) -> np.ndarray:
        """Return the second label for records at or above the cut, and the first for others.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        check_is_fitted(self)
        model = self.estimator_
        scores = model.predict_proba(X)[:, 1] if self._of_chances else model.decision_function(X)
        return np.asarray(self.classes_[(np.ravel(scores) >= self.threshold_).astype(int)])

    @inner_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the classifier's probabilities, which the cut does not change.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    @inner_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the classifier's decision function, which the cut does not change.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            The records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Values of the decision function.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(X))


def _check_costs(costs: Any) -> None:
    """Raise unless costs are None, or a mapping of both errors to numbers from 0 on."""
    if costs is None:
        return
    numbers = list(costs.values()) if isinstance(costs, Mapping) else []
    fine = len(numbers) == 2 and set(costs) == set(_ERRORS)
    if not fine or not all(0 <= c < math.inf for c in numbers) or not any(numbers):
        raise ValueError(
            'costs must have both errors: {"false_positive": 1, "false_negative": 9}, from 0 on; '
            f"got {costs!r}."
        )


def best_cut(found: federation.Found, scoring: str, costs: Any) -> float:
    """Return the score to cut at, from noisy counts: where a positive is as likely as it has to be.

    The best cut of each scoring is at one probability, where the rates of positives cross it.
    """
    centres, counts = found.measure.centres, np.maximum(found.mean, 0.0)
    slope, intercept = fitted_line(found)
    raw = slope * centres + intercept
    rates = _rates(found, expit(raw))
    wanted = float(logit(_wanted_rate(counts, rates, scoring, costs)))
    odds = np.clip(logit(rates), raw[0], raw[-1])  # of no positives, or of nothing else
    by_line = (wanted - intercept) / slope
    if wanted <= odds[0]:
        return min(by_line, float(centres[0]))
    if wanted >= odds[-1]:
        return max(by_line, float(centres[-1]))
    return float(np.interp(wanted, odds, centres))


def _rates(found: federation.Found, by_line: np.ndarray) -> np.ndarray:
    """Return the rates of positives in bins, which rise: those of a line, moved to the counts.

    Counts of k bins of which a line takes two numbers differ from it by k - 2 in squares of their
    noise. The rates are moved by one less that part of the squares that they differ by.
    """
    totals = np.maximum(found.mean.sum(axis=0), np.finfo(float).tiny)
    rest = found.mean[1] - totals * by_line
    variance = found.noise**2 * (by_line**2 + (1 - by_line) ** 2)
    squares = float((rest**2 / np.maximum(variance, np.finfo(float).tiny)).sum())
    share = max(0.0, 1.0 - (len(rest) - 2) / max(squares, np.finfo(float).tiny))
    moved = np.clip(by_line + share * rest / totals, 0.0, 1.0)
    return np.asarray(isotonic_regression(moved, sample_weight=totals))


def _wanted_rate(counts: np.ndarray, rates: np.ndarray, scoring: str, costs: Any) -> float:
    """Return the probability from which on a record is a positive.

    Costs: where both errors cost the same in the mean. Balanced accuracy: the share of positives,
    since an error counts one over the number of its label. F1: half of the largest F1.
    """
    if costs is not None:
        both = costs["false_positive"] + costs["false_negative"]
        return float(costs["false_positive"] / both)
    if scoring == "accuracy":
        return 0.5
    if scoring == "balanced_accuracy":
        return float(counts[1].sum() / counts.sum())
    totals = counts.sum(axis=0)[::-1]
    hits, predicted = np.cumsum(totals * rates[::-1]), np.cumsum(totals)
    return float((hits / np.maximum(predicted + hits[-1], np.finfo(float).tiny)).max())
