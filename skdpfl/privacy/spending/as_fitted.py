"""The parameters of a fit: its own, and those of the scikit-learn objects around it.

The costs of discarded fits, and whether a step learnt anything, follow from parameters. These can
be changed after the fit (``search.estimator.set_params(epsilon=0.1)``), and then describe a fit
that never happened. So every private fit stores digests of them, to compare.
"""

import hashlib
import marshal
import pickle
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from traceback import walk_stack
from typing import Any

import numpy as np
import pandas as pd

#: parameters on which no cost depends, of any object
_FREE = ("memory", "n_jobs", "steps", "verbose")
#: parameters of meta-estimators that decide what their fits cost
_PRICED = (
    "bootstrap",
    "cv",
    "importance_getter",
    "max_features",
    "max_samples",
    "oob_score",
    "prefit",
    "threshold",
)

Digests = Mapping[str, str]


@dataclass(frozen=True)
class AsFitted:
    """Digests of parameters at the time of a fit.

    ``own``: those of the estimator. ``around``: class and parameters of the pipelines and
    meta-estimators that were fitting it. ``times``: the largest number of copies of a record.
    """

    own: Digests
    around: tuple[tuple[str, Digests], ...]
    times: int


def as_fitted(estimator: Any, times: int) -> AsFitted:
    """Return the digests for an estimator that is being fitted now."""
    return AsFitted(own_digests(estimator), tuple(_around(estimator)), times)


def own_digests(estimator: Any) -> dict[str, str]:
    """Return digests of an estimator's parameters, except n_jobs and the like."""
    given = estimator.get_params(deep=False)
    return {name: _digest(value) for name, value in given.items() if name not in _FREE}


def changed(fitted: Any) -> list[str]:
    """Return the parameters of an estimator that were changed after its fit."""
    before: AsFitted | None = getattr(fitted, "_as_fitted", None)
    return [] if before is None else differences(before.own, own_digests(fitted))


def changed_around(obj: Any, fits: Iterable[Any]) -> list[str]:
    """Return the parameters of a meta-estimator or pipeline that were changed after its fit.

    ``fits`` are the private estimators inside. If they were fitted in other processes, changes are
    unknown, and the result is empty. Those that released nothing are asked only if there is no
    other: such a step may have been fitted in another pipeline since, which changes no cost.
    """
    now, fits = _digests_around(obj), list(fits)
    found: list[str] = []
    for fitted in [each for each in fits if _released(each)] or fits:
        before: AsFitted | None = getattr(fitted, "_as_fitted", None)
        kinds = [] if before is None else [d for kind, d in before.around if kind == _kind(obj)]
        if kinds:
            unlike = [differences(digests, now) for digests in kinds]
            found += unlike[int(np.argmin([len(names) for names in unlike]))]
    return sorted(set(found))


def _released(fitted: Any) -> bool:
    """Return whether a fit gave out anything of the records."""
    return any(cost.composition for cost in fitted.privacy_spent_.costs)


def differences(before: Digests, now: Digests) -> list[str]:
    """Return the names whose values differ."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _around(estimator: Any) -> Iterator[tuple[str, Digests]]:
    """Yield class and parameters of each scikit-learn object that is fitting the estimator."""
    seen = {id(estimator)}
    for frame in _running():
        obj = frame.f_locals.get("self")
        if hasattr(obj, "get_params") and hasattr(obj, "fit") and id(obj) not in seen:
            seen.add(id(obj))
            yield _kind(obj), _digests_around(obj)


def _kind(obj: Any) -> str:
    """Return the class of an object; for pipelines, with the last step's name."""
    steps = getattr(obj, "steps", None)
    last = f" ending in {steps[-1][0]}" if isinstance(steps, list) and steps else ""
    return f"{type(obj).__module__}.{type(obj).__qualname__}{last}"


def _digests_around(obj: Any) -> dict[str, str]:
    """Return digests of what determines a cost: for a pipeline all steps but the last."""
    steps = getattr(obj, "steps", None)
    if not isinstance(steps, list) or not steps:
        given = obj.get_params(deep=False)
        return {name: _digest(given[name]) for name in _PRICED if name in given}
    last = steps[-1][0]
    return {
        name: _digest(value)
        for name, value in obj.get_params(deep=True).items()
        if name.rsplit("__", 1)[-1] not in _FREE and not f"{name}__".startswith(f"{last}__")
    }


def _digest(value: Any) -> str:
    """Return a digest of a parameter's value; the same for copies."""
    return _digest_of(repr(_plain(value)))


@lru_cache
def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return a value whose repr is complete."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, np.ndarray | pd.Index):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, pd.Series):
        return _plain(value.to_dict())
    if isinstance(value, list | tuple):
        return type(value).__name__, [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(each)) for each in value)
    if isinstance(value, Mapping):
        return [(_plain(k), _plain(v)) for k, v in value.items()]
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return _kind(value)  # its state moves on
    if isinstance(value, types.FunctionType):
        return value.__qualname__, marshal.dumps(value.__code__)
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _kind(value), sorted(own_digests(value).items())
    own = getattr(value, "__dict__", None)
    if own is not None and not isinstance(value, type):  # splitters, models, losses
        # scikit-learn's stacks give splitters without a seed one
        kept = [(k, _plain(v)) for k, v in sorted(own.items()) if k not in (*_FREE, "random_state")]
        return _kind(value), kept
    try:
        return pickle.dumps(value)
    except Exception:  # what cannot be compared: only its kind is
        return _kind(value)


# ---- what scikit-learn is doing ------------------------------------------------------------


def is_scored_exactly() -> bool:
    """Return whether scikit-learn is fitting for scores (in a search or cross-validation)."""
    return any(_running("_fit_and_score"))


#: where scikit-learn fits copies of one estimator to the same records, or parts of them
_COPYING = (
    "_fit_and_score",
    "_fit_binary",
    "_fit_calibrator",
    "_fit_classifier_calibrator_pair",
    "_fit_estimator",
    "_fit_ovo_binary",
    "_fit_single_estimator",
    "_fit_and_predict",
    "_parallel_build_estimators",
)


def runs_of_copies() -> bool:
    """Return whether scikit-learn is fitting one of several copies of an estimator."""
    return any(_running(*_COPYING))


def times_drawn() -> int:
    """Return the largest number of copies of a record that scikit-learn's bagging fits on.

    Members that take weights get the number of copies as a weight, which costs nothing.
    """
    times = 1
    for frame in _running("_parallel_build_estimators"):
        if not frame.f_locals.get("consumes_sample_weight", False):
            times *= int(np.bincount(frame.f_locals["indices"]).max())
    return times


def _running(*names: str) -> Iterator[types.FrameType]:
    """Yield the frames of scikit-learn's functions that run now, of these names if there are."""
    for frame, _ in walk_stack(sys._getframe()):
        code = frame.f_code
        if "sklearn" in code.co_filename and (not names or code.co_name in names):
            yield frame
