"""Public names that are imported on first use, so that ``import skdpfl`` stays light."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(package: str, where: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    ``where`` tells the module within the package that has a name, or a whole path elsewhere; a name
    that is its own module stands for that module.
    """

    def getattribute(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(path_of(package, where[name]))
        return module if where[name] == name else getattr(module, name)

    def names() -> list[str]:
        return sorted(where)

    return getattribute, names


def path_of(package: str, where: str) -> str:
    """Return the path of a module that a table of :func:`lazy` names."""
    return where if where.startswith("skdpfl.") else f"{package}.{where}"
