"""Scores that others computed: of cross-validations and searches, and of predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score


class Table(NamedTuple):
    """The scores (n_repeats,) at each value of a parameter, increasing; and what they are."""

    scores: dict[float, np.ndarray]
    score_name: str
    estimator_name: str | None


def read_cv_results(results: Any, param: str) -> Table:
    """Return the best scores at each value of ``param`` in whatever a cross-validation gave."""
    if hasattr(results, "cv_results_"):
        kind = results.refit if results.multimetric_ else "score"
        name = results.scoring if isinstance(results.scoring, str) else None
        if results.multimetric_:
            name = kind if isinstance(kind, str) else None
        return Table(
            _searched(results.cv_results_, param, kind if isinstance(kind, str) else "score"),
            name.replace("_", " ") if name else default_score(results.estimator),
            type(results.estimator).__name__,
        )
    if not isinstance(results, Mapping):
        raise ValueError(
            "results must be a fitted search, its cv_results_, or a mapping from values of "
            f"{param!r} to scores; got {type(results).__name__}."
        )
    if "params" in results:
        return Table(_searched(results, param, "score"), "score", None)
    given = {float(value): _scores(found) for value, found in results.items()}
    return Table(dict(sorted(given.items())), "score", None)


def _searched(results: Mapping[str, Any], param: str, kind: str) -> dict[float, np.ndarray]:
    """Return the splits' scores of the candidate with the best mean, at each value."""
    if f"param_{param}" not in results:
        searched = [key.removeprefix("param_") for key in results if key.startswith("param_")]
        raise ValueError(f"param={param!r} was not searched; this search has {searched!r}.")
    values = np.asarray([p[param] for p in results["params"]], dtype=float)
    splits = [key for key in results if key.startswith("split") and key.endswith(f"_test_{kind}")]
    if not splits:
        raise ValueError(f"The results have no test scores named {kind!r}.")
    table = np.column_stack([results[key] for key in splits])
    return {float(v): max(table[values == v], key=np.mean) for v in np.unique(values)}


def _scores(found: Any) -> np.ndarray:
    """Return the scores of one cross-validation: an array, or what ``cross_validate`` returned."""
    if isinstance(found, Mapping):
        if "test_score" not in found:
            raise ValueError(
                'Each result of cross_validate must have "test_score" (one metric); got '
                f"{list(found)!r}."
            )
        found = found["test_score"]
    return np.atleast_1d(np.asarray(found, dtype=float))


def predicted_scores(
    y_true: Any, y_pred: Mapping[Any, Any], metric: Callable[..., float] | None
) -> tuple[dict[float, float], str]:
    """Return the score of each model's predictions, and its name."""
    if metric is None:
        metric = r2_score if np.asarray(y_true).dtype.kind == "f" else accuracy_score
    names = {"r2_score": "R²"}
    name = getattr(metric, "__name__", "score")
    score = {float(value): float(metric(y_true, p)) for value, p in y_pred.items()}
    return score, names.get(name, name.replace("_score", "").replace("_", " "))


def default_score(estimator: Any) -> str:
    """Return what an estimator's own score is called."""
    return "accuracy" if is_classifier(estimator) else "R²"
