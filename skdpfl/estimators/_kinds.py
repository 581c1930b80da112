"""Base classes of classifiers and regressors."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array

from skdpfl._arguments import is_auto, labels_of
from skdpfl.estimators._base import FederatedEstimator
from skdpfl.estimators._data import weights_of_classes
from skdpfl.estimators._docs import with_constructor
from skdpfl.estimators._parameters import check_target_bounds, class_shares, targets_of
from skdpfl.scaling import read_target_bounds


class ScoresWithoutSilos:
    """Mixin, before scikit-learn's, whose ``score`` raises with a hint if silos are passed."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, **refused: Any) -> float:
        """Return the accuracy of a classifier, or the R² of a regressor.

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
        if "silos" in refused:
            raise TypeError(
                "score is one number over all records and takes no silos. For a score per silo, "
                "use skdpfl.model_selection.silo_scores(estimator, X, y, silos=...)."
            )
        if refused:
            raise TypeError(f"score takes X, y and sample_weight; got {', '.join(refused)}.")
        return super().score(X, y, sample_weight)  # type: ignore[misc]


def _has_probabilities(estimator: FederatedEstimator) -> bool:
    if estimator.loss == "log_loss" or hasattr(estimator.loss, "predict_proba"):
        return True
    raise AttributeError(
        f"predict_proba exists for loss='log_loss' only; this is loss={estimator.loss!r}."
    )


@with_constructor
class FederatedClassifier(ScoresWithoutSilos, ClassifierMixin, FederatedEstimator):
    """Base class of classifiers; the class labels are public."""

    classes: Any = None
    loss: Any = "log_loss"
    class_weight: Any = None

    _losses = ("log_loss", "hinge", "squared_hinge")

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
        return self.classes_[codes]

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
        kind = type_of_target(y)
        if kind not in ("binary", "multiclass"):
            check_classification_targets(y)  # raises for other targets, except multilabels
            raise ValueError("y must be one label per row; got a multilabel indicator.")
        present = np.unique(y)
        self.classes_ = present if self.classes is None else labels_of(self.classes)
        strange = np.setdiff1d(present, self.classes_)
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
        codes = np.searchsorted(self.classes_, y)
        return codes.astype(np.min_scalar_type(len(self.classes_)))

    def _declare_targets(self) -> None:
        if self.classes is None or len(labels_of(self.classes)) < 2:
            raise ValueError(
                "The labels at remote silos are not read; give classes=[...] with two or more "
                "labels."
            )
        self.classes_ = labels_of(self.classes)

    def _n_outputs(self) -> int:
        return self._loss().n_outputs(len(self.classes_))

    def _class_weights(self) -> tuple[float, ...] | None:
        return weights_of_classes(self.class_weight, self.classes_)

    def _class_shares(self) -> tuple[float, ...] | None:
        return class_shares(self.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # the checks' data are a few dozen records
        return tags


@with_constructor
class FederatedRegressor(ScoresWithoutSilos, RegressorMixin, FederatedEstimator):
    """Base class of regressors."""

    target_bounds: Any = None
    loss: Any = "squared_error"

    _losses = ("squared_error", "huber", "absolute_error", "quantile", "poisson")

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions for new records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions in the units of ``y``; within ``target_bounds`` if ``clip_features`` is
            True.
        """
        found = self._loss().predict(self._raw(X))
        if is_auto(self.clip_features) or not self.clip_features or self.target_bounds is None:
            return found
        bounds = read_target_bounds(self.target_bounds)
        return np.clip(found, *(limit.astype(found.dtype) for limit in (bounds.low, bounds.high)))

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
        y = check_array(y, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y")
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
        counts = self.loss == "poisson" or getattr(self.loss, "target_range", (-1,))[0] >= 0
        tags.target_tags.positive_only = counts
        return tags
