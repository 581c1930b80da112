"""Figures 1 and 3, right, with all images: ``fedexp/mnist`` with all 60 of each silo, not 20.

Step, clip norm and server step are those that ``fedexp/mnist`` chose on 20 images of each silo.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from _common.cells import Cell, Fit
from _common.table import chosen

from fedexp import mnist


def accuracy(cell: Cell, quick: bool, seed: int) -> Fit:
    """Return what a cell of ``fedexp/mnist`` gives with all images."""
    point = {"learning_rate": 0.9} if quick else chosen("fedexp/mnist", cell.key)
    return mnist.accuracy(
        cell.method, cell.setting, cell.epsilon, quick, seed, mnist.ALL_IMAGES, **point
    )


def cells(quick: bool) -> list[Cell]:
    """Return the same cells, untuned."""
    return [
        cell if cell.fixed
        else dataclasses.replace(cell, axes=(), measure=partial(accuracy, cell, quick))
        for cell in mnist.cells(quick)
    ]  # fmt: skip


FIGURE = dataclasses.replace(
    mnist.FIGURE, title="MNIST, 1000 silos of 60 images of one or two digits", cells=cells,
    seeds=(0, 1, 2),
)  # fmt: skip
