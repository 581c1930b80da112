"""Table 5: one local epoch a round, 20 rounds, 10 to 100 silos.

The paper's silos are random tenths of the data whatever their number: beyond 10 they overlap, and
an image is in about k / 10 of them. Ours are disjoint, so each of 100 holds 600 records: **not
comparable beyond 10**. "overlapping" has the paper's tenths, with the epsilon of one silo's copy of
a record, as printed; what a person pays whose image is in several silos is "the claim, sound".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from _common.cells import Cell, Figure
from _common.claims import CLAIM, printed

from pfl.epochs import PUBLISHED
from pfl.fits import accuracy
from pfl.models import CNN_RELU, METHODS, SN_LINEAR, has_torch

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
    """Return the cells; small ones need torch only where it is there."""
    found = []
    for name in ("MNIST",) if quick else PRINTED:
        epsilon = PUBLISHED[name]
        for setting, method, k in variants(name, quick):
            relation = setting.rsplit(", ", 1)[1]
            overlap = "overlapping" in setting
            fit = partial(accuracy, name, method, epsilon, 1, k, relation, overlap, quick)
            found.append(Cell(method, epsilon, fit, (), setting, float(k)))
        for k, row in PRINTED[name].items():
            for method, value in zip(METHODS, row, strict=True):
                where = f"{name}, overlapping, add/remove", float(k)
                found.append(printed(method, epsilon, value / 100, *where))
    return found


def variants(name: str, quick: bool) -> Iterator[tuple[str, str, int]]:
    """Yield settings, methods and numbers of silos that are run.

    Networks take minutes a fit: one of them, under the paper's relation. 50 silos with copies of
    scattering features would fill the memory.
    """
    networks = (CNN_RELU,) if has_torch() or not quick else ()
    for k in (10,) if quick else PRINTED[name]:
        for method in (SN_LINEAR, *networks):
            yield f"{name}, disjoint, add/remove", method, k
        yield f"{name}, disjoint, replace", SN_LINEAR, k
        if k <= 25:
            yield f"{name}, overlapping, add/remove", SN_LINEAR, k


FIGURE = Figure(
    "Numbers of silos, one local epoch a round", "accuracy", cells, xlabel="silos",
    leave_out=(CLAIM,),
)  # fmt: skip
