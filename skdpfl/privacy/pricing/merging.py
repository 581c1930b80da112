r"""Many distinct releases as fewer: those that are alike are priced as the most expensive of them.

Cells are steps of a factor e^width in noise multiplier and sampling rate (or in epsilon and delta);
all releases of a cell become one with the least noise and the highest rate among them. A price
grows about as 1/z and as the rate, so it comes out too large by a factor of e^width at most in
each, half of that on average. The width is the least at which there are few enough cells.

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

#: The first width that is tried; each is larger by this factor.
_WIDTH, _WIDER = 2e-4, 1.25


def merged(composition: Composition, most: int) -> Composition:
    """Return a composition that costs at least as much, with about ``most`` distinct releases.

    Plain Gaussians, which compose in closed form, and profiles stay what they are.
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
    """Releases whose kind is the same and whose numbers lie in the same steps."""
    cells: dict[tuple[object, ...], list[tuple[Event, int]]] = {}
    for event, count in parts:
        steps = (_step(number, width) for number in vars(event).values())
        cells.setdefault((type(event), *steps), []).append((event, count))
    return list(cells.values())


def _step(number: float, width: float) -> int | str:
    """The number of the step a number is in; 0 and infinity have their own."""
    return math.floor(math.log(number) / width) if 0 < number < math.inf else str(number)


def _most_expensive(cell: list[tuple[Event, int]]) -> Event:
    """Return a release of the kind that none of the cell exceeds."""
    numbers = [tuple(vars(event).values()) for event, _ in cell]
    first, second = zip(*numbers, strict=True)
    if isinstance(cell[0][0], Approximate):
        return Approximate(max(first), max(second))
    kind = PoissonGaussian if isinstance(cell[0][0], PoissonGaussian) else FixedSizeGaussian
    return kind(min(first), max(second))
