"""Inner loops in C. Each is optional: if a module is None, NumPy computes the same.

``products``  matrix products of silos, and steps of one output; for x86 processors with AVX2; the
              same to rounding
``noise``     random words, normals, exact release; the same to the last bit

A module is None if it was not built (no compiler) or only from an older source, if the processor
lacks its instructions, and if the environment variable ``SKDPFL_COMPILED`` is 0. The ``.pyi`` files
document them.
"""

import os
from importlib import import_module
from typing import Any


def _load(name: str, newest: str = "") -> Any:
    """Return a module; ``newest`` is a function that builds from older sources lack."""
    if os.environ.get("SKDPFL_COMPILED") == "0":
        return None
    try:
        module = import_module(f"skdpfl._compiled.{name}")
    except ImportError:  # not built
        return None
    outdated = bool(newest) and not hasattr(module, newest)
    return module if not outdated and getattr(module, "available", lambda: True)() else None


products = _load("products", "expand")
noise = _load("noise")

__all__ = ["noise", "products"]
