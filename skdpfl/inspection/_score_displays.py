"""A private ROC curve, a private confusion matrix and a private calibration curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._arguments import check_count
from skdpfl._surface import filled_docs, refuse_own_parts
from skdpfl.inspection._display import GREY, Display, next_colour
from skdpfl.model_selection.held_out import HeldOut
from skdpfl.privacy.events import SecureAggregation, Unit
from skdpfl.privacy.spending.ledger import charge_all, open_ledgers
from skdpfl.privacy.spending.spent import PrivacySpent

#: bins whose share of the records is within so many deviations of the noise are left out
_UNSURE = 3.0
_MOST_BINS = 100

shared_docs = filled_docs(
    {
        "asked": """
    estimator : estimator
        A fitted classifier, which must not have been fitted to these records without privacy.
        Unless its classes are known to treat rows by themselves, it predicts one row at a time, so
        that no record changes the predictions of others.
    X : array-like or DataFrame of shape (n_samples, n_features)
        The records of all silos.
    y : array-like of shape (n_samples,)
        Their labels; labels that the estimator does not have are ignored.
    epsilon : float
        The privacy cost of the display, in addition to the fit.
    silos : array-like of shape (n_samples,), default=None
        Each record's silo, unless X has the estimator's ``silo_column``. None: one silo.
    [delta]
    [trust]
    [relation]
    unit : {"record", "person", "silo"}, default="record"
        What is protected. A person's (or a silo's) term is the mean over their rows.
    persons : array-like of shape (n_samples,), default=None
        Each record's person, for ``unit="person"``, unless X has the estimator's
        ``person_column``.
    [random_state]""",
        "drawn": """
    name : str, default=None
        The model's name; by default the estimator's.
    ax : matplotlib Axes, default=None
        Where to draw.""",
    }
)


#: what the records are asked with
_ASKED = (
    "epsilon", "delta", "silos", "trust", "neighbours", "unit", "persons", "random_state",
)  # fmt: skip


@dataclass(eq=False, repr=False, kw_only=True)
class ScoreDisplay(Display):
    """Base class of displays of noised sums over predictions; it charges for them.

    A subclass defines the measure of a fitted classifier and the display's fields.
    """

    estimator_name: str | None = None
    privacy_spent: PrivacySpent | None = None

    @classmethod
    def _measure(cls, estimator: Any, **options: Any) -> federation.Measure:
        """Return what is counted; raise a ValueError for classifiers without it."""
        raise NotImplementedError

    @classmethod
    def _fields(cls, found: federation.Found, estimator: Any, n: int) -> dict[str, Any]:
        """Return the display's own fields, from the result for n records, persons or silos."""
        raise NotImplementedError

    @classmethod
    @shared_docs
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        epsilon: float,
        silos: Any = None,
        delta: Any = "auto",
        trust: str | SecureAggregation = "silo",
        neighbours: str = "replace",
        unit: Unit = "record",
        persons: Any = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Count the records' predictions with noise, charge the cost, and draw the display.

        Parameters
        ----------
        [asked]
        [drawn]

        Returns
        -------
        display : object
            The display, which is drawn.
        """
        return cls._released(locals())

    @classmethod
    def _released(cls, given: dict[str, Any], **options: Any) -> Self:
        """Return the display; ``given`` are the arguments of :meth:`from_estimator`."""
        estimator, name = given["estimator"], given["name"]
        refuse_own_parts(estimator)
        if not hasattr(estimator, "predict") or not is_classifier(estimator):
            raise ValueError(f"This display needs a classifier; got {type(estimator).__name__}.")
        check_is_fitted(estimator)
        measure = cls._measure(estimator, **options)
        asked = {name: given[name] for name in _ASKED}
        held = HeldOut.read(estimator, given["X"], given["y"], **asked)
        plans = held.plans([measure])
        spent = held.spent(plans)
        charge_all(open_ledgers(), cls.__name__, spent)
        (found,) = held.release(estimator, [measure], plans)
        if name is None:
            last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
            name = type(last).__name__
        own = cls._fields(found, estimator, held.n_units)
        return cls(**own, estimator_name=str(name), privacy_spent=spent).plot(given["ax"])


def _of_two_labels(estimator: Any, what: str, otherwise: str) -> None:
    """Raise for a classifier of other than two labels."""
    if len(estimator.classes_) != 2:
        raise ValueError(f"A {what} needs two labels; got {len(estimator.classes_)}. {otherwise}")


def _positive(estimator: Any) -> Any:
    return np.asarray(estimator.classes_).tolist()[1]


@dataclass(eq=False, repr=False, kw_only=True)
class DPRocCurveDisplay(ScoreDisplay):
    """ROC curve from noisy counts, with the area under it and the noise of the area.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    fpr, tpr : array-like of shape (n_points,)
        False and true positive rates, increasing.
    roc_auc : float
        The estimated area under the curve.
    roc_auc_noise : float
        The standard deviation of the noise in it, in first-order approximation.
    estimator_name : str, default=None
        Label of the line.
    pos_label : object, default=None
        The positive label.
    privacy_spent : PrivacySpent, default=None
        The privacy cost of the display.

    Attributes
    ----------
    line_, chance_level_ : matplotlib artists
        The curve, and that of random predictions.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    DPConfusionMatrixDisplay : Counts of true and predicted labels.
    skdpfl.remote.score_federation : The area at remote silos.

    Notes
    -----
    **Formal guarantee.** Each record is counted once in each of three noised sums of radius 1 and
    diameter sqrt(2) (:class:`skdpfl.federation.BoundedSum`): in a cell of the score, twice, and in
    one of 16 bins of the score, by its label. Bins are quantiles of the noisy cells. The curve and
    the area are functions of these counts. A model that was fitted to the same records has its own
    cost; both compose.

    Ties within a bin count one half, so without noise the error of the area is at most half the
    probability that a positive and a negative share a bin, about 0.03.

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> from skdpfl.inspection import DPRocCurveDisplay
    >>> data = make_federated_classification(3, 400, n_classes=2, n_features=5, random_state=0)
    >>> clf = ISRLDPClassifier(epsilon=4.0, feature_bounds=(-9, 9), random_state=0)
    >>> clf = clf.fit(data.data, data.target, silos=data.silos)
    >>> display = DPRocCurveDisplay.from_estimator(
    ...     clf, data.data, data.target, epsilon=2.0, silos=data.silos, random_state=0)
    >>> round(display.privacy_spent.epsilon, 2)
    2.0
    """

    fpr: Any
    tpr: Any
    roc_auc: float
    roc_auc_noise: float
    pos_label: Any = None

    def _draw(self, color: str | None) -> None:
        name = f"{self.estimator_name}: " if self.estimator_name else ""
        label = f"{name}area {self.roc_auc:.2f}, noise ± {self.roc_auc_noise:.2f}"
        line = {"color": color or next_colour(self.ax_), "marker": ".", "label": label}
        (self.line_,) = self.ax_.plot(self.fpr, self.tpr, **line)
        (self.chance_level_,) = self.ax_.plot([0, 1], [0, 1], color=GREY, linestyle=":")
        of = "" if self.pos_label is None else f" (of {self.pos_label!r})"
        self.ax_.set(xlabel="false positive rate", ylabel=f"true positive rate{of}", aspect="equal")
        self.ax_.legend(frameon=False, loc="lower right")

    @classmethod
    def _measure(cls, estimator: Any, **options: Any) -> federation.Measure:
        _of_two_labels(estimator, "ROC curve", "Use DPConfusionMatrixDisplay for any number.")
        return federation.RocAuc()

    @classmethod
    def _fields(cls, found: federation.Found, estimator: Any, n: int) -> dict[str, Any]:
        fpr, tpr = found.measure.curve(found.mean)
        area = {"roc_auc": found.score, "roc_auc_noise": found.error}
        return {"fpr": fpr, "tpr": tpr, "pos_label": _positive(estimator), **area}


@dataclass(eq=False, repr=False, kw_only=True)
class DPConfusionMatrixDisplay(ScoreDisplay):
    """Noisy counts of records (of persons or silos) by true and predicted label.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    confusion_matrix : array-like of shape (n_classes, n_classes)
        The estimated counts; rows are true labels. Noise can make a count negative.
    noise : float
        The standard deviation of the noise in each count.
    display_labels : array-like of shape (n_classes,)
        The labels.
    estimator_name : str, default=None
        The title.
    privacy_spent : PrivacySpent, default=None
        The privacy cost of the display.

    Attributes
    ----------
    im_ : matplotlib AxesImage
        The matrix.
    text_ : ndarray of shape (n_classes, n_classes)
        The numbers on it.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and the figure.

    See Also
    --------
    DPRocCurveDisplay : Rates at other thresholds.

    Notes
    -----
    **Formal guarantee.** Each record is counted in one cell, or in none if its label is not among
    the estimator's: a noised sum of radius 1 and diameter sqrt(2)
    (:class:`skdpfl.federation.BoundedSum`).

    Examples
    --------
    >>> from skdpfl import ISRLDPClassifier
    >>> from skdpfl.datasets import make_federated_classification
    >>> from skdpfl.inspection import DPConfusionMatrixDisplay
    >>> data = make_federated_classification(3, 400, n_classes=2, n_features=5, random_state=0)
    >>> clf = ISRLDPClassifier(epsilon=4.0, feature_bounds=(-9, 9), random_state=0)
    >>> clf = clf.fit(data.data, data.target, silos=data.silos)
    >>> display = DPConfusionMatrixDisplay.from_estimator(
    ...     clf, data.data, data.target, epsilon=1.0, silos=data.silos, random_state=0)
    >>> display.confusion_matrix.shape
    (2, 2)
    """

    confusion_matrix: Any
    noise: float
    display_labels: Any

    def _draw(self, color: str | None) -> None:
        matrix = np.asarray(self.confusion_matrix, float)
        most = max(1.0, float(matrix.max()))
        self.im_ = self.ax_.imshow(matrix, cmap="Blues", vmin=0, vmax=most)
        self.text_ = np.empty(matrix.shape, dtype=object)
        for place, count in np.ndenumerate(matrix):
            shade = "white" if count > most / 2 else "black"
            centre = {"ha": "center", "va": "center", "color": shade}
            self.text_[place] = self.ax_.text(place[1], place[0], f"{count:.0f}", **centre)
        ticks = range(len(self.display_labels))
        self.ax_.set_xticks(ticks, [str(label) for label in self.display_labels])
        self.ax_.set_yticks(ticks, [str(label) for label in self.display_labels])
        name = f"{self.estimator_name}, " if self.estimator_name else ""
        self.ax_.set(xlabel="predicted label", ylabel="true label")
        self.ax_.set_title(f"{name}noise ± {self.noise:.2g} in each count")

    @classmethod
    def _measure(cls, estimator: Any, **options: Any) -> federation.Measure:
        return federation.Confusion(len(estimator.classes_))

    @classmethod
    def _fields(cls, found: federation.Found, estimator: Any, n: int) -> dict[str, Any]:
        labels = np.asarray(estimator.classes_).tolist()
        counts, noise = found.mean * n, found.noise * n
        return {"confusion_matrix": counts, "noise": noise, "display_labels": labels}


@dataclass(eq=False, repr=False, kw_only=True)
class DPCalibrationDisplay(ScoreDisplay):
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
    pos_label: Any = None

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
    def from_estimator(  # type: ignore[override]
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
        unit: Unit = "record",
        persons: Any = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Count records by predicted probability with noise, charge the cost, and draw the curve.

        Parameters
        ----------
        [asked]
        n_bins : int, default=10
            The number of bins, of equal width.
        [drawn]

        Returns
        -------
        display : object
            The display, which is drawn.
        """
        return cls._released(locals(), n_bins=n_bins)

    @classmethod
    def _measure(cls, estimator: Any, **options: Any) -> federation.Measure:
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"{type(estimator).__name__} has no predict_proba to compare.")
        instead = 'Use private_score(..., scoring="calibration_error") for any number.'
        _of_two_labels(estimator, "calibration curve", instead)
        n_bins = check_count("n_bins", options["n_bins"], high=_MOST_BINS)
        return federation.CalibrationError(n_bins)

    @classmethod
    def _fields(cls, found: federation.Found, estimator: Any, n: int) -> dict[str, Any]:
        counts, hits, chances = found.measure.curve(found.mean)
        sure = counts > _UNSURE * found.noise * np.sqrt(2)
        counts = np.maximum(counts[sure], 1e-300)
        return {
            "prob_true": np.clip(hits[sure] / counts, 0.0, 1.0),
            "prob_pred": np.clip(chances[sure] / counts, 0.0, 1.0),
            "noise": found.measure.gap_noise(found.noise)[sure] / counts,
            "calibration_error": found.score,
            "pos_label": _positive(estimator),
        }
