"""Numbers in texts, rounded to the side that promises less privacy, not to the nearest."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

#: a share that binary fractions may be off, which is not rounded: 0.1 + 0.2 is 0.30
_EXACT = 1e-12


def at_most(value: float, digits: int = 3, *, decimals: int | None = None) -> str:
    """Return a number rounded up to significant digits, or to decimals if these are given."""
    return _rounded(value * (1 - _EXACT), digits, decimals, ROUND_CEILING)


def at_least(value: float, digits: int = 3, *, decimals: int | None = None) -> str:
    """Return a number rounded down to significant digits, or to decimals if these are given."""
    return _rounded(value * (1 + _EXACT), digits, decimals, ROUND_FLOOR)


def epsilon_text(epsilon: float) -> str:
    """Return an epsilon, rounded up, in a few characters."""
    return at_most(epsilon, decimals=2) if epsilon >= 0.1 else at_most(epsilon, 2)


def _rounded(value: float, digits: int, decimals: int | None, mode: str) -> str:
    form = f".{digits}g" if decimals is None else f".{decimals}f"
    if math.isfinite(value) and decimals is None:
        value = float(Context(prec=digits, rounding=mode).create_decimal(Decimal(value)))
    elif math.isfinite(value):
        # enough digits for any float
        wide = Context(prec=400, rounding=mode)
        value = float(Decimal(value).quantize(Decimal(1).scaleb(-(decimals or 0)), context=wide))
    return format(value, form)
