"""Calibration of probabilities on held-out records; see DPCalibratedClassifier."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import expit, softmax
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._arguments import check_choice
from skdpfl._warnings import warn
from skdpfl.model_selection._prefit import (
    DecisionTable,
    Prefit,
    check_two_labels,
    fitted_line,
    odds_of,
    prefit_docs,
)
from skdpfl.privacy.events import SecureAggregation

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
        divided by one number; for any number of labels, and less noisy.
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
                'larger epsilon or more records, or use method="temperature".'
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
