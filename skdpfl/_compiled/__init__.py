"""Inner loops in C. Each is optional: where a module is None, NumPy does the same.

``products``  matrix products of large silos; for x86 processors with AVX2; the same to rounding
``noise``     random words, normals, exact release; the same to the last bit

They are None where they were not built (no compiler), where the processor lacks what they need, and
where the environment variable ``SKDPFL_COMPILED`` is 0. The ``.pyi`` files say what they do.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def _load(name: str) -> Any:
    if os.environ.get("SKDPFL_COMPILED") == "0":
        return None
    try:
        module = import_module(f"skdpfl._compiled.{name}")
    except ImportError:  # not built
        return None
    return module if getattr(module, "available", lambda: True)() else None


products = _load("products")
noise = _load("noise")

__all__ = ["noise", "products"]
