"""Table 5: one local epoch a round, 20 rounds, 10 to 100 silos, each a random tenth of the images.

Beyond 10 they overlap: an image is in about k / 10 of them. The printed epsilon is that of one
silo's copy of a record. What a person pays whose image is in several silos is a method of its own
here, composed and as a group. Disjoint silos: :mod:`pfl.grid`.
"""

from __future__ import annotations

from functools import partial

from _common.cells import Cell, Figure
from _common.claims import CLAIM, printed

from pfl.epochs import PUBLISHED
from pfl.fits import accuracy, of_a_person
from pfl.models import CNN_RELU, METHODS, SN_LINEAR, has_torch

#: method -> whether a person's copies are priced as a group
PRICES = {"epsilon of a person, composed": False, "epsilon of a person, as a group": True}
#: k -> the four models as printed
PRINTED = {
    "MNIST": {
        10: (93.06, 93.56, 97.52, 95.34), 25: (93.59, 94.61, 98.14, 96.00),
        50: (94.83, 94.63, 98.22, 96.82), 100: (95.08, 95.03, 98.41, 96.46),
    },
    "Fashion-MNIST": {
        10: (78.41, 80.14, 86.01, 81.26), 25: (78.74, 80.18, 87.74, 82.78),
        50: (78.86, 80.63, 88.13, 83.49), 100: (78.89, 80.69, 88.20, 83.78),
    },
}  # fmt: skip


def cells(quick: bool) -> list[Cell]:
    """Return the cells; small ones need torch only where it is there.

    50 silos with copies of scattering features would fill the memory.
    """
    found = []
    for name in ("MNIST",) if quick else PRINTED:
        epsilon, setting = PUBLISHED[name], f"{name}, overlapping"
        for k in (10,) if quick else (10, 25):
            for method in (SN_LINEAR, *(CNN_RELU,) * (has_torch() or not quick)):
                fit = partial(accuracy, name, method, epsilon, 1, k, "add/remove", True, quick)
                found.append(Cell(method, epsilon, fit, (), setting, float(k)))
        for k, row in PRINTED[name].items():
            for method, value in zip(METHODS, row, strict=True):
                found.append(printed(method, epsilon, value / 100, setting, float(k)))
            for method, by_group in PRICES.items():
                price = partial(of_a_person, epsilon, k, by_group)
                found.append(Cell(method, epsilon, price, (), setting, float(k), "epsilon"))
    return found


FIGURE = Figure(
    "Numbers of silos, one local epoch a round", "accuracy", cells, xlabel="silos",
    leave_out=(CLAIM, "epsilon"),
)  # fmt: skip
