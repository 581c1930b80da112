"""Methods that a class does not have, with an error that says why."""

from __future__ import annotations

from typing import Any


class Missing:
    """Descriptor in place of a method; its error says why there is none, and what to do instead."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __get__(self, owner: Any, kind: type) -> Any:
        raise AttributeError(f"{kind.__name__}: {self._words}")


def not_elsewhere(instead: str) -> Missing:
    """Return what stands for ``fit_federation`` where records have to be in one place."""
    return Missing(
        "there is no fit_federation: silos elsewhere answer the questions of the estimators' own "
        f"fits only, and pay for nothing else. {instead}"
    )
