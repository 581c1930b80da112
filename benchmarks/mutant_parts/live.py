"""Changed code in the place of the old one: in functions at hand, or in a module on its import."""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
from collections import defaultdict
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from benchmarks.mutant_parts.sites import ROOT, Mutant, module_code

LIBRARY = str(ROOT / "skdpfl")


class Live:
    """The functions and caches of the library in this process."""

    def __init__(self) -> None:
        self._functions: dict[CodeType, list[FunctionType]] = defaultdict(list)
        self._cached = []
        for what in gc.get_objects():
            if isinstance(what, FunctionType) and what.__code__.co_filename.startswith(LIBRARY):
                self._functions[what.__code__].append(what)
            elif isinstance(what, _lru_cache_wrapper):
                self._cached.append(what)
        gc.freeze()

    def put(self, pairs: list[tuple[CodeType, CodeType]]) -> bool:
        """Give functions their new code; return whether one was found for each."""
        for old, new in pairs:
            for function in self._functions.get(old, ()):
                function.__code__ = new
        for cached in self._cached:
            if str(getattr(cached, "__module__", "")).startswith("skdpfl"):
                cached.cache_clear()
        return all(old in self._functions for old, _ in pairs)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from other code."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = ".".join(Path(mutant.file).with_suffix("").parts).removesuffix(".__init__")
        self._path, self._code = str(ROOT / mutant.file), module_code(mutant)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Return a spec of this module, none of others."""
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        spec.loader = self
        return spec

    def get_source(self, fullname: str) -> str:
        """Return the source as it was."""
        return Path(self._path).read_text()

    def get_code(self, fullname: str) -> CodeType:
        """Return the changed code."""
        return self._code
