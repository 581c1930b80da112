"""Columns of a table as documented by its source: categories and bounds learnt from no record."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

ENCODINGS = ("auto", "raw", "ordinal", "onehot")


@dataclass(frozen=True)
class Column:
    """One feature: a number with public bounds, or one of the documented categories."""

    name: str
    bounds: tuple[float, float] | None = None
    categories: tuple = ()


def categories_of(columns: Iterable[Column]) -> dict[str, list]:
    """The documented categories of every categorical column."""
    return {c.name: list(c.categories) for c in columns if c.categories}


def encoded(
    table: pd.DataFrame, columns: Iterable[Column], encoding: str, as_frame: bool
) -> tuple[pd.DataFrame, Mapping[str, tuple[float, float]]]:
    """Give the table with categories encoded, and the bounds of its numeric columns.

    "raw" keeps categories (pandas Categorical), "ordinal" gives their position in the documented
    list, "onehot" one 0/1 column for each category but the first. "auto": "raw" in a frame,
    "onehot" in an array.
    """
    if encoding == "auto":
        encoding = "raw" if as_frame else "onehot"
    if encoding == "raw" and not as_frame:
        raise ValueError("encoding='raw' keeps strings and needs as_frame=True")
    parts: dict[str, object] = {}
    bounds: dict[str, tuple[float, float]] = {}
    for column in columns:
        for name, values, limits in _encode(table[column.name], column, encoding):
            parts[name] = values
            if limits is not None:
                bounds[name] = limits
    return pd.DataFrame(parts, index=table.index), bounds


def _encode(values: pd.Series, column: Column, encoding: str):
    """Yield (name, values, bounds) of what one column turns into."""
    if not column.categories:
        yield column.name, values.astype(float), column.bounds
        return
    codes = pd.Categorical(values, categories=list(column.categories))
    if encoding == "raw":
        yield column.name, codes, None
    elif encoding == "ordinal":
        yield (
            column.name,
            np.where(codes.codes < 0, np.nan, codes.codes),
            (0.0, len(column.categories) - 1.0),
        )
    else:
        for position, category in enumerate(column.categories[1:], start=1):
            member = np.where(codes.codes < 0, np.nan, codes.codes == position)
            yield f"{column.name}_{category}", member, (0.0, 1.0)
