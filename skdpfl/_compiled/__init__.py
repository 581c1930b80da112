"""Inner loops in C. Each is optional: where a module is None, NumPy does the same.

``products``  matrix products of silos, and a step of one output; for x86 processors with AVX2; the
              same to rounding
``noise``     random words, normals, exact release; the same to the last bit

They are None where they were not built (no compiler) or only from an older source, where the
processor lacks what they need, and where the environment variable ``SKDPFL_COMPILED`` is 0. The
``.pyi`` files say what they do.
"""

import os
from importlib import import_module
from typing import Any


def _load(name: str, newest: str = "") -> Any:
    """Return a module; ``newest``: a function that builds of older sources lack."""
    if os.environ.get("SKDPFL_COMPILED") == "0":
        return None
    try:
        module = import_module(f"skdpfl._compiled.{name}")
    except ImportError:  # not built
        return None
    outdated = bool(newest) and not hasattr(module, newest)
    return module if not outdated and getattr(module, "available", lambda: True)() else None


products = _load("products", "step")
noise = _load("noise")

__all__ = ["noise", "products"]
