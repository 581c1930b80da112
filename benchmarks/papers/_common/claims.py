"""What the papers print, and what their noise costs in truth: cells that take no fit."""

from __future__ import annotations

from collections.abc import Callable

from _common.cells import Cell, known

#: the method of the cell with the sound epsilon of a setting's published one, and its metric
CLAIM = "the claim, sound"
#: what comes before a method's name where its printed value stands
PRINTED = "published, "


def printed(method: str, epsilon: float, value: float, setting: str, x: float) -> Cell:
    """Return the cell of a printed value."""
    return known(f"{PRINTED}{method}", epsilon, value, setting=setting, x=x)


def claim(epsilon: float, sound: Callable[[], float], setting: str) -> Cell:
    """Return the cell of what the noise behind a published epsilon costs."""
    return known(CLAIM, epsilon, sound, setting=setting, metric=CLAIM)
