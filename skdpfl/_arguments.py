"""Arguments with one wording of errors: the name, what would be right, what was given."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
    words: str = "",
) -> float:
    """Return a real number within its range, or say what the range is."""
    left, right = ("(" if open_low else "["), (")" if open_high else "]")
    wanted = f"a number in {left}{low:g}, {high:g}{right}"
    fine = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    fine = fine and (value > low if open_low else value >= low)
    fine = fine and (value < high if open_high else value <= high)
    if not fine:
        raise ValueError(f"{name} must be {wanted}{words}; got {value!r}.")
    return float(value)


def check_positive(name: str, value: Any, words: str = "") -> float:
    """Return a positive finite number, or say what is wrong."""
    return check_number(name, value, low=0, open_low=True, open_high=True, words=words)


def check_not_negative(name: str, value: Any, words: str = "") -> float:
    """Return a finite number of at least 0, or say what is wrong."""
    return check_number(name, value, low=0, open_high=True, words=words)


def check_rate(name: str, value: Any, words: str = "") -> float:
    """Return a number in (0, 1], or say what is wrong."""
    return check_number(name, value, low=0, high=1, open_low=True, words=words)


def check_share(name: str, value: Any, words: str = "") -> float:
    """Return a number in (0, 1), or say what is wrong."""
    return check_number(name, value, low=0, high=1, open_low=True, open_high=True, words=words)


def check_count(
    name: str, value: Any, *, low: int = 1, high: int | None = None, words: str = ""
) -> int:
    """Return an integer in [low, high], or say what is wrong."""
    fine = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not fine or int(value) < low or (high is not None and int(value) > high):
        limit = f"of at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be an integer {limit}{words}; got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> Any:
    """Return the value if it is one of the choices, or say what they are."""
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator from None, an int, a RandomState or a Generator; nothing private."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise ValueError(
        "random_state must be None, an int >= 0, a RandomState or a Generator; "
        f"got {random_state!r}."
    )


def is_auto(value: Any) -> bool:
    """Tell whether a parameter was left to us."""
    return isinstance(value, str) and value == "auto"


def _dense_size(X: Any) -> str:
    """Return what a dense copy takes, in words."""
    megabytes = X.shape[0] * X.shape[1] * 8 / 1e6
    return f"{megabytes / 1e3:.1f} GB" if megabytes >= 1e3 else f"{megabytes:.1f} MB"


def refuse_sparse(X: Any) -> None:
    """Raise for sparse matrices."""
    if issparse(X):
        raise TypeError(
            "Sparse X is not supported, dense data is required: every record is scaled and clipped "
            f"as a dense row, and all rows stay in memory ({_dense_size(X)} here). Use "
            "OneHotEncoder(sparse_output=False) where an encoder made it sparse, or X.toarray()."
        )
    if isinstance(X, pd.DataFrame) and _all_sparse(X):
        raise TypeError(
            "A frame of sparse columns is not supported, dense data is required: "
            f"X.sparse.to_dense() ({_dense_size(X)} here)."
        )


def _all_sparse(X: pd.DataFrame) -> bool:
    return len(X.columns) > 0 and all(isinstance(dtype, pd.SparseDtype) for dtype in X.dtypes)


def check_average(value: Any) -> bool | float:
    """Return which rounds' models are averaged, as Python's own type; raise if it says nothing.

    True is not one round and 1 is not a share: the type says what is meant.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, Integral) and int(value) >= 1:
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and 0 < float(value) < 1:
        return float(value)
    raise ValueError(
        "average must be True or False, a share of the rounds in (0, 1), or a number of last "
        f"rounds (an integer of at least 1); got {value!r}."
    )
