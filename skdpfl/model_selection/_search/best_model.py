"""Methods of a fitted search, which delegate to its best model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def _best_has(method: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        return hasattr(getattr(search, search._fitted, search.estimator), method)

    return check


#: columns are the classes, in the order of ``classes_``
_CLASSES = "(n_samples, n_classes)"


def _of_best(method: str, what: str, shape: str) -> Any:
    """Return a documented method that calls the best model's method of that name."""

    def handed_on(self: Any, X: Any) -> np.ndarray:
        return getattr(self._best, method)(X)

    handed_on.__name__, handed_on.__qualname__ = method, f"BestModel.{method}"
    handed_on.__doc__ = f"""Return the best model's {what}.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape {shape}
            As the model returns them.
        """
    return available_if(_best_has(method))(handed_on)


class BestModel:
    """Mixin for searches: the best model's methods, attributes, tags and picture."""

    estimator: Any
    #: the attribute that has the model
    _fitted = "best_estimator_"

    @property
    def _best(self) -> Any:
        check_is_fitted(self, self._fitted)
        return getattr(self, self._fitted)

    predict = _of_best("predict", "predictions", "(n_samples,)")
    predict_proba = _of_best("predict_proba", "probabilities", _CLASSES)
    predict_log_proba = _of_best("predict_log_proba", "log-probabilities", _CLASSES)
    decision_function = _of_best(
        "decision_function", "raw predictions", "(n_samples,) or (n_samples, n_classes)"
    )

    def score(self, X: Any, y: Any) -> float:
        """Return the best model's exact score on other records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,)
            The truth.

        Returns
        -------
        float
            The model's own score: exact, and not covered by the budget.
        """
        return self._best.score(X, y)

    @property
    def classes_(self) -> np.ndarray:
        """The best model's labels."""
        return self._best.classes_

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return self._best.n_features_in_

    #: the HTML picture shows the best model once there is one, as scikit-learn's searches do
    _sk_visual_block_ = BaseSearchCV._sk_visual_block_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags
