"""The delta of ``delta="auto"``."""

from __future__ import annotations

import math


def automatic_delta(n: int) -> float:
    """Return the largest power of ten that is at most 1 / (10 n), for n records or silos."""
    return float(f"1e{math.floor(1e-12 - math.log10(10 * n))}")
