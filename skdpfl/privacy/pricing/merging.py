r"""Fewer distinct releases: similar ones are priced as the most expensive of them.

Cells are steps of a factor e^width in noise multiplier and sampling rate (or in epsilon and delta);
all releases of a cell become one with the least noise and the highest rate among them. Prices are
about proportional to 1/z and to the rate, so each adds a factor of at most e^width, half of that on
average. The width is the smallest with few enough cells.

Formal guarantee
----------------
Less noise, a higher rate, a larger epsilon or delta dominate, release by release
(:mod:`skdpfl.privacy.pricing.dominance`), and domination is kept under composition.
"""

from __future__ import annotations

import math

from skdpfl.privacy.events import (
    Approximate,
    Composition,
    Event,
    FixedSizeGaussian,
    PoissonGaussian,
    compose,
)

#: The first width that is tried, and the factor between two widths.
_WIDTH, _WIDER = 2e-4, 1.25


def merged(composition: Composition, most: int) -> Composition:
    """Return a composition that costs at least as much, with about ``most`` distinct releases.

    Plain Gaussians, which compose in closed form, and profiles are not changed.
    """
    alike = [part for part in composition if isinstance(part[0], _Mergeable)]
    if len(alike) <= most:
        return composition
    others = [part for part in composition if not isinstance(part[0], _Mergeable)]
    width, cells = _WIDTH, _cells(alike, _WIDTH)
    while len(cells) > most and width < 10.0:
        width *= _WIDER
        cells = _cells(alike, width)
    return compose([*others, *((_most_expensive(cell), sum(n for _, n in cell)) for cell in cells)])


_Mergeable = PoissonGaussian | FixedSizeGaussian | Approximate


def _cells(parts: list[tuple[Event, int]], width: float) -> list[list[tuple[Event, int]]]:
    """Releases of the same kind whose parameters lie in the same steps."""
    cells: dict[tuple[object, ...], list[tuple[Event, int]]] = {}
    for event, count in parts:
        steps = (_step(number, width) for number in vars(event).values())
        cells.setdefault((type(event), *steps), []).append((event, count))
    return list(cells.values())


def _step(number: float, width: float) -> int | str:
    """The index of a number's step; 0 and infinity have their own."""
    return math.floor(math.log(number) / width) if 0 < number < math.inf else str(number)


def _most_expensive(cell: list[tuple[Event, int]]) -> Event:
    """Return a release that costs at least as much as each one of the cell."""
    numbers = [tuple(vars(event).values()) for event, _ in cell]
    first, second = zip(*numbers, strict=True)
    if isinstance(cell[0][0], Approximate):
        return Approximate(max(first), max(second))
    kind = PoissonGaussian if isinstance(cell[0][0], PoissonGaussian) else FixedSizeGaussian
    return kind(min(first), max(second))
