"""Fitted pipelines as plain data, which opens anywhere and runs no code.

Each step is a mapping with its class and what its ``transform`` reads. Classes are those of
:data:`STEPS` and scikit-learn's ``Pipeline`` and ``ColumnTransformer``; others are refused by name.
Reading checks every field, so that a damaged file raises an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from skdpfl import __version__, estimators, preprocessing
from skdpfl._declarations import KINDS
from skdpfl._pipelines import fits_as_released, is_as_released
from skdpfl.encoding import is_label
from skdpfl.model_selection import SharedBudget
from skdpfl.privacy.spending.report import (
    finite_numbers,
    keys,
    listed,
    one_of,
    refusing_damage,
    require,
    text_or_none,
    whole,
)
from skdpfl.privacy.spending.spent import PrivacySpent
from skdpfl.scaling import AffineScaling

SCHEMA, VERSION = "skdpfl.Pipeline", 1
#: transformers that can be written
STEPS = {
    kind.__name__: kind
    for kind in (
        preprocessing.DPMinMaxScaler,
        preprocessing.DPOneHotEncoder,
        preprocessing.DPSimpleImputer,
        preprocessing.DPStandardScaler,
    )
}
#: their parameters that ``transform`` reads
_PARAMETERS = ("strategy", "max_categories", "silo_column", "person_column", "keep_silo_column")
_OUTPUTS = ("default", "pandas", "polars")
_MAP = ("center", "scale", "low", "high")
#: the most columns of a table in a file: reading allocates memory for each, named or not
_MOST_COLUMNS = 10**6
#: fields of a transformer, beside those of what it learnt
_COMMON = {
    "kind", "parameters", "output", "n_features", "feature_names", "kinds", "silo_ids", "passed",
    "privacy_spent",
}  # fmt: skip
_LEARNT = {"map", "statistics", "categories", "found"}


def to_dict(fitted: Any) -> dict[str, Any]:
    """Return a fitted model, pipeline or shared budget as plain data, for a file.

    Parameters
    ----------
    fitted : estimator, Pipeline or SharedBudget
        A linear or additive model, or a pipeline that ends in one. Steps before it are
        ``DPSimpleImputer``, ``DPOneHotEncoder``, ``DPStandardScaler`` and ``DPMinMaxScaler``,
        alone or in a ``ColumnTransformer`` with "passthrough" and "drop"; others are refused.

    Returns
    -------
    dict
        What is needed to predict, and the costs. It can be written as JSON.

    See Also
    --------
    from_dict : Reads it.

    Examples
    --------
    >>> import numpy as np, skdpfl
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpfl.preprocessing import DPStandardScaler
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> last = skdpfl.ISRLDPClassifier(scaling=None, random_state=0)
    >>> model = make_pipeline(DPStandardScaler(feature_bounds=(0, 1), random_state=1), last)
    >>> plain = skdpfl.to_dict(model.fit(X, X[:, 0] > 0.5))
    >>> bool((skdpfl.from_dict(plain).predict(X) == model.predict(X)).all())
    True
    """
    check_is_fitted(fitted)
    if isinstance(fitted, SharedBudget) and fits_as_released(fitted):
        steps, spent = fitted.estimator_, fitted.privacy_spent_.to_dict()
        shared: Any = {"epsilons": fitted.epsilons_, "privacy_spent": spent}
    elif isinstance(fitted, Pipeline) and is_as_released(fitted):
        steps, shared = fitted, None
    elif hasattr(fitted, "to_dict"):
        return fitted.to_dict()  # type: ignore[no-any-return]
    else:
        raise ValueError(_refused("", fitted))
    last = steps[-1]
    if not (hasattr(last, "to_dict") and fits_as_released(last)):
        raise ValueError(_refused(steps.steps[-1][0], last))
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "library": f"skdpfl {__version__}",
        "shared": shared,
        "steps": [[name, _step_to_plain(step, name)] for name, step in steps.steps[:-1]],
        "last": [steps.steps[-1][0], last.to_dict()],
    }


@refusing_damage("The saved model")
def from_dict(plain: dict[str, Any]) -> Any:
    """Read and check the output of :func:`to_dict`.

    Parameters
    ----------
    plain : dict
        The model; ``json.load`` gives one.

    Returns
    -------
    estimator, Pipeline or SharedBudget
        Fitted, with the same predictions, without the fit's other parameters and attributes.

    See Also
    --------
    to_dict : Writes it.

    Examples
    --------
    >>> import json, numpy as np, skdpfl
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> model = skdpfl.ISRLDPClassifier(feature_bounds=(0, 1), random_state=0)
    >>> text = json.dumps(skdpfl.to_dict(model.fit(X, X[:, 0] > 0.5)))
    >>> type(skdpfl.from_dict(json.loads(text))).__name__
    'ISRLDPClassifier'
    """
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        return _model(plain)
    keys(plain, ("schema", "version", "library", "shared", "steps", "last"), "pipeline")
    one_of(plain, "version", (VERSION,), "pipeline")
    text_or_none(plain, "library")
    pairs = [_named(pair) for pair in listed(plain, "steps", "pipeline")]
    steps = [(name, _step_from_plain(step)) for name, step in pairs]
    name, last = _named(plain["last"])
    made = Pipeline([*steps, (name, _model(last))])
    if plain["shared"] is None:
        return made
    keys(plain["shared"], ("epsilons", "privacy_spent"), "shared")
    spent = PrivacySpent.from_dict(plain["shared"]["privacy_spent"])
    shared = SharedBudget(made, epsilon=spent.epsilon, delta=spent.delta)
    epsilons = plain["shared"]["epsilons"]
    require(isinstance(epsilons, dict), "epsilons", "is not a mapping")
    finite_numbers(list(epsilons.values()), "epsilons")
    shared.estimator_, shared.privacy_spent_ = made, spent
    shared.epsilons_ = {str(path): float(value) for path, value in epsilons.items()}
    return shared


def _refused(path: str, step: Any) -> str:
    return (
        f"{path or 'The model'}: a {type(step).__name__} cannot be written as plain data; "
        f"{', '.join(STEPS)}, Pipeline and ColumnTransformer of these can, before a linear or "
        "additive model. Pickle it instead."
    )


def _named(pair: Any) -> tuple[str, Any]:
    """Return a name and what it names."""
    fine = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
    require(fine, "steps", "are not pairs of a name and a step")
    return pair[0], pair[1]


def _model(plain: Any) -> Any:
    """Return the estimator of this package that plain data name."""
    known = [name for name, kind in vars(estimators).items() if hasattr(kind, "from_dict")]
    require(isinstance(plain, dict) and "estimator" in plain, "model", "names no estimator")
    return getattr(estimators, one_of(plain, "estimator", known, "model")).from_dict(plain)


# ---- steps -------------------------------------------------------------------------------------


def _step_to_plain(step: Any, path: str) -> Any:
    """Return a fitted step before the last."""
    if isinstance(step, str) or step is None:
        return step
    if type(step) is FunctionTransformer and step.func is None and step.inverse_func is None:
        return "passthrough"
    if type(step) is Pipeline and is_as_released(step):
        return {"kind": "Pipeline", "steps": [[n, _step_to_plain(s, n)] for n, s in step.steps]}
    if type(step) is ColumnTransformer and is_as_released(step):
        return _columns_to_plain(step, path)
    if STEPS.get(type(step).__name__) is not type(step) or not fits_as_released(step):
        raise ValueError(_refused(path, step))
    names = getattr(step, "feature_names_in_", None)
    parameters = step.get_params(deep=False)
    plain: dict[str, Any] = {
        "kind": type(step).__name__,
        "parameters": {name: parameters[name] for name in _PARAMETERS if name in parameters},
        "output": _output_of(step),
        "n_features": int(step.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "kinds": list(getattr(step, "_kinds", ())),
        "silo_ids": np.asarray(step.silo_ids_).tolist(),
        "passed": [list(each) for each in step._passed],
        "privacy_spent": step.privacy_spent_.to_dict(),
    }
    if hasattr(step, "scaling_"):
        parts = {name: getattr(step.scaling_, name) for name in _MAP}
        plain["map"] = {name: None if p is None else _finite(p) for name, p in parts.items()}
    if hasattr(step, "statistics_"):
        plain["statistics"] = step.statistics_.tolist()
    if hasattr(step, "categories_"):
        plain["categories"] = [each.tolist() for each in step.categories_]
        plain["found"] = [None if each is None else each.tolist() for each in step.counts_]
    return plain


def _finite(values: np.ndarray) -> list[float | None]:
    """Return numbers, None for infinity: features that are ignored have an infinite scale."""
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _output_of(step: Any) -> str | None:
    """Return the type of tables that ``set_output`` asked for."""
    container: str | None = getattr(step, "_sklearn_output_config", {}).get("transform")
    return container


def _columns_to_plain(step: ColumnTransformer, path: str) -> dict[str, Any]:
    names = getattr(step, "feature_names_in_", None)
    parts = []
    for name, part, columns in step.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        if isinstance(columns, slice) or callable(columns):
            raise ValueError(f"{path}__{name}: give a list of columns, to write it as plain data.")
        chosen = [columns] if isinstance(columns, str) else np.asarray(columns).tolist()
        parts.append([name, _step_to_plain(part, f"{path}__{name}"), chosen])
    return {
        "kind": "ColumnTransformer",
        "prefixed": bool(step.verbose_feature_names_out),
        "output": _output_of(step),
        "n_features": int(step.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "parts": parts,
    }


def _step_from_plain(plain: Any, words: tuple[Any, ...] = ("passthrough", None)) -> Any:
    """Return a fitted step, or one of the words that may stand for it."""
    if isinstance(plain, str) or plain is None:
        require(plain in words, "step", "is unknown")
        return plain
    require(isinstance(plain, dict) and "kind" in plain, "step", "has no kind")
    kind = one_of(plain, "kind", ("Pipeline", "ColumnTransformer", *STEPS), "step")
    if kind == "Pipeline":
        keys(plain, ("kind", "steps"), "step")
        pairs = [_named(pair) for pair in listed(plain, "steps", "step")]
        require(bool(pairs), "steps", "are none")
        return Pipeline([(name, _step_from_plain(step)) for name, step in pairs])
    return _columns_from_plain(plain) if kind == "ColumnTransformer" else _own_step(plain)


def _columns_from_plain(plain: dict[str, Any]) -> ColumnTransformer:
    """Return a fitted ColumnTransformer: its own fit reads the names of columns only."""
    names = ("kind", "prefixed", "output", "n_features", "feature_names", "parts")
    keys(plain, names, "ColumnTransformer")
    parts = []
    for part in listed(plain, "parts", "ColumnTransformer"):
        require(isinstance(part, list) and len(part) == 3, "parts", "are not triples")
        name, step = _named(part[:2])
        require(isinstance(part[2], list), "parts", "have no list of columns")
        parts.append((name, _step_from_plain(step, ("passthrough", "drop")), part[2]))
    empty = [(name, "passthrough", columns) for name, _, columns in parts]
    made = ColumnTransformer(empty, verbose_feature_names_out=bool(plain["prefixed"]))
    d, named = _columns_in(plain)
    row = np.zeros((1, d))
    made.fit(row if named is None else pd.DataFrame(row, columns=named))
    own = {name: step for name, step, _ in parts if step != "passthrough"}
    made.transformers = parts
    made.transformers_ = [(n, own.get(n, step), at) for n, step, at in made.transformers_]
    if plain["output"] is not None:
        made.set_output(transform=one_of(plain, "output", _OUTPUTS))
    return made


def _columns_in(plain: dict[str, Any]) -> tuple[int, list[str] | None]:
    """Return the number of columns of a step's table, and their names."""
    d, names = whole(plain, "n_features", "step", 1), plain["feature_names"]
    fine = names is None or (isinstance(names, list) and len(names) == d)
    require(fine, "feature_names", f"are not {d} names")
    require(d <= _MOST_COLUMNS, "n_features", f"is above {_MOST_COLUMNS:,}")
    return d, None if names is None else [str(name) for name in names]


def _own_step(plain: dict[str, Any]) -> Any:
    """Return a fitted transformer of this package."""
    keys(plain, _COMMON | (_LEARNT & set(plain)), "step")
    kind = STEPS[plain["kind"]]
    parameters = plain["parameters"]
    keys(parameters, set(_PARAMETERS) & set(kind._get_param_names()), "parameters")
    spent = PrivacySpent.from_dict(plain["privacy_spent"])
    step = kind(**parameters)
    step._check()
    step.n_features_in_, names = _columns_in(plain)
    if names is not None:
        step.feature_names_in_ = np.array(names, dtype=object)
    kinds = listed(plain, "kinds", "step")
    require(set(kinds) <= set(KINDS), "kinds", "are unknown")
    step._kinds = tuple(kinds)
    step.silo_ids_ = np.asarray(listed(plain, "silo_ids", "step"), dtype=object)
    pairs = [_named(pair) for pair in listed(plain, "passed", "step")]
    step._passed, step.privacy_spent_ = tuple(pairs), spent
    _set_learnt(step, plain)
    if plain["output"] is not None:
        step.set_output(transform=one_of(plain, "output", _OUTPUTS))
    return step


def _set_learnt(step: Any, plain: dict[str, Any]) -> None:
    """Set what a transformer had learnt."""
    d = step.n_features_in_
    if isinstance(step, preprocessing.DPStandardScaler | preprocessing.DPMinMaxScaler):
        keys(plain["map"], _MAP, "map")
        ends = {name: plain["map"][name] for name in _MAP}
        for name, values in ends.items():
            if values is not None:
                parsed = [np.inf if value is None else value for value in values]
                require(len(parsed) == d, name, f"are not {d} numbers")
                finite_numbers([v for v in parsed if v != np.inf], name)
                ends[name] = np.array(parsed, float)
        step.scaling_ = AffineScaling(**ends)
        step._set_attributes()
        return
    if isinstance(step, preprocessing.DPSimpleImputer):
        values = listed(plain, "statistics", "step")
        require(len(values) == d and all(map(is_label, values)), "statistics", "are no values")
        words = step.strategy == "most_frequent" and "category" in step._kinds
        step.statistics_ = np.array(values, dtype=object if words else np.float64)
        return
    levels, counts = (listed(plain, name, "step") for name in ("categories", "found"))
    require(len(levels) == len(counts) == d, "categories", f"are not lists for {d} columns")
    step.categories_ = [preprocessing.declared_values(each) for each in levels]
    step.counts_ = [None if each is None else finite_numbers(each, "found") for each in counts]
    step.width_is_public_ = step.max_categories is not None or all(c is None for c in counts)
