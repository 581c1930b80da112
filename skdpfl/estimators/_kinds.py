"""Base classes of classifiers, regressors, and models of survival.

Survival: censored times, whose hazard is a step function times exp(x w). The model is the piecewise
exponential one (:class:`skdpfl.losses.PiecewiseExponential`).
"""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from skdpfl._arguments import codes_of, is_auto, labels_of
from skdpfl._compat import with_names
from skdpfl._survival_times import concordance, read_horizon, read_intervals, read_survival
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._data import read_exposure, weights_of_classes
from skdpfl.estimators._docs import with_constructor
from skdpfl.estimators._noise_error import coef_names, with_conditions
from skdpfl.estimators._parameters import check_target_bounds, class_shares, targets_of
from skdpfl.losses import NAMED, OfLogMean, PiecewiseExponential, signed_times
from skdpfl.scaling import read_target_bounds
from skdpfl.table import FLOATS, numbers_in_rows


class ScoresWithoutSilos:
    """Mixin, before scikit-learn's, whose ``score`` raises with a hint if silos are passed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, **refused: Any) -> float:
        """Return the accuracy of a classifier, or how much of the targets a regressor explains.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the records in the score.
        **refused
            Not accepted.

        Returns
        -------
        float
            The exact score. It is not private: no budget covers it.
        """
        refuse_in_score(refused)
        of_both = y, getattr(self, "classes_", None)
        if sample_weight is None and all(map(_are_integers, of_both)):  # nothing else to check
            predicted: np.ndarray = self.predict(X)  # type: ignore[attr-defined]
            if predicted.shape == y.shape:
                return float(np.mean(predicted == y))
        return super().score(X, y, sample_weight)  # type: ignore[misc, no-any-return]


def _are_integers(values: Any) -> bool:
    return type(values) is np.ndarray and values.dtype.kind in "biu"


def refuse_in_score(refused: Any) -> None:
    """Raise for arguments that no score takes; silos have their own scores."""
    if "silos" in refused:
        raise TypeError(
            "score is one number over all records and takes no silos. For a score per silo, "
            "use skdpfl.model_selection.silo_scores(estimator, X, y, silos=...)."
        )
    if refused:
        raise TypeError(f"score takes X, y and sample_weight; got {', '.join(refused)}.")


def _has_probabilities(estimator: FederatedEstimator) -> bool:
    if estimator.loss in ("log_loss", "ordinal") or hasattr(estimator.loss, "predict_proba"):
        return True
    raise AttributeError(
        "predict_proba exists for loss='log_loss' and 'ordinal' only; this is "
        f"loss={estimator.loss!r}."
    )


@with_constructor
class FederatedClassifier(ScoresWithoutSilos, ClassifierMixin, FederatedEstimator):
    """Base class of classifiers; the class labels are public."""

    classes: Any = None
    loss: Any = "log_loss"
    class_weight: Any = None

    _losses = ("log_loss", "hinge", "squared_hinge", "ordinal")

    def _check(self) -> None:
        super()._check()
        if not self._loss().one_slope:
            return
        if not isinstance(self.model, str) or self.model not in ("linear", "auto"):
            raise ValueError(
                f'loss={self.loss!r} has one slope for all levels: model must be "linear"; got '
                f"{self.model!r}."
            )
        if not self.fit_intercept:
            raise ValueError(f"fit_intercept=False: loss={self.loss!r} has an intercept a level.")
        if self.classes is None:
            raise ValueError(f"loss={self.loss!r} needs classes=[...], the labels in their order.")

    def _labels(self) -> np.ndarray:
        """Return the parameter ``classes`` as labels: sorted, or in the given order of levels."""
        labels = labels_of(self.classes)
        if not self._loss().one_slope:
            return labels
        classes = list(self.classes)
        if len(classes) != len(labels):
            raise ValueError(f"classes must hold each label once; got {classes!r}.")
        return np.asarray(classes, labels.dtype)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return raw predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            One number per record for two classes (positive: ``classes_[1]``), else one per class:
            ``X @ coef_.T + intercept_`` of a linear model with an affine ``scaling_``, where X is
            first clipped to ``scaling_.low`` and ``scaling_.high`` if features are clipped.
        """
        raw = self._raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of new records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from ``classes_``.
        """
        codes = self._loss().predict(self._raw(X))
        return self.classes_.take(codes)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities (``loss="log_loss"`` only).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns as in ``classes_``.
        """
        loss: Any = self._loss()
        return loss.predict_proba(self._raw(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns as in ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _is_classifier(self) -> bool:
        return True

    def _encode(self, y: np.ndarray, dtype: np.dtype) -> np.ndarray:
        present = np.unique(y) if y.ndim == 1 and y.dtype.kind in "biuf" else None
        with np.errstate(invalid="ignore"):  # whole numbers are labels
            whole = present is not None and (present == present.astype(np.int64)).all()
        if not whole and type_of_target(y) not in ("binary", "multiclass"):
            check_classification_targets(y)  # raises for other targets, except multilabels
            raise ValueError("y must be one label per row; got a multilabel indicator.")
        present = np.unique(y) if present is None else present
        self.classes_ = present if self.classes is None else self._labels()
        strange = present[:0] if self.classes is None else np.setdiff1d(present, self.classes_)
        if strange.size:
            first = int(np.flatnonzero(np.isin(y, strange))[0])
            raise ValueError(
                f"y has {strange.size} label(s) that are not in classes="
                f"{self.classes_.tolist()!r}, the first in row {first}."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has only one class, {self.classes_.tolist()[0]!r}; a classifier needs at least "
                "two (give classes=[...] if others may come)."
            )
        if len(self.classes_) == 2:
            return (y == self.classes_[1]).astype(np.int8)
        codes = codes_of(y, self.classes_)
        return codes.astype(np.min_scalar_type(len(self.classes_)))

    def _declare_targets(self) -> None:
        if self.classes is None or len(labels_of(self.classes)) < 2:
            raise ValueError(
                "The labels at remote silos are not read; give classes=[...] with two or more "
                "labels."
            )
        if self._loss().one_slope:
            raise ValueError(
                f"loss={self.loss!r} does not fit silos elsewhere yet, which sort their labels: "
                "use fit(X, y, silos=...)."
            )
        self.classes_ = labels_of(self.classes)

    def _n_outputs(self) -> int:
        return self._loss().n_outputs(len(self.classes_))

    def _class_weights(self) -> tuple[float, ...] | None:
        return weights_of_classes(self.class_weight, self.classes_)

    def _class_shares(self) -> tuple[float, ...] | None:
        shares = class_shares(self.classes)
        if shares is None or not self._loss().one_slope:
            return shares
        places = codes_of(self._labels(), labels_of(self.classes))  # levels are in their order
        return tuple(shares[place] for place in places.tolist())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # the checks' data are a few dozen records
        return tags


@with_constructor
class FederatedRegressor(ScoresWithoutSilos, RegressorMixin, FederatedEstimator):
    """Base class of regressors."""

    target_bounds: Any = None
    loss: Any = "squared_error"

    _losses = (
        "squared_error", "huber", "absolute_error", "quantile",
        "poisson", "gamma", "tweedie", "negative_binomial",
    )  # fmt: skip

    def predict(self, X: Any, exposure: Any = None) -> np.ndarray:
        """Return the predictions for new records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        exposure : array-like of shape (n_samples,), default=None
            Their exposures, which multiply predictions; None: 1, predictions are rates. For losses
            with a log link only.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions in the units of ``y``; within ``target_bounds`` if ``clip_features`` is
            True.
        """
        loss, raw = self._loss(), self._raw(X)
        predicted = loss.predict(raw)
        exposures = read_exposure(exposure, len(raw), X, raw.dtype, loss)
        if exposures is not None:
            predicted = predicted * exposures
        if is_auto(self.clip_features) or not self.clip_features or self.target_bounds is None:
            return predicted
        bounds = read_target_bounds(self.target_bounds)
        return np.clip(
            predicted, *(limit.astype(predicted.dtype) for limit in (bounds.low, bounds.high))
        )

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        **refused: Any,
    ) -> float:
        """Return the share of the targets' variation that predictions explain, R² or D².

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the records in the score.
        exposure : array-like of shape (n_samples,), default=None
            Their exposures, for losses with a log link: of models that were fitted with some.
        **refused
            Not accepted.

        Returns
        -------
        float
            R²; of counts, rates and amounts the deviance explained, D², by the deviance of the
            loss, as :func:`sklearn.metrics.d2_tweedie_score`: 0 is one rate for all records. It is
            exact, and not private: no budget covers it.
        """
        refuse_in_score(refused)
        loss = self._loss()
        if exposure is None and vars(self).get("_has_exposure"):
            raise ValueError(
                "This model was fitted with exposure=, so it predicts rates. Give score the "
                "exposure= of these records, too: ones if y are rates."
            )
        if not isinstance(loss, OfLogMean) and exposure is None:
            return super().score(X, y, sample_weight)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        exposures = read_exposure(exposure, len(y), X, y.dtype, loss)
        predicted, ones = self.predict(X, exposure), np.ones(len(y))
        if not isinstance(loss, OfLogMean):
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        weights = ones if sample_weight is None else np.asarray(sample_weight, float)
        return _explained(loss, y, predicted, ones if exposures is None else exposures, weights)

    def _check(self) -> None:
        super()._check()
        check_target_bounds(self.target_bounds, self._loss(), self.loss)

    def _is_classifier(self) -> bool:
        return False

    def _encode(self, y: np.ndarray, dtype: np.dtype) -> np.ndarray:
        if np.asarray(y).dtype.kind in "mM":
            raise ValueError(
                "y holds dates or times instead of numbers. Count days from a public date: (y - "
                "date).dt.days."
            )
        if y.dtype not in FLOATS:  # finite, and one-dimensional
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        low, high = self._loss().target_range
        if y.min() < low or y.max() > high:
            raise ValueError(f"{targets_of(self._loss(), self.loss)}; y has others.")
        # no error if a target overflows in single precision: it would depend on a single record
        return np.clip(y, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype, copy=False)

    def _n_outputs(self) -> int:
        return 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        known = NAMED.get(self.loss) if isinstance(self.loss, str) else self.loss
        tags.target_tags.positive_only = getattr(known, "link", "") == "log"
        return tags


def _explained(
    loss: OfLogMean, y: np.ndarray, predicted: np.ndarray, exposure: np.ndarray, weights: np.ndarray
) -> float:
    """Return D²: 1 less the deviance over that of one rate for all records."""
    a = loss.homogeneity()
    alike = weights * exposure ** (1 if a is None else a)
    rate = np.average(y / exposure, weights=alike)
    with np.errstate(all="ignore"):
        left, whole = (
            float(weights @ loss.deviance(y, means.astype(np.float64)))
            for means in (predicted, rate * exposure)
        )
    return 1 - left / whole if whole > 0 else float(left <= 0)


@with_constructor
class FederatedSurvival(FederatedEstimator):
    """Base class of models of survival times."""

    target_bounds: Any = None
    breaks: Any = 8

    _losses = ("survival",)

    # ---- fit ---------------------------------------------------------------------------------

    def _check(self) -> None:
        super()._check()
        self._cuts()
        if not isinstance(self.model, str) or self.model not in ("linear", "auto"):
            raise ValueError(
                f'survival models are linear: model must be "linear"; got {self.model!r}. Curves '
                "of a feature are columns of DPSplineTransformer."
            )
        if not self.fit_intercept:
            raise ValueError("fit_intercept=False: a survival model has a baseline hazard.")

    def _cuts(self) -> tuple[float, np.ndarray]:
        """Return the horizon, and the inner ends of the intervals; raise if they are invalid."""
        horizon = read_horizon(self.target_bounds)
        return horizon, read_intervals(self.breaks, horizon)

    def _loss(self) -> PiecewiseExponential:
        horizon, cuts = self._cuts()
        return PiecewiseExponential(tuple((cuts / horizon).tolist()))

    def _is_classifier(self) -> bool:
        return False

    def _n_outputs(self) -> int:
        return self._loss().n_outputs()

    def _validate(self, features: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y: an event and a time for each record.")
        horizon, self.breaks_ = self._cuts()
        event, time = read_survival(y)
        features = validate_data(
            self, with_names(numbers_in_rows(features)), dtype=FLOATS, ensure_min_samples=2
        )
        if len(event) != len(features):
            raise ValueError(f"X has {len(features)} rows, y has {len(event)} events and times.")
        return features, signed_times(event, time, horizon).astype(features.dtype)

    def _declare_targets(self) -> float:
        horizon, self.breaks_ = self._cuts()
        return horizon

    # ---- predict -----------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Return the risks of new records: the logarithms of their hazard ratios.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``X @ coef_``: higher where events come sooner; 0 has the baseline hazard.
        """
        return np.asarray(self._raw(X)[:, 0] - self.intercept_[0])

    @property
    def baseline_hazard_(self) -> pd.Series:
        """The hazard of a record of zeros per unit of time, by interval."""
        check_is_fitted(self)
        horizon, cuts = self._cuts()
        intervals = pd.IntervalIndex.from_breaks([0.0, *cuts.tolist(), horizon], name="time")
        hazard = np.exp(np.asarray(self.intercept_, np.float64)) / horizon
        return pd.Series(hazard, index=intervals, name="baseline hazard")

    def predict_cumulative_hazard(self, X: Any, times: Any = None) -> pd.DataFrame:
        """Return the cumulative hazards of new records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        times : array-like, default=None
            Times from 0 to the horizon; None: the ends of the intervals.

        Returns
        -------
        DataFrame
            A row for each record, a column for each time.
        """
        risk, (horizon, cuts) = self.predict(X), self._cuts()
        asked = np.append(cuts, horizon) if times is None else np.atleast_1d(times).astype(float)
        if not ((asked >= 0) & (asked <= horizon)).all():
            raise ValueError(
                f"times must be from 0 to the horizon of target_bounds={self.target_bounds!r}, "
                "beyond which no time was read."
            )
        starts, hazard = np.append(0.0, cuts), self.baseline_hazard_.to_numpy()
        spent = np.clip(asked[:, None] - starts, 0.0, np.append(cuts, horizon) - starts)
        hazards = np.exp(risk.astype(np.float64))[:, None] * (spent @ hazard)
        index = getattr(X, "index", None)
        return pd.DataFrame(hazards, index=index, columns=pd.Index(asked, name="time"))

    def predict_survival_function(self, X: Any, times: Any = None) -> pd.DataFrame:
        """Return the probabilities that new records have no event until each time.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        times : array-like, default=None
            Times from 0 to the horizon; None: the ends of the intervals.

        Returns
        -------
        DataFrame
            A row for each record, a column for each time.
        """
        return np.exp(-self.predict_cumulative_hazard(X, times))

    def score(self, X: Any, y: Any, sample_weight: Any = None, **refused: Any) -> float:
        """Return the concordance of risks and times (Harrell's C).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.
        y : structured array or DataFrame
            Their events and times.
        sample_weight : None
            Not accepted.
        **refused
            Not accepted.

        Returns
        -------
        float
            The share of comparable pairs in which the record with the earlier event has the higher
            risk; 0.5 is chance. It is exact, and not private: no budget covers it.
        """
        refuse_in_score(refused)
        if sample_weight is not None:
            raise ValueError("The concordance of survival times takes no sample_weight.")
        event, time = read_survival(y)
        horizon = self._cuts()[0]
        signed = signed_times(event, time, horizon)
        return concordance(~np.signbit(signed), np.abs(signed), self.predict(X))

    def summary(self) -> pd.DataFrame:
        """Return log hazard ratios and hazard ratios as a frame, one row per feature.

        Coefficients are in the units of X if the scaling is affine. The noise error is the standard
        deviation of a coefficient over fits on the same records with the same scales and new noise
        in the rounds, without sampling error, where it is known.

        Returns
        -------
        DataFrame
            Columns "coefficient", "hazard ratio" and, if it is known, "noise error". Its ``attrs``
            has "epsilon", "delta", "no_noise_error", "noise_error_given" and, with
            ``unit="record"``, "epsilon_per_silo".
        """
        check_is_fitted(self)
        index = pd.Index(coef_names(self), name="feature")
        ratios = np.exp(np.asarray(self.coef_, np.float64))
        frame = pd.DataFrame({"coefficient": self.coef_, "hazard ratio": ratios}, index=index)
        errors = self._noise_error.of_coefficients()
        if errors is not None:
            frame["noise error"] = errors[: len(index)]
        return with_conditions(frame, self, errors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
