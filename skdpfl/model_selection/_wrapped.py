"""The model inside a search or a shared budget: checks of its inputs, and its methods.

A search's budget covers the fits of the last step and of private steps before it. Others should
learn nothing, or be fitted beforehand (``FrozenEstimator``): a step that learns without privacy
makes the cost of the whole search infinite.

``BestModel`` has the methods of the fitted search or shared budget that call the model's own.

Shares of a budget are of the squared Gaussian-DP parameter mu, which is additive. A step's releases
follow from its part and from public numbers, so a plan can price them before any fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpfl import _pipelines
from skdpfl._arguments import check_share, is_auto, refuse_sparse
from skdpfl._functions import WAYS_OUT, Declared, name_of
from skdpfl._warnings import foreign_steps, warnings_off
from skdpfl.privacy.events import Guarantee, read_guarantee
from skdpfl.privacy.pricing.gaussian import gaussian_epsilon, gaussian_mu
from skdpfl.privacy.randomness.streams import Streams
from skdpfl.privacy.spending.ledger import PAID_FOR, TRIED, Recorded
from skdpfl.privacy.spending.spent import PrivacySpent, total
from skdpfl.table import public_columns


def protection_of(inner: Any) -> Guarantee:
    """Return the guarantee of a search over this estimator; raise if there is none."""
    if getattr(inner, "silos_per_person", 1) > 1:
        raise ValueError(
            "DPRandomizedSearchCV takes silos_per_person=1: no person is in several silos."
        )
    guarantee = read_guarantee(inner.unit, inner.trust, inner.neighbours)
    if guarantee.trust == "shuffler":
        raise ValueError(
            'DPRandomizedSearchCV cannot search with trust="shuffler": give trust="silo".'
        )
    if not is_classifier(inner) and inner.target_bounds is None:
        raise ValueError("Private scores of a regressor need its target_bounds=(low, high).")
    return guarantee


def check_protection(models: Iterable[Any], searched: Any) -> None:
    """Raise unless all candidates have the searched estimator's guarantee and silos."""
    columns = "silo_column", "person_column"
    protection = protection_of(searched), [getattr(searched, name, None) for name in columns]
    for model in models:
        _, inner = last_step(model)
        own = protection_of(inner), [getattr(inner, name, None) for name in columns]
        if own != protection:
            raise ValueError(
                f"A candidate has another guarantee than the searched estimator: {own[0]}, "
                f"columns {own[1]!r} instead of {protection[0]}, columns {protection[1]!r}. "
                "Leave their parameters out of param_distributions."
            )


def readable(X: Any, y: Any, alone: bool) -> tuple[Any, Any]:
    """Return X and y in a form that can be indexed; ``alone``: there are no earlier steps."""
    if y is None:
        raise ValueError("A search requires y to be passed, but the target y is None.")
    if alone:
        refuse_sparse(X)
    X, y = indexable(X, y)
    if alone and np.ndim(X) != 2:
        raise ValueError(f"Expected 2D array, got {np.ndim(X)}D array instead. Reshape your data.")
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
    unpaid: dict[str, Any] = {}
    for model in models:
        path, last = last_step(model)
        if not _pipelines.fits_as_released(last):
            unpaid[path or "estimator"] = last
        unpaid |= _unpaid_before_last(model, public, X)
    public.check()
    return unpaid


def _unpaid_before_last(model: Any, public: Declared, X: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and step of the steps before the last that learn without privacy."""
    _pipelines.check_columns_are_named(model, public)
    for path, step in steps_before_last(model):
        paying = isinstance(step, Recorded) and _pipelines.is_as_released(step)
        known = _pipelines.is_declared(step, path, public, X) or _pipelines.learns_nothing(step)
        if not (known or paying):
            yield path, step


def unpaid_text(path: str, step: Any) -> str:
    """Return what a step that is not paid for may do, and the way out."""
    if isinstance(step, FunctionTransformer | FrozenEstimator):
        name = path.rsplit("__", 1)[-1]
        return (
            f"{path}: {name_of(step)} gets all records at once and may mix them, which the privacy "
            f"cost does not cover. {WAYS_OUT.format(public=f'public=[{name!r}]')}"
        )
    if isinstance(step, ColumnTransformer) and _pipelines.tells_density(step):
        return (
            f"{path}: whether the output is sparse follows from records: give sparse_threshold=0."
        )
    return (
        f"{path}: {type(step).__name__} learns from the records, which the privacy cost does not "
        "cover. Use a transformer of skdpfl.preprocessing, declare what it needs (categories, "
        "constants), or give FrozenEstimator(fitted) if it was fitted on public data."
    )


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


# ---- the parts of one budget --------------------------------------------------------------------

#: budget of all steps before the last, as a share of the squared Gaussian budget: it
#: leaves the last step sqrt(0.9) of its own, noise that is 5 % larger
_BEFORE = 0.1


def seed_from(streams: Streams, purpose: str, number: int) -> int | None:
    """Return a seed derived from the fit's; None if that is secret."""
    if not streams.is_simulation:
        return None
    return int(streams.stream(purpose, number).integers(0, 2**31, ()))


def divide(
    last: Any, paying: Mapping[str, Any], shares: Any, epsilon: float, delta: float
) -> float:
    """Set the budgets of all steps before the last; return what their shares leave to the last.

    What is left is exact for Gaussian releases only; whoever runs the steps prices them.
    """
    each = shares_of(shares, list(paying))
    mu = gaussian_mu(float(epsilon), delta)
    own = delta / max(1, len(paying))
    for path, step in paying.items():
        step.set_params(epsilon=gaussian_epsilon(math.sqrt(each[path]) * mu, own), delta=own)
        if has_relation(step):
            step.set_params(neighbours=_relation(last))
    return gaussian_epsilon(math.sqrt(1 - sum(each.values())) * mu, delta)


def seed_steps(paying: Mapping[str, Any], streams: Streams) -> None:
    """Give each step before the last noise of its own."""
    for i, step in enumerate(paying.values()):
        step.set_params(random_state=seed_from(streams, "step", i))


@contextmanager
def paid_for(paying: Mapping[str, Any], why: str = "charged") -> Iterator[None]:
    """Context in which a search has charged the fits of these steps, and of copies of them."""
    running = [why]
    for step in paying.values():
        setattr(step, PAID_FOR, running)
    try:
        yield
    finally:
        running.clear()


@dataclass(frozen=True, eq=False)
class TriedSteps:
    """The steps before the last, as a plan sees them: their columns, and what they would cost.

    They were fitted to some rows without noise. Of what they found only the number of columns and
    their types are used, which are public; found categories are not kept.
    """

    paying: dict[str, Any]
    columns: dict[str, Any]

    @classmethod
    def of(cls, model: Any, few: Sequence[Any], n_silos: int) -> TriedSteps:
        """Try the steps of a pipeline on some rows with silos and persons, which have all silos."""
        X, silos, persons = few
        last = last_step(model)[1]
        owners = last.silo_column, getattr(last, "person_column", None)
        if not isinstance(model, Pipeline) or len(model.steps) == 1:
            return cls({}, public_columns(X, *owners))
        before = clone(model[:-1])
        asked = paying_steps(before, whole=True)
        check_steps(last, asked)
        for step in asked.values():
            step.set_params(epsilon=math.inf, random_state=None)
        by_name = {"silos": silos, "persons": persons} if takes_silos(before) else {}
        routed = {name: ids for name, ids in by_name.items() if ids is not None}
        with warnings_off(), config_context(enable_metadata_routing=True):
            with paid_for(asked, TRIED), foreign_steps():
                before.fit(X, **routed)
            paying = paying_steps(before, whole=True)
            _check_tried(paying, n_silos)
            with foreign_steps():
                return cls(paying, public_columns(before.transform(X), *owners))

    def costs(self, silo_sizes: Mapping[Any, int]) -> dict[str, PrivacySpent]:
        """Return the costs of the steps with their present parameters, by path."""
        return {path: step.cost_for(silo_sizes) for path, step in self.paying.items()}


def _check_tried(paying: Mapping[str, Any], n_silos: int) -> None:
    """Refuse steps whose columns or guarantee do not follow from public numbers."""
    if any(map(_pipelines.gives_out_width, paying.values())):
        raise ValueError(
            "A search has to know how many columns a DPOneHotEncoder makes: give max_categories, "
            "or declare the categories."
        )
    for path, step in paying.items():
        if len(step.silo_ids_) < n_silos:
            raise ValueError(
                f"{path}: {type(step).__name__} takes all records as one silo, the last step has "
                f"{n_silos} silos. Give it silo_column=..., or the silos to fit."
            )


def sum_of(parts: Mapping[str, PrivacySpent], wanted: Any) -> PrivacySpent:
    """Return the cost of all steps of a run, which read the same silos; raise for weaker trust."""
    whole = total([replace(part, assignment="those of the run") for part in parts.values()])
    if whole.guarantee != wanted:
        weaker = [path for path, part in parts.items() if part.trust == whole.trust]
        raise ValueError(
            f"{weaker[0]} has trust={whole.trust!r}, the last step trust={wanted.trust!r}."
        )
    return whole


def last_step(model: Any) -> tuple[str, Any]:
    """Return the path of the last private step, and the step, also inside transformed targets."""
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if type(last) is not TransformedTargetRegressor:
        return name, _pipelines.private_step(model)[1]
    inner = getattr(last, "regressor_", last.regressor)
    if isinstance(inner, Pipeline):
        raise ValueError(
            "Steps inside a TransformedTargetRegressor have no part of the budget: put them before "
            "it, make_pipeline(..., TransformedTargetRegressor(regressor))."
        )
    return f"{name}__regressor".removeprefix("__"), _pipelines.private_step(inner)[1]


def transformed_target(model: Any) -> TransformedTargetRegressor | None:
    """Return what transforms the targets of a model, if anything does."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return last if isinstance(last, TransformedTargetRegressor) else None


def _transformer_of(target: TransformedTargetRegressor) -> Any:
    if target.transformer is not None:
        return target.transformer
    return FunctionTransformer(target.func, target.inverse_func, check_inverse=False)


def check_target(model: Any) -> None:
    """Refuse transformers of targets that learn; leave out the check that warns by records."""
    if (target := transformed_target(model)) is None:
        return
    target.set_params(check_inverse=False)
    if not _pipelines.learns_nothing(step := _transformer_of(target)):
        raise ValueError(
            f"The {type(step).__name__} of the TransformedTargetRegressor may learn from the "
            "targets, or mix them, which the privacy cost does not cover. Give entrywise functions "
            "of NumPy, or DPMinMaxScaler(feature_bounds=...)."
        )


def target_range(model: Any) -> Any:
    """Return the public bounds of a regressor's targets, before they are transformed; or None."""
    bounds = getattr(last_step(model)[1], "target_bounds", None)
    if bounds is None or (target := transformed_target(model)) is None:
        return bounds
    step, ends = clone(_transformer_of(target)), np.asarray(bounds, float).reshape(-1, 1)
    with warnings_off():
        targets = np.ravel(step.fit(np.zeros_like(ends)).inverse_transform(ends))
    low, high = float(min(targets)), float(max(targets))
    if not -math.inf < low < high < math.inf:
        raise ValueError(
            f"Private scores need a range of the targets: of target_bounds={bounds!r} the inverse "
            f"makes {targets.tolist()}."
        )
    return low, high


def paying_steps(model: Pipeline, *, whole: bool = False) -> dict[str, Any]:
    """Return the private steps before the last, by path; ``whole``: the last counts, too."""
    steps = steps_before_last(model, whole=whole)
    return {
        p: step
        for p, step in steps
        if isinstance(step, Recorded) and not _pipelines.learns_nothing(step)
    }


def owner_columns(model: Any) -> set[Any]:
    """Return the names of the columns that hold silos or persons."""
    steps = [last_step(model)[1], *paying_steps(model).values()]
    names = "silo_column", "person_column"
    return {getattr(step, name, None) for step in steps for name in names}


def check_paid(model: Pipeline, public: Declared, X: Any) -> None:
    """Refuse pipelines with steps that learn without privacy, unless declared public."""
    for path, step in _unpaid_before_last(model, public, X):
        raise ValueError(unpaid_text(path, step))
    path, last = last_step(model)
    if not _pipelines.fits_as_released(last):
        raise ValueError(unpaid_text(path, last))
    public.check()


def check_steps(last: Any, paying: Mapping[str, Any]) -> None:
    """Refuse pipelines whose steps' costs cannot be added."""
    if paying and last.unit == "silo":
        raise ValueError(
            f"Transformers protect records, but unit={last.unit!r} of the last step protects "
            "silos, so their costs cannot be added. Use declared bounds, constants and categories."
        )
    protection = _protects(last)
    for path, step in paying.items():
        if _protects(step) != protection:
            raise ValueError(
                f"All steps of a budget protect the same: {path} has {_protects(step)}, the last "
                f"step {protection}. Set unit and silos_per_person of {path}."
            )
    others = [p for p, step in paying.items() if not has_relation(step)]
    if others and _relation(last) != "replace":
        raise ValueError(
            f"{others[0]} has neighbours='replace', the last step {last.neighbours!r}."
        )


def _protects(step: Any) -> str:
    """Return what a step protects, in words."""
    more = getattr(step, "silos_per_person", 1)
    return f"unit={step.unit!r}" + (f", silos_per_person={more}" if more != 1 else "")


def _relation(last: Any) -> str:
    """Return the neighbouring relation of the last step, for records."""
    return read_guarantee("record", last.trust, last.neighbours).neighbours


def has_relation(step: Any) -> bool:
    """Whether the step can be priced under another neighbouring relation than its own."""
    return "neighbours" in step.get_params(deep=False)


def takes_silos(before: Pipeline) -> bool:
    """Whether a step before the last gets the silos by metadata routing."""
    return any(isinstance(step, Recorded) for _, step in steps_before_last(before, whole=True))


def shares_of(parts: Any, paths: list[str]) -> dict[str, float]:
    """Return each path's share of the squared Gaussian budget."""
    if is_auto(parts):
        return dict.fromkeys(paths, _BEFORE / max(1, len(paths)))
    if not isinstance(parts, Mapping) or set(parts) != set(paths):
        raise ValueError(f'shares must be "auto", or a share for each of {paths!r}; got {parts!r}.')
    shares = {path: check_share(f"shares[{path!r}]", parts[path]) for path in paths}
    if sum(shares.values()) >= 1:
        raise ValueError(
            f"shares must sum to less than 1, to leave a part to the last step; got {parts!r}."
        )
    return shares
