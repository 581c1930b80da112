"""Public names are imported on first use, so that ``import skdpfl`` is fast."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def stub_names(path: Path) -> dict[str, str]:
    """Return the names that a stub file imports, each with its module."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def lazy(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list]]:
    """Return a package's ``__all__``, ``__getattr__`` and ``__dir__``.

    ``__init__.pyi`` beside the package's ``file`` has the names, for type checkers and editors too;
    a name that it imports from the package itself is a module of it.
    """
    where = stub_names(Path(file).with_suffix(".pyi"))
    names = sorted(where)

    def getattribute(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if where[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(where[name]), name)

    return names, getattribute, lambda: names
