"""A classifier whose cut is chosen on held-out records; see DPThresholdClassifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._arguments import check_choice
from skdpfl._warnings import warn
from skdpfl.model_selection._prefit import (
    Prefit,
    ScoreTable,
    check_two_labels,
    fitted_line,
    inner_has,
    prefit_docs,
)
from skdpfl.privacy.events import SecureAggregation

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
