"""Checks of arguments and data, and the wording of their errors.

An error names the argument, what would be valid and what was given. Advice on data learns nothing
from the records. For missing values scikit-learn advises an imputer; one that learns a mean from
the records would cost privacy that is not accounted for. Whether a column holds numbers is public,
and the error itself makes public that a value is missing. Numbers in texts are rounded towards less
privacy, not to the nearest.
"""

import math
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from skdpfl._warnings import refusing_complex


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
    """Return a real number within its range; raise an error that states the range otherwise."""
    fine = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    fine = fine and (value > low if open_low else value >= low)
    fine = fine and (value < high if open_high else value <= high)
    if not fine:
        left, right = ("(" if open_low else "["), (")" if open_high else "]")
        wanted = f"a number in {left}{low:g}, {high:g}{right}"
        raise ValueError(f"{name} must be {wanted}{words}; got {value!r}.")
    return float(value)


def check_positive(name: str, value: Any, words: str = "") -> float:
    """Return a positive finite number, or raise."""
    return check_number(name, value, low=0, open_low=True, open_high=True, words=words)


def check_not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0, or raise."""
    return check_number(name, value, low=0, open_high=True)


def check_rate(name: str, value: Any, words: str = "") -> float:
    """Return a number in (0, 1], or raise."""
    return check_number(name, value, low=0, high=1, open_low=True, words=words)


def check_share(name: str, value: Any, words: str = "") -> float:
    """Return a number in (0, 1), or raise."""
    return check_number(name, value, low=0, high=1, open_low=True, open_high=True, words=words)


def check_count(
    name: str, value: Any, *, low: int = 1, high: int | None = None, words: str = ""
) -> int:
    """Return an integer in [low, high], or raise."""
    fine = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not fine or int(value) < low or (high is not None and int(value) > high):
        limit = f"of at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be an integer {limit}{words}; got {value!r}.")
    return int(value)


def check_flags(**flags: Any) -> None:
    """Raise unless all values are True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_ | Integral):
            raise ValueError(f"{name} must be True or False; got {value!r}.")


def check_choice(name: str, value: Any, choices: Collection[Any]) -> Any:
    """Return the value if it is one of the choices; raise an error that lists them otherwise."""
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator from ``random_state``, for draws that protect nothing."""
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
    """Whether a parameter is "auto"."""
    return isinstance(value, str) and value == "auto"


def labels_of(classes: Any) -> np.ndarray:
    """Return the labels of a parameter ``classes``, sorted, each once."""
    axes = getattr(classes, "ndim", 1)
    if isinstance(classes, str) or not isinstance(classes, Iterable) or axes == 0:
        raise ValueError(f"classes must be a list of labels; got {classes!r}.")
    labels = list(classes)
    if pd.isna(np.asarray(labels, object)).any():
        raise ValueError(f"classes must not hold missing values; got {labels!r}.")
    try:
        return np.unique(np.asarray(labels))
    except TypeError:
        raise ValueError(
            f"classes must be labels of one kind, numbers or text; got {labels!r}."
        ) from None


def codes_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return each label's place among ``classes``, which are in any order and hold it."""
    order = np.argsort(classes, kind="stable")
    return np.asarray(order[np.minimum(np.searchsorted(classes[order], y), len(classes) - 1)])


def _dense_size(X: Any) -> str:
    """Return the size of a dense copy as text."""
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
    kinds = list(X.dtypes) if isinstance(X, pd.DataFrame) else []
    if kinds and all(isinstance(kind, pd.SparseDtype) for kind in kinds):
        raise TypeError(
            "A frame of sparse columns is not supported, dense data is required: "
            f"X.sparse.to_dense() ({_dense_size(X)} here)."
        )


def check_average(value: Any) -> bool | float:
    """Return the parameter ``average`` as a bool, a float or an int, or raise.

    The type says what is meant: True is not one round, and 1 is not a share.
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


def advising(X: Any, y: Any = None, *, declares: bool = False) -> AbstractContextManager[None]:
    """Explain errors caused by text, missing values or missing labels; pass others on.

    ``declares``: whether kinds of columns can be declared in feature_bounds.

    NumPy and scikit-learn quote the value that they cannot read. A record's values must not appear
    in an error, nor in its ``__cause__``. So the error names positions, and has no cause.
    """
    inputs = (X,) if y is None else (X, y)
    return _instead(lambda e: _advice(X, y, e, declares) or _without_values(X, y, e), *inputs)


def naming_no_values(values: Any, name: str) -> AbstractContextManager[None]:
    """Raise conversion errors without the values that NumPy quotes."""
    return _instead(lambda error: _without_values(values, None, error, name), values)


@contextmanager
def _instead(words: Callable[[Exception], str | None], *inputs: Any) -> Iterator[None]:
    """Raise errors of conversion in other words, without the original; None: as they are."""
    real = all(type(each) is np.ndarray and each.dtype.kind in "biuf" for each in inputs)
    message = None
    try:
        with nullcontext() if real else refusing_complex():
            yield
    except Exception as error:
        usual = isinstance(error, (TypeError, ValueError, np.exceptions.ComplexWarning))
        message = words(error) if usual or _is_of_value(error) else None
        if message is None:
            raise
    if message is not None:
        raise ValueError(message) from None


#: how errors begin that go on with a value
_QUOTING = ("could not convert", "Complex data not supported", "Casting complex", "complex() arg",
            "invalid literal")  # fmt: skip


#: packages that read tables, whose errors are no value's own
_READERS = ("skdpfl", "sklearn", "numpy", "scipy", "pandas", "polars", "pyarrow", "narwhals")


def _is_of_value(error: Exception) -> bool:
    """Whether a value's own conversion raised an error: its words may be the record's."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").partition(".")[0] not in _READERS


def _without_values(X: Any, y: Any, error: Exception, name: str = "X") -> str | None:
    """Return an error's text with the value's position instead; None if it quotes no value."""
    message = str(error)
    is_object = message.startswith("float() argument")
    quotes = message.startswith(_QUOTING)
    if not (quotes or is_object or _is_of_value(error)):
        return None
    gap = pd.NA if message.endswith("'NAType'") else pd.NaT
    start = "Complex data not supported: " if "omplex" in message else ""
    for called, values in ((name, X), ("y", y)):
        table = np.atleast_1d(np.asarray([] if values is None else values, dtype=object))
        strange = np.vectorize(lambda v: v is gap or not _is_number(v), otypes=[bool])(table)
        for place in zip(*np.nonzero(strange), strict=True):
            where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
            kind = type(table[place]).__name__
            advice = " Gaps of numbers are NaN." if table[place] is gap else ""
            if is_object and values is X and hasattr(X, "shape") and not advice:
                return None  # scikit-learn's own words
            return f"{start}{called} must hold numbers; it holds a {kind} in {where}.{advice}"
    return f"{start}{name} holds a value that is not a number." if quotes else None


def _is_number(value: Any) -> bool:
    """Tell whether a value can be read as a real number."""
    if isinstance(value, complex | np.complexfloating):
        return False
    try:
        float(value)
    except Exception:  # a class of its own may raise anything
        return value is None or value is pd.NA
    return True


def host_and_port(address: str) -> tuple[str, str]:
    """Return the parts of HOST:PORT; raise for other text."""
    if not (parts := re.fullmatch(r"(\[.+\]|[^:]+):([0-9]{1,5})", address)):
        raise ValueError(f"{address!r} is not HOST:PORT, as in server.example.org:7443")
    return parts[1], parts[2]


def refuse_dates(X: Any) -> None:
    """Raise for columns of dates or times, which NumPy would convert to nanoseconds."""
    columns = zip(X.columns, X.dtypes, strict=True) if hasattr(X, "dtypes") else ()
    times = ("date", "time", "duration")  # pandas' and polars' names of types, in small letters
    of = {name: getattr(getattr(dtype, "categories", 0), "dtype", dtype) for name, dtype in columns}
    if names := [name for name, dtype in of.items() if str(dtype).lower().startswith(times)]:
        raise ValueError(
            f"X has column(s) {names!r} of dates or times. Count days from a public date: "
            f"(X[{names[0]!r}] - date).dt.days."
        )


def _advice(X: Any, y: Any, error: Exception, declares: bool) -> str | None:
    """Return advice for an error; None if it needs none."""
    message = str(error)
    if message.startswith("at least one array or dtype"):  # a frame without columns
        return (
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required, in "
            "addition to the silo column if there is one."
        )
    names = [] if message.startswith("The feature names") else getattr(X, "columns", [])
    if strange := [name for name in names if not _holds_numbers(X[name])]:
        return (
            f"X has column(s) {strange!r} that hold no numbers. Leave them out, or encode "
            "them. If their categories are public, use OneHotEncoder(categories=[...], "
            "sparse_output=False); if not, skdpfl.preprocessing.DPOneHotEncoder finds them within "
            "its own epsilon. One that says which silo holds a record is silo_column."
        )
    if "X contains NaN" in message:
        return (
            "Input X contains NaN. Fill missing values with constants that are public, "
            'SimpleImputer(strategy="constant", fill_value=...), or leave such rows out. A mean or '
            "a median would be learnt from the records: skdpfl.preprocessing.DPSimpleImputer "
            "learns it within its own epsilon." + (_gaps_hint(X) if declares else "")
        )
    of_labels = isinstance(error, TypeError) or "NaN" in message or "label type" in message
    if y is not None and of_labels and np.any(pd.isna(_flat(y))):
        return "Input y contains NaN: rows without a label or target must be left out."
    unlike = isinstance(error, TypeError) and "not supported between" in message
    if y is not None and (unlike or message.startswith("Unknown label type: unknown")):
        kinds = sorted({type(label).__name__ for label in _flat(y)})
        one = kinds[0] if kinds in (["bool"], ["float"], ["int"]) else "str"
        if np.asarray(y).dtype == object and (len(kinds) > 1 or not unlike):
            return (
                "Unknown label type: y is an object array with labels of type "
                f"{' and '.join(kinds)}; convert them to one type: y.astype({one})."
            )
    of_y = y is not None and np.asarray(X).dtype.kind not in "OUS"
    if of_y and message.startswith("could not convert string to float"):
        return "A regressor needs numbers in y; got labels. Use a classifier for labels."
    return None


def _gaps_hint(X: Any) -> str:
    """Return advice to declare the kind of the first column with gaps."""
    names = [name for name in getattr(X, "columns", ()) if pd.isna(X[name].to_numpy()).any()]
    if not names:
        return ""
    return (
        f' Or declare what the column holds, feature_bounds={{{names[0]!r}: "number"}} or a range '
        "(low, high) beside it: a gap is then the middle of the range, and a flag of its own."
    )


def _holds_numbers(column: Any) -> bool:
    """Whether the non-missing values of a frame's column can be read as numbers."""
    if getattr(column, "ndim", 1) != 1:
        return True  # two columns of one name are none of our business
    present = pd.Series(column.to_numpy()).dropna().to_numpy()
    if present.dtype.kind in "cmM":
        return present.dtype.kind == "c"  # of complex numbers scikit-learn says so
    try:
        with refusing_complex():
            present.astype(np.float64)
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        return False
    return True


def _flat(y: Any) -> np.ndarray:
    """Return targets as a flat object array."""
    return np.asarray(y, dtype=object).ravel()


#: a share that binary fractions may be off, which is not rounded: 0.1 + 0.2 is 0.30
_EXACT = 1e-12


def at_most(value: float, digits: int = 3, *, decimals: int | None = None) -> str:
    """Return a number rounded up to significant digits, or to decimals if these are given."""
    return _rounded(value * (1 - _EXACT), digits, decimals, ROUND_CEILING)


def at_least(value: float, digits: int = 3, *, decimals: int | None = None) -> str:
    """Return a number rounded down to significant digits, or to decimals if these are given."""
    return _rounded(value * (1 + _EXACT), digits, decimals, ROUND_FLOOR)


def epsilon_text(epsilon: float) -> str:
    """Return an epsilon as short text, rounded up."""
    return at_most(epsilon, decimals=2) if epsilon >= 0.1 else at_most(epsilon, 2)


def _rounded(value: float, digits: int, decimals: int | None, mode: str) -> str:
    form = f".{digits}g" if decimals is None else f".{decimals}f"
    if math.isfinite(value) and decimals is None:
        value = float(Context(prec=digits, rounding=mode).create_decimal(Decimal(value)))
    elif math.isfinite(value):
        # enough digits for any float
        wide = Context(prec=400, rounding=mode)
        value = float(Decimal(value).quantize(Decimal(1).scaleb(-(decimals or 0)), context=wide))
    return format(value, form)
