"""Back ends: they hold the silos' data and memory, and run rounds."""

from skdpfl.federation._base import CohortSum, Federation, RecordMap, Schema, Work
from skdpfl.federation._data import SiloData, class_codes, in_rows
from skdpfl.federation._local import LocalFederation
from skdpfl.federation._question import Question
from skdpfl.federation._silo import Silo

__all__ = [
    "CohortSum",
    "Federation",
    "LocalFederation",
    "Question",
    "RecordMap",
    "Schema",
    "Silo",
    "SiloData",
    "Work",
    "class_codes",
    "in_rows",
]
