"""A budget of one epsilon and one delta, which may be "auto": its check and its delta."""

from __future__ import annotations

import math
from typing import Any

from skdpfl._arguments import check_number, check_share, is_auto


def automatic_delta(n: int) -> float:
    """Return the largest power of ten that is at most 1 / (10 n), for n records or silos."""
    return float(f"1e{math.floor(1e-12 - math.log10(10 * n))}")


def check_budget_parameters(epsilon: Any, delta: Any) -> None:
    """Raise unless epsilon is a positive number or inf, and delta "auto" or in (0, 1)."""
    check_number("epsilon", epsilon, low=0, open_low=True, words=" (inf for no privacy)")
    if not is_auto(delta):
        check_share("delta", delta, words=' (or "auto")')


def delta_of(delta: Any, n: int) -> float:
    """Return the delta of a checked budget, for n records or silos."""
    return automatic_delta(n) if is_auto(delta) else float(delta)
