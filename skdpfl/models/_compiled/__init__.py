"""Matrix products in C, for x86 processors with AVX-512; everywhere else NumPy's are used.

``products`` is the extension module (``products.pyi`` says what it does), or None: where it was not
built, where the processor lacks what it needs, and where the environment variable
``SKDPFL_COMPILED`` is 0. Results are the same but for rounding.
"""

from __future__ import annotations

import os
from typing import Any


def _load() -> Any:
    if os.environ.get("SKDPFL_COMPILED") == "0":
        return None
    try:
        from skdpfl.models._compiled import products
    except ImportError:  # not built: no compiler, or another processor
        return None
    return products if products.available() else None


products: Any = _load()

__all__ = ["products"]
