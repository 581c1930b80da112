"""Table 4, CIFAR-10: E local epochs by R rounds, E R = 20, 10 disjoint silos, all models.

Fits of hours on images of 170 MB (:func:`skdpfl.datasets.fetch_cifar10`): this figure runs where it
is named. The linear models have been measured, on images that were recompressed as JPEG; the
networks have not.
"""

from __future__ import annotations

from _common.cells import Cell, Figure

from pfl.epochs import cells_of
from pfl.models import CIFAR


def cells(quick: bool) -> list[Cell]:
    """Return the cells."""
    return cells_of((CIFAR,), quick)


FIGURE = Figure(
    "CIFAR-10: local epochs by rounds, 20 epochs in all", "accuracy", cells,
    xlabel="local epochs a round", panels=("setting", "epsilon"),
    facts={"data": "CIFAR-10, recompressed"},
)  # fmt: skip
