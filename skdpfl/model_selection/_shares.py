"""The parts of a pipeline's budget: which steps pay, their shares, what is left to the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpfl._arguments import check_share, is_auto
from skdpfl._functions import WAYS_OUT, Declared, name_of
from skdpfl._pipelines import check_columns_are_named, is_declared, learns_nothing
from skdpfl.choosing import relation
from skdpfl.model_selection._wrapped import steps_before_last
from skdpfl.privacy.spending.recording import Recorded

#: what all steps before the last have together, as a share of the squared Gaussian budget: it
#: leaves the last step sqrt(0.9) of its own, noise that is 5 % larger
_BEFORE = 0.1
#: the search for the last step's epsilon ends here
_CLOSE = 1.003


def paying_steps(model: Pipeline) -> dict[str, Any]:
    """Return the steps before the last that pay, by path."""
    steps = steps_before_last(model)
    return {p: step for p, step in steps if isinstance(step, Recorded) and not learns_nothing(step)}


def check_paid(model: Pipeline, public: Declared, X: Any) -> None:
    """Refuse pipelines with a step that learns unpaid, unless it is a function that is declared."""
    check_columns_are_named(model, public)
    for path, step in steps_before_last(model):
        if is_declared(step, path, public, X) or learns_nothing(step) or isinstance(step, Recorded):
            continue
        if isinstance(step, FunctionTransformer):
            name = path.rsplit("__", 1)[-1]
            raise ValueError(
                f"{path}: {name_of(step)} is given all records at once and may mix them, and "
                f"nothing pays for that. {WAYS_OUT.format(public=f'public=[{name!r}]')}"
            )
        raise ValueError(
            f"{path}: {type(step).__name__} learns from the records, and nothing pays for it. "
            "Use a transformer of skdpfl.preprocessing, declare what it needs (categories, "
            "constants), or give FrozenEstimator(fitted) if it was fitted on public data."
        )
    public.check()


def check_steps(last: Any, paying: Mapping[str, Any]) -> None:
    """Refuse pipelines whose steps' costs do not add up."""
    if paying and last.unit != "record":
        raise ValueError(
            f"Transformers protect records, and unit={last.unit!r} of the last step protects "
            "silos: their costs do not add up. Use declared bounds, constants and categories."
        )
    others = [p for p, step in paying.items() if not has_relation(step)]
    if others and relation(last.neighbours, "record", last.trust) != "replace":
        raise ValueError(
            f"{others[0]} is priced for neighbours='replace', the last step for "
            f"neighbours={last.neighbours!r}: their costs do not add up."
        )


def has_relation(step: Any) -> bool:
    """Tell whether the step can be priced under another neighbouring relation than its own."""
    return "neighbours" in step.get_params(deep=False)


def takes_silos(before: Pipeline) -> bool:
    """Tell whether some step before the last is told the silos by routing."""
    return any(isinstance(step, Recorded) for _, step in steps_before_last(before, whole=True))


def shares_of(given: Any, paths: list[str]) -> dict[str, float]:
    """Return each path's share of the squared Gaussian budget."""
    if is_auto(given):
        return dict.fromkeys(paths, _BEFORE / max(1, len(paths)))
    if not isinstance(given, Mapping) or set(given) != set(paths):
        raise ValueError(
            f'shares must be "auto", or a mapping with a share for each of {paths!r}; got '
            f"{given!r}."
        )
    shares = {path: check_share(f"shares[{path!r}]", given[path]) for path in paths}
    if sum(shares.values()) >= 1:
        raise ValueError(f"shares must leave something to the last step; got {given!r}.")
    return shares


def largest(price: Callable[[float], float], epsilon: float) -> float:
    """Return the largest epsilon of the last step at which all steps are within the budget."""
    if math.isinf(epsilon) or price(epsilon) <= epsilon:
        return epsilon
    low, high = 0.0, epsilon
    while not low or high / low > _CLOSE:
        middle = math.sqrt(low * high) if low else high * 0.9
        low, high = (middle, high) if price(middle) <= epsilon else (low, middle)
        if high < 1e-3 * epsilon:
            raise ValueError(
                f"epsilon={epsilon:g} is too little for the steps of this pipeline: declare "
                "bounds, constants and categories, which cost nothing, or give smaller shares."
            )
    return low
