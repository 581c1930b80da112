"""A private calibration curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpfl import federation
from skdpfl._arguments import check_count
from skdpfl.inspection._display import GREY, Display, next_colour
from skdpfl.inspection._score_displays import check_classifier, name_of, released, shared_docs
from skdpfl.privacy.events import SecureAggregation
from skdpfl.privacy.spending.spent import PrivacySpent

#: bins whose share of the records is within so many deviations of the noise are left out
_UNSURE = 3.0
_MOST_BINS = 100


@dataclass(eq=False, repr=False, kw_only=True)
class DPCalibrationDisplay(Display):
    """Shares of positives by predicted probability, with noise: a private calibration curve.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    prob_true : array-like of shape (n_points,)
        The estimated share of positives among the records of each bin of predicted probability.
        Bins that may be empty but for noise are left out.
    prob_pred : array-like of shape (n_points,)
        The estimated mean of their predicted probabilities.
    noise : array-like of shape (n_points,)
        The standard deviation of the noise in ``prob_true - prob_pred``, in first-order
        approximation.
    calibration_error : float
        The estimated mean distance of both over all records.
    estimator_name : str, default=None
        Label of the line.
    pos_label : object, default=None
        The positive label.
    privacy_spent : PrivacySpent, default=None
        The privacy cost of the display.

    Attributes
    ----------
    line_, ideal_ : matplotlib artists
        The curve, and that of calibrated probabilities.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    skdpfl.DPCalibratedClassifier : Calibrates a fitted classifier.
    private_score : The calibration error alone, among other scores.

    Notes
    -----
    **Formal guarantee.** Each record adds one term to a noised sum of radius 1 and diameter sqrt(2)
    (:mod:`skdpfl.federation`): in its bin's count, and, with smaller weights, in the bin's sums of
    labels and of probabilities. A model that was fitted to the same records has its own cost; both
    compose.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> from skdpfl.inspection import DPCalibrationDisplay
    >>> data = make_federated_classification(3, 400, n_classes=2, n_features=5, random_state=0)
    >>> clf = ISRLDPClassifier(epsilon=4.0, feature_bounds=(-9, 9), random_state=0)
    >>> clf = clf.fit(data.data, data.target, silos=data.silos)
    >>> display = DPCalibrationDisplay.from_estimator(
    ...     clf, data.data, data.target, epsilon=2.0, n_bins=5, silos=data.silos, random_state=0)
    >>> len(display.prob_true) <= 5
    True
    """

    prob_true: Any
    prob_pred: Any
    noise: Any
    calibration_error: float
    estimator_name: str | None = None
    pos_label: Any = None
    privacy_spent: PrivacySpent | None = None

    def _draw(self, color: str | None) -> None:
        name = f"{self.estimator_name}: " if self.estimator_name else ""
        label = f"{name}calibration error {self.calibration_error:.3f}"
        self.line_ = self.ax_.errorbar(
            self.prob_pred, self.prob_true, self.noise, color=color or next_colour(self.ax_),
            marker=".", capsize=3, label=label,
        )  # fmt: skip
        (self.ideal_,) = self.ax_.plot([0, 1], [0, 1], color=GREY, linestyle=":")
        of = "" if self.pos_label is None else f" (of {self.pos_label!r})"
        self.ax_.set(xlabel=f"mean predicted probability{of}", ylabel="share of positives ± noise")
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        self.ax_.legend(frameon=False, loc="upper left")

    @classmethod
    @shared_docs
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        epsilon: float,
        n_bins: int = 10,
        silos: Any = None,
        delta: Any = "auto",
        trust: str | SecureAggregation = "silo",
        neighbours: str = "replace",
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> DPCalibrationDisplay:
        """Count records by predicted probability with noise, charge the cost, and draw the curve.

        Parameters
        ----------
        [asked]
        n_bins : int, default=10
            The number of bins, of equal width.
        [drawn]

        Returns
        -------
        DPCalibrationDisplay
        """
        check_classifier(estimator)
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"{type(estimator).__name__} has no predict_proba to compare.")
        if len(estimator.classes_) != 2:
            raise ValueError(
                f"A calibration curve needs two labels; got {len(estimator.classes_)}. Use "
                'private_score(..., scoring="calibration_error") for any number.'
            )
        n_bins = check_count("n_bins", n_bins, high=_MOST_BINS)
        found, spent = released(federation.CalibrationError(n_bins), locals())
        n, hits, chances = found.measure.curve(found.mean)
        sure = n > _UNSURE * found.noise * np.sqrt(2)
        n, hits, chances = np.maximum(n[sure], 1e-300), hits[sure], chances[sure]
        return cls(
            prob_true=np.clip(hits / n, 0.0, 1.0),
            prob_pred=np.clip(chances / n, 0.0, 1.0),
            noise=found.measure.gap_noise(found.noise)[sure] / n,
            calibration_error=found.score,
            estimator_name=name_of(estimator, name),
            pos_label=np.asarray(estimator.classes_).tolist()[1],
            privacy_spent=spent,
        ).plot(ax)
