"""Parts of docstrings that several functions or classes share, written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def shared_docs(parts: Mapping[str, str]) -> Callable[[T], T]:
    """Return a decorator that writes parts of a docstring in place of lines with their names.

    A part begins with a line break; it replaces a line that is its name in brackets, indented by
    four spaces as the part itself.
    """

    def fill(documented: T) -> T:
        text = documented.__doc__ or ""  # none under python -OO
        for name, part in parts.items():
            text = text.replace(f"\n    [{name}]", part)
        documented.__doc__ = text
        return documented

    return fill
