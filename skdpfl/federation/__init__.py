"""Back ends: they hold the silos' data and memory, and run rounds."""

from skdpfl.federation._base import Federation, RecordMap, Schema, Work
from skdpfl.federation._budgets import CohortSum, GridSum, SiloBudgets
from skdpfl.federation._data import SiloData, class_codes, in_rows
from skdpfl.federation._local import LocalFederation
from skdpfl.federation._silo import Silo
from skdpfl.federation._sums import (
    PIECE,
    BoundedSum,
    Named,
    Question,
    SumPlan,
    SumQuestion,
    exact_sums,
    records_read,
)

__all__ = [
    "PIECE",
    "BoundedSum",
    "CohortSum",
    "Federation",
    "GridSum",
    "LocalFederation",
    "Named",
    "Question",
    "RecordMap",
    "Schema",
    "Silo",
    "SiloBudgets",
    "SiloData",
    "SumPlan",
    "SumQuestion",
    "Work",
    "class_codes",
    "exact_sums",
    "in_rows",
    "records_read",
]
