"""Functions in pipelines: which of them treat each record by itself.

A ``FunctionTransformer`` stores nothing, but its function sees many records at once, and may mix
them: ``lambda D: D.fillna(D.mean())`` fills one record's gap with what others hold. One record then
changes what other records contribute, and the price, which is for one record's contribution, no
longer holds.

No test can show that a function does not mix records; it may do so for one value in a million. So a
function is free of cost only if it is in :data:`ENTRYWISE`, is run one row at a time
(:class:`skdpfl.preprocessing.RowTransformer`), or was declared by its user (``public=``). Tests on
made-up rows (:func:`mixes`) find declarations that are wrong.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import FunctionTransformer

from skdpfl._warnings import warnings_off

#: functions that compute each entry from that entry and constants, the same from an integer and
#: from a float, since a gap in one record turns a column of integers into floats; unary ufuncs
#: beside them
ENTRYWISE: tuple[Callable[..., Any], ...] = (
    np.around,
    np.clip,
    np.digitize,
    np.fix,
    np.interp,
    np.isin,
    np.isneginf,
    np.isposinf,
    np.nan_to_num,
    np.round,
    np.sinc,
    pd.isna,
    pd.isnull,
    pd.notna,
    pd.notnull,
)

#: ufuncs that give integers of integers, the same numbers as of floats; others wrap around
_SAME = ("ceil", "conjugate", "floor", "positive", "rint", "sign", "trunc")
#: arguments with which these are not: entries that are left out are whatever the memory holds, and
#: ``isin`` takes two equal entries for one of its list
_NOT_ALONE = frozenset({"assume_unique", "out", "where"})

#: rows of most trials; of a large one where their number is not known, and at most
_ROWS, _MANY, _MOST_ROWS = 24, 5_000, 20_000
#: columns of a function that has seen none yet
_WIDTH = 4
#: relative differences above this are no rounding
_ROUNDING = 1e-6
_WORDS = ("north", "south", "", "3", "2.5", "a rare one")
#: dates as text, in the usual orders
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S")


class Declared:
    """The steps that a user declared by ``public=``, by name or path, and all steps there are."""

    def __init__(self, *names: Collection[str]) -> None:
        each = [(part,) if isinstance(part, str) else part for part in names]
        for part in each:
            if not isinstance(part, Collection) or not all(isinstance(n, str) for n in part):
                raise ValueError(f"public must be a list of names of steps; got {part!r}.")
        self._names = frozenset(name for part in each for name in part)
        self._used, self._seen = set[str](), list[str]()

    def covers(self, path: str) -> bool:
        """Whether a step was declared, by its path or its name."""
        self._seen.append(path)
        used = self._names & {path, path.rsplit("__", 1)[-1]}
        self._used |= used
        return bool(used)

    def covers_part(self, path: str) -> bool:
        """Whether an innermost step, or one that contains it, was declared."""
        parts = path.split("__")
        return any([self.covers("__".join(parts[: i + 1])) for i in range(len(parts))])

    def check(self) -> None:
        """Raise for declared names that are not steps."""
        unknown = sorted(self._names - self._used)
        if unknown:
            raise ValueError(f"public={unknown!r} is not a step; the steps are {self._seen!r}.")


def is_entrywise(step: FunctionTransformer) -> bool:
    """Return whether a function is known to compute each entry from that entry alone.

    Ufuncs of one argument and :data:`ENTRYWISE`, with the constants that ``kw_args`` gives. Ufuncs
    with a signature (``matmul``) see several entries; those made of Python functions
    (``np.frompyfunc``) may do anything. A check of the inverse warns by the records.
    """
    if checks_inverse(step):
        return False
    func, words = step.func, dict(step.kw_args or {})
    if isinstance(func, partial) and not func.args:
        words = func.keywords | words
        func = func.func
    if _NOT_ALONE & words.keys():
        return False
    if isinstance(func, np.ufunc):
        return func.signature is None and func.nin == 1 and _is_typeless(func, words)
    if func is np.digitize or func is np.interp:
        return _increases(words.get("bins" if func is np.digitize else "xp"))
    return func is None or any(func is known for known in ENTRYWISE)


def _increases(ends: Any) -> bool:
    """Whether the numbers in which entries are searched increase.

    In unsorted ones NumPy starts each search where that of the previous entry ended.
    """
    numbers = np.asarray(() if ends is None else ends, np.float64)
    return bool((numbers[1:] >= numbers[:-1]).all())


def checks_inverse(step: FunctionTransformer) -> bool:
    """Whether a fit compares the records with what the inverse makes of them, and warns."""
    return bool(step.check_inverse and step.func is not None and step.inverse_func is not None)


def _is_typeless(func: np.ufunc, words: Mapping[str, Any]) -> bool:
    """Whether a compiled ufunc gives the same numbers of integers as of equal floats."""
    if "dtype" in words:
        return np.dtype(words["dtype"]) == np.float64
    loops = dict(each.split("->") for each in func.types if "O" not in each)
    return "d" in loops and (loops.get("l", "d") in "d?" or func.__name__ in _SAME)


def name_of(step: Any) -> str:
    """Return the name of a step's function, or of a frozen step, for messages."""
    if not isinstance(step, FunctionTransformer):
        return type(step.estimator).__name__
    name = str(getattr(step.func, "__name__", type(step.func).__name__))
    if checks_inverse(step):
        return f"{name} (whose inverse is tried on the records: give check_inverse=False)"
    return name


#: advice on a function that may mix; ``public`` is where to declare it
WAYS_OUT = (
    "Run it row by row (skdpfl.preprocessing.RowTransformer); fill gaps by DPSimpleImputer, encode "
    "categories by DPOneHotEncoder; or, if each row of its output depends on the same row of its "
    "input alone, declare it by {public}."
)


def mixes(step: FunctionTransformer, like: Any = None, n_rows: int = _MANY) -> bool:
    """Return whether a step's function mixes rows in a test on made-up rows.

    ``like``: a frame with the columns' types; ``n_rows``: how many rows the step has seen. A row's
    result must be the same whatever the other rows are and however many there are. Inputs on which
    the function raises (numbers where it expects dates) are skipped.
    """
    with warnings_off(), np.errstate(all="ignore"):
        return any(_mixes(step, rows) for rows in _made_up(step, like, n_rows))


def _mixes(step: FunctionTransformer, rows: Any) -> bool:
    n = len(rows)
    together = _called(step, rows)
    if together is None:
        return False
    if together.ndim == 0 or len(together) != n:
        return True
    few = np.arange(min(n, _ROWS))
    changed = _taken(rows, np.where(np.arange(n) == n - 1, 0, np.arange(n)))  # the last one only
    cases = [(rows, few[:1]), (rows, few[-1:]), (rows, few[: n // 2]), (rows, few[::-1])]
    if n > 1:
        cases += [(changed, np.arange(n)[: n - 1])]
    for table, places in cases:
        alone = _called(step, table if table is changed else _taken(table, places))
        if alone is None or alone.ndim == 0:
            return True
        alone = alone[: len(places)]
        if not _alike(together[places], alone):
            return True
    return False


def _called(step: FunctionTransformer, rows: Any) -> np.ndarray | None:
    """Return the function's output for some rows; None if it raises."""
    try:
        result = step.func(rows.copy(), **(step.kw_args or {}))
        result = result.toarray() if hasattr(result, "toarray") else result
        return np.asarray(result)
    except Exception:  # whatever the function does not like about made-up rows
        return None


def _taken(rows: Any, places: np.ndarray) -> Any:
    """Return some of the rows."""
    if isinstance(rows, pd.DataFrame):
        return rows.iloc[places].reset_index(drop=True)
    return rows[places]


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two results are equal up to rounding."""
    if a.shape != b.shape:
        return False
    try:
        a, b = a.astype(float), b.astype(float)
    except (TypeError, ValueError):  # words, dates
        missing = pd.isna(a) & pd.isna(b)
        return bool(np.all(missing | (a == b)))
    finite = np.where(np.isfinite(b), np.abs(b), 0.0)
    # sums of a row's entries, such as a product with a matrix, are rounded by the largest of them
    rounding = 1e-9 * (finite.max(axis=-1, keepdims=True, initial=0.0) if b.ndim > 1 else 0.0)
    return bool(np.all(np.isclose(a, b, rtol=_ROUNDING, atol=rounding, equal_nan=True)))


def _made_up(step: FunctionTransformer, like: Any, n_rows: int) -> Iterator[Any]:
    """Yield tables: plain numbers, zeros, ties, gaps, infinities, outliers, words, dates."""
    names = getattr(step, "feature_names_in_", None)
    width = len(names) if names is not None else getattr(step, "n_features_in_", _WIDTH)
    rng = np.random.default_rng(0)
    for values in _numbers(rng, width):
        yield from _tables(values, names)
    many = min(max(n_rows, _ROWS), _MOST_ROWS)
    large = 100 * rng.standard_normal((many, width))
    yield from _tables(np.where(rng.random(large.shape) < 0.05, np.nan, large), names)
    if isinstance(like, pd.DataFrame):
        known = [c for c in (like.columns if names is None else names) if c in like.columns]
        if known:
            yield _like(like[known], rng)
    if names is not None or like is not None:
        for values in _words(rng, width):
            yield _frame(values, names)


def _numbers(rng: np.random.Generator, width: int) -> Iterator[np.ndarray]:
    """Yield arrays of numbers."""
    shape = (_ROWS, width)
    plain = rng.uniform(0.1, 0.9, shape)
    yield plain
    yield np.zeros(shape)
    yield rng.integers(0, 3, shape).astype(float)  # ties
    yield rng.integers(0, 120, shape)
    for odd in (np.nan, np.inf, -np.inf, 0.0, 1e6, -1e6, 1e300):
        yield np.where(rng.random(shape) < 0.2, odd, plain)
    yield rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-4, 7, shape)
    yield np.vstack([plain[:-1], np.full((1, width), 1e4)])  # a single large one, the last
    yield np.vstack([plain[:-1], np.full((1, width), np.nan)])


def _words(rng: np.random.Generator, width: int) -> Iterator[np.ndarray]:
    """Yield arrays of text: words, some of them missing or rare, and dates."""
    shape = (_ROWS, width)
    words = np.array(_WORDS, dtype=object)[rng.integers(0, len(_WORDS) - 1, shape)]
    words[-1] = _WORDS[-1]
    yield words
    gaps = words.copy()
    gaps[rng.random(shape) < 0.3] = None
    yield gaps
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 999, _ROWS), unit="D")
    for form in _DATES:
        text = np.asarray(days.strftime(form), dtype=object)
        yield np.repeat(text[:, None], width, axis=1)
    yield np.repeat(np.asarray(days)[:, None], width, axis=1)


def _tables(values: np.ndarray, names: Any) -> Iterator[Any]:
    """Yield numbers as an array, or as a frame if the step was fitted on one."""
    yield values if names is None else _frame(values, names)
    if names is None:  # not fitted yet, or on arrays: its function may want a frame
        yield pd.DataFrame(values)


def _frame(values: np.ndarray, names: Any) -> pd.DataFrame:
    return pd.DataFrame(values, columns=names).infer_objects()


def _like(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return made-up rows with a frame's names and types, and none of its values."""
    columns = {}
    for name, dtype in frame.dtypes.items():
        numbers = rng.integers(0, 100, _ROWS)
        if isinstance(dtype, pd.CategoricalDtype):
            codes = numbers % max(1, len(dtype.categories))
            columns[name] = pd.Categorical.from_codes(
                codes if len(dtype.categories) else codes * 0 - 1, dtype=dtype
            )
        elif pd.api.types.is_datetime64_any_dtype(dtype):
            days = pd.Timestamp("2021-03-01") + pd.to_timedelta(numbers, unit="D")
            columns[name] = pd.Series(days)
        elif pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
            columns[name] = pd.Series(numbers % 2 if dtype.kind == "b" else numbers).astype(dtype)
        else:
            columns[name] = pd.Series(np.array(_WORDS, dtype=object)[numbers % len(_WORDS)])
    return pd.DataFrame(columns)
