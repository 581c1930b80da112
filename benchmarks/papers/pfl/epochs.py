"""Tables 2 and 3: E local epochs by R rounds, E R = 20, 10 disjoint silos.

Printed values are those of the paper's add/remove relation, with tenths that may overlap. Linear
models on pixels are not in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from _common.cells import Cell, Figure
from _common.claims import printed

from pfl.fits import RELATIONS, accuracy
from pfl.models import CIFAR, LINEAR, METHODS, NETWORKS, SN_LINEAR, has_torch

#: data, E, then the four models as printed: without privacy, at the published epsilon, at the
#: smaller one
TABLES = """
MNIST           1  98.20 97.94 98.99 98.58  93.86 93.56 97.52 95.34  91.30 90.56 96.42 93.83
MNIST           2  97.99 97.92 99.01 98.61  92.63 93.03 97.52 95.17  89.89 90.64 96.86 90.97
MNIST           4  96.89 98.04 99.04 98.23  91.39 91.79 97.59 94.00  77.89 88.09 96.71 87.65
MNIST           5  97.75 97.90 98.84 98.17  91.39 90.75 97.34 91.31  82.09 86.41 96.60 82.41
MNIST          10  96.55 97.36 98.84 97.84  79.53 85.38 97.42 87.65  48.19 76.88 95.79 64.38
MNIST          20   9.74 95.37 98.64 92.24  41.60 49.75 96.85 36.22  13.24 21.65 94.57 16.79
Fashion-MNIST   1  86.11 86.54 90.01 88.28  78.41 80.14 86.01 81.26  75.78 77.34 84.96 79.03
Fashion-MNIST   2  85.88 86.69 90.07 88.35  77.29 78.98 86.46 80.16  74.56 76.34 84.77 79.08
Fashion-MNIST   4  85.15 86.37 90.13 87.47  71.74 77.07 86.13 78.40  67.56 74.12 84.78 74.92
Fashion-MNIST   5  85.73 86.02 90.28 87.83  71.54 76.44 86.33 77.43  69.33 73.87 84.74 70.63
Fashion-MNIST  10  84.84 84.86 90.38 86.23  62.49 74.34 85.22 68.95  34.34 64.43 84.59 55.37
Fashion-MNIST  20  29.58 81.34 89.61 81.58  39.52 55.36 83.73 44.12   9.17 58.68 82.79 38.19
CIFAR-10        1  48.15 47.49 61.05 63.84  38.98 40.25 54.58 52.40  29.72 34.46 51.08 45.82
CIFAR-10        2  42.57 44.78 61.62 64.04  33.64 36.51 55.02 48.35  17.54 29.22 51.28 41.50
CIFAR-10        4  37.52 38.29 62.82 61.98  18.07 27.46 55.07 41.54  14.25 20.52 50.94 33.93
CIFAR-10        5  34.25 36.06 63.70 59.95  16.04 20.93 53.90 42.48  12.14 20.83 51.35 31.75
CIFAR-10       10  19.24 18.14 62.63 51.21  12.15 18.70 55.27 30.66  10.00 14.21 51.82 16.95
CIFAR-10       20  16.05 15.48 61.91 25.33  10.00 17.81 54.00 19.65  10.00 12.74 49.13 10.78
"""


def tables() -> dict[str, dict[int, list[tuple[float, ...]]]]:
    """Return the printed values: data -> E -> budget by budget, model by model."""
    found: dict[str, dict[int, list[tuple[float, ...]]]] = {}
    for line in TABLES.split("\n")[1:-1]:
        name, epochs, *numbers = line.split()
        values = [float(v) for v in numbers]
        parts = [tuple(values[i : i + 4]) for i in range(0, len(values), 4)]
        found.setdefault(name, {})[int(epochs)] = parts
    return found


PRINTED = tables()
#: the larger and the smaller epsilon; one local epoch a round, and one round
PUBLISHED = {"MNIST": 2.93, "Fashion-MNIST": 2.7, CIFAR: 7.53}
ENDS = (1, 20)
SMALLER = {"MNIST": 1.2, "Fashion-MNIST": 1.2, CIFAR: 3.0}


def budgets(name: str) -> tuple[float, ...]:
    """Return the epsilons of a table, in the order of the printed values."""
    return np.inf, PUBLISHED[name], SMALLER[name]


def cells(quick: bool) -> list[Cell]:
    """Return the cells of the grey images; small ones are of MNIST."""
    return cells_of(("MNIST",) if quick else ("MNIST", "Fashion-MNIST"), quick)


def cells_of(names: Iterable[str], quick: bool) -> list[Cell]:
    """Return the cells; small ones need torch only where it is there."""
    found = []
    methods = (*METHODS, LINEAR) if not quick else (SN_LINEAR, *METHODS[: has_torch()])
    for name in names:
        for relation in ("add/remove",) if quick else RELATIONS:
            setting = f"{name}, {relation}"
            for method in methods:
                for epsilon, epochs in splits(name, method, relation, quick):
                    fit = partial(
                        accuracy, name, method, epsilon, epochs, 10, relation, False, quick
                    )
                    found.append(Cell(method, epsilon, fit, (), setting, float(epochs)))
        for epochs, rows in PRINTED[name].items():
            for epsilon, row in zip(budgets(name), rows, strict=True):
                for method, value in zip(METHODS, row, strict=True):
                    where = f"{name}, add/remove", float(epochs)
                    found.append(printed(method, epsilon, value / 100, *where))
    return found


def splits(name: str, method: str, relation: str, quick: bool) -> Iterator[tuple[float, int]]:
    """Yield the epsilons and local epochs that are run.

    Under add/remove all of them; under "replace" all at the published epsilon, at the others the
    two ends, of linear models only.
    """
    for epsilon in budgets(name):
        for epochs in PRINTED[name]:
            published, end = epsilon == PUBLISHED[name], epochs in ENDS
            others = relation == "add/remove" or (end and method not in NETWORKS)
            wanted = (published and end) if quick else (published or others)
            if wanted:
                yield epsilon, epochs


FIGURE = Figure(
    "Local epochs by rounds, 20 epochs in all", "accuracy", cells, xlabel="local epochs a round",
    panels=("setting", "epsilon"),
)  # fmt: skip
