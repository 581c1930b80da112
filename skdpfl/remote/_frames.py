"""A silo's frame: it becomes numbers by the public encoding of a fit, in each answer anew.

**Formal guarantee.** Each row that answers use is a function of that row of the frame and of public
numbers: before levels and ranges are known, values in the form of their column's declared kind
(:mod:`skdpfl.scaling` has the price of these sums); then the numbers of :mod:`skdpfl.encoding`, by
levels and ranges that the server sends. Those are public by then: they were declared, or follow
from what all silos released. Refusals depend on declarations only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._declarations import encoding_elsewhere
from skdpfl._kinds import in_order, is_label
from skdpfl.encoding import EncodedColumn, Encoding
from skdpfl.remote._declared import pack
from skdpfl.remote._terms import LIMITS, Refused


@dataclass(frozen=True, eq=False)
class SiloFrame:
    """A frame, what its operator declared of the columns, and the values of columns it lacks."""

    frame: Any
    declared: Encoding
    neutral: Mapping[Any, Any]

    @classmethod
    def of(cls, frame: Any, columns: Mapping[Any, Any], neutral: Any) -> SiloFrame:
        """Read the declarations; raise unless the frame has these columns."""
        return cls(frame, encoding_elsewhere(columns), dict(neutral or {}))

    def check(self, asked: tuple[EncodedColumn, ...] | None) -> None:
        """Raise unless a fit's columns are those that the operator declared."""
        if asked is None:
            raise Refused(
                "This silo holds a frame with declared columns, for Schema(columns=...); other "
                "sums need a table of numbers, or SiloRecords(raw=True)."
            )
        check_names(self.declared, self.neutral, [column.name for column in asked])
        for column in asked:
            if column.name in self.declared and not _agree(self.declared[column.name], column):
                raise Refused(f"This silo's operator declared another column {column.name!r}.")

    def values(self) -> np.ndarray:
        """Return the values as objects in the form of their kinds, for a digest."""
        return self.declared.typed(self.frame)

    def raw(self, asked: Encoding, *, of_words: bool) -> np.ndarray:
        """Return the columns with unknown levels, or else with unknown ranges."""
        values = looked_for(asked, of_words=of_words).typed(self._columns(asked))
        return values if of_words else values.astype(np.float64)

    def encoded(self, asked: Encoding) -> np.ndarray:
        """Return the numbers (n, width) of all columns."""
        return asked.encode(self._columns(asked))

    def _columns(self, asked: Encoding) -> Any:
        """Return the frame, with neutral values for missing columns."""
        lacking = [name for name in asked if name not in self.declared]
        return self.frame if not lacking else _Widened(self.frame, self.neutral)


def check_names(own: Collection[Any], neutral: Collection[Any], asked: Collection[Any]) -> None:
    """Raise unless each asked column is one of a silo's own or neutral ones, and all own are."""
    lacking = [name for name in asked if name not in own and name not in neutral]
    if lacking:
        more = ", ..." if len(lacking) > 5 else ""
        raise Refused(
            f"This silo has no column {', '.join(map(repr, lacking[:5]))}{more}: leave it out, or "
            f"let its operator give a value, SiloRecords(..., neutral={{{lacking[0]!r}: ...}})."
        )
    if not set(own) <= set(asked):  # their names are not told to whoever asks
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


def looked_for(asked: Encoding, *, of_words: bool) -> Encoding:
    """Return the columns whose levels, or else ranges, are looked for."""
    return asked.unknown(*(("category",) if of_words else ("number", "date")))


def check_columns(columns: tuple[EncodedColumn, ...], names: tuple[str, ...] | None) -> None:
    """Raise unless columns are well formed and become columns of numbers with these names."""
    encoding = Encoding(columns)
    fine = all(map(_is_well_formed, columns)) and len(set(encoding)) == len(columns) > 0
    # check the widths before making as many names
    if not fine or sum(c.width for c in columns) > len(names or ()):
        raise Refused("The kinds, ranges or levels of the fit's columns are inconsistent.")
    if tuple(encoding.names()) != names:
        raise Refused("The names of the fit's features are not those of its columns.")


def _is_well_formed(column: EncodedColumn) -> bool:
    """Whether a column's kind, levels and range are consistent."""
    levels, ends = column.levels or (), column.range or (0.0, 0.0)
    fine = isinstance(column.name, str | int) and len(str(column.name)) <= LIMITS.name
    fine &= bool(np.isfinite(ends).all()) and ends[0] <= ends[1] and abs(column.start) < 2**31
    fine &= 0 <= len(levels) <= column.width <= LIMITS.levels and all(map(is_label, levels))
    fine &= tuple(sorted(set(levels), key=in_order)) == levels
    return fine and (column.kind == "category" or not column.width)


def check_found(offered: Encoding, found: Encoding) -> None:
    """Raise unless an encoding is the offered one, with levels and ranges where it had none."""
    missing = {column.name for column in offered.columns if not column.is_known}
    new = [column for column in found.columns if column.name in missing]
    ranges, levels = {c.name: c.range for c in new}, {c.name: c.levels for c in new}
    known = offered.found(ranges, levels)
    same = pack(known.columns) == pack(found.columns)  # 1 and True are equal, but other levels
    if not same or not all(map(_is_well_formed, found.columns)):
        raise Refused("The columns differ from those of the agreed fit.")
