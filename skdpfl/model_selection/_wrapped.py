"""The model inside a search or a shared budget: checks of its inputs, and its methods.

A search's budget covers the fits of the last step and of private steps before it. Others should
learn nothing, or be fitted beforehand (``FrozenEstimator``): a step that learns without privacy
makes the cost of the whole search infinite.

``BestModel`` has the methods of the fitted search or shared budget that call the model's own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpfl import _pipelines
from skdpfl._arguments import refuse_sparse
from skdpfl._functions import WAYS_OUT, Declared, name_of
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.privacy.events import Guarantee, read_guarantee
from skdpfl.privacy.spending.ledger import Recorded


def protection_of(inner: Any) -> Guarantee:
    """Return the guarantee of a search over this estimator; raise if there is none."""
    if getattr(inner, "silos_per_person", 1) > 1:
        raise ValueError(
            "DPRandomizedSearchCV takes silos_per_person=1: a person in several silos would be "
            "trained on in one and scored in another. Fit one candidate with the whole budget "
            '("auto" learns nothing from the data).'
        )
    guarantee = read_guarantee(inner.unit, inner.trust, inner.neighbours)
    if guarantee.trust == "shuffler":
        raise ValueError(
            'DPRandomizedSearchCV searches estimators with trust="silo", "secagg" or "server"; got '
            'trust="shuffler", where every run is visible, and scores would have to be shuffled '
            'messages as well. Search with trust="silo", or fit one candidate with the whole '
            'budget ("auto" learns nothing from the data).'
        )
    if not is_classifier(inner) and inner.target_bounds is None:
        raise ValueError("Private scores of a regressor need its target_bounds=(low, high).")
    return guarantee


def check_protection(models: Iterable[Any], searched: Any) -> None:
    """Raise unless all candidates have the searched estimator's guarantee and silos."""
    columns = "silo_column", "person_column"
    said = protection_of(searched), [getattr(searched, name, None) for name in columns]
    for model in models:
        _, inner = _pipelines.private_step(model)
        own = protection_of(inner), [getattr(inner, name, None) for name in columns]
        if own != said:
            raise ValueError(
                f"A candidate has another guarantee than the searched estimator: {own[0]}, "
                f"columns {own[1]!r} instead of {said[0]}, columns {said[1]!r}. Leave unit, trust, "
                "neighbours, silo_column and person_column out of param_distributions, and search "
                "each separately."
            )


def readable(X: Any, y: Any, alone: bool) -> tuple[Any, Any]:
    """Return X and y in a form that can be indexed; ``alone``: there are no earlier steps."""
    if y is None:
        raise ValueError("A search requires y to be passed, but the target y is None.")
    if alone:
        refuse_sparse(X)
    X, y = indexable(X, y)
    if alone and np.ndim(X) != 2:
        raise ValueError(
            f"Expected 2D array, got {np.ndim(X)}D array instead. Reshape your data: one row for "
            "each record, one column for each feature."
        )
    if alone and 0 in np.shape(X):
        what = "sample" if np.shape(X)[0] == 0 else "feature"
        raise ValueError(
            f"Found array with 0 {what}(s) (shape={np.shape(X)}) while a minimum of 1 is required."
        )
    check_consistent_length(X, y)
    one_column = np.ndim(y) == 2 and np.shape(y)[1] == 1
    return X, column_or_1d(y, warn=True) if one_column else y


def unpaid_steps(models: Iterable[Any], public: Declared, X: Any) -> dict[str, Any]:
    """Return the steps that learn without privacy, by path."""
    found: dict[str, Any] = {}
    for model in models:
        _pipelines.check_columns_are_named(model, public)
        prefix, last = _pipelines.private_step(model)
        if not _pipelines.fits_as_released(last):
            found[prefix.removesuffix("__") or "estimator"] = last
        for path, step in steps_before_last(model):
            if _pipelines.is_declared(step, path, public, X) or _pipelines.learns_nothing(step):
                continue
            if not (isinstance(step, Recorded) and _pipelines.is_as_released(step)):
                found[path] = step
    public.check()
    return found


def check_budgets(names: Iterable[str]) -> None:
    """Raise for searched parameters that determine the cost, which the search sets itself."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"param_distributions must have names of parameters; got {name!r}.")
        if name.rsplit("__", 1)[-1] in ("epsilon", "delta", "noise_multiplier"):
            raise ValueError(
                f"param_distributions has {name!r}, but every run's budget is a part of the "
                "search's epsilon: leave it out."
            )


def warn_of(unpaid: dict[str, Any]) -> None:
    """Warn of each step that learns without privacy."""
    for path, step in unpaid.items():
        if isinstance(step, FunctionTransformer | FrozenEstimator):
            name = path.rsplit("__", 1)[-1]
            warn(
                f"{path}: {name_of(step)} gets all records at once and may mix them, which no "
                "budget covers: the cost of the search is infinite. "
                f"{WAYS_OUT.format(public=f'public=[{name!r}]')}",
                PrivacyLeakWarning,
            )
            continue
        warn(
            f"{path}: {type(step).__name__} learns from the records in every run of the search, "
            "which no budget covers: the cost of the search is infinite. Declare what it needs "
            "(categories, constants), leave scales to the estimator (scaling='auto'), or wrap a "
            "step that was fitted on public data in FrozenEstimator.",
            PrivacyLeakWarning,
        )


def steps_before_last(model: Any, *, whole: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield (path, step) of all steps before the last; ``whole``: of the last, too.

    A subclass of Pipeline may do anything, so it counts as a step itself.
    """
    if isinstance(model, Pipeline):
        if not _pipelines.is_as_released(model):
            yield "pipeline", model
        for name, part in model.steps[: None if whole else -1]:
            yield from _pipelines.leaves(part, name)


def _best_has(method: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        return hasattr(getattr(search, search.holds, search.estimator), method)

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
    """Mixin for searches: the best model's methods, attributes, tags and HTML representation."""

    estimator: Any
    #: the attribute that has the model
    holds = "best_estimator_"
    #: the cost covers the fits of all private parts, except frozen ones
    pays_for_parts = True

    @property
    def _best(self) -> Any:
        check_is_fitted(self, self.holds)
        return getattr(self, self.holds)

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
