"""The parameters that a private fit had.

The costs of discarded fits follow from parameters. These can be changed after the fit
(``search.estimator.set_params(epsilon=0.1)``), and then describe a fit that never happened. So
every private fit stores digests of its own, to compare.
"""

import hashlib
import marshal
import pickle
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

#: parameters on which no cost depends, of any object
_FREE = ("memory", "n_jobs", "steps", "verbose")

Digests = Mapping[str, str]


@dataclass(frozen=True)
class AsFitted:
    """Digests of an estimator's parameters at its fit, and whether its records had weights.

    Weights that metadata routing passes under another name do not count: bagging then copies the
    rows that it draws.
    """

    own: Digests
    weighted: bool

    @classmethod
    def of(cls, estimator: Any, *, weighted: bool) -> "AsFitted":
        """Return the digests of an estimator that is being fitted."""
        if weighted:
            asked = estimator.get_metadata_routing().fit.requests.get("sample_weight")
            weighted = not isinstance(asked, str)
        return cls(own_digests(estimator), weighted)


def own_digests(estimator: Any) -> dict[str, str]:
    """Return digests of an estimator's parameters, except n_jobs and the like."""
    parameters = estimator.get_params(deep=False)
    return {name: _digest(value) for name, value in parameters.items() if name not in _FREE}


def differences(before: Digests, now: Digests) -> list[str]:
    """Return the names whose values differ."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _digest(value: Any) -> str:
    """Return a digest of a parameter's value; the same for copies."""
    return hashlib.sha256(repr(_plain(value)).encode()).hexdigest()[:16]


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


def _kind(obj: Any) -> str:
    """Return the class of an object."""
    return f"{type(obj).__module__}.{type(obj).__qualname__}"
