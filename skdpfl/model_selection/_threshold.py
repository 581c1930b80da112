"""A classifier whose cut is chosen on held-out records; see DPThresholdClassifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit
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
#: draws of noise for the difference of two cuts, and deviations of it that are clear
_DRAWS, _CLEARLY = 200, 2.0


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
    one of 32 bins of the score, by its label. The cut is a function of these counts, which open
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
            gains = partial(gains_of_cuts, scoring=self.scoring, costs=self.costs)
            cut = float(found.measure.edges[best_cut(found, gains)])
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


def best_cut(found: federation.Found, gains: Callable[[np.ndarray], np.ndarray]) -> int:
    """Return the number of the edge to cut at, from noisy counts.

    It is the best one if the shares of positives follow a logistic curve, which two numbers of low
    noise describe, unless the counts show another to be better by more than their noise.
    """
    counts, centres = found.mean, found.measure.centres
    slope, intercept = fitted_line(centres, counts)
    raw = slope * centres + intercept
    smooth = np.maximum(counts.sum(axis=0), 0.0) * np.stack([expit(-raw), expit(raw)])

    def inner(table: np.ndarray) -> np.ndarray:
        return gains(table)[1:-1]

    by_curve, by_counts = int(np.argmax(inner(smooth))), int(np.argmax(inner(counts)))
    made_up = np.random.default_rng(0).normal(0.0, found.noise, (_DRAWS, *counts.shape))
    tables = [counts, *(counts + each for each in made_up)]
    better, *others = [(g := inner(table))[by_counts] - g[by_curve] for table in tables]
    return by_counts if better > _CLEARLY * np.std(others) else by_curve


def gains_of_cuts(counts: np.ndarray, scoring: str, costs: Any) -> np.ndarray:
    """Return what each cut below, between and above bins is worth, from counts (2, n_bins)."""
    below = np.concatenate([np.zeros((2, 1)), np.cumsum(counts, axis=1)], axis=1)
    negative, positive = below[0], below[1, -1] - below[1]  # right ones
    if costs is not None:
        false_positive, false_negative = below[0, -1] - negative, below[1, -1] - positive
        worst = costs["false_positive"] * false_positive + costs["false_negative"] * false_negative
        return np.asarray(-worst)
    if scoring == "accuracy":
        return np.asarray(negative + positive)
    if scoring == "balanced_accuracy":
        return np.asarray(negative / below[0, -1] + positive / below[1, -1])
    predicted = positive + below[0, -1] - negative
    return np.asarray(2 * positive / np.maximum(predicted + below[1, -1], 1e-300))
