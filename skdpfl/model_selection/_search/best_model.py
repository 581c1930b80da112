"""What a fitted search can do: all that its best model can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def _best_has(method: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), method)

    return check


class BestModel:
    """Mixin for searches: the best model's methods, attributes, tags and picture."""

    estimator: Any
    best_estimator_: Any

    @property
    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any) -> np.ndarray:
        """Return the best model's predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels or numbers.
        """
        return self._best.predict(X)

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
            By the model's own score method: exact, so it is not for publication.
        """
        return self._best.score(X, y)

    @available_if(_best_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the best model's probabilities.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns as in ``classes_``.
        """
        return self._best.predict_proba(X)

    @available_if(_best_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the best model's raw predictions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            As the model's own.
        """
        return self._best.decision_function(X)

    @property
    def classes_(self) -> np.ndarray:
        """The best model's labels."""
        return self._best.classes_

    @available_if(_best_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the best model's probabilities.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Records, with or without the silo column.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns as in ``classes_``.
        """
        return self._best.predict_log_proba(X)

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
