"""``fedexp/synthetic`` at a fifth of its size: 200 silos, 200 features, 20 rounds."""

from __future__ import annotations

import dataclasses

from _common.cells import Cell

from fedexp import synthetic

SIZE = synthetic.Size(200, 200, 20)


def cells(quick: bool) -> list[Cell]:
    """Return the cells; quick ones are synthetic's, of which the first will do."""
    found = synthetic.cells(quick, SIZE)
    return found[:3] if quick else found


FIGURE = dataclasses.replace(synthetic.FIGURE, title="FedEXP, 200 silos, 200 features", cells=cells)
