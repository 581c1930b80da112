"""A silo's frame: it becomes numbers by the public encoding of a fit, in each answer anew.

**Formal guarantee.** Each row that answers use is a function of that row of the frame and of public
numbers: before levels and ranges are known, values in the form of their column's declared kind
(:mod:`skdpfl.scaling` has the price of these sums); then the numbers of :mod:`skdpfl.encoding`, by
levels and ranges that the server sends. Those are public by then: they were declared, or follow
from what all silos released. Refusals depend on declarations only.
"""

from __future__ import annotations

import numpy as np

from skdpfl.encoding import EncodedColumn, Encoding, in_order, is_label
from skdpfl.remote._declared import pack
from skdpfl.remote._terms import LIMITS, Refused


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
