"""E local epochs by R rounds, E R = 20, for 25, 50 and 100 disjoint silos (10: :mod:`pfl.epochs`).

The paper has no such table: its silos are tenths of the data, which overlap, whatever their number
(:mod:`pfl.silos`). Here 100 silos hold 600 records each: **not comparable** with its columns. One
seed; hours, so this figure runs where it is named.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Cell, Figure

from pfl.epochs import ENDS, PRINTED, PUBLISHED
from pfl.fits import accuracy
from pfl.models import METHODS, SN_LINEAR, has_torch

SILOS = (25, 50, 100)


def cells(quick: bool) -> list[Cell]:
    """Return the cells: all splits and models under add/remove, the ends of one under replace."""
    found = []
    methods = METHODS if not quick else (SN_LINEAR, *METHODS[: has_torch()])
    for name in ("MNIST",) if quick else ("MNIST", "Fashion-MNIST"):
        for k in SILOS[:1] if quick else SILOS:
            for relation in ("add/remove",) if quick else ("add/remove", "replace"):
                theirs = relation == "add/remove"
                for method in methods if theirs else (SN_LINEAR,):
                    for epochs in PRINTED[name] if theirs and not quick else ENDS:
                        epsilon = PUBLISHED[name]
                        fit = partial(
                            accuracy, name, method, epsilon, epochs, k, relation, False, quick
                        )
                        where = f"{name}, {relation}, {k} silos", float(epochs)
                        found.append(Cell(method, epsilon, fit, (), *where))
    return found


FIGURE = Figure(
    "Local epochs by rounds, disjoint silos", "accuracy", cells, seeds=(0,),
    xlabel="local epochs a round",
)  # fmt: skip
