"""Classifiers on top of a fitted one, which learn one or two numbers from held-out records.

::

    DPCalibratedClassifier    "sigmoid"       one histogram of scores by label -> slope, intercept
                              "temperature"   one of gaps of log-probabilities -> slope
    DPThresholdClassifier                     one histogram of scores by label -> the best cut

Everything after the noised sums is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
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

#: shares of the scores below knots, and cells to find them: a line needs few, and each adds noise
_KNOTS, _CELLS = (0.07, 0.242, 0.414, 0.586, 0.758, 0.93), 32
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
    """Counts of scores by label at a few knots (``edges``), which are typical scores.

    A record between two knots counts at both, more at the nearer one. So fewer counts, and less
    noise, are enough for a line than in bins.

    Formal guarantee
    ----------------
    A record's counts are f and 1 - f, with f in 0..1, so their norm is at most 1. Counts are never
    negative, so the squared distance of two records' is at most 2.
    """

    reads: ClassVar[Any] = "log_odds"
    n_cells: ClassVar[int] = _CELLS
    below: ClassVar[tuple[float, ...]] = _KNOTS
    #: whether a logistic regression on the scores has an intercept
    intercept: ClassVar[bool] = True

    def after(self, mean: np.ndarray, noise: float) -> Self:
        if not self.zoomed:
            return super().after(mean, noise)
        # a sum over half of the cells has about this noise; equal cells do not crowd the bins
        share = min(noise * math.sqrt(self.n_cells), 1.0)
        mean = (1 - share) * mean + share / self.n_cells
        table = super().after(mean, noise)
        low, high = self.quantiles(mean, _MOST_SCORES)
        ends = 2 * low - high, 2 * high - low  # noise in a far cell would move a knot there
        knots = np.sort(self.quantiles(mean, self.below))
        return replace(table, edges=np.clip(knots, *ends))

    @property
    def _shape_of_bins(self) -> tuple[int, ...]:
        return (2, len(self.below))

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.edges is None:
            return super().terms(X, y)
        numbers = np.arange(len(self.edges))
        at = np.interp(np.nan_to_num(X[:, 0], nan=0.0), self.edges, numbers)
        steps = np.rint(256 * at) / 256  # float64 adds these up exactly
        parts = np.maximum(1 - np.abs(steps[:, None] - numbers), 0.0)
        return (y[:, None] == (0, 1))[:, :, None] * parts[:, None]


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
        (released,) = held.release(model, [measure], plans)
        self._learn(released)
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

    def _learn(self, released: federation.ReleasedScore) -> None:
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


@np.errstate(over="ignore")
def fitted_line(released: federation.ReleasedScore) -> tuple[float, float]:
    """Return slope and intercept of a logistic regression on the noisy counts of a score table.

    The maximum likelihood differs from the classifier's own line, slope 1 and intercept 0, by
    delta. With H the curvature of the log loss there and G the covariance of its gradient due to
    noise, delta' H delta has about tr(H^-1 G) of noise; and the loss is less than the classifier's
    by a gain whose noise is known. By either, some part s of delta is noise: s records with labels
    as the classifier's own probabilities say are mixed into each 1 - s counted ones. Close to the
    classifier's line delta shrinks by s, as James and Stein have it. Far off a shorter delta may be
    worse than both ends; the mixture is not. There H may be near zero, so the smaller s counts.
    """
    assert isinstance(released.measure, ScoreTable) and released.measure.edges is not None
    measure, centres, counts = released.measure, released.measure.edges, released.mean
    if measure.intercept:
        counts = counts + (1 - counts.sum()) / counts.size  # what they sum to without noise
    totals = np.maximum(counts.sum(axis=0), 0.0)
    least = np.finfo(float).tiny
    weights = np.maximum(totals, least)
    # shares of positives are in 0..1 and rise with the score, as the slope is positive
    rates = isotonic_regression(np.clip(counts[1] / weights, 0.0, 1.0), sample_weight=weights)
    line = _likeliest_line(centres, totals, rates, measure.intercept)
    columns = np.stack([centres, np.ones_like(centres)])[: len(line)]
    raw, delta = line @ columns, line - np.eye(len(line))[0]
    p = expit(raw)
    curvature = (columns * (totals * p * (1 - p))) @ columns.T
    noise = released.noise**2 * (columns * (p**2 + (1 - p) ** 2)) @ columns.T
    floor = (np.finfo(float).eps * np.trace(curvature) + least) * np.eye(len(line))
    moved = max(float(delta @ curvature @ delta), least)
    part = float(np.trace(np.linalg.solve(curvature + floor, noise))) / moved
    gains = np.logaddexp(0.0, [centres, -centres]) - np.logaddexp(0.0, [raw, -raw])
    gain = max(float((totals * [1 - rates, rates] * gains).sum()), least)
    of_gain = np.float64(released.noise) * np.linalg.norm(gains) / (2 * gain)
    part = min(part, len(line) * float(np.square(of_gain)))
    if part >= 1:
        return 1.0, 0.0
    own = part / len(centres)
    both = (1 - part) * totals + own
    mixed = ((1 - part) * totals * rates + own * expit(centres)) / both
    slope, intercept = [*_likeliest_line(centres, both, mixed, measure.intercept), 0.0][:2]
    return float(slope), float(intercept)


def _likeliest_line(
    centres: np.ndarray, totals: np.ndarray, rates: np.ndarray, intercept: bool
) -> np.ndarray:
    """Return the slope, and the intercept if asked for, of a logistic regression on counts."""
    middle = float(np.average(centres, weights=totals)) if intercept else 0.0
    spread = math.sqrt(np.average(np.square(centres - middle), weights=totals)) or 1.0
    columns = np.stack([(centres - middle) / spread, np.ones_like(centres)])[: 1 + intercept]
    n = totals.sum()

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        raw = line @ columns
        value = totals @ (np.logaddexp(0.0, raw) - rates * raw)
        return float(value / n), columns @ (totals * (expit(raw) - rates)) / n

    bounds = [(_LEAST_SLOPE, _MOST_SLOPE), (-_MOST_SLOPE, _MOST_SLOPE)][: 1 + intercept]
    fitted = minimize(loss, np.array([1.0, 0.0])[: 1 + intercept], jac=True, bounds=bounds).x
    fitted[0] /= spread
    fitted[1:] -= fitted[0] * middle
    return np.asarray(fitted)


@dataclass(frozen=True, eq=False)
class GapTable(ScoreTable):
    """Counts of records of a classifier's first or second choice, by the gap between the two.

    If probabilities are those of log-probabilities z times b, the log-odds of the first choice
    among these records are b times the gap, for any number of labels. Others are not counted.
    """

    span: tuple[float, float] = (0.0, ScoreTable.span[1])
    reads: ClassVar[Any] = "log_probabilities"
    intercept: ClassVar[bool] = False

    def after(self, mean: np.ndarray, noise: float) -> Self:
        table = super().after(mean, noise)
        if table.edges is None:
            return table
        return replace(table, edges=np.maximum(table.edges, 0.0))

    def _holds(self, n_classes: int | None) -> bool:
        return n_classes is not None and n_classes >= 2 and super()._holds(2)

    def terms(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        logs, rows = _bounded(X), np.arange(len(X))
        second, first = np.argsort(logs, axis=1, kind="stable")[:, -2:].T
        choice = np.where(y == first, 1, np.where(y == second, 0, -1))
        choice[np.isnan(logs).any(axis=1)] = -1
        return super().terms((logs[rows, first] - logs[rows, second])[:, None], choice)


def _bounded(logs: np.ndarray) -> np.ndarray:
    """Return log-probabilities that are finite also for 0."""
    return np.maximum(logs, math.log(1e-15))


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
        divided by one number, for any number of labels, drawn to 1 likewise.
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
    radius 1 and diameter sqrt(2): in a cell of its score, twice, and at the two of 6 knots that its
    score is between, by its label. "temperature" likewise: its score is the gap of the two largest
    log-probabilities, and records of other labels are not counted. What is learnt is a function of
    these sums, which open ledgers are charged for before records are read. The classifier's own
    cost is in addition.

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
            return GapTable()
        check_two_labels(model, 'method="sigmoid"', ' Use method="temperature".')
        return DecisionTable()

    def _learn(self, released: federation.ReleasedScore) -> None:
        for name in ("slope_", "intercept_", "temperature_"):
            self.__dict__.pop(name, None)
        slope, intercept = 1.0, 0.0
        if released.measure.has_both(released.mean, released.noise):
            slope, intercept = fitted_line(released)
        else:
            warn(
                "Noise leaves the calibration undefined, so probabilities stay as they are: give a "
                "larger epsilon, or more records."
            )
        if self.method == "temperature":
            self.temperature_ = 1 / slope
        else:
            self.slope_, self.intercept_ = slope, intercept

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
                logs = _bounded(np.log(self.estimator_.predict_proba(X)))
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
    diameter sqrt(2) (:class:`skdpfl.federation.BoundedSum`): in a cell of the score, twice, and at
    the two of 6 knots that the score is between, by its label. The cut is a function of these
    counts, which open ledgers are charged for before records are read. The classifier's own cost
    is in addition.

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

    def _learn(self, released: federation.ReleasedScore) -> None:
        self._of_chances = hasattr(self.estimator, "predict_proba")
        cut = 0.0
        if self.costs is not None or released.measure.has_both(released.mean, released.noise):
            cut = best_cut(released, self.scoring, self.costs)
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


def best_cut(released: federation.ReleasedScore, scoring: str, costs: Any) -> float:
    """Return the score to cut at, from noisy counts: where a positive is as likely as it has to be.

    The best cut of each scoring is at one probability, where the rates of positives cross it.
    """
    centres, counts = released.measure.edges, np.maximum(released.mean, 0.0)
    slope, intercept = fitted_line(released)
    raw = slope * centres + intercept
    rates = _rates(released, expit(raw))
    wanted = float(logit(_wanted_rate(counts, rates, scoring, costs)))
    odds = logit(rates)
    known = np.append(raw, odds[np.isfinite(odds)])  # of no positives, or of nothing else
    odds = np.clip(odds, known.min(), known.max())
    by_line = (wanted - intercept) / slope
    if wanted <= odds[0]:
        return min(by_line, float(centres[0]))
    if wanted >= odds[-1]:
        return max(by_line, float(centres[-1]))
    return float(np.interp(wanted, odds, centres))


def _rates(released: federation.ReleasedScore, by_line: np.ndarray) -> np.ndarray:
    """Return the rates of positives at knots, which rise: those of a line, moved to the counts.

    Counts at k knots of which a line takes two numbers differ from it by k - 2 in squares of their
    noise. The rates are moved by one less that part of the squares that they differ by.
    """
    totals = np.maximum(released.mean.sum(axis=0), np.finfo(float).tiny)
    rest = released.mean[1] - totals * by_line
    variance = released.noise**2 * (by_line**2 + (1 - by_line) ** 2)
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
