"""What the papers' figures share: cells, equal tuning, tables, pictures and pages."""

from _common.cells import Axis, Cell, Figure, Fit, known
from _common.claims import claim, printed
from _common.table import COLUMNS, Store
from _common.watch import scores_by_round

__all__ = [
    "COLUMNS",
    "Axis",
    "Cell",
    "Figure",
    "Fit",
    "Store",
    "claim",
    "known",
    "printed",
    "scores_by_round",
]
