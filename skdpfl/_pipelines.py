"""Pipelines around this package's estimators, and which of their steps cost nothing."""

from collections.abc import Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler, SkewedChi2Sampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils.validation import _num_samples

from skdpfl import preprocessing
from skdpfl._apart import is_stackable
from skdpfl._functions import WAYS_OUT, Declared, is_entrywise, mixes, name_of
from skdpfl._surface import refuse_own_parts
from skdpfl._warnings import warn
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.models import fitted_one_by_one
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.remote import Refused

#: transformers whose fit reads at most the number and the names of the features
NOTHING = (
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    GaussianRandomProjection,
    HashingVectorizer,
    Normalizer,
    PolynomialFeatures,
    RBFSampler,
    preprocessing.RowTransformer,
    preprocessing.ScatteringTransformer,
    SkewedChi2Sampler,
    SparseRandomProjection,
)

#: texts about functions that mix records, or choose columns
MIXES = "mixes records: in a test on made-up rows, its output for one row changed with the others"
ROW_BY_ROW = WAYS_OUT.partition("; or")[0] + "."
CHOSEN = "a function of the records chooses the columns"
BY_NAME = (
    "Name them, choose them by make_column_selector, or declare the step by public=[{name!r}] if "
    "they depend on the columns' names and types only."
)
#: packages whose classes and functions keep rows apart, if all that they hold does
KNOWN = ("skdpfl", "sklearn", "numpy", "pandas", "scipy", "joblib", "builtins")
#: overridable by a subclass: no fit runs it
_AFTER_A_FIT = frozenset((
    "__annotations__", "__dict__", "__doc__", "__firstlineno__", "__init__", "__module__",
    "__qualname__", "__slotnames__", "__static_attributes__", "__weakref__", "decision_function",
    "predict", "predict_log_proba", "predict_proba", "score", "set_fit_request",
    "set_predict_proba_request", "set_predict_request", "set_score_request",
))  # fmt: skip
#: scikit-learn's modules, and classes of others, that predict or transform each row by itself
_ROW_WISE = frozenset((
    "calibration", "compose", "discriminant_analysis", "dummy", "ensemble", "feature_extraction",
    "feature_selection", "frozen", "gaussian_process", "kernel_approximation", "linear_model",
    "model_selection", "multiclass", "multioutput", "naive_bayes", "neighbors", "neural_network",
    "pipeline", "preprocessing", "random_projection", "svm", "tree",
))  # fmt: skip
_RANDOM = np.random.RandomState, np.random.Generator, np.random.BitGenerator
_ALSO_ROW_WISE = ("IncrementalPCA", "KernelPCA", "PCA", "SimpleImputer", "TruncatedSVD")


def private_step(model: Any) -> tuple[str, Any]:
    """Return the prefix of the private step's parameters ("" or "step__"), and the step."""
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    refuse_own_parts(last)
    if not hasattr(last, "plan_for"):
        raise ValueError(
            "estimator must be one of skdpfl's, or a pipeline that ends in one; got "
            f"{type(model).__name__}{f' ending in {type(last).__name__}' if name else ''}."
        )
    return (f"{name}__" if name else ""), last


def silos_argument(model: Any, silos: Any) -> dict[str, Any]:
    """Return silos as an argument of the model's fit, whether routing is on or off."""
    if silos is None:
        return {}
    prefix = "" if get_config()["enable_metadata_routing"] else private_step(model)[0]
    return {f"{prefix}silos": silos}


def check_fits_elsewhere(model: Any) -> None:
    """Raise, with the way out, unless this is an estimator that remote silos can fit."""
    if isinstance(model, Pipeline):
        names = ", ".join(type(step).__name__ for _, step in model.steps[:-1])
        last = type(model.steps[-1][1]).__name__
        raise Refused(
            f"A pipeline cannot be fitted with remote silos: {names} would have to learn from "
            f"their records. Fit {last} alone, with feature_bounds or scaling='private' instead of "
            "a scaler; each silo applies steps that learn nothing before it makes its SiloRecords."
        )
    try:
        model.fit_federation  # noqa: B018
    except AttributeError as error:
        name = type(model).__name__
        raise Refused(f"{name} cannot be fitted with remote silos. {error}") from error


def pool_silos(costs: Sequence[PrivacySpent]) -> list[PrivacySpent]:
    """Return the costs and trust of steps or members that read the same rows.

    A step that was not given the silos took all rows as one silo. It protects against outsiders
    only: whoever holds the rows of all silos is trusted, as with ``trust="server"``. It warns.
    """
    n_silos = [len(cost.silo_ids or ()) for cost in costs]
    most = max(n_silos, default=0)
    pooled = [
        n == 1 < most and cost.trust == "silo" and any(each.composition for each in cost.costs)
        for n, cost in zip(n_silos, costs, strict=True)
    ]
    if any(pooled):
        warn(
            f"{sum(pooled)} step(s) or member(s) took all records as one silo, where another was "
            f"given {most} silos, so the cost says trust='server'. Give them silo_column=..., or "
            "the silos by metadata routing.",
            PrivacyLeakWarning,
        )
    own = zip(costs, pooled, strict=True)
    return [cost.trusting("server") if alone else cost for cost, alone in own]


def is_as_released(part: Any) -> bool:
    """Whether a part's class is scikit-learn's or ours; a user's subclass may do anything."""
    return type(part).__module__.startswith(("sklearn.", "skdpfl.")) and is_unchanged(part)


def fits_as_released(part: Any) -> bool:
    """Whether a fit is this package's: of its class, or a subclass that only predicts otherwise."""
    kinds = type(part).__mro__
    ours = next((k for k in kinds if k.__module__.startswith("skdpfl.")), None)
    if ours is None or not is_unchanged(part):
        return False
    before = kinds[: kinds.index(ours)]
    own = {name for kind in before for name in vars(kind)}
    return kinds[len(before) :] == ours.__mro__ and own <= _AFTER_A_FIT


def is_unchanged(part: Any) -> bool:
    """Whether no method was replaced on the object itself."""
    return not any(callable(getattr(type(part), name, None)) for name in vars(part))


def learns_nothing(step: Any) -> bool:
    """Whether a fitted step, and all in it, is the same whatever the records were."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return True
    if not is_as_released(step):
        return False
    if (inside := steps_inside(step)) is not None:
        return not chosen_by_functions(step) and all(learns_nothing(part) for _, part in inside)
    if isinstance(step, HashingVectorizer):
        return not any(map(callable, (step.analyzer, step.preprocessor, step.tokenizer)))
    if isinstance(step, RBFSampler):
        as_fitted = getattr(step, "_gamma", step.gamma) == step.gamma
        return not isinstance(step.gamma, str) and as_fitted  # "scale" reads the variance of X
    if isinstance(step, NOTHING):
        return True
    if isinstance(step, SplineTransformer):
        return not isinstance(step.knots, str) and _has_knots(step)  # words read X
    if isinstance(step, preprocessing.DPMinMaxScaler):
        return step.feature_bounds is not None
    if isinstance(step, preprocessing.DPOneHotEncoder):
        return step.all_declared
    if isinstance(step, FunctionTransformer):
        return is_entrywise(step)
    if isinstance(step, SimpleImputer):
        return step.strategy == "constant" and not step.add_indicator and not _has_learnt(step)
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)):
        return _declared(step)
    return False


def keeps_rows_apart(part: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether a fitted object's output for a row is known to depend on that row alone.

    This holds if all its classes and functions come from :data:`KNOWN` packages, and what
    scikit-learn fits from modules known to be row-wise. Others, such as IterativeImputer or a
    user's subclass, may compare rows.
    """
    if id(part) in seen:
        return True
    seen |= {id(part)}
    if isinstance(part, list | tuple | set | frozenset | dict):
        held = [*part.keys(), *part.values()] if isinstance(part, dict) else part
        return all(keeps_rows_apart(each, seen) for each in held)
    if isinstance(part, MethodType):
        return keeps_rows_apart(part.__func__, seen) and keeps_rows_apart(part.__self__, seen)
    if isinstance(part, _RANDOM):
        return False  # what it draws for a row depends on the rows before
    kind = part if isinstance(part, FunctionType | type) else type(part)
    origin = str(kind.__module__).partition(".")[0]
    if origin not in KNOWN or not (origin != "sklearn" or _is_row_wise(kind)):
        return False
    if isinstance(part, ColumnTransformer) and tells_density(part):
        return False
    if isinstance(part, preprocessing.RowTransformer):
        return True
    if isinstance(part, FunctionTransformer):
        back = FunctionTransformer(part.inverse_func, kw_args=part.inv_kw_args)
        return is_entrywise(part) and is_entrywise(back)
    if hasattr(part, "raw_of_fitted"):
        return fitted_one_by_one(part) is part
    if hasattr(part, "model_") and origin == "skdpfl":
        return is_stackable(part._loss()) and keeps_rows_apart(part.model_, seen)
    inside = vars(part) if origin in ("skdpfl", "sklearn") and hasattr(part, "__dict__") else {}
    values = list(inside.values())
    if kind.__module__.startswith("sklearn.ensemble."):  # boosting draws in fit only
        values = [v for v in values if not isinstance(v, _RANDOM)]
    return isinstance(part, type) or all(keeps_rows_apart(v, seen) for v in values)


def _is_row_wise(kind: Any) -> bool:
    """Whether a class of scikit-learn is a helper, or treats each row by itself."""
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        return True
    module = kind.__module__.split(".")[1]
    return module in _ROW_WISE or kind.__name__ in _ALSO_ROW_WISE


def gives_out_width(step: Any) -> bool:
    """Whether the number of columns of a fitted step's output was learnt from the records."""
    if (inside := steps_inside(step)) is not None:
        return any(gives_out_width(part) for _, part in inside)
    if isinstance(step, FrozenEstimator):
        return gives_out_width(step.estimator)
    if isinstance(step, SelectFromModel):  # a threshold keeps as many as the model has above it
        return step.threshold != -np.inf or step.max_features is None
    return isinstance(step, preprocessing.DPOneHotEncoder) and not step.width_is_public_


def _has_learnt(imputer: SimpleImputer) -> bool:
    """Whether a fitted imputer has other numbers than its constant.

    Either its parameters were changed after the fit, or a column was left out because no record has
    a value there. The number of columns is public: if none was left out, it has learnt nothing.
    """
    constants = [0, "missing_value"] if imputer.fill_value is None else [imputer.fill_value]
    learnt = list(getattr(imputer, "statistics_", ()))
    if imputer.keep_empty_features:
        learnt = [each for each in learnt if not pd.isna(each)]  # a constant that is a gap
    return any(each not in constants for each in learnt)


def _has_knots(splines: SplineTransformer) -> bool:
    """Whether the knots of a fit, if there was one, are those that are given."""
    ends, fitted = splines.degree, getattr(splines, "bsplines_", ())
    curves = [curve.t[ends : len(curve.t) - ends] for curve in fitted]
    return not curves or np.array_equal(np.transpose(curves), splines.knots)


def _declared(encoder: Any) -> bool:
    """Whether an encoder's categories were given, and none are merged by frequency."""
    fixed = not isinstance(encoder.categories, str)
    if fixed and hasattr(encoder, "categories_"):  # those at the time of the fit
        pairs = zip(encoder.categories, encoder.categories_, strict=True)
        fixed = all(pd.Index(a, dtype=object).equals(pd.Index(b, dtype=object)) for a, b in pairs)
    rare = [getattr(encoder, n, None) for n in ("min_frequency", "max_categories")]
    if_binary = isinstance(getattr(encoder, "drop", None), str) and encoder.drop == "if_binary"
    return fixed and rare == [None, None] and not if_binary


def leaves(step: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield path and step of all innermost steps; of frozen steps only those that may mix rows."""
    if isinstance(step, FrozenEstimator):
        if not keeps_rows_apart(step.estimator):
            yield path, step
        return
    inside = steps_inside(step) if is_as_released(step) else None
    if inside is None:
        yield path, step
        return
    for name, part in inside:
        yield from leaves(part, f"{path}__{name}" if path else name)


def steps_inside(step: Any) -> list[tuple[str, Any]] | None:
    """Return names and steps of what only puts steps together; None of anything else."""
    if isinstance(step, Pipeline):
        return list(step.steps)
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    if not isinstance(step, ColumnTransformer) or tells_density(step):
        return None
    if hasattr(step, "transformers_"):  # copies that were fitted
        return [t[:2] for t in step.transformers_]
    return [*(t[:2] for t in step.transformers), ("remainder", step.remainder)]


def tells_density(step: ColumnTransformer) -> bool:
    """Whether the records decide if the output is sparse, at which an estimator raises an error."""
    return step.sparse_threshold > 0 and any(map(_has_secret_zeros, step.get_params().values()))


def _has_secret_zeros(step: Any) -> bool:
    """Whether a step's output is sparse, with a number of zeros that follows from the records."""
    if isinstance(step, FrozenEstimator):  # it does not tell the parameters of what it holds
        return any(map(_has_secret_zeros, (step.estimator, *step.estimator.get_params().values())))
    if isinstance(step, OneHotEncoder):
        return step.sparse_output and (step.handle_unknown != "error" or step.drop is not None)
    hashing = isinstance(step, FeatureHasher | HashingVectorizer)
    return hashing or bool(getattr(step, "sparse_output", False))


def chosen_by_functions(step: Any) -> list[str]:
    """Return the parts of a ColumnTransformer whose columns a function of the records chooses.

    A ``make_column_selector`` reads the columns' names and types, which are public.
    """
    if not isinstance(step, ColumnTransformer):
        return []
    return [
        name
        for name, _, columns in step.transformers
        if callable(columns) and type(columns) is not make_column_selector
    ]


def is_declared(step: Any, path: str, public: Declared, like: Any) -> bool:
    """Return whether a step to be fitted is a function that its user declared.

    Raise if it mixes rows in a test on rows like ``like``, or if it learns.
    """
    if not public.covers_part(path) or learns_nothing(step):
        return False
    frozen = isinstance(step, FrozenEstimator)
    if not frozen and not isinstance(step, FunctionTransformer):
        raise ValueError(
            f"public names {path!r}, but {type(step).__name__} learns from the records. If it was "
            "fitted on public data, give FrozenEstimator(fitted)."
        )
    for _, part in leaves(step.estimator, path) if frozen else [(path, step)]:
        seen = None if frozen else like
        if isinstance(part, FunctionTransformer) and mixes(part, seen, _num_samples(like)):
            raise ValueError(f"public names {path!r}, but {name_of(step)} {MIXES}. {ROW_BY_ROW}")
    return True


def check_columns_are_named(model: Any, public: Declared) -> None:
    """Raise if a function of the records chooses the columns of a step, unless it is declared."""
    for path, part in {"": model, **model.get_params()}.items():
        for name in chosen_by_functions(part):
            place = f"{path}__{name}" if path else name
            if not public.covers_part(place):
                raise ValueError(f"{place}: {CHOSEN}. {BY_NAME.format(name=name)}")
