"""Back ends, which hold the silos' data and memory, and run rounds."""

from skdpfl.federation._base import Federation, RecordMap, Schema, Work
from skdpfl.federation._budgets import CohortSum, GridSum, SiloBudgets
from skdpfl.federation._data import SiloData, class_codes, in_rows, rows_of_persons
from skdpfl.federation._local import LocalFederation
from skdpfl.federation._measures import (
    R2,
    Accuracy,
    BalancedAccuracy,
    Closeness,
    Confusion,
    D2Poisson,
    Found,
    Measure,
    ask_score,
    score_plan,
)
from skdpfl.federation._ranks import (
    OF_CLASSES,
    OF_SURVIVAL,
    OF_TARGETS,
    AveragePrecision,
    CalibrationError,
    Concordance,
    RocAuc,
    ScoreHistogram,
    measure_of,
)
from skdpfl.federation._silo import Answered, Silo
from skdpfl.federation._sums import (
    PIECE,
    BoundedSum,
    CellCounts,
    Middle,
    Named,
    Question,
    SumPlan,
    SumQuestion,
    exact_sums,
    records_read,
)
