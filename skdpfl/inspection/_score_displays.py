"""A private ROC curve and a private confusion matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._surface import filled_docs, refuse_own_parts
from skdpfl.inspection._display import GREY, Display, next_colour
from skdpfl.model_selection.held_out import HeldOut
from skdpfl.privacy.events import SecureAggregation
from skdpfl.privacy.spending.account import charge_all
from skdpfl.privacy.spending.ledger import open_ledgers
from skdpfl.privacy.spending.spent import PrivacySpent

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
    delta : "auto" or float, default="auto"
        "auto" is the largest power of ten that is at most 1 / (10 n_samples).
    trust : {"silo", "secagg", "server"}, default="silo"
        "silo": each silo adds noise to its own counts; "server": noise is added once, to all;
        "secagg": in shares of the silos (or a :class:`skdpfl.privacy.SecureAggregation`).
    neighbours : {"replace", "add_remove"}, default="replace"
        The neighbouring relation of the guarantee.
    random_state : int, RandomState, Generator or None, default=None
        None draws secret noise; anything else is a simulation.""",
        "drawn": """
    name : str, default=None
        The model's name; by default the estimator's.
    ax : matplotlib Axes, default=None
        Where to draw.""",
    }
)


def released(
    measure: federation.Measure, given: dict[str, Any]
) -> tuple[federation.Found, PrivacySpent]:
    """Charge for a measure of the records, and compute it; ``given`` are a method's arguments."""
    names = ("epsilon", "delta", "silos", "trust", "neighbours", "random_state")
    asked = {name: given[name] for name in names}
    held = HeldOut.read(given["estimator"], given["X"], given["y"], **asked)
    plans = held.plans([measure])
    spent = held.spent(plans)
    charge_all(open_ledgers(), given["cls"].__name__, spent)
    (found,) = held.release(given["estimator"], [measure], plans)
    return found, spent


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def name_of(estimator: Any, name: str | None) -> str:
    """Return a model's name for a label."""
    return type(_last(estimator)).__name__ if name is None else str(name)


def check_classifier(estimator: Any) -> None:
    """Raise for anything but a fitted classifier."""
    refuse_own_parts(estimator)
    if not hasattr(estimator, "predict") or not is_classifier(estimator):
        raise ValueError(f"This display needs a classifier; got {type(estimator).__name__}.")
    check_is_fitted(estimator)


@dataclass(eq=False, repr=False, kw_only=True)
class DPRocCurveDisplay(Display):
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
    estimator_name: str | None = None
    pos_label: Any = None
    privacy_spent: PrivacySpent | None = None

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
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> DPRocCurveDisplay:
        """Count scores with noise, charge the cost, and draw the curve.

        Parameters
        ----------
        [asked]
        [drawn]

        Returns
        -------
        DPRocCurveDisplay
        """
        check_classifier(estimator)
        if len(estimator.classes_) != 2:
            raise ValueError(
                f"A ROC curve needs two labels; got {len(estimator.classes_)}. Use "
                "DPConfusionMatrixDisplay for any number."
            )
        found, spent = released(federation.RocAuc(), locals())
        fpr, tpr = found.measure.curve(found.mean)
        return cls(
            fpr=fpr,
            tpr=tpr,
            roc_auc=found.score,
            roc_auc_noise=found.error,
            estimator_name=name_of(estimator, name),
            pos_label=np.asarray(estimator.classes_).tolist()[1],
            privacy_spent=spent,
        ).plot(ax)


@dataclass(eq=False, repr=False, kw_only=True)
class DPConfusionMatrixDisplay(Display):
    """Noisy counts of records by true and predicted label.

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
    estimator_name: str | None = None
    privacy_spent: PrivacySpent | None = None

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
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> DPConfusionMatrixDisplay:
        """Count true and predicted labels with noise, charge the cost, and draw the counts.

        Parameters
        ----------
        [asked]
        [drawn]

        Returns
        -------
        DPConfusionMatrixDisplay
        """
        check_classifier(estimator)
        measure = federation.Confusion(len(estimator.classes_))
        found, spent = released(measure, locals())
        n = math.prod(np.shape(y))
        return cls(
            confusion_matrix=found.mean * n,
            noise=found.noise * n,
            display_labels=np.asarray(estimator.classes_).tolist(),
            estimator_name=name_of(estimator, name),
            privacy_spent=spent,
        ).plot(ax)
