"""Checks of plain data, field by field; the ValueError names the field that is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def require(holds: bool, where: str, what: str) -> None:
    """Raise ValueError with the field's name unless ``holds``."""
    if not holds:
        raise ValueError(f"{where} {what}.")


def keys(item: Any, expected: Iterable[str], where: str) -> None:
    """Require a mapping with these keys and no others."""
    require(isinstance(item, dict), where, "is not a mapping")
    unlike = {*item} ^ {*expected}
    require(not unlike, where, f"lacks, or should not have, {', '.join(sorted(map(str, unlike)))}")


def number(item: Any, name: Any, where: str = "report", most: float = math.inf) -> float:
    """Return a number between 0 and ``most``; "inf" is infinity."""
    value = math.inf if item[name] == "inf" else item[name]
    fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    require(fine, f"{where}.{name}", f"is no number from 0 to {most:g}")
    return float(value)


def whole(item: dict[str, Any], name: str, where: str = "report", least: int = 0) -> int:
    """Return a whole number, at least ``least``."""
    value = item[name]
    require(type(value) is int and value >= least, f"{where}.{name}", f"is no integer >= {least}")
    return int(value)


def listed(item: dict[str, Any], name: str, where: str = "report") -> list[Any]:
    """Return a list."""
    require(isinstance(item[name], list), f"{where}.{name}", "is no list")
    values: list[Any] = item[name]
    return values


def one_of(item: dict[str, Any], name: str, choices: Iterable[Any], where: str = "report") -> Any:
    """Return one of some words."""
    fine = any(type(item[name]) is type(choice) and item[name] == choice for choice in choices)
    require(fine, f"{where}.{name}", f"is none of {', '.join(map(repr, choices))}")
    return item[name]


def text_or_none(item: dict[str, Any], name: str) -> str | None:
    """Return a text, or None."""
    value: str | None = item[name]
    require(value is None or isinstance(value, str), name, "is neither text nor null")
    return value
