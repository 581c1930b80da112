"""Private scores of a fitted model on held-out records: numbers, curves and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdpfl import federation
from skdpfl._arguments import at_most, check_count
from skdpfl._surface import filled_docs, refuse_own_parts
from skdpfl._warnings import warn
from skdpfl.inspection._display import GREY, Display, next_colour
from skdpfl.model_selection import held_out
from skdpfl.model_selection.held_out import HeldOut
from skdpfl.privacy.events import SecureAggregation, Unit
from skdpfl.privacy.spending.ledger import charge_all, open_ledgers
from skdpfl.privacy.spending.spent import PrivacySpent

#: bins whose share of the records is within so many deviations of the noise are left out
_UNSURE_DEVIATIONS = 3.0
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


@dataclass(eq=False, repr=False, kw_only=True)
class ScoreDisplay(Display):
    """Base class of displays of noised sums over predictions; it charges for them.

    A subclass defines the measure of a fitted classifier and the display's fields.
    """

    estimator_name: str | None = None
    privacy_spent: PrivacySpent | None = None

    @classmethod
    def _measure(cls, *args: Any, **options: Any) -> federation.Measure:
        """Return what is counted; raise a ValueError for classifiers without it."""
        raise NotImplementedError

    @classmethod
    def _fields(cls, released: federation.ReleasedScore, estimator: Any, n: int) -> dict[str, Any]:
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
        **options: Any,
    ) -> Self:
        """Count the records' predictions with noise, charge the cost, and draw the display.

        Parameters
        ----------
        [asked]
        [drawn]
        **options : object
            Of a calibration curve: ``n_bins=10``, the number of bins, of equal width.

        Returns
        -------
        display : object
            The display, which is drawn.
        """
        refuse_own_parts(estimator)
        if not hasattr(estimator, "predict") or not is_classifier(estimator):
            raise ValueError(f"This display needs a classifier; got {type(estimator).__name__}.")
        check_is_fitted(estimator)
        measure = cls._measure(estimator, **options)
        budget = {"epsilon": epsilon, "delta": delta, "trust": trust, "neighbours": neighbours}
        owners = {"silos": silos, "unit": unit, "persons": persons}
        held = HeldOut.read(estimator, X, y, random_state=random_state, **budget, **owners)
        plans = held.plans([measure])
        spent = held.spent(plans)
        charge_all(open_ledgers(), cls.__name__, spent)
        (released,) = held.release(estimator, [measure], plans)
        if name is None:
            last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
            name = type(last).__name__
        own = cls._fields(released, estimator, held.n_units)
        return cls(**own, estimator_name=str(name), privacy_spent=spent).plot(ax)


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
    def _measure(cls, estimator: Any) -> federation.Measure:
        _of_two_labels(estimator, "ROC curve", "Use DPConfusionMatrixDisplay for any number.")
        return federation.RocAuc()

    @classmethod
    def _fields(cls, released: federation.ReleasedScore, estimator: Any, n: int) -> dict[str, Any]:
        fpr, tpr = released.measure.curve(released.mean)
        area = {"roc_auc": released.score, "roc_auc_noise": released.error}
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
    def _measure(cls, estimator: Any) -> federation.Measure:
        return federation.Confusion(len(estimator.classes_))

    @classmethod
    def _fields(cls, released: federation.ReleasedScore, estimator: Any, n: int) -> dict[str, Any]:
        labels = np.asarray(estimator.classes_).tolist()
        counts, noise = released.mean * n, released.noise * n
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
    def _measure(cls, estimator: Any, n_bins: int = 10) -> federation.Measure:
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"{type(estimator).__name__} has no predict_proba to compare.")
        instead = 'Use private_score(..., scoring="calibration_error") for any number.'
        _of_two_labels(estimator, "calibration curve", instead)
        return federation.CalibrationError(check_count("n_bins", n_bins, high=_MOST_BINS))

    @classmethod
    def _fields(cls, released: federation.ReleasedScore, estimator: Any, n: int) -> dict[str, Any]:
        counts, hits, chances = released.measure.curve(released.mean)
        sure = counts > _UNSURE_DEVIATIONS * released.noise * np.sqrt(2)
        counts = np.maximum(counts[sure], 1e-300)
        return {
            "prob_true": np.clip(hits[sure] / counts, 0.0, 1.0),
            "prob_pred": np.clip(chances[sure] / counts, 0.0, 1.0),
            "noise": released.measure.gap_noise(released.noise)[sure] / counts,
            "calibration_error": released.score,
            "pos_label": _positive(estimator),
        }


#: a mean within so many deviations of its noise, and this share of its range, from the worst
_WORST_DEVIATIONS, _WORST_SHARE = 3.0, 0.05


@dataclass(frozen=True, eq=False, repr=False)
class PrivateScore:
    """An estimated score, with its noise and its cost; :func:`private_score` returns it.

    ``float(score)`` is its value.

    Parameters
    ----------
    scoring : str
        The name of the score.
    value : float
        The estimate over all records. Noise can move it outside its range. NaN where the noise
        leaves it undefined, such as the area under the ROC curve with one label.
    noise : float
        The standard deviation of the noise in it; infinite for NaN. The error of a finite sample
        comes on top.
    per_silo : Series
        Each silo's own estimate; empty unless ``trust="silo"``.
    per_silo_noise : Series
        The noise in each.
    privacy_spent : PrivacySpent
        The cost, in addition to that of the model; of all scores together if several were asked
        for at once.
    clip : float, default=None
        The value at which a record's loss is clipped, for scores that are means of losses.

    See Also
    --------
    private_score : Computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skdpfl.inspection import private_score
    >>> X, y = np.zeros((1000, 1)), np.arange(1000) % 2
    >>> score = private_score(
    ...     DummyClassifier().fit(X, y), X, y, scoring="accuracy", epsilon=1.0, random_state=0)
    >>> abs(float(score) - 0.5) < 5 * score.noise
    True
    """

    scoring: str
    value: float
    noise: float
    per_silo: pd.Series
    per_silo_noise: pd.Series
    privacy_spent: PrivacySpent
    clip: float | None = None

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        cost = f"ε={at_most(self.privacy_spent.epsilon)}"
        return f"PrivateScore({self.scoring}={self.value:.3g}, noise ± {self.noise:.2g}, {cost})"


@filled_docs()
def private_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    scoring: str | Sequence[str],
    epsilon: float,
    delta: float | str = "auto",
    silos: Any = None,
    trust: str | SecureAggregation = "silo",
    neighbours: str = "replace",
    unit: Unit = "record",
    persons: Any = None,
    target_bounds: tuple[float, float] | None = None,
    random_state: Any = None,
) -> PrivateScore | dict[str, PrivateScore]:
    """Score a fitted model on held-out records, with noise that protects each of them.

    Parameters
    ----------
    model : estimator
        Any fitted classifier, regressor or survival model: of this library, of scikit-learn, a
        pipeline or search, or of another library. It must not have been fitted to these records
        without privacy. Models that are not known to treat each row by itself predict one row at a
        time, each with a copy of the model.
    X : array-like or DataFrame of shape (n_samples, n_features)
        Records that were not used in the fit, of all silos.
    y : array-like of shape (n_samples,)
        Their targets. For "concordance" a structured array, or a frame, of an event (bool) and a
        time (number).
    scoring : str or list of str
        For classifiers "accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score",
        "calibration_error" (of ten bins; lower is better) or, with two labels, "roc_auc" and
        "average_precision"; for regressors "r2", "neg_mean_absolute_error" and "d2_poisson"; for
        survival "concordance". A list gives a dict: its scores share the budget equally. Functions
        are refused, since nothing bounds what one record changes.
    epsilon : float
        The privacy cost, in addition to the model's.
    [delta]
    silos : array-like of shape (n_samples,), default=None
        Each record's silo, unless X has the model's ``silo_column``. None: one silo.
    [trust]
    [relation]
    unit : {"record", "person", "silo"}, default="record"
        What is protected. A person's (or a silo's) term is the mean over their rows.
    persons : array-like of shape (n_samples,), default=None
        Each record's person, for ``unit="person"``, unless X has the model's ``person_column``.
    target_bounds : tuple of (float, float), default=None
        Public bounds of the targets, for regressors; (0, horizon) for survival. None: those of the
        model, if it has some.
    [random_state]

    Returns
    -------
    PrivateScore or dict of PrivateScore
        The score; for a list, one for each name.

    See Also
    --------
    DPRocCurveDisplay, DPConfusionMatrixDisplay, DPCalibrationDisplay : Pictures.
    skdpfl.remote.score_federation : The same for remote silos.

    Notes
    -----
    **Formal guarantee.** A score is a function of noised sums with one bounded term per record
    (:mod:`skdpfl.federation`), whose squared Gaussian-DP parameters add up to the budget's. A term
    is a function of its record and the fixed model. A prediction that fails counts as the worst,
    and raises no error or warning, which could be about a single record. Open ledgers are charged
    before the records are read.

    A record's log loss is clipped at log(100), its absolute error at half the range of
    ``target_bounds`` (``PrivateScore.clip``). "r2" and "d2_poisson" clip a record's deviance at
    that of the middle of the bounds from an end. Scores of ranks count predictions in bins: 16 for
    areas; 8, and 12 intervals of time, for "concordance", which compares records of different
    intervals only.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpfl.datasets import make_federated_classification
    >>> from skdpfl.inspection import private_score
    >>> data = make_federated_classification(3, 400, n_classes=2, n_features=5, random_state=0)
    >>> model = LogisticRegression().fit(data.data[::2], data.target[::2])
    >>> score = private_score(
    ...     model, data.data[1::2], data.target[1::2], silos=data.silos[1::2],
    ...     scoring="accuracy", epsilon=1.0, random_state=0)
    >>> score.privacy_spent
    PrivacySpent(ε=1.00, δ=0.0001, unit='record', trust='silo', neighbours='replace',
    simulation (seeded))
    >>> float(score) > 0.5
    True
    """
    names = _names(scoring)
    measures = [_measure(model, y, name, target_bounds) for name in names]
    asked = {"epsilon": epsilon, "delta": delta, "trust": trust, "neighbours": neighbours}
    held = held_out.HeldOut.read(
        model, X, y, silos=silos, unit=unit, persons=persons, random_state=random_state, **asked
    )
    plans = held.plans(measures)
    spent = held.spent(plans)
    charge_all(open_ledgers(), "private_score", spent)
    released = held.release(model, measures, plans)
    scores = {
        name: _score(name, each, held, spent) for name, each in zip(names, released, strict=True)
    }
    return scores[scoring] if isinstance(scoring, str) else scores


def _names(scoring: Any) -> list[Any]:
    """Return the names of scores; raise for none, or one twice."""
    names = list(scoring) if isinstance(scoring, (list, tuple)) else [scoring]
    if not names or len(set(map(repr, names))) < len(names):
        raise ValueError(f"scoring must be a name or a list of different names; got {scoring!r}.")
    return names


def _measure(model: Any, y: Any, name: Any, target_bounds: Any) -> federation.Measure:
    """Return the measure of a model; raise if the model, or its targets, have no such score."""
    known = held_out.predicts_labels(model)
    survival = not known and (name == "concordance" or held_out.is_survival(y))
    if survival and name == "concordance":
        held_out.survival_targets(y)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    bounds = getattr(last, "target_bounds", None) if target_bounds is None else target_bounds
    n_classes = len(getattr(model, "classes_", ())) if known else None
    measure = federation.measure_of(name, n_classes=n_classes, targets=bounds, survival=survival)
    needed = {
        "log_probabilities": ("predict_proba",),
        "scores": ("decision_function", "predict_proba") if known else ("predict",),
    }.get(measure.reads, ("predict",))
    if not any(hasattr(model, method) for method in needed):
        raise ValueError(
            f"{name} needs a model with {' or '.join(needed)}, which {type(model).__name__} lacks."
        )
    return measure


def _score(
    name: str, released: federation.ReleasedScore, held: held_out.HeldOut, spent: PrivacySpent
) -> PrivateScore:
    """Return the score of released means; warn if it is as if the model failed everywhere."""
    measure, own = released.measure, not held.as_one
    close = min(_WORST_DEVIATIONS * released.noise, _WORST_SHARE)
    if measure.shape == () and float(released.mean) + 0.5 <= close:
        warn(
            f"{name} is as low as if every prediction had failed. Errors are not passed on, since "
            "they may be about a single record: try model.predict on made-up records."
        )
    ids = held.silos.ids if own else held.silos.ids[:0]
    each = list(zip(released.means, released.noises.tolist(), strict=True)) if own else []
    return PrivateScore(
        name,
        released.score,
        released.error,
        pd.Series([measure.score(*one) for one in each], ids, dtype=float, name=name),
        pd.Series([measure.error(*one) for one in each], ids, dtype=float, name="noise"),
        spent,
        measure.clip,
    )
