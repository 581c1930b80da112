"""Back ends, which hold the silos' data and memory, and run rounds."""

from skdpfl.federation._base import Federation, RecordMap, Schema, Work
from skdpfl.federation._budgets import CohortSum, GridSum, SiloBudgets, sum_in_order
from skdpfl.federation._data import SiloData, class_codes, in_rows, rows_of_persons
from skdpfl.federation._local import Answered, LocalFederation, Silo
from skdpfl.federation._measures import (
    OF_CLASSES,
    OF_SURVIVAL,
    OF_TARGETS,
    R2,
    Accuracy,
    AveragePrecision,
    BalancedAccuracy,
    CalibrationError,
    Closeness,
    Concordance,
    Confusion,
    D2Poisson,
    Measure,
    ReleasedScore,
    RocAuc,
    ScoreHistogram,
    ask_score,
    measure_of,
    score_plan,
)
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
