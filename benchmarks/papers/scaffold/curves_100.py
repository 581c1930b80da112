"""Figures 1, 3 to 6 with 100 local steps: ``scaffold/curves``, all else the same, no warm start.

The search for the step starts where that of 50 local steps ended.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from _common.cells import Axis, Cell
from _common.table import KEPT, Store

from scaffold import curves

K = 100
ALGORITHMS = tuple(name for name in curves.ALGORITHMS if "warm" not in name)


def cells(quick: bool) -> list[Cell]:
    """Return a cell for each algorithm and data set; no small ones, which would be those of 50."""
    if quick:
        return []
    found = [cell(name, spread) for spread in curves.SPREADS for name in ALGORITHMS]
    return found + curves.alone(K, steps)


def cell(name: str, spread: float) -> Cell:
    """Return that of one algorithm on one data set."""
    setting = f"({spread:g}, {spread:g})"
    fit = partial(curves.curves, name, spread, K, False)
    epsilon = curves.ALGORITHMS[name][1]
    return Cell(name, epsilon, fit, (steps(name, setting),), setting, metric="last accuracy")


def steps(name: str, setting: str) -> Axis:
    """Return the lattice around what 50 local steps had."""
    method, epsilon, _ = curves.ALGORITHMS[name]
    axis = curves.step(method, epsilon)
    tuned = Store(KEPT, "scaffold/curves").tuned((setting, name, epsilon, float("nan")))
    return axis._replace(start=tuned.point["learning_rate"]) if tuned else axis


FIGURE = dataclasses.replace(
    curves.FIGURE, title="Synthetic silos, 100 local steps, over the rounds", cells=cells,
    starts=((0,),), facts=curves.FIGURE.facts | {"K": K},
)  # fmt: skip
