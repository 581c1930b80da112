"""A silo's records, its name, and what its operator declares about them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from skdpfl._arguments import labels_of
from skdpfl._declarations import encoding_elsewhere
from skdpfl._survival_times import read_survival
from skdpfl._warnings import refusing_complex
from skdpfl.encoding import EncodedColumn, Encoding
from skdpfl.federation import rows_of_persons
from skdpfl.losses import signed_times
from skdpfl.models import ExpandedTable
from skdpfl.remote._letters import Ask, Facts, check_learnt, looked_for
from skdpfl.remote._terms import Refused
from skdpfl.silos import read_persons

#: rows that are checked at a time: a mapped file may be larger than memory
_BLOCK = 2**16


class SiloRecords:
    """The records of one silo.

    Parameters
    ----------
    name : str
        The silo's name, which is its identity on any machine.
    X : array-like or DataFrame of shape (n, n_features)
        Features. Rows must have the same order each time they are loaded.
    y : array-like of shape (n,), optional
        Labels or numbers; None for transformers, which do not use them. For survival models events
        and times: a structured array of one bool and one number, or a frame of these.
    classes : sequence, optional
        All possible labels, from public knowledge, including labels that no record here has; None
        for regression. A fit's classes are compared with these, never with the labels in the
        records.
    feature_names : sequence of str, optional
        The features' names; by default a frame's columns.
    sample_weight : array-like of shape (n,), optional
        Each record's weight, at least 0. Its loss is multiplied by it before the gradient is
        clipped. Weights cost nothing if each depends on its own record only.
    exposure : array-like of shape (n,), optional
        Each record's exposure, above 0, for fits of rates (``Schema(exposure=True)``).
    raw : bool, default=False
        Whether X is a raw table, with text and missing values, for imputers and encoders
        (``Schema(..., dtype="object")``); models need numbers.
    columns : mapping, default=None
        The columns of a frame that holds not only numbers: each one's range, levels or kind, which
        is public and the same at all silos (``Schema(..., columns=...)``). Where only the kind is
        declared, levels and ranges are those of the fit, or found within its budget. A value that
        is not of its column's kind is a gap. ``neutral`` may then have any values; None: gaps.
    neutral : mapping, default=None
        Columns that this silo does not have, each with a public number that all its records get.
        With the middle of the column's ``feature_bounds``, a linear model learns nothing about the
        column here. In a raw table None means missing values. A fit with a column that is neither
        in X nor in ``neutral`` is refused before anything is charged.
    persons : array-like of shape (n,), optional
        The id of each record's person, for fits with ``unit="person"``. The number of persons is
        public then; ids and numbers of their records stay secret. Ids are not compared between
        silos: the fit declares in how many silos a person has records at most
        (``silos_per_person``). Terms with ``unit="person"`` (:class:`~skdpfl.remote.Terms`) refuse
        fits that protect single records, as these make the number of records public.

    Examples
    --------
    >>> from skdpfl.remote import SiloRecords
    >>> SiloRecords("north", [[1.0, 2.0], [3.0, 4.0]], [0, 1], classes=[0, 1])
    SiloRecords('north', 2 features)

    Visits of persons, with the time that each covers:

    >>> each = {"persons": ["a", "a", "b"], "exposure": [0.5, 1.0, 1.0]}
    >>> SiloRecords("north", [[1.0], [2.0], [3.0]], [0, 2, 1], **each)
    SiloRecords('north', 1 features)
    """

    def __init__(
        self,
        name: str,
        X: Any,
        y: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        feature_names: Sequence[str] | None = None,
        sample_weight: Any = None,
        exposure: Any = None,
        raw: bool = False,
        columns: Mapping[str, Any] | None = None,
        neutral: Mapping[str, Any] | None = None,
        persons: Any = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"A silo's name must be a string; got {name!r}.")
        owners = X  # whose index persons are compared with
        #: the columns of a frame as declared
        self.declared = None if columns is None else encoding_elsewhere(columns)
        if self.declared is not None:
            self._frame, self._more = X, dict(neutral or {})
            X, feature_names, raw = self.declared.typed(X), list(self.declared), True
        if feature_names is None and hasattr(X, "columns"):
            feature_names = list(X.columns)
        self.name, self.X = name, _anything(X) if raw else _numbers(np.asarray(X))
        self.y, self.survival = _targets_of(np.zeros(len(self.X)) if y is None else y)
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        if self.X.ndim != 2 or self.y.shape != (len(self.X),) or not len(self.X):
            raise ValueError("X must be a table with rows, and y must have one entry per row.")
        blocks = (self.X[i : i + _BLOCK] for i in range(0, len(self.X), _BLOCK))
        if not raw and not all(np.isfinite(rows).all() for rows in blocks):
            raise ValueError(
                "X holds values that are missing or not finite: fill them in, or give raw=True."
            )
        self.neutral = _read_neutral(neutral, self.feature_names, raw)
        self.classes = None if classes is None else tuple(labels_of(classes).tolist())
        if self.classes is not None:
            self._check_targets()
        self.sample_weight = self._each("sample_weight", sample_weight, positive=False)
        if exposure is not None and (self.survival or self.classes is not None):
            raise ValueError("exposure is for targets that are numbers.")
        self.exposure = self._each("exposure", exposure, positive=True)
        read = read_persons(persons, len(self.X), owners)
        #: each record's person, by number in the order of ids; None if not known
        self.of_row = None if read is None else read.codes
        self.n_persons = None if read is None else len(rows_of_persons(read.codes))

    def _check_targets(self) -> None:
        if self.survival:
            raise ValueError("classes are those of labels; y has events and times.")
        classes = list(self.classes or ())
        known = set(classes)
        others = [i for i, label in enumerate(self.y) if label not in known]
        if others:
            raise ValueError(
                f"y holds labels that are not among classes {classes}: in {len(others)} "
                f"row(s), the first is row {others[0]}."
            )

    def _each(self, name: str, values: Any, *, positive: bool) -> np.ndarray | None:
        """Return a number for each record, if any."""
        if values is None:
            return None
        numbers, words = np.asarray(values, np.float64), "above" if positive else "of at least"
        fine = np.isfinite(numbers) & (numbers > 0 if positive else numbers >= 0)
        if numbers.shape != self.y.shape or not fine.all():
            raise ValueError(
                f"{name} must be one finite number {words} 0 for each of the {len(self.y)} records."
            )
        limits = np.finfo(np.float64 if self.X.dtype == object else self.X.dtype)
        low = limits.tiny if positive else 0.0
        return np.clip(numbers, low, limits.max).astype(limits.dtype)

    def __repr__(self) -> str:
        return f"SiloRecords({self.name!r}, {self.X.shape[1]} features)"

    def check(
        self, facts: Facts, purposes: Any = (), *, is_fit: bool = True, unit: str = "record"
    ) -> None:
        """Raise unless the records match the declared facts; the text reveals no record.

        It depends only on the number of records (or of persons, if these are protected), if the fit
        declares one, on the ``purposes`` of its sums, and on what the operator declared.
        """
        facts.check()
        if self.sample_weight is not None and "intervals" in purposes:
            raise Refused("Intervals are unweighted; this silo's records have weights.")
        if self.declared is not None:
            self._check_frame(self.declared, facts.columns)
        elif facts.columns is None:
            self._check_columns(facts)
        times, exposure = facts.horizon is not None, self.exposure is not None
        if not is_fit and exposure and "score" in purposes:
            raise Refused("Scores read no exposures, which this silo's records have.")
        n_units = self.n_persons if unit == "person" else len(self.y)
        dtype = self.X.dtype.name if self.declared is None else facts.dtype
        declared = {  # by the fit, and by this silo's operator
            "columns of frames": (facts.columns is not None, self.declared is not None),
            "dtypes of features": (facts.dtype, dtype),
            "classes": (facts.classes, self.classes),
            "events and times": (times, self.survival if is_fit or times else times),
            "exposures": (facts.exposure, exposure if is_fit else facts.exposure),
            "targets": (True, facts.classes is not None or self.y.dtype.kind in "fiu"),
            "persons": (unit == "person", unit == "person" and self.n_persons is not None),
            f"numbers of {unit}s": (n_units if facts.n_units is None else facts.n_units, n_units),
        }
        for what, (asked, own) in declared.items():
            if asked != own:
                raise Refused(f"The fit and this silo's operator declared different {what}.")

    def _check_frame(self, own: Encoding, asked: tuple[EncodedColumn, ...] | None) -> None:
        """Raise unless a fit's columns are those that the operator declared."""
        if asked is None:
            raise Refused(
                "This silo holds a frame with declared columns, for Schema(columns=...); other "
                "sums need a table of numbers, or SiloRecords(raw=True)."
            )
        check_names(own, self._more, [column.name for column in asked])
        for column in asked:
            if column.name in own and not _agree(own[column.name], column):
                raise Refused(f"This silo's operator declared another column {column.name!r}.")

    def _check_columns(self, facts: Facts) -> None:
        """Raise unless each of the fit's columns is in X, in the same order, or neutral."""
        own, asked = self.feature_names, facts.feature_names
        if own is None or asked is None:
            if self.neutral:
                raise Refused("The fit names no features, so neutral columns cannot be matched.")
            if facts.n_features != (n := self.X.shape[1]):
                raise Refused(f"The fit has {facts.n_features} features, this silo {n}.")
            return
        check_names(own, self.neutral, asked)
        if own != tuple(name for name in asked if name in own):
            raise Refused("The fit has this silo's columns in another order.")

    def columns_of(self, ask: Ask, facts: Facts) -> Facts:
        """Return public facts of the columns that a letter reads, or refuse it; no record is read.

        These are the fit's columns, or those of a frame with unknown levels or ranges.
        """
        if self.declared is None or facts.columns is None:
            return facts
        offered = Encoding(facts.columns)
        if ask.columns is not None:
            check_learnt(offered, Encoding(ask.columns))
            return facts
        if ask.purpose == "round" or ask.task is not None:
            raise Refused("The letter does not say how frames are encoded.")
        width = len(looked_for(offered, of_words=(words := _of_words(ask))))
        dtype: Literal["object", "float64"] = "object" if words else "float64"
        return replace(facts, n_features=width, classes=None, dtype=dtype)

    def table(self, ask: Ask, facts: Facts) -> np.ndarray | ExpandedTable:
        """Return the columns that a letter reads, which :meth:`columns_of` accepted."""
        if self.declared is None or facts.columns is None:
            return self.features(facts)
        if ask.columns is not None:
            encoding, frame = Encoding(ask.columns), self._with_neutral(ask.columns)
            return ExpandedTable.of_parts(encoding.parts(frame), encoding, len(self.X))
        asked = looked_for(Encoding(facts.columns), of_words=_of_words(ask))
        values = asked.typed(self._with_neutral(facts.columns))
        return values if _of_words(ask) else values.astype(np.float64)

    def _with_neutral(self, asked: tuple[EncodedColumn, ...]) -> Any:
        """Return the frame, with neutral values for missing columns."""
        lacking = [each for each in asked if each.name not in (self.declared or ())]
        return _Widened(self._frame, self._more) if lacking else self._frame

    def features(self, facts: Facts) -> np.ndarray:
        """Return the fit's columns; missing ones hold their neutral numbers."""
        if not self.neutral or facts.feature_names is None:
            return self.X
        own = dict(zip(self.feature_names or (), self.X.T, strict=True))
        table = np.empty((len(self.X), len(facts.feature_names)), self.X.dtype)
        for j, name in enumerate(facts.feature_names):
            table[:, j] = own[name] if name in own else self.neutral[name]
        return table

    def targets(self, facts: Facts) -> np.ndarray:
        """Return the targets for losses: codes of sorted classes, numbers, or times with signs."""
        dtype: Any = np.float64 if self.X.dtype == object else self.X.dtype
        if self.survival and facts.horizon is not None:
            signed = signed_times(~np.signbit(self.y), np.abs(self.y), facts.horizon)
            return signed.astype(dtype)
        if facts.classes is None:
            limits = np.finfo(dtype)
            return np.clip(self.y.astype(dtype), limits.min, limits.max)
        classes = np.unique(np.asarray(facts.classes))
        codes = np.searchsorted(classes, self.y)
        return codes.astype(np.int8 if len(classes) == 2 else np.min_scalar_type(len(classes)))


def check_names(own: Collection[Any], neutral: Collection[Any], asked: Collection[Any]) -> None:
    """Raise unless each asked column is one of a silo's own or neutral ones, and all own are."""
    lacking = [name for name in asked if name not in own and name not in neutral]
    if lacking:
        more = ", ..." if len(lacking) > 5 else ""
        raise Refused(
            f"This silo has no column {', '.join(map(repr, lacking[:5]))}{more}: leave it out, or "
            f"let its operator give a value, SiloRecords(..., neutral={{{lacking[0]!r}: ...}})."
        )
    if not set(own) <= set(asked):  # whoever asks does not learn their names
        raise Refused("This silo's table has a column that the fit does not have.")


class _Widened:
    """A frame with additional columns, each with a constant value."""

    def __init__(self, frame: Any, more: Mapping[Any, Any]) -> None:
        self._frame, self._more = frame, more
        self.columns = [*frame.columns, *more]

    def __len__(self) -> int:
        return len(self._frame)

    def __getitem__(self, name: Any) -> Any:
        if name not in self._more:
            return self._frame[name]
        return pd.Series([self._more[name]] * len(self), dtype=object)


def _agree(own: EncodedColumn, asked: EncodedColumn) -> bool:
    """Whether a fit's column is the declared one; levels or ranges left open may be anything."""
    if own.kind != asked.kind or not own.is_known:
        return own.kind == asked.kind
    levels = [[(type(v), v) for v in column.levels or ()] for column in (own, asked)]
    return levels[0] == levels[1] and (own.range, own.start) == (asked.range, asked.start)


def _of_words(ask: Ask) -> bool:
    return bool(getattr(ask.content, "of_words", False))


def _targets_of(y: Any) -> tuple[np.ndarray, bool]:
    """Return targets, and whether they are times, with the sign - where there is no event."""
    if not hasattr(y, "columns") and getattr(getattr(y, "dtype", None), "names", None) is None:
        return np.asarray(y), False
    event, time = read_survival(y)
    return np.where(event, 1.0, -1.0) * np.abs(time), True


def _read_neutral(declared: Any, names: tuple[str, ...] | None, raw: bool) -> dict[str, Any]:
    """Return the neutral numbers of columns that a silo lacks."""
    neutral = {str(name): value for name, value in (declared or {}).items()}
    if neutral and names is None:
        raise ValueError("neutral needs column names: give feature_names, or X as a frame.")
    for name, value in neutral.items():
        if name in (names or ()):
            raise ValueError(f"The column {name!r} is both in neutral and in X.")
        number = isinstance(value, int | float) and math.isfinite(value)
        if not (raw and (value is None or isinstance(value, str))) and not number:
            raise ValueError(f"neutral[{name!r}] must be a finite number; got {value!r}.")
    return neutral


def _anything(X: Any) -> np.ndarray:
    """Return a table of text, numbers and missing values; errors quote no value."""
    table = np.asarray(X, dtype=object)
    plain = str | bool | np.bool_ | int | float | np.integer | np.floating | None
    known = [isinstance(value, plain) or value is pd.NA for value in table.ravel().tolist()]
    if not all(known):
        raise ValueError("A raw table may hold text, numbers, True, False, None and NaN only.")
    table[pd.isna(table)] = None
    return table


def _numbers(values: np.ndarray) -> np.ndarray:
    """Return a table as floats; errors quote no value."""
    try:
        if values.dtype.kind not in "mMc":  # dates would be counts of nanoseconds
            with refusing_complex():
                wide = values.dtype != np.float32
                return values.astype(np.float64, copy=False) if wide else values
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        pass
    raise ValueError("X holds text, dates or complex numbers: encode them, or declare columns.")
