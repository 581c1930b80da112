"""A figure is a list of cells; a cell is one method in one setting at one epsilon.

Tuning, the same for all methods. A cell names its axes: a start, a factor, ends. A score may have
several hills, so the search walks from three starts, far from each other on the first axis, each
the best of three on the second. It walks over the lattice {start * factor^k}: along one axis after
the other, uphill, and on two at once where that ends, until no neighbour is better; the best end
is taken. So the optimum lies inside the points that were tried, or at an end that the axis has by
itself (one local step), or ``inside`` says that it lies at an end that was only set. The next run
goes on there, while a neighbour is better by a standard error of the mean difference: less is
noise, and a ridge of rounds and steps rises by less for ever. What "auto" chooses is tried as well
where a cell says so. It is chosen on seeds (splits, cohorts, noise) of their own and is not paid
for: figures compare methods.
"""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

#: fits that a small cell may spend on choosing, and the seeds that all do so on
QUICK_MOST, TUNING = 6, (101,)
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)
#: where a full search starts on its first two axes, in steps of the lattice
STARTS = ((0, -4, 4), (0, -2, 2))
#: of a point on the lattice: steps from the start on each axis
Place = tuple[int, ...]


class Axis(NamedTuple):
    """A hyper-parameter's lattice: start * factor^k between low and high."""

    name: str
    start: float
    factor: float = 3.0
    low: float = 0.0
    high: float = np.inf
    whole: bool = False

    def at(self, k: int) -> float | int | None:
        """Return the value k steps from the start, None beyond the ends."""
        value = self.start * self.factor**k
        if not self.low <= value <= self.high:
            return None
        return max(1, round(value)) if self.whole else float(f"{value:.3g}")

    def ends_before(self, k: int) -> bool:
        """Return whether there is no such value at all: less than one of what is counted."""
        return self.whole and self.at(k) is None and self.start * self.factor**k < 1

    def place(self, value: float) -> int:
        """Return the k of a value."""
        return round(math.log(value / self.start) / math.log(self.factor))


class Fit(NamedTuple):
    """What one fit is worth, and the points of its curves: (metric, x, value)."""

    value: float
    curves: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class Cell:
    """One method in one setting at one epsilon; ``measure(seed, **point)`` fits it once.

    ``auto``: the library's own choice, ``measure(seed)``, is tried beside the lattice. ``like``:
    the key of a cell before it that has the same fits, whose rows it takes. ``starts`` and
    ``seeds``: in place of the figure's.
    """

    method: str
    epsilon: float
    measure: Callable[..., Fit | float]
    axes: tuple[Axis, ...] = ()
    setting: str = ""
    x: float = np.nan
    metric: str = ""
    fixed: bool = False
    auto: bool = False
    like: tuple[str, str, float, float] | None = None
    starts: tuple[tuple[int, ...], ...] | None = None
    seeds: tuple[int, ...] | None = None

    @property
    def key(self) -> tuple[str, str, float, float]:
        """Return what tells it apart from the others of its figure."""
        return self.setting, self.method, float(self.epsilon), float(self.x)


def known(method: str, epsilon: float, value: float | Callable[[], float], **more: Any) -> Cell:
    """Return a cell whose value is printed in the paper, or computed without data or chance."""
    return Cell(
        method, epsilon, lambda seed: value() if callable(value) else value, fixed=True, **more
    )


@dataclass(frozen=True)
class Figure:
    """A table or figure: its cells and how it is drawn.

    ``cells(quick)`` gives the cells, small ones where quick. ``starts``: where a full search starts
    on its first axes, in steps of the lattice; one place where a cell is dear and its start is
    that of an earlier search. ``facts``: what all its runs share and no column says, for the page
    of what is here of the papers. ``panels`` and ``lines`` are columns
    of the table that tell a picture's panels and a panel's lines apart; ``leave_out`` has the
    metrics that are not drawn; a line has ``least`` places on the axis, or none; ``more`` are
    further pictures of the table, by what ends their names; ``xlabels`` names the axis of a panel
    by its first name.
    """

    title: str
    metric: str
    cells: Callable[[bool], list[Cell]]
    higher_is_better: bool = True
    seeds: tuple[int, ...] = SEEDS
    tuning: tuple[int, ...] = TUNING
    starts: tuple[tuple[int, ...], ...] = STARTS
    xlabel: str = "epsilon"
    xlabels: dict[str, str] = field(default_factory=dict)
    logx: bool = True
    logy: bool = False
    panels: tuple[str, ...] = ("setting",)
    lines: tuple[str, ...] = ("method",)
    leave_out: tuple[str, ...] = field(default=())
    least: int = 1
    more: dict[str, Figure] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def figure_of(name: str) -> Figure:
    """Return the figure that a script defines."""
    return importlib.import_module(name.replace("/", ".")).FIGURE


class Tuned(NamedTuple):
    """What was chosen, whether it lies inside what was tried, and how many fits that took."""

    point: dict[str, Any]
    inside: bool
    fits: int


def seeds_of(figure: Figure, cell: Cell, quick: bool) -> tuple[int, ...]:
    """Return the seeds that a cell is reported on."""
    seeds = QUICK_SEEDS if quick else cell.seeds or figure.seeds
    return seeds[:1] if cell.fixed else seeds


def run_cell(
    figure: Figure,
    cell: Cell,
    quick: bool,
    seeds: tuple[int, ...] | None = None,
    chosen: Tuned | None = None,
) -> Iterator[dict[str, Any]]:
    """Fit a cell on the seeds, or all reported ones, and yield the rows of the table.

    ``chosen``: what was tuned before; None tunes it, and a search that ended at an edge goes on.
    """
    seeds = seeds_of(figure, cell, quick) if seeds is None else seeds
    if chosen is None or not chosen.inside:
        chosen = tune(figure, cell, quick, chosen)
    told = {
        "setting": cell.setting,
        "method": cell.method,
        "epsilon": cell.epsilon,
        "at": cell.x,
        "chosen": " ".join(f"{name}={value:g}" for name, value in chosen.point.items()),
        "inside": chosen.inside,
        "fits": chosen.fits,
    }
    for seed in seeds:
        start = time.process_time()
        fit = as_fit(cell.measure(seed, **chosen.point))
        seconds = round(time.process_time() - start, 2)
        points = ((cell.metric or figure.metric, cell.x, fit.value), *fit.curves)
        for metric, x, value in points:
            yield told | {
                "metric": metric, "x": x, "seed": seed, "value": value, "seconds": seconds
            }  # fmt: skip


def as_fit(result: Fit | float) -> Fit:
    """Return a number as a fit without curves."""
    return result if isinstance(result, Fit) else Fit(float(result))


def tune(figure: Figure, cell: Cell, quick: bool, ended: Tuned | None = None) -> Tuned:
    """Walk over the lattice uphill, one axis after the other; on from where a search ended."""
    if not cell.axes:
        return Tuned({}, True, 0)
    most, tuning = (QUICK_MOST, TUNING) if quick else (math.inf, figure.tuning)
    sign = 1.0 if figure.higher_is_better else -1.0
    seen: dict[Place, np.ndarray] = {}

    def worths(point: dict[str, Any]) -> np.ndarray:
        values = sign * np.array([as_fit(cell.measure(seed, **point)).value for seed in tuning])
        return values if np.isfinite(values).all() else np.full(len(tuning), -np.inf)

    def score(place: Place) -> float:
        point = point_at(cell.axes, place)
        if place not in seen and len(seen) < most and point is not None:
            seen[place] = worths(point)
        return float(np.mean(seen.get(place, -np.inf)))

    def gain(new: Place, old: Place) -> float:
        more = score(new) - score(old)
        if not ended or not np.isfinite(more):
            return more
        return more - float(np.std(seen[new] - seen[old])) / math.sqrt(max(len(tuning) - 1, 1))

    begins = [(0,) * len(cell.axes)]
    if ended:
        begins = [tuple(axis.place(ended.point[axis.name]) for axis in cell.axes)]
    elif not quick:  # the best start for each of those on the first axis
        places = itertools.groupby(starts(figure, cell), key=lambda place: place[0])
        begins = [max(near, key=score) for _, near in places]
    best = max([walk(score, gain, begin) for begin in begins], key=score)
    inside = all(
        near in seen or any(axis.ends_before(k) for axis, k in zip(cell.axes, near, strict=True))
        for near in neighbours(best)
    )
    if cell.auto and np.mean(worths({})) > score(best):
        return Tuned({}, True, len(seen) + 1)
    fits = len(seen) + cell.auto + (ended.fits if ended else 0)
    return Tuned(point_at(cell.axes, best) or {}, inside, fits)


def starts(figure: Figure, cell: Cell) -> list[Place]:
    """Return the places where a search starts."""
    n_axes = len(cell.axes)
    near = itertools.product(*(cell.starts or figure.starts)[:n_axes])
    return [(*place, *(0,) * (n_axes - len(place))) for place in near]


def walk(
    score: Callable[[Place], float], gain: Callable[[Place, Place], float], best: Place
) -> Place:
    """Return where a walk uphill ends."""
    moved = True
    while moved:
        start = best
        for axis in range(len(best)):
            best = climb(score, gain, best, axis)
        if best == start:  # hyper-parameters may hang together: a ridge across the axes
            top = max(corners(best), key=score, default=best)
            best = top if gain(top, best) > 0 else best
        moved = best != start
    return best


def climb(
    score: Callable[[Place], float], gain: Callable[[Place, Place], float], place: Place, axis: int
) -> Place:
    """Return the first place along an axis that neither neighbour on it beats."""
    while True:
        near = [shifted(place, axis, by) for by in (-1, 1)]
        better = max(near, key=score)
        if not gain(better, place) > 0:
            return place
        place = better


def shifted(place: Place, axis: int, by: int) -> Place:
    """Return the neighbour on an axis."""
    return (*place[:axis], place[axis] + by, *place[axis + 1 :])


def neighbours(place: Place) -> list[Place]:
    """Return the neighbours on all axes."""
    return [shifted(place, axis, by) for axis in range(len(place)) for by in (-1, 1)]


def corners(place: Place) -> list[Place]:
    """Return the neighbours on two axes at once."""
    pairs = itertools.combinations(range(len(place)), 2)
    return [
        shifted(shifted(place, one, by), two, too)
        for (one, two), by, too in itertools.product(pairs, (-1, 1), (-1, 1))
    ]


def point_at(axes: tuple[Axis, ...], place: Place) -> dict[str, Any] | None:
    """Return the hyper-parameters of a place, None outside the lattice."""
    values = [axis.at(k) for axis, k in zip(axes, place, strict=True)]
    if any(value is None for value in values):
        return None
    return {axis.name: value for axis, value in zip(axes, values, strict=True)}
